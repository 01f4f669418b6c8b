// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Events from which the reader tells where the holders of locks are: threads that leave a CPU, get one and wake others,
// waits for the kernel's locks, and the time in page faults. Words of programs are read where their memory is mapped.
// A clock of each CPU counts which of a thread's words name it as the owner.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#include "calls.h"

#define SIGBUS 7
#define SIGSEGV 11
// include/trace/events/lock.h.
#define LCB_F_SPIN 1
#define LCB_F_READ 2
#define LCB_F_WRITE 4
#define LCB_F_RT 8
#define LCB_F_PERCPU 16
#define LCB_F_MUTEX 32
// kernel/locking/mutex.h: the lower bits of an owner are flags. Those of a rwsem's say that readers own it.
#define OWNER_FLAGS 7ULL
#define READER_OWNED 1ULL
// Of pthread_mutex_t behind its word (glibc's struct __pthread_mutex_s).
#define OWNER_OFFSET 8
// include/uapi/linux/futex.h: the owner's number in a word, beside two flags.
#define FUTEX_TID_MASK 0x3fffffffu
#define FUTEX_WAITERS 0x80000000u

enum { LEFT_PREEMPTED, LEFT_THROTTLED, LEFT_ASLEEP, RUNS, WAKES, BEGINS, ENDS, WRITES };
// Beside the kind of an event.
#define IN_FAULT (1 << 8)
#define BY_CALL (1 << 9)
#define OWNER_IN_WORD (1 << 10)
#define HAS_OWNER (1 << 11)
#define WAITS_FOR_WORD (1 << 12)

enum { COUNT_LOST_EVENTS, COUNT_LOST_THREADS, COUNT_LOST_PROCESSES, COUNT_LOST_TICKS, COUNTS };

// The process that reads, whose faults are observed for a measurement.
const volatile u32 reader = 0;

static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___by_task {
	_Bool throttled;
};

struct sched_entity___run {
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
};

struct task_struct___run {
	struct sched_entity___run se;
};

struct upid {
	s32 nr;
	void *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

struct task_struct___named {
	struct pid *thread_pid;
};

struct atomic64 {
	s64 counter;
};

struct mutex {
	struct atomic64 owner;
};

struct rw_semaphore {
	struct atomic64 owner;
};

#pragma clang attribute pop

struct event {
	u64 at;
	u64 lock;
	u64 minor;
	u64 major;
	u32 kind;
	u32 tid;
	u32 tgid;
	u32 virtual_tid;
	u32 value;
	u32 owner;
	u32 other_tid;
	u32 other_tgid;
	char other_comm[16];
	// CPU time since the thread got the CPU that it leaves.
	u64 ran;
};

// A thread that had a page fault, waited for a word, or woke those that did.
struct thread {
	// Time of its page faults so far, without that off the CPU, and when the present one went on.
	u64 since;
	u64 minor;
	u64 major;
	u64 now;
	// The word that it slept for last, or woke others for.
	u64 word;
	u32 kind;
	// Minor faults so far.
	u32 minor_count;
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct thread);
} threads SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_INT(max_entries, 1 << 23);
} events SEC(".maps");

// The part of a fault before and behind what is timed, as the reader has measured it.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} ways SEC(".maps");

// Words that a thread waited for, or woke others for.
#define WORDS 16
struct words {
	u64 at[WORDS];
	// A bit for each word that has its owner in it.
	u32 in_word;
	u32 next;
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct words);
} words SEC(".maps");

// Ticks of the clock at which a thread ran, by the word that named it as the owner: zero for all of them.
struct tick_key {
	u64 word;
	u32 tid;
	u32 tgid;
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, struct tick_key);
	MAP_TYPE(value, u64);
} ticks SEC(".maps");

#include "counts.h"

#include "follow.h"

// The thread's number in its own PID namespace, which is the one that its locks have.
INLINE u32 virtual_tid(struct task_struct *task)
{
	struct pid *pid = ((struct task_struct___named *)task)->thread_pid;
	u32 level = pid ? pid->level : 0;
	s32 number = task->pid;

	if (level)
		bpf_probe_read_kernel(&number, sizeof(number),
				      (void *)pid + field_offset(struct pid, numbers) + level * sizeof(struct upid));
	return number;
}

INLINE struct thread *find_thread(u32 tid)
{
	struct thread *known = bpf_map_lookup_elem(&threads, &tid);
	struct thread first = {};

	if (known)
		return known;
	if (bpf_map_update_elem(&threads, &tid, &first, BPF_NOEXIST))
		count(counts, COUNT_LOST_THREADS);
	return bpf_map_lookup_elem(&threads, &tid);
}

INLINE struct event *begin_event(u32 kind, struct task_struct *task)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	struct thread *own;
	u32 tid = task->pid;

	if (!event) {
		count(counts, COUNT_LOST_EVENTS);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->at = bpf_ktime_get_ns();
	event->kind = kind;
	event->tid = tid;
	event->tgid = task->tgid;
	event->virtual_tid = virtual_tid(task);
	own = bpf_map_lookup_elem(&threads, &tid);
	if (!own)
		return event;
	event->minor = own->minor;
	event->major = own->major;
	if (own->since) {
		event->kind |= IN_FAULT;
		// It is known at the end whether the fault is a major one.
		if (kind <= LEFT_ASLEEP)
			own->now += event->at - own->since;
		if (kind <= RUNS)
			own->since = event->at;
	}
	return event;
}

INLINE void add_other(struct event *event, struct task_struct *other)
{
	event->other_tid = other->pid;
	event->other_tgid = other->tgid;
	__builtin_memcpy(event->other_comm, other->comm, sizeof(event->other_comm));
}

// The word that a task waits for in the system call that it is in; zero for none.
INLINE u64 waited_word(struct task_struct *task, u32 *kind)
{
	void *regs = bpf_task_pt_regs(task);
	u64 call;
	u32 command;

	if (!regs)
		return 0;
	call = call_number(regs);
	if (call == futex_wait_call)
		return first_argument(regs);
	if (call != futex_call)
		return 0;
	command = futex_command(regs);
	if (!is_wait(command))
		return 0;
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
		*kind |= OWNER_IN_WORD;
	return first_argument(regs);
}

// Reads the word of a lock, and the owner behind it: pthread_mutex_t has it there. The memory is the current task's.
INLINE void read_word(struct event *event, u64 word)
{
	event->lock = word;
	if (bpf_probe_read_user(&event->value, sizeof(event->value), (void *)word))
		return;
	event->kind |= HAS_OWNER;
	bpf_probe_read_user(&event->owner, sizeof(event->owner), (void *)word + OWNER_OFFSET);
}

INLINE struct words *find_words(u32 tid)
{
	struct words *known = bpf_map_lookup_elem(&words, &tid);
	struct words first = {};

	if (known)
		return known;
	if (bpf_map_update_elem(&words, &tid, &first, BPF_NOEXIST))
		count(counts, COUNT_LOST_THREADS);
	return bpf_map_lookup_elem(&words, &tid);
}

// Adds a word to those that the clock looks at, in place of the oldest one.
INLINE void watch_word(u32 tid, u64 word, u32 is_owner_in_word)
{
	struct words *own = find_words(tid);
	u32 index;

	if (!own)
		return;
	for (index = 0; index < WORDS; index++) {
		if (own->at[index] == word)
			break;
	}
	if (index == WORDS) {
		index = own->next % WORDS;
		own->next = index + 1;
		own->at[index] = word;
		own->in_word &= ~(1u << index);
	}
	if (is_owner_in_word)
		own->in_word |= 1u << (index % WORDS);
}

// Notes the word, which is read again when the thread leaves a CPU: it may have the lock then.
INLINE void keep_word(struct task_struct *task, u64 word, u32 kind)
{
	struct thread *own = find_thread(task->pid);

	if (own) {
		own->word = word;
		own->kind = kind & OWNER_IN_WORD;
	}
	watch_word(task->pid, word, kind & OWNER_IN_WORD);
}

// Reads the word that a thread waits for from now on, or else the one that it had to do with last.
INLINE void look(struct event *event, struct task_struct *task, u32 kind)
{
	u32 tid = task->pid;
	struct thread *own;
	u64 word = 0;

	if (kind == LEFT_ASLEEP)
		word = waited_word(task, &event->kind);
	if (word) {
		event->kind |= WAITS_FOR_WORD;
		keep_word(task, word, event->kind);
	} else {
		own = bpf_map_lookup_elem(&threads, &tid);
		if (!own || !own->word)
			return;
		word = own->word;
		event->kind |= own->kind;
	}
	read_word(event, word);
}

INLINE void leave(u32 is_preempted, struct task_struct *prev, struct task_struct *next, u32 state)
{
	u32 kind = LEFT_ASLEEP;
	struct sched_entity___run *run;
	struct event *event;

	if (is_preempted || !state) {
		kind = LEFT_PREEMPTED;
		if (field_exists(((struct task_struct___by_task *)0)->throttled)) {
			if (((struct task_struct___by_task *)prev)->throttled)
				kind = LEFT_THROTTLED;
		} else {
			struct cfs_rq *queue = prev->se.cfs_rq;

			if (queue && queue->throttle_count > 0)
				kind = LEFT_THROTTLED;
		}
	}
	event = begin_event(kind, prev);
	if (!event)
		return;
	add_other(event, next);
	run = &((struct task_struct___run *)prev)->se;
	event->ran = run->sum_exec_runtime - run->prev_sum_exec_runtime;
	look(event, prev, kind);
	bpf_ringbuf_submit(event, NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int holders_switch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct event *event;

	if (prev->pid && is_observed(prev))
		leave((u8)ctx[0], prev, next, (u32)ctx[3]);
	if (next->pid && is_observed(next)) {
		event = begin_event(RUNS, next);
		if (event)
			bpf_ringbuf_submit(event, NO_WAKEUP);
	}
	return 0;
}

// The current task wakes another one. Where that one waits for a word of the same process, the word is read again.
SEC("tp_btf/sched_waking")
int holders_waking(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct task_struct *waker = bpf_get_current_task_btf();
	struct event *event;
	void *regs;
	u64 word;

	if (!is_observed(task))
		return 0;
	event = begin_event(WAKES, waker);
	if (!event)
		return 0;
	add_other(event, task);
	word = waited_word(task, &event->kind);
	if (word && waker->tgid == task->tgid) {
		regs = bpf_task_pt_regs(waker);
		read_word(event, word);
		if (regs && first_argument(regs) == word) {
			u64 call = call_number(regs);
			u32 command = futex_command(regs);

			if (call == futex_wake_call ||
			    (call == futex_call && (command == FUTEX_WAKE || command == FUTEX_WAKE_OP ||
						    command == FUTEX_UNLOCK_PI || command == FUTEX_WAKE_BITSET)))
				event->kind |= BY_CALL;
			keep_word(waker, word, event->kind);
		}
	}
	bpf_ringbuf_submit(event, NO_WAKEUP);
	return 0;
}

// A thread that is gone leaves its number to others.
SEC("tp_btf/sched_process_exit")
int holders_exit(u64 *ctx)
{
	u32 tid = ((struct task_struct *)ctx[0])->pid;

	bpf_map_delete_elem(&threads, &tid);
	bpf_map_delete_elem(&words, &tid);
	return 0;
}

// Counts a tick of a running thread. The first ones on two CPUs may come at once: one of them is lost.
INLINE void tick(struct task_struct *task, u64 word)
{
	struct tick_key key = {.word = word, .tid = task->pid, .tgid = task->tgid};
	u64 *known = bpf_map_lookup_elem(&ticks, &key), first = 1;

	if (known)
		__sync_fetch_and_add(known, 1);
	else if (bpf_map_update_elem(&ticks, &key, &first, BPF_ANY))
		count(counts, COUNT_LOST_TICKS);
}

// Returns true if the lock at a word is the thread's.
INLINE int is_owner(u64 word, u32 is_owner_in_word, u32 own)
{
	u32 value = 0, owner = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)word) || !value)
		return 0;
	if ((is_owner_in_word || value & FUTEX_WAITERS) && (value & FUTEX_TID_MASK) == own)
		return 1;
	return !bpf_probe_read_user(&owner, sizeof(owner), (void *)word + OWNER_OFFSET) && owner == own;
}

// A tick of a CPU's clock. A thread in futex(2) waits, or wakes the next one: it does not work.
SEC("perf_event")
int holders_tick(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tid = task->pid, own, index;
	struct words *all = bpf_map_lookup_elem(&words, &tid);
	void *regs;
	u64 call;

	if (!all)
		return 0;
	regs = bpf_task_pt_regs(task);
	if (!regs)
		return 0;
	call = call_number(regs);
	if (call == futex_call || call == futex_wait_call || call == futex_wake_call)
		return 0;
	tick(task, 0);
	own = virtual_tid(task);
	for (index = 0; index < WORDS; index++) {
		u64 word = all->at[index];

		if (word && is_owner(word, all->in_word & (1u << index), own))
			tick(task, word);
	}
	return 0;
}

SEC("tp_btf/page_fault_user")
int holders_fault(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *own;

	if (!is_observed(task) && (u32)task->tgid != reader)
		return 0;
	own = find_thread(task->pid);
	if (own) {
		own->now = 0;
		own->since = bpf_ktime_get_ns();
	}
	return 0;
}

// The thread of a fault that ends, and its time on CPUs.
INLINE struct thread *end_fault(u64 *ns)
{
	u32 tid = (u32)bpf_get_current_pid_tgid(), zero = 0;
	struct thread *own = bpf_map_lookup_elem(&threads, &tid);
	u64 *way = bpf_map_lookup_elem(&ways, &zero);

	if (!own || !own->since || !way)
		return 0;
	*ns = own->now + bpf_ktime_get_ns() - own->since + *way;
	own->since = 0;
	return own;
}

// The kernel counts a fault when it is done.
SEC("perf_event")
int holders_minor(void)
{
	u64 ns = 0;
	struct thread *own = end_fault(&ns);

	if (own) {
		own->minor += ns;
		own->minor_count++;
	}
	return 0;
}

SEC("perf_event")
int holders_major(void)
{
	u64 ns = 0;
	struct thread *own = end_fault(&ns);

	if (own)
		own->major += ns;
	return 0;
}

// A watched word is written to. The reader has the registers from the event itself; the faults so far are here.
SEC("perf_event")
int holders_write(void)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct event *event = begin_event(WRITES, bpf_get_current_task_btf());
	struct thread *own;

	if (!event)
		return 1;
	own = bpf_map_lookup_elem(&threads, &tid);
	if (own)
		event->value = own->minor_count;
	bpf_ringbuf_submit(event, NO_WAKEUP);
	return 1;
}

// A fault that ends in a signal is not counted. Arguments: signal, its information, task.
SEC("tp_btf/signal_generate")
int holders_signal(u64 *ctx)
{
	u32 number = (u32)ctx[0], tid = ((struct task_struct *)ctx[2])->pid;
	struct thread *own;

	if (number != SIGSEGV && number != SIGBUS)
		return 0;
	own = bpf_map_lookup_elem(&threads, &tid);
	if (own)
		own->since = 0;
	return 0;
}

// The owner of a mutex, or of a rwsem that a writer has; zero for none. Readers of a rwsem leave one of them there.
INLINE void read_owner(struct event *event, u64 lock, u32 flags)
{
	u64 at, owner = 0;
	s32 tid = 0;

	if (flags & LCB_F_MUTEX)
		at = lock + field_offset(struct mutex, owner);
	else if (!(flags & (LCB_F_SPIN | LCB_F_RT | LCB_F_PERCPU)) && flags & (LCB_F_READ | LCB_F_WRITE))
		at = lock + field_offset(struct rw_semaphore, owner);
	else
		return;
	if (bpf_probe_read_kernel(&owner, sizeof(owner), (void *)at))
		return;
	if (!(flags & LCB_F_MUTEX) && owner & READER_OWNED)
		return;
	owner &= ~OWNER_FLAGS;
	if (owner && bpf_probe_read_kernel(&tid, sizeof(tid), &((struct task_struct *)owner)->pid))
		return;
	event->kind |= HAS_OWNER;
	event->owner = tid;
}

INLINE void contend(u64 *ctx, u32 kind, u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct event *event;

	// An idle CPU's interrupts wait for spin locks.
	if (!task->pid || !is_observed(task))
		return;
	event = begin_event(kind, task);
	if (!event)
		return;
	event->lock = ctx[0];
	event->value = flags;
	if (kind == BEGINS)
		read_owner(event, ctx[0], flags);
	bpf_ringbuf_submit(event, NO_WAKEUP);
}

SEC("tp_btf/contention_begin")
int holders_begin(u64 *ctx)
{
	contend(ctx, BEGINS, (u32)ctx[1]);
	return 0;
}

SEC("tp_btf/contention_end")
int holders_end(u64 *ctx)
{
	contend(ctx, ENDS, 0);
	return 0;
}
