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

// include/uapi/linux/futex.h.
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_CLOCK_REALTIME 256

// include/linux/sched.h.
#define TASK_INTERRUPTIBLE 1

#include "waits.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Number and first two arguments of a system call, by machine.
struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long si;
};

struct pt_regs___arm {
	u64 regs[2];
	s32 syscallno;
};

#pragma clang attribute pop

// Numbers of the system calls; the loader writes them.
const volatile u64 futex_call = 0;
const volatile u64 futex_wait_call = 0;

INLINE u64 call_number(void *regs)
{
	if (field_exists(((struct pt_regs___x86 *)0)->orig_ax))
		return ((struct pt_regs___x86 *)regs)->orig_ax;
	return ((struct pt_regs___arm *)regs)->syscallno;
}

INLINE u64 first_argument(void *regs)
{
	if (field_exists(((struct pt_regs___x86 *)0)->di))
		return ((struct pt_regs___x86 *)regs)->di;
	return ((struct pt_regs___arm *)regs)->regs[0];
}

INLINE u64 second_argument(void *regs)
{
	if (field_exists(((struct pt_regs___x86 *)0)->si))
		return ((struct pt_regs___x86 *)regs)->si;
	return ((struct pt_regs___arm *)regs)->regs[1];
}

INLINE int is_wait(void *regs)
{
	u32 command = (u32)second_argument(regs) & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);

	return command == FUTEX_WAIT || command == FUTEX_LOCK_PI || command == FUTEX_WAIT_BITSET ||
	       command == FUTEX_WAIT_REQUEUE_PI || command == FUTEX_LOCK_PI2;
}

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
	if (!is_observed(task) || (call == futex_call && !is_wait(regs)))
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
