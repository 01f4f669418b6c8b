// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Waits for kernel locks: lock:contention_begin to lock:contention_end, summed by lock, task and call chain.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// LCB_F_MUTEX of include/trace/events/lock.h. A mutex begins twice without an end between: it spins, then sleeps.
#define LCB_F_MUTEX (1U << 5)

#define STACK_DEPTH 48

// This program and bpf_trace_run2, which calls it.
#define OWN_FRAMES 2

enum { COUNT_ENDED, COUNT_LOST_BEGINS, COUNT_LOST_WAITS, COUNT_LOST_STACKS, COUNT_UNMATCHED, COUNT_LOST_PROCESSES,
       COUNTS };

// A task waits for several locks at once when interrupts nest. An idle task is one for each CPU, all with number 0.
struct begin_key {
	u64 lock;
	u32 tid;
	u32 idle_cpu;
};

struct begin {
	u64 at;
	s32 stack;
	u32 flags;
	char comm[16];
	u32 pid;
	u32 padding;
};

struct wait_key {
	u64 lock;
	u32 tid;
	s32 stack;
};

struct wait {
	u64 wait_ns;
	u64 count;
	u64 longest_ns;
	u32 flags;
	u32 pid;
	char comm[16];
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 8192);
	MAP_TYPE(key, struct begin_key);
	MAP_TYPE(value, struct begin);
} begins SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, struct wait_key);
	MAP_TYPE(value, struct wait);
} waits SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_STACK_TRACE);
	MAP_INT(max_entries, 8192);
	MAP_INT(key_size, 4);
	MAP_INT(value_size, 8 * STACK_DEPTH);
} stacks SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, COUNTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} counts SEC(".maps");

INLINE struct begin_key key_of(u64 lock)
{
	struct begin_key key = {.lock = lock, .tid = (u32)bpf_get_current_pid_tgid()};

	if (!key.tid)
		key.idle_cpu = bpf_get_smp_processor_id();
	return key;
}

SEC("tp_btf/contention_begin")
int contention_begin(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct begin_key key = key_of(ctx[0]);
	u32 flags = (u32)ctx[1];
	struct begin *known;
	struct begin begin = {};

	if (!is_observed(task))
		return 0;
	known = bpf_map_lookup_elem(&begins, &key);
	if (known && (flags & LCB_F_MUTEX)) {
		known->flags |= flags;
		return 0;
	}
	begin.at = bpf_ktime_get_ns();
	begin.flags = flags;
	begin.pid = task->tgid;
	__builtin_memcpy(begin.comm, task->comm, sizeof(begin.comm));
	begin.stack = bpf_get_stackid(ctx, &stacks, OWN_FRAMES);
	if (begin.stack < 0) {
		begin.stack = -1;
		count(counts, COUNT_LOST_STACKS);
	}
	if (bpf_map_update_elem(&begins, &key, &begin, BPF_ANY))
		count(counts, COUNT_LOST_BEGINS);
	return 0;
}

INLINE void add(struct wait *wait, u64 wait_ns)
{
	__sync_fetch_and_add(&wait->wait_ns, wait_ns);
	__sync_fetch_and_add(&wait->count, 1);
	if (wait_ns > wait->longest_ns)
		wait->longest_ns = wait_ns;
}

SEC("tp_btf/contention_end")
int contention_end(u64 *ctx)
{
	struct begin_key begin_key = key_of(ctx[0]);
	struct begin *begin = bpf_map_lookup_elem(&begins, &begin_key);
	struct wait_key key = {.lock = begin_key.lock, .tid = begin_key.tid};
	struct wait *known;
	struct wait wait = {};
	u64 wait_ns;

	if (!begin) {
		// It began before the programs were attached, or its task is not observed.
		count(counts, COUNT_UNMATCHED);
		return 0;
	}
	wait_ns = bpf_ktime_get_ns() - begin->at;
	key.stack = begin->stack;
	wait.flags = begin->flags;
	wait.pid = begin->pid;
	__builtin_memcpy(wait.comm, begin->comm, sizeof(wait.comm));
	bpf_map_delete_elem(&begins, &begin_key);
	count(counts, COUNT_ENDED);

	// Two idle CPUs may insert the same key: the second finds the first one's.
	known = bpf_map_lookup_elem(&waits, &key);
	if (!known) {
		bpf_map_update_elem(&waits, &key, &wait, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&waits, &key);
	}
	if (known)
		add(known, wait_ns);
	else
		count(counts, COUNT_LOST_WAITS);
	return 0;
}

// A child of an observed process is observed from its first instruction on. Where the table is full it is not.
SEC("tp_btf/sched_process_fork")
int follow_fork(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 pid = child->tgid;
	u8 is_child = 1;

	if (pid == (u32)parent->tgid || !is_observed(parent))
		return 0;
	if (bpf_map_update_elem(&processes, &pid, &is_child, BPF_ANY))
		count(counts, COUNT_LOST_PROCESSES);
	return 0;
}

// A process that is gone leaves its number to others. Its first thread is freed last.
SEC("tp_btf/sched_process_free")
int forget_process(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 pid = task->tgid;

	if (task->pid == task->tgid)
		bpf_map_delete_elem(&processes, &pid);
	return 0;
}
