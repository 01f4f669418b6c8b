// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Sleeps in futex(2) and futex_wait(2), from the switch to another task until the task runs again, summed by address,
// task and call chain of the program.
//
// A tracepoint of system calls would be passed by every call of the host, whoever is observed.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define STACK_DEPTH 16
// bpf_get_stackid: the program's part of the chain.
#define BPF_F_USER_STACK (1ULL << 8)

// include/linux/sched.h.
#define TASK_INTERRUPTIBLE 1

#include "calls.h"
#include "waits.h"

// A thread is in one system call at a time.
INLINE struct begin_key key_of(u32 tid)
{
	struct begin_key key = {.tid = tid};

	return key;
}

// Notes a sleep of the task that leaves the CPU, if it is one for a word.
INLINE void note_sleep(void *ctx, struct task_struct *task)
{
	void *regs = bpf_task_pt_regs(task);
	struct begin_key key = key_of(task->pid);
	u64 call;

	if (!regs)
		return;
	call = call_number(regs);
	if (call != futex_call && call != futex_wait_call)
		return;
	if (!is_observed(task) || (call == futex_call && !is_wait(futex_command(regs))))
		return;
	// Some switches reach no tracepoint: the end of the sleep before is not known.
	if (bpf_map_lookup_elem(&begins, &key))
		count(counts, COUNT_UNMATCHED);
	begin_wait(ctx, task, &key, first_argument(regs), 0, BPF_F_USER_STACK);
}

SEC("tp_btf/sched_switch")
int futex_switch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct begin_key key = key_of(next->pid);
	struct begin *begin = bpf_map_lookup_elem(&begins, &key);

	if (begin) {
		end_wait(begin, key.tid);
		bpf_map_delete_elem(&begins, &key);
	}
	// A task that is preempted is about to sleep at most.
	if (!(u8)ctx[0] && (u32)ctx[3] & TASK_INTERRUPTIBLE)
		note_sleep(ctx, prev);
	return 0;
}
