// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Wake-up latency: from the moment that a sleeping task is woken to the moment that it runs, by task and by CPU.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Four slots for each power of two of nanoseconds, up to 2^41 ns (36 minutes).
#define SLOTS 160

enum { COUNT_RUN, COUNT_LOST_WAKES, COUNT_LOST_TASKS, COUNTS };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___state {
	// Bytes in Linux 7.2.
	int on_cpu;
	int on_rq;
};

#pragma clang attribute pop

struct latencies {
	u64 count;
	u64 sum_ns;
	u64 longest_ns;
	u32 pid;
	u32 padding;
	char comm[16];
	u32 slots[SLOTS];
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} woken SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 4096);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct latencies);
} tasks SEC(".maps");

// The loader sets the number of CPUs.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct latencies);
} cpus SEC(".maps");

// A row of zeros, which is too long for a program's stack.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct latencies);
} empty SEC(".maps");

#include "counts.h"

INLINE u32 log2_of(u64 value)
{
	u32 log = 0;

	if (value >> 32) {
		value >>= 32;
		log += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (u32)(value >> 1);
}

INLINE u32 slot_of(u64 ns)
{
	u32 log, slot;

	if (ns < 4)
		return (u32)ns;
	log = log2_of(ns);
	slot = 4 * (log - 1) + (u32)((ns >> (log - 2)) & 3);
	return slot < SLOTS ? slot : SLOTS - 1;
}

// One CPU at a time adds to a row: a task starts to run on one, and a CPU starts one task.
INLINE void add(struct latencies *row, u64 ns)
{
	u32 slot = slot_of(ns);

	row->count++;
	row->sum_ns += ns;
	if (ns > row->longest_ns)
		row->longest_ns = ns;
	if (slot < SLOTS)
		row->slots[slot]++;
}

INLINE void wake(struct task_struct *task, u64 flags)
{
	u32 tid = task->pid;
	u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&woken, &tid, &now, flags) && flags == BPF_ANY)
		count(counts, COUNT_LOST_WAKES);
}

// The waker begins. A task that is on a queue still is about to sleep, or sleeps there until it is picked.
SEC("tp_btf/sched_waking")
int wakeups_waking(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	if (!read_bits((struct task_struct___state *)task, on_rq) && is_observed(task))
		wake(task, BPF_ANY);
	return 0;
}

// The task is on a queue. One that runs has not slept.
INLINE int queued(struct task_struct *task)
{
	if (!read_bits((struct task_struct___state *)task, on_cpu) && is_observed(task))
		wake(task, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int wakeups_wakeup(u64 *ctx)
{
	return queued((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int wakeups_new(u64 *ctx)
{
	return queued((struct task_struct *)ctx[0]);
}

INLINE struct latencies *row_of(struct task_struct *task)
{
	u32 tid = task->pid, zero = 0;
	struct latencies *row = bpf_map_lookup_elem(&tasks, &tid);
	struct latencies *zeros;

	if (row)
		return row;
	zeros = bpf_map_lookup_elem(&empty, &zero);
	if (!zeros)
		return 0;
	bpf_map_update_elem(&tasks, &tid, zeros, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&tasks, &tid);
	if (!row)
		return 0;
	row->pid = task->tgid;
	__builtin_memcpy(row->comm, task->comm, sizeof(row->comm));
	return row;
}

SEC("tp_btf/sched_switch")
int wakeups_switch(u64 *ctx)
{
	struct task_struct *next = (struct task_struct *)ctx[2];
	u32 tid = next->pid, number = bpf_get_smp_processor_id();
	struct latencies *row;
	u64 *since, ns;

	since = tid ? bpf_map_lookup_elem(&woken, &tid) : 0;
	if (!since)
		return 0;
	ns = bpf_ktime_get_ns() - *since;
	bpf_map_delete_elem(&woken, &tid);
	count(counts, COUNT_RUN);
	row = bpf_map_lookup_elem(&cpus, &number);
	if (row)
		add(row, ns);
	row = row_of(next);
	if (row)
		add(row, ns);
	else
		count(counts, COUNT_LOST_TASKS);
	return 0;
}
