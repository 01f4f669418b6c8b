// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Waits for kernel locks: lock:contention_begin to lock:contention_end, summed by lock, task and call chain.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// LCB_F_MUTEX of include/trace/events/lock.h. A mutex begins twice without an end between: it spins, then sleeps.
#define LCB_F_MUTEX (1U << 5)

#define STACK_DEPTH 48

// This program and bpf_trace_run2, which calls it.
#define OWN_FRAMES 2

#include "waits.h"

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

	if (!is_observed(task))
		return 0;
	known = bpf_map_lookup_elem(&begins, &key);
	if (known && (flags & LCB_F_MUTEX))
		known->flags |= flags;
	else
		begin_wait(ctx, task, &key, key.lock, flags, OWN_FRAMES);
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(u64 *ctx)
{
	struct begin_key key = key_of(ctx[0]);
	struct begin *begin = bpf_map_lookup_elem(&begins, &key);

	if (!begin) {
		// It began before the programs were attached, or its task is not observed.
		count(counts, COUNT_UNMATCHED);
		return 0;
	}
	end_wait(begin, key.tid);
	bpf_map_delete_elem(&begins, &key);
	return 0;
}
