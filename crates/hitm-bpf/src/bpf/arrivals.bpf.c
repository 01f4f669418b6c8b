// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Work of tasks as it comes: when a task was woken, when it slept again, and how long it ran between.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	COUNT_JOBS,
	COUNT_LOST_EVENTS,
	COUNT_LOST_TASKS,
	COUNTS,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity___run {
	u64 sum_exec_runtime;
};

struct task_struct___work {
	u32 __state;
	// A byte in Linux 7.2.
	int on_cpu;
	struct sched_entity___run se;
};

#pragma clang attribute pop

// A task that does not sleep: since when, and the CPU time that it had before.
struct begun {
	u64 woken;
	u64 ran;
};

struct job {
	u64 woken;
	u64 slept;
	u64 ran;
	u32 tid;
	u32 cpu;
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct begun);
} tasks SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_INT(max_entries, 1 << 22);
} events SEC(".maps");

#include "counts.h"

INLINE int begin(struct task_struct *task)
{
	struct task_struct___work *work = (void *)task;
	struct begun begun;
	u32 tid = task->pid;

	// One that runs has not slept.
	if (read_bits(work, on_cpu) || !is_observed(task))
		return 0;
	begun.woken = bpf_ktime_get_ns();
	begun.ran = work->se.sum_exec_runtime;
	if (bpf_map_update_elem(&tasks, &tid, &begun, BPF_ANY))
		count(counts, COUNT_LOST_TASKS);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int arrivals_wakeup(u64 *ctx)
{
	return begin((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int arrivals_new(u64 *ctx)
{
	return begin((struct task_struct *)ctx[0]);
}

// Arguments: preempted, previous, next. A task that was preempted or throttled has not slept.
SEC("tp_btf/sched_switch")
int arrivals_switch(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[1];
	struct task_struct___work *work = (void *)task;
	u32 tid = task->pid;
	struct begun *begun;
	struct job *job;

	if (ctx[0] || !work->__state)
		return 0;
	begun = bpf_map_lookup_elem(&tasks, &tid);
	if (!begun)
		return 0;
	count(counts, COUNT_JOBS);
	job = bpf_ringbuf_reserve(&events, sizeof(*job), 0);
	if (job) {
		job->woken = begun->woken;
		job->slept = bpf_ktime_get_ns();
		job->ran = work->se.sum_exec_runtime - begun->ran;
		job->tid = tid;
		job->cpu = bpf_get_smp_processor_id();
		bpf_ringbuf_submit(job, NO_WAKEUP);
	} else {
		count(counts, COUNT_LOST_EVENTS);
	}
	bpf_map_delete_elem(&tasks, &tid);
	return 0;
}
