// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Waits in futex(2) and futex_wait(2), from the system call to its return, summed by address, task and call chain of
// the program.
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

// The word had another value: nobody waited.
#define EAGAIN 11

#include "waits.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// The first two arguments of a system call, by machine.
struct pt_regs___x86 {
	unsigned long di;
	unsigned long si;
};

struct pt_regs___arm {
	u64 regs[2];
};

#pragma clang attribute pop

// Numbers of the system calls; the loader writes them.
const volatile u64 futex_call = 0;
const volatile u64 futex_wait_call = 0;

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

SEC("tp_btf/sys_enter")
int futex_enter(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	void *regs = (void *)ctx[0];
	u64 call = ctx[1];
	struct begin_key key = key_of(task->pid);

	if (call != futex_call && call != futex_wait_call)
		return 0;
	if (!is_observed(task) || (call == futex_call && !is_wait(regs)))
		return 0;
	begin_wait(ctx, task, &key, first_argument(regs), 0, BPF_F_USER_STACK);
	return 0;
}

SEC("tp_btf/sys_exit")
int futex_exit(u64 *ctx)
{
	s64 answer = (s64)ctx[1];
	struct begin_key key = key_of((u32)bpf_get_current_pid_tgid());
	struct begin *begin = bpf_map_lookup_elem(&begins, &key);

	if (!begin)
		return 0;
	if (answer != -EAGAIN)
		end_wait(begin, key.tid);
	bpf_map_delete_elem(&begins, &key);
	return 0;
}
