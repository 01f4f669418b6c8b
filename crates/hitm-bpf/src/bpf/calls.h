// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The system call that a task is in: its number and first two arguments, and which of futex(2)'s commands wait or wake.
#pragma once

// include/uapi/linux/futex.h.
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_WAKE_OP 5
#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_CLOCK_REALTIME 256

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
const volatile u64 futex_wake_call = 0;

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

INLINE u32 futex_command(void *regs)
{
	return (u32)second_argument(regs) & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
}

INLINE int is_wait(u32 command)
{
	return command == FUTEX_WAIT || command == FUTEX_LOCK_PI || command == FUTEX_WAIT_BITSET ||
	       command == FUTEX_WAIT_REQUEUE_PI || command == FUTEX_LOCK_PI2;
}
