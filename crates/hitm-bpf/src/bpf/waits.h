// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Waits that began, and sums of those that ended, by lock, task and call chain. STACK_DEPTH is defined before.
#pragma once

enum { COUNT_ENDED, COUNT_LOST_BEGINS, COUNT_LOST_WAITS, COUNT_LOST_STACKS, COUNT_LOST_PROCESSES, COUNT_UNMATCHED,
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
	u64 lock;
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

#include "counts.h"

#include "follow.h"

// Notes that `task` waits for `lock` from now on. `stack_flags` choose frames, as bpf_get_stackid takes them.
INLINE void begin_wait(void *ctx, struct task_struct *task, struct begin_key *key, u64 lock, u32 flags, u64 stack_flags)
{
	struct begin begin = {.at = bpf_ktime_get_ns(), .flags = flags, .lock = lock, .pid = task->tgid};

	__builtin_memcpy(begin.comm, task->comm, sizeof(begin.comm));
	begin.stack = bpf_get_stackid(ctx, &stacks, stack_flags);
	if (begin.stack < 0) {
		begin.stack = -1;
		count(counts, COUNT_LOST_STACKS);
	}
	if (bpf_map_update_elem(&begins, key, &begin, BPF_ANY))
		count(counts, COUNT_LOST_BEGINS);
}

INLINE void add_wait(struct wait *wait, u64 wait_ns)
{
	__sync_fetch_and_add(&wait->wait_ns, wait_ns);
	__sync_fetch_and_add(&wait->count, 1);
	if (wait_ns > wait->longest_ns)
		wait->longest_ns = wait_ns;
}

// Adds the wait that `begin` noted to the sums of its place.
INLINE void end_wait(struct begin *begin, u32 tid)
{
	u64 wait_ns = bpf_ktime_get_ns() - begin->at;
	struct wait_key key = {.lock = begin->lock, .tid = tid, .stack = begin->stack};
	struct wait wait = {.flags = begin->flags, .pid = begin->pid};
	struct wait *known = bpf_map_lookup_elem(&waits, &key);

	if (!known) {
		__builtin_memcpy(wait.comm, begin->comm, sizeof(wait.comm));
		// Two idle CPUs may insert the same key: the second finds the first one's.
		bpf_map_update_elem(&waits, &key, &wait, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&waits, &key);
	}
	if (known)
		add_wait(known, wait_ns);
	else
		count(counts, COUNT_LOST_WAITS);
	// After the row has it: who reads counts first finds every counted wait in a row.
	count(counts, COUNT_ENDED);
}
