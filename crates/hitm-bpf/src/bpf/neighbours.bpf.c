// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Time for which tasks are ready to run without a CPU, by group and by who has the CPU meanwhile.
//
// Each CPU has a place for each group whose tasks wait on it. A switch charges the time since the last switch to the
// task that ran, once for each waiting task: its cost grows with groups that wait, never with tasks.
//
// A place's sum is one word, so that another CPU may add to it without a lock: the number of its tasks in the upper
// bits, and below it the sum of their starts, negative. That sum and the number times now are the time that is due.
#include "filter.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define CREATE 1

static void *(*bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;

// Groups that wait on one CPU: a bit each.
#define PLACES 64
// Those that ran last while a place's tasks waited, by the lower bits of their processes.
#define TAKERS 4
#define TIME_BITS 54
#define ONE_TASK (1ULL << TIME_BITS)

// The reader's clock is compared with the kernel's so often.
#define OFFSET_NS 100000000ULL

// Parts of a slice are fractions of this.
#define WHOLE 1024

enum { WAITS_NOT, WAITS, IS_THROTTLED };
enum { BY_TASK, BY_IDLE, BY_QUOTA, BY_INTERRUPT, BY_STEAL };
enum { COUNT_LOST_PLACES, COUNT_LOST_TASKS, COUNT_LOST_ROWS, COUNT_UNSEEN_ENDS, COUNTS };
enum { KNOWS_INTERRUPTS = 1, KNOWS_STEAL = 2 };

// Functions that give quota back; zero where the kernel has none.
const volatile u64 period_timer = 0;
const volatile u64 slack_timer = 0;
const volatile u64 unthrottle_handler = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___by_task {
	_Bool throttled;
};

struct thread_info___cpu {
	u32 cpu;
};

struct task_struct___thread {
	struct thread_info___cpu thread_info;
};

// Before Linux 5.16 on x86-64.
struct task_struct___cpu {
	u32 cpu;
};

struct task_struct___state {
	// A byte in Linux 7.2.
	int on_cpu;
};

// What the kernel takes off a task's time, where it counts that.
struct rq___clocks {
	u64 clock;
	u64 prev_irq_time;
	u64 prev_steal_time_rq;
};

struct cfs_rq___of_cpu {
	struct rq___clocks *rq;
};

struct task_group___queues {
	struct cfs_rq **cfs_rq;
};

struct hrtimer {
	void *function;
};

#pragma clang attribute pop

struct runner {
	u64 cgroup;
	u32 pid;
	u32 by;
	char comm[16];
};

struct taker {
	struct runner who;
	u64 ns;
};

struct place {
	// The address of the group's queue on this CPU; zero for a free place.
	u64 queue;
	u64 cgroup;
	u64 waiting;
	u64 throttled;
	// The last that ran, which the table of rows need not be asked for.
	struct taker takers[TAKERS];
	// Before Linux 6.18 a queue is throttled with all of its tasks.
	u64 is_throttled;
};

struct cpu {
	u64 active;
	u64 since;
	u64 interrupts;
	u64 steal;
	// When quota came back here last.
	u64 released;
	// CLOCK_MONOTONIC less the time here, for the reader, and when it was taken.
	u64 offset;
	u64 offset_at;
	u32 knows;
	u32 padding;
	struct runner runner;
	struct place places[PLACES];
};

struct state {
	u64 queue;
	u32 cpu;
	u32 place;
	u32 kind;
	u32 padding;
};

struct row_key {
	u64 victim;
	u64 cgroup;
	u32 pid;
	u32 by;
};

struct row {
	u64 ns;
	char comm[16];
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_TASK_STORAGE);
	MAP_INT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct state);
} states SEC(".maps");

// One for each CPU, by number. The loader sets the size.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, struct row_key);
	MAP_TYPE(value, struct row);
} rows SEC(".maps");

#include "counts.h"

// The kernel's clock at the first event: sums of times from there fit into their bits.
u64 epoch = 0;

// The clock of a queue's CPU, which the kernel has just set. It is free, where asking for the time is not.
INLINE u64 time_of(struct cfs_rq *queue)
{
	u64 clock = ((struct cfs_rq___of_cpu *)queue)->rq->clock;

	if (!epoch)
		__sync_val_compare_and_swap(&epoch, 0, clock - 1);
	return clock - epoch;
}

INLINE u64 time_now(struct task_struct *task)
{
	return time_of(task->se.cfs_rq);
}

INLINE s64 starts_of(u64 word)
{
	return (s64)(word << (64 - TIME_BITS)) >> (64 - TIME_BITS);
}

INLINE u64 tasks_of(u64 word)
{
	return (word - (u64)starts_of(word)) >> TIME_BITS;
}

// Takes the time that is due out of a sum.
INLINE u64 take(u64 *word, u64 now)
{
	u64 seen = *word;
	u64 due = (u64)starts_of(seen) + tasks_of(seen) * now;

	if ((s64)due <= 0)
		return 0;
	__sync_fetch_and_add(word, -due);
	return due;
}

INLINE u64 cgroup_of(struct task_struct *task)
{
	struct cgroup *cgroup = task->sched_task_group->css.cgroup;

	return cgroup ? cgroup->kn->id : 0;
}

INLINE u32 cpu_of(struct task_struct *task)
{
	struct task_struct___thread *thread = (void *)task;

	if (field_exists(thread->thread_info.cpu))
		return thread->thread_info.cpu;
	return ((struct task_struct___cpu *)task)->cpu;
}

INLINE int is_queue_throttled(u64 queue)
{
	struct cfs_rq *address = (void *)queue;
	int throttled = 0;

	bpf_probe_read_kernel(&throttled, sizeof(throttled), &address->throttle_count);
	return throttled > 0;
}

INLINE int throttles_tasks(void)
{
	return field_exists(((struct task_struct___by_task *)0)->throttled);
}

INLINE void charge(u64 victim, struct runner *who, u32 by, u64 ns)
{
	struct row_key key = {.victim = victim, .by = by};
	struct row first = {.ns = ns};
	struct row *row;

	if (!ns)
		return;
	if (by == BY_TASK) {
		key.cgroup = who->cgroup;
		key.pid = who->pid;
	}
	row = bpf_map_lookup_elem(&rows, &key);
	if (row) {
		__sync_fetch_and_add(&row->ns, ns);
		return;
	}
	if (by == BY_TASK)
		__builtin_memcpy(first.comm, who->comm, sizeof(first.comm));
	if (!bpf_map_update_elem(&rows, &key, &first, BPF_NOEXIST))
		return;
	// Another CPU had the same row, or there is no room.
	row = bpf_map_lookup_elem(&rows, &key);
	if (row)
		__sync_fetch_and_add(&row->ns, ns);
	else
		count(counts, COUNT_LOST_ROWS);
}

INLINE void charge_runner(struct place *place, struct runner *who, u64 ns)
{
	struct taker *taker = &place->takers[who->pid % TAKERS];

	if (taker->who.pid != who->pid || taker->who.cgroup != who->cgroup || taker->who.by != who->by) {
		charge(place->cgroup, &taker->who, taker->who.by, taker->ns);
		taker->who = *who;
		taker->ns = 0;
	}
	taker->ns += ns;
}

// Charges what a place's tasks waited for since the last switch. Parts of it went to interrupts and to the host.
SUBPROGRAM int settle_place(u32 number, u32 index, u64 now, u32 interrupts, u32 steal)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct place *place;
	u64 quota = 0, due, part;
	int is_throttled;

	if (!cpu || index >= PLACES)
		return 0;
	place = &cpu->places[index];
	if (place->throttled || place->is_throttled || !throttles_tasks()) {
		u64 released = cpu->released > cpu->since ? cpu->released : now;

		is_throttled = is_queue_throttled(place->queue);
		if (place->throttled && !is_throttled) {
			u64 tasks = tasks_of(place->throttled);

			quota = take(&place->throttled, released);
			// They wait for the CPU from there on.
			__sync_fetch_and_add(&place->throttled, tasks * released - tasks * ONE_TASK);
			__sync_fetch_and_add(&place->waiting, tasks * ONE_TASK - tasks * released);
		} else {
			quota = take(&place->throttled, now);
		}
		if (!throttles_tasks()) {
			if (place->is_throttled)
				quota += take(&place->waiting, is_throttled ? now : released);
			place->is_throttled = is_throttled;
		}
		charge(place->cgroup, &cpu->runner, BY_QUOTA, quota);
	}
	due = take(&place->waiting, now);
	if (interrupts) {
		part = due * interrupts / WHOLE;
		charge(place->cgroup, &cpu->runner, BY_INTERRUPT, part);
		due -= part;
	}
	if (steal) {
		part = due * steal / WHOLE;
		charge(place->cgroup, &cpu->runner, BY_STEAL, part);
		due -= part;
	}
	charge_runner(place, &cpu->runner, due);
	return 0;
}

// A part of a slice.
INLINE u32 fraction(u64 part, u64 slice)
{
	if (!slice || !part)
		return 0;
	return part >= slice ? WHOLE : (u32)(part * WHOLE / slice);
}

// Charges the slice that ends now to the task that had it.
INLINE void settle(struct cpu *cpu, u32 number, struct task_struct *prev, u64 now)
{
	struct rq___clocks *rq = ((struct cfs_rq___of_cpu *)prev->se.cfs_rq)->rq;
	u64 slice = now - cpu->since, mask = cpu->active;
	u64 interrupts = 0, steal = 0;

	if (field_exists(rq->prev_irq_time)) {
		interrupts = rq->prev_irq_time - cpu->interrupts;
		cpu->interrupts += interrupts;
		cpu->knows |= KNOWS_INTERRUPTS;
	}
	if (field_exists(rq->prev_steal_time_rq)) {
		steal = rq->prev_steal_time_rq - cpu->steal;
		cpu->steal += steal;
		cpu->knows |= KNOWS_STEAL;
	}
	if (cpu->since)
		for (u32 index = 0; index < PLACES && mask; index++, mask >>= 1)
			if (mask & 1)
				settle_place(number, index, now, fraction(interrupts, slice), fraction(steal, slice));
}

// The CPU is this task's from now on.
INLINE void run(struct cpu *cpu, struct task_struct *next, u64 now)
{
	cpu->since = now;
	if (!cpu->offset || now - cpu->offset_at > OFFSET_NS) {
		cpu->offset = bpf_ktime_get_ns() - now;
		cpu->offset_at = now;
	}
	cpu->runner.cgroup = cgroup_of(next);
	cpu->runner.pid = next->tgid;
	cpu->runner.by = next->pid ? BY_TASK : BY_IDLE;
	__builtin_memcpy(cpu->runner.comm, next->comm, sizeof(cpu->runner.comm));
}

// The place of a queue: the one that the task had last, or that of others, or a free one. PLACES where there is none.
SUBPROGRAM u32 place_of(u32 number, u64 queue, u64 cgroup)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	u32 free = PLACES;

	if (!cpu)
		return PLACES;
	for (u32 index = 0; index < PLACES; index++) {
		struct place *place = &cpu->places[index];

		if (place->queue == queue)
			return index;
		if (free == PLACES && !place->waiting && !place->throttled)
			free = index;
	}
	if (free < PLACES) {
		struct place *place = &cpu->places[free];
		u64 before = place->queue;

		// Another CPU may want it as well.
		if (__sync_val_compare_and_swap(&place->queue, before, queue) != before)
			return PLACES;
		for (u32 taker = 0; taker < TAKERS; taker++) {
			charge(place->cgroup, &place->takers[taker].who, place->takers[taker].who.by, place->takers[taker].ns);
			place->takers[taker].ns = 0;
		}
		place->cgroup = cgroup;
		place->is_throttled = 0;
	}
	return free;
}

INLINE void leave_place(struct state *state, u64 now)
{
	u32 number = state->cpu, index = state->place, kind = state->kind;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct place *place;

	state->kind = WAITS_NOT;
	if (!cpu || index >= PLACES)
		return;
	place = &cpu->places[index];
	if (kind == IS_THROTTLED && tasks_of(place->throttled))
		__sync_fetch_and_add(&place->throttled, now - ONE_TASK);
	else
		__sync_fetch_and_add(&place->waiting, now - ONE_TASK);
	if (!place->waiting && !place->throttled)
		__sync_fetch_and_and(&cpu->active, ~(1ULL << index));
}

INLINE void enter_place(struct task_struct *task, struct state *state, u32 number, u64 queue, u32 kind, u64 now)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	u32 index = state->place;
	struct place *place;

	if (!cpu)
		return;
	if (index >= PLACES || state->cpu != number || cpu->places[index].queue != queue) {
		index = place_of(number, queue, cgroup_of(task));
		if (index >= PLACES) {
			count(counts, COUNT_LOST_PLACES);
			return;
		}
	}
	place = &cpu->places[index];
	// Nobody may have waited here when the queue was throttled, so that no switch has noted it.
	if (!throttles_tasks())
		place->is_throttled = is_queue_throttled(queue);
	__sync_fetch_and_or(&cpu->active, 1ULL << index);
	__sync_fetch_and_add(kind == IS_THROTTLED ? &place->throttled : &place->waiting, ONE_TASK - now);
	state->cpu = number;
	state->place = index;
	state->kind = kind;
}

// The task waits from now on.
INLINE void begin(struct task_struct *task, u32 number, u32 kind, u64 now)
{
	struct state *state = bpf_task_storage_get(&states, task, 0, CREATE);
	u64 queue = 0;

	if (!state) {
		count(counts, COUNT_LOST_TASKS);
		return;
	}
	if (state->kind) {
		// Some switches reach no tracepoint.
		count(counts, COUNT_UNSEEN_ENDS);
		leave_place(state, now);
	}
	// The address as a number, which the verifier takes for an argument of a subprogram.
	bpf_probe_read_kernel(&queue, sizeof(queue), &task->se.cfs_rq);
	enter_place(task, state, number, queue, kind, now);
}

SEC("tp_btf/sched_switch")
int neighbours_switch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct state *state;
	u64 now = time_now(prev);

	if (!cpu)
		return 0;
	settle(cpu, number, prev, now);
	run(cpu, next, now);
	state = bpf_task_storage_get(&states, next, 0, 0);
	if (state && state->kind)
		leave_place(state, now);
	if (((u8)ctx[0] || !(u32)ctx[3]) && prev->pid && is_observed(prev)) {
		u32 kind = WAITS;

		if (throttles_tasks() && ((struct task_struct___by_task *)prev)->throttled)
			kind = IS_THROTTLED;
		begin(prev, number, kind, now);
	}
	return 0;
}

// A task that runs has not slept.
INLINE int woken(struct task_struct *task)
{
	if (!read_bits((struct task_struct___state *)task, on_cpu) && is_observed(task))
		begin(task, cpu_of(task), WAITS, time_now(task));
	return 0;
}

SEC("tp_btf/sched_wakeup")
int neighbours_wakeup(u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int neighbours_new(u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

// A waiting task goes to another CPU, whose lock nobody has yet.
SEC("tp_btf/sched_migrate_task")
int neighbours_migrate(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct state *state = bpf_task_storage_get(&states, task, 0, 0);
	struct task_group___queues *group = (void *)task->sched_task_group;
	struct cfs_rq **queues = 0;
	u32 kind, number = (u32)ctx[1];
	u64 queue = 0, now;

	if (!state || !state->kind)
		return 0;
	now = time_now(task);
	kind = state->kind;
	leave_place(state, now);
	bpf_probe_read_kernel(&queues, sizeof(queues), &group->cfs_rq);
	bpf_probe_read_kernel(&queue, sizeof(queue), queues + number);
	enter_place(task, state, number, queue, kind, now);
	return 0;
}

// Quota is back on this CPU: who brought it has set the clock.
INLINE int released(void)
{
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (cpu)
		cpu->released = time_now(bpf_get_current_task_btf());
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int neighbours_timer(u64 *ctx)
{
	u64 function = (u64)((struct hrtimer *)ctx[0])->function;

	if (function != period_timer && function != slack_timer)
		return 0;
	return released();
}

// A tracepoint of words.
SEC("raw_tp/csd_function_exit")
int neighbours_handler(u64 *ctx)
{
	if (ctx[0] != unthrottle_handler)
		return 0;
	return released();
}
