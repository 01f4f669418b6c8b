// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Throttling of groups with a quota: each task's way from the CPU and back, and the work of the timers.
//
// A task's way, with the times that an episode keeps:
//
//   out       sched_switch: the task leaves its CPU because its group is throttled
//   due       the moment for which the group's timer was set
//   timer     hrtimer_expire_entry: the timer's function starts (and walks over the queues)
//   queued    csd_queue_cpu: the walk reaches the task's CPU and asks it to unthrottle
//   handler   csd_function_entry: that CPU starts to
//   back      the end of the handler, or of the timer on its own CPU: the task is no longer throttled
//   in        sched_switch: the task runs again
//
// A task belongs to nested groups, each with a queue on each CPU, and any of the queues may be throttled. The nearest
// one is charged until it is no longer throttled, then the next one.
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Addresses of the kernel's functions; zero where it has none.
const volatile u64 period_timer = 0;
const volatile u64 slack_timer = 0;
const volatile u64 unthrottle_handler = 0;
// CPUs that the tables have room for.
const volatile u32 cpu_count = 0;

// Throttled tasks that one CPU follows until they are back.
#define FOLLOWED_MAX 64
// Throttled queues of one CPU.
#define QUEUES_MAX 64
// Queues of one group that a timer's walk notes.
#define WALK_MAX 512
#define FOLLOW_STEPS 16

// A table without a free row (errno's E2BIG).
#define TABLE_IS_FULL (-7)

#define LCB_F_SPIN (1U << 0)
#define LCB_F_READ (1U << 1)
#define LCB_F_WRITE (1U << 2)
#define LCB_F_RT (1U << 3)
#define LCB_F_PERCPU (1U << 4)
#define LCB_F_MUTEX (1U << 5)

// Bits of a lock's owner that are flags (mutex: 3, rw_semaphore: 3, kernel/locking).
#define OWNER_FLAGS 7ULL
// A semaphore's owner is one of its readers.
#define OWNER_READS 1ULL

enum { EVENT_EPISODE, EVENT_TIMER, EVENT_HANDLER, EVENT_LOCK, EVENT_QUEUE };

enum {
	COUNT_EPISODES,
	COUNT_TIMERS,
	COUNT_HANDLERS,
	COUNT_LOST_EVENTS,
	COUNT_LOST_TASKS,
	COUNT_NOT_FOLLOWED,
	COUNT_UNSEEN_ENDS,
	COUNT_REFUSED,
	COUNTS,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Linux 6.18 and later throttle each task by itself.
struct task_struct___by_task {
	_Bool throttled;
};

struct task_struct___state {
	u32 __state;
};

struct rq {
	int cpu;
	// The clock of `throttled_clock`.
	u64 clock;
};

struct list_head {
	struct list_head *next;
};

struct cfs_rq___limited {
	struct rq *rq;
	struct task_group *tg;
	// Zero for a queue that is not throttled, and for one without tasks: cpu.stat counts from here.
	u64 throttled_clock;
	// An int before Linux 6.18.
	_Bool throttled : 1;
	// Its place among the group's throttled queues.
	struct list_head throttled_list;
};

struct sched_entity___nested {
	struct sched_entity___nested *parent;
	struct cfs_rq___limited *cfs_rq;
};

struct timerqueue_node {
	s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
	void *function;
};

struct cfs_bandwidth {
	struct hrtimer period_timer;
	struct hrtimer slack_timer;
	struct list_head throttled_cfs_rq;
};

struct task_group___limited {
	struct cgroup_subsys_state css;
	struct cfs_bandwidth cfs_bandwidth;
};

struct atomic_word {
	s64 counter;
};

struct mutex {
	struct atomic_word owner;
};

struct rw_semaphore {
	struct atomic_word owner;
};

#pragma clang attribute pop

struct times {
	u64 out;
	u64 due;
	u64 timer;
	u64 queued;
	u64 handler;
	u64 back;
	u64 in;
};

struct episode {
	struct times times;
	u64 cgroup;
	// The group whose queue is throttled; zero when none was seen.
	u64 charged;
	u32 tid;
	u32 pid;
	char comm[16];
	u32 out_cpu;
	u32 in_cpu;
};

// The walk of a timer, or a CPU that unthrottles because it was asked to.
struct work {
	u64 due;
	u64 begins;
	u64 ends;
	u64 cgroup;
	u32 cpu;
	u32 is_slack;
	u32 queued;
	u32 tasks;
	u32 tid;
	u32 padding;
	char comm[16];
};

struct lock_wait {
	u64 at;
	u64 lock;
	u64 cgroup;
	u64 charged;
	u32 flags;
	u32 waiter;
	u32 holder;
	u32 padding;
	char comm[16];
};

// A throttling of a group's queue that has ended, with the time that cpu.stat counts of it.
struct queue_time {
	u64 end;
	u64 throttled;
	u64 cgroup;
	u32 cpu;
	u32 padding;
};

struct event {
	u32 kind;
	u32 padding;
	union {
		struct episode episode;
		struct work work;
		struct lock_wait lock;
		struct queue_time queue;
	};
};

struct throttled {
	struct episode episode;
	// Zero once the episode has ended: the kernel may refuse to remove a row.
	u64 task;
	// The queue that is charged.
	u64 queue;
};

struct followed {
	u64 task;
	u32 tid;
	u32 padding;
};

// A throttled queue; a free place has no address.
struct queue {
	u64 address;
	u64 cgroup;
	// The kernel's time of its begin: another one is another throttling.
	u64 clock;
};

struct queues {
	struct queue places[QUEUES_MAX];
};

struct cpu {
	// The timer whose function runs here.
	u64 timer;
	struct work timer_work;
	// The handler that runs here, and who asked for it.
	struct work handler_work;
	u64 asked_due;
	u64 asked_timer;
	u64 asked_at;
	u64 asked_cgroup;
	// Tasks that left this CPU; free places have no task.
	struct followed followed[FOLLOWED_MAX];
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_INT(max_entries, 1 << 22);
} events SEC(".maps");

// One for each CPU, by number: a CPU that asks another to unthrottle writes to the other's. The loader sets the size.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

// One for each CPU, by number. The loader sets the size.
struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct queues);
} queues SEC(".maps");

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct throttled);
} throttled SEC(".maps");

#include "counts.h"

// Throttled tasks in the table: a switch looks a task up only when there are any.
u64 throttled_now = 0;

INLINE struct cpu *this_cpu(void)
{
	u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &number);
}

INLINE struct event *new_event(u32 kind)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count(counts, COUNT_LOST_EVENTS);
		return 0;
	}
	event->kind = kind;
	event->padding = 0;
	return event;
}

INLINE int is_throttled(struct task_struct *task)
{
	struct task_struct___by_task *by_task = (void *)task;

	if (field_exists(by_task->throttled))
		return by_task->throttled;
	return task->se.cfs_rq->throttle_count > 0;
}

// Like is_throttled for a task that is known by its address: it may be gone.
INLINE int is_still_throttled(u64 task)
{
	struct task_struct___by_task *by_task = (void *)task;
	struct task_struct *plain = (void *)task;
	struct cfs_rq *queue = 0;
	int count = 0;
	u8 flag = 0;

	if (field_exists(by_task->throttled)) {
		bpf_probe_read_kernel(&flag, sizeof(flag), &by_task->throttled);
		return flag;
	}
	bpf_probe_read_kernel(&queue, sizeof(queue), &plain->se.cfs_rq);
	bpf_probe_read_kernel(&count, sizeof(count), &queue->throttle_count);
	return count > 0;
}

INLINE int is_queue_throttled(u64 address)
{
	struct cfs_rq___limited *queue = (void *)address;

	return read_bits(queue, throttled) != 0;
}

// The clock since which a queue is throttled; zero if it is not. Linux 6.1 leaves that of the last throttling there.
INLINE u64 clock_of(u64 address)
{
	struct cfs_rq___limited *queue = (void *)address;
	u64 clock = 0;

	if (!is_queue_throttled(address))
		return 0;
	bpf_probe_read_kernel(&clock, sizeof(clock), &queue->throttled_clock);
	return clock;
}

INLINE u64 cgroup_of_queue(u64 address)
{
	struct cfs_rq___limited *queue = (void *)address;
	struct task_group *group = 0;
	struct kernfs_node *node = 0;
	struct cgroup *cgroup = 0;
	u64 id = 0;

	bpf_probe_read_kernel(&group, sizeof(group), &queue->tg);
	bpf_probe_read_kernel(&cgroup, sizeof(cgroup), &group->css.cgroup);
	bpf_probe_read_kernel(&node, sizeof(node), &cgroup->kn);
	bpf_probe_read_kernel(&id, sizeof(id), &node->id);
	return id;
}

INLINE u32 cpu_of_queue(u64 address)
{
	struct cfs_rq___limited *queue = (void *)address;
	struct rq *rq = 0;
	u32 cpu = 0;

	bpf_probe_read_kernel(&rq, sizeof(rq), &queue->rq);
	bpf_probe_read_kernel(&cpu, sizeof(cpu), &rq->cpu);
	return cpu;
}

// Notes a throttled queue.
SUBPROGRAM int track_queue(u64 address, u64 clock)
{
	u32 cpu = cpu_of_queue(address);
	struct queues *queues_of_cpu = bpf_map_lookup_elem(&queues, &cpu);
	struct queue *place, *free = 0;

	if (!queues_of_cpu)
		return 0;
	for (u32 index = 0; index < QUEUES_MAX; index++) {
		place = &queues_of_cpu->places[index];
		if (place->address == address) {
			if (place->clock == clock)
				return 0;
			count(counts, COUNT_UNSEEN_ENDS);
			place->clock = clock;
			return 0;
		}
	}
	for (u32 index = 0; index < QUEUES_MAX; index++) {
		place = &queues_of_cpu->places[index];
		if (!place->address) {
			free = place;
			break;
		}
	}
	if (!free) {
		count(counts, COUNT_NOT_FOLLOWED);
		return 0;
	}
	free->address = address;
	free->cgroup = cgroup_of_queue(address);
	free->clock = clock;
	return 0;
}

// Notes all throttled queues of a group, before its timer looks at them. One is throttled without a task that leaves
// its CPU when a task of an idle queue's group is moved to it: by a balancer, or after the quota of another group.
SUBPROGRAM int track_group(u64 address)
{
	u64 head = address + field_offset(struct task_group___limited, cfs_bandwidth.throttled_cfs_rq);
	u64 link = head, queue, clock;

	for (u32 step = 0; step < WALK_MAX; step++) {
		if (bpf_probe_read_kernel(&link, sizeof(link), (void *)link) || link == head)
			break;
		queue = link - field_offset(struct cfs_rq___limited, throttled_list);
		clock = clock_of(queue);
		if (clock)
			track_queue(queue, clock);
	}
	return 0;
}

// Notes the throttled queues of a task's groups, and returns the nearest one.
SUBPROGRAM u64 throttled_queue(u64 task)
{
	struct task_struct *plain = (void *)task;
	struct sched_entity___nested *entity = (void *)&plain->se;
	u64 queue = 0, nearest = 0, clock;

	for (int level = 0; level < CGROUP_DEPTH_MAX && entity; level++) {
		bpf_probe_read_kernel(&queue, sizeof(queue), &entity->cfs_rq);
		if (!nearest && is_queue_throttled(queue))
			nearest = queue;
		clock = clock_of(queue);
		if (clock)
			track_queue(queue, clock);
		bpf_probe_read_kernel(&entity, sizeof(entity), &entity->parent);
	}
	return nearest;
}

// Time of a throttling that has just ended. Its CPU's clock was set when the queue was put back.
INLINE u64 throttled_time(struct queue *queue)
{
	struct cfs_rq___limited *kernels = (void *)queue->address;
	struct rq *rq = 0;
	u64 now = 0;

	bpf_probe_read_kernel(&rq, sizeof(rq), &kernels->rq);
	bpf_probe_read_kernel(&now, sizeof(now), &rq->clock);
	return now > queue->clock ? now - queue->clock : 0;
}

// Tells of one of the CPU's queues, if it is no longer throttled. The verifier of Linux 6.1 follows each turn of a loop
// around this with each event that may have been reserved.
SUBPROGRAM int tell_queue(u32 cpu, u32 index, u64 now)
{
	struct queues *queues_of_cpu = bpf_map_lookup_elem(&queues, &cpu);
	struct queue *place;
	struct event *event;

	if (!queues_of_cpu || index >= QUEUES_MAX)
		return 0;
	place = &queues_of_cpu->places[index];
	if (clock_of(place->address) == place->clock)
		return 0;
	event = new_event(EVENT_QUEUE);
	if (event) {
		event->queue.end = now;
		event->queue.throttled = throttled_time(place);
		event->queue.cgroup = place->cgroup;
		event->queue.cpu = cpu;
		event->queue.padding = 0;
		bpf_ringbuf_submit(event, NO_WAKEUP);
	}
	place->address = 0;
	return 0;
}

// Tells of the CPU's queues that are no longer throttled.
SUBPROGRAM int tell_queues(u32 cpu, u64 now)
{
	struct queues *queues_of_cpu = bpf_map_lookup_elem(&queues, &cpu);

	if (!queues_of_cpu)
		return 0;
	for (u32 index = 0; index < QUEUES_MAX; index++)
		if (queues_of_cpu->places[index].address)
			tell_queue(cpu, index, now);
	return 0;
}

// Forgets the CPU's queues whose end nobody saw, before its queues are put back: those that have ended afterwards ended
// there. When they did, and so their time, is not known.
SUBPROGRAM int forget_queues(u32 cpu)
{
	struct queues *queues_of_cpu = bpf_map_lookup_elem(&queues, &cpu);

	if (!queues_of_cpu)
		return 0;
	for (u32 index = 0; index < QUEUES_MAX; index++) {
		struct queue *place = &queues_of_cpu->places[index];

		if (!place->address || clock_of(place->address) == place->clock)
			continue;
		count(counts, COUNT_UNSEEN_ENDS);
		place->address = 0;
	}
	return 0;
}

// An address as a number, which the verifier takes for an argument of a subprogram.
INLINE u64 number_of(const void *address)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &address);
	return number;
}

INLINE u64 cgroup_of(struct task_group *group)
{
	struct cgroup *cgroup = group->css.cgroup;

	return cgroup ? cgroup->kn->id : 0;
}

// Takes a free place near the one that the task's number picks.
INLINE int follow(struct cpu *cpu, u64 task, u32 tid)
{
	for (u32 step = 0; step < FOLLOW_STEPS; step++) {
		struct followed *place = &cpu->followed[(tid + step) % FOLLOWED_MAX];

		if (!place->task || place->tid == tid) {
			place->task = task;
			place->tid = tid;
			return 1;
		}
	}
	return 0;
}

// Puts an episode into the table. A row that is there is of an episode whose end nobody saw, or of one that has ended.
INLINE int remember(struct throttled *entry, u32 tid)
{
	struct throttled *known = bpf_map_lookup_elem(&throttled, &tid);
	long error = 0;

	if (known && known->task) {
		count(counts, COUNT_UNSEEN_ENDS);
		*known = *entry;
		return 1;
	}
	if (known)
		*known = *entry;
	else
		error = bpf_map_update_elem(&throttled, &tid, entry, BPF_NOEXIST);
	if (error) {
		count(counts, error == TABLE_IS_FULL ? COUNT_LOST_TASKS : COUNT_REFUSED);
		return 0;
	}
	__sync_fetch_and_add(&throttled_now, 1);
	return 1;
}

INLINE void leave(struct task_struct *task, u32 number, u64 now)
{
	struct throttled entry = {};
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	u32 tid = task->pid;

	entry.task = (u64)task;
	entry.queue = throttled_queue(number_of(task));
	entry.episode.charged = entry.queue ? cgroup_of_queue(entry.queue) : 0;
	entry.episode.times.out = now;
	entry.episode.cgroup = cgroup_of(task->sched_task_group);
	entry.episode.tid = tid;
	entry.episode.pid = task->tgid;
	entry.episode.out_cpu = number;
	__builtin_memcpy(entry.episode.comm, task->comm, sizeof(entry.episode.comm));
	if (!remember(&entry, tid))
		return;
	if (!cpu || !follow(cpu, (u64)task, tid))
		count(counts, COUNT_NOT_FOLLOWED);
}

INLINE void tell_episode(struct throttled *entry, u64 now)
{
	struct event *event;

	count(counts, COUNT_EPISODES);
	// Before Linux 6.4 the verifier takes an event that is there for none at a second comparison.
	event = new_event(EVENT_EPISODE);
	if (!event)
		return;
	event->episode = entry->episode;
	event->episode.times.in = now;
	event->episode.in_cpu = bpf_get_smp_processor_id();
	bpf_ringbuf_submit(event, NO_WAKEUP);
}

INLINE void enter(struct task_struct *task, u64 now)
{
	u32 tid = task->pid;
	struct throttled *entry = bpf_map_lookup_elem(&throttled, &tid);

	// A row of another task is of one that had this number and died.
	if (!entry || entry->task != (u64)task)
		return;
	// Nobody saw the queue's return.
	if (!entry->episode.times.back)
		tell_queues(entry->episode.out_cpu, now);
	tell_episode(entry, now);
	entry->task = 0;
	bpf_map_delete_elem(&throttled, &tid);
	__sync_fetch_and_add(&throttled_now, -1);
}

// A task that goes to sleep in a throttled queue waits for no quota.
INLINE int is_asleep(struct task_struct *task, int is_preempted)
{
	struct task_struct___by_task *by_task = (void *)task;
	struct task_struct___state *state = (void *)task;

	return !field_exists(by_task->throttled) && !is_preempted && state->__state;
}

SEC("tp_btf/sched_switch")
int throttle_switch(u64 *ctx)
{
	struct task_struct *previous = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];

	if (throttled_now)
		enter(next, bpf_ktime_get_ns());
	// Idle tasks have no queue of a group.
	if (previous->pid && is_throttled(previous) && !is_asleep(previous, ctx[0] != 0))
		leave(previous, bpf_get_smp_processor_id(), bpf_ktime_get_ns());
	return 0;
}

// Before Linux 6.18 a task that wakes up in a throttled queue stands still at once.
INLINE int wake(struct task_struct *task)
{
	u32 tid = task->pid;
	struct throttled *known;

	if (!is_throttled(task))
		return 0;
	known = bpf_map_lookup_elem(&throttled, &tid);
	if (!known || known->task != (u64)task)
		leave(task, cpu_of_queue((u64)task->se.cfs_rq), bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int throttle_wakeup(u64 *ctx)
{
	return wake((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int throttle_new(u64 *ctx)
{
	return wake((struct task_struct *)ctx[0]);
}

INLINE void come_back(struct episode *episode, struct times *when)
{
	episode->times.due = when->due;
	episode->times.timer = when->timer;
	episode->times.queued = when->queued;
	episode->times.handler = when->handler;
	episode->times.back = when->back;
}

// The charged queue is no longer throttled and the task still is: another queue is charged from now on.
INLINE void hand_over(struct throttled *entry, struct times *when)
{
	struct times from_now = { .out = when->back };

	come_back(&entry->episode, when);
	tell_episode(entry, when->back);
	entry->episode.times = from_now;
	entry->queue = throttled_queue(entry->task);
	entry->episode.charged = entry->queue ? cgroup_of_queue(entry->queue) : 0;
}

// The way back of tasks that a CPU's timer, or its handler, has put back.
INLINE void way_back(struct cpu *cpu, u32 is_handler, struct times *when)
{
	struct work *timer = &cpu->timer_work, *handler = &cpu->handler_work;

	when->due = is_handler ? cpu->asked_due : timer->due;
	when->timer = is_handler ? cpu->asked_timer : timer->begins;
	when->queued = is_handler ? cpu->asked_at : 0;
	when->handler = is_handler ? handler->begins : 0;
	when->back = is_handler ? handler->ends : timer->ends;
}

// Notes whether a task that the CPU follows is back, and forgets it then. Returns 1 if so.
SUBPROGRAM int return_task(u32 number, u32 index, struct times *when)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct throttled *entry;
	struct followed *place;
	int is_back = 0;

	if (!cpu || !when || index >= FOLLOWED_MAX)
		return 0;
	place = &cpu->followed[index];
	entry = bpf_map_lookup_elem(&throttled, &place->tid);
	if (entry && entry->task == place->task && entry->episode.out_cpu == number) {
		if (is_still_throttled(place->task)) {
			if (entry->queue && !is_queue_throttled(entry->queue))
				hand_over(entry, when);
			return 0;
		}
		come_back(&entry->episode, when);
		is_back = 1;
	}
	// Else it ran again on another CPU, which follows it now.
	place->task = 0;
	return is_back;
}

// Notes which tasks of a CPU are back, and forgets them. Returns their number.
SUBPROGRAM int return_tasks(u32 number, u32 worker, u32 is_handler)
{
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);
	struct cpu *by = bpf_map_lookup_elem(&cpus, &worker);
	struct times when = {};
	int tasks = 0;

	if (!cpu || !by)
		return 0;
	way_back(by, is_handler, &when);
	for (u32 index = 0; index < FOLLOWED_MAX; index++)
		if (cpu->followed[index].task)
			tasks += return_task(number, index, &when);
	return tasks;
}

// Before Linux 6.4 a timer puts back the tasks of all CPUs.
SUBPROGRAM int return_all(u32 worker, u64 now)
{
	int tasks = 0;

	for (u32 number = 0; number < cpu_count; number++) {
		tell_queues(number, now);
		tasks += return_tasks(number, worker, 0);
	}
	return tasks;
}

INLINE void begin_work(struct work *work)
{
	struct task_struct *task = bpf_get_current_task_btf();

	work->begins = bpf_ktime_get_ns();
	work->cpu = bpf_get_smp_processor_id();
	work->queued = 0;
	work->tasks = 0;
	work->tid = task->pid;
	__builtin_memcpy(work->comm, task->comm, sizeof(work->comm));
}

INLINE void tell(u32 kind, struct work *work)
{
	struct event *event = new_event(kind);

	if (event) {
		event->work = *work;
		bpf_ringbuf_submit(event, NO_WAKEUP);
	}
}

SEC("tp_btf/hrtimer_expire_entry")
int throttle_timer_entry(u64 *ctx)
{
	struct hrtimer *timer = (struct hrtimer *)ctx[0];
	u64 function = (u64)timer->function;
	struct task_group___limited *group;
	struct cgroup *cgroup = 0;
	struct kernfs_node *node = 0;
	struct cpu *cpu;
	u64 address = number_of(timer);

	if (!function || (function != period_timer && function != slack_timer))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	// The timer lies in its group.
	if (function == slack_timer)
		address -= field_offset(struct task_group___limited, cfs_bandwidth.slack_timer);
	else
		address -= field_offset(struct task_group___limited, cfs_bandwidth.period_timer);
	group = (void *)address;
	if (unthrottle_handler)
		forget_queues(bpf_get_smp_processor_id());
	else
		for (u32 number = 0; number < cpu_count; number++)
			forget_queues(number);
	track_group(address);
	begin_work(&cpu->timer_work);
	cpu->timer = (u64)timer;
	cpu->timer_work.due = timer->node.expires;
	cpu->timer_work.is_slack = function == slack_timer;
	cpu->timer_work.cgroup = 0;
	bpf_probe_read_kernel(&cgroup, sizeof(cgroup), &group->css.cgroup);
	bpf_probe_read_kernel(&node, sizeof(node), &cgroup->kn);
	bpf_probe_read_kernel(&cpu->timer_work.cgroup, sizeof(u64), &node->id);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int throttle_timer_exit(u64 *ctx)
{
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = this_cpu();

	if (!cpu || !cpu->timer || cpu->timer != ctx[0])
		return 0;
	cpu->timer = 0;
	cpu->timer_work.ends = bpf_ktime_get_ns();
	if (unthrottle_handler) {
		tell_queues(number, cpu->timer_work.ends);
		cpu->timer_work.tasks = return_tasks(number, number, 0);
	} else {
		cpu->timer_work.tasks = return_all(number, cpu->timer_work.ends);
	}
	count(counts, COUNT_TIMERS);
	tell(EVENT_TIMER, &cpu->timer_work);
	return 0;
}

// Arguments: CPU, calling address, function, csd.
SEC("raw_tp/csd_queue_cpu")
int throttle_queue(u64 *ctx)
{
	u32 target = (u32)ctx[0];
	struct cpu *cpu, *other;

	if (!unthrottle_handler || ctx[2] != unthrottle_handler)
		return 0;
	cpu = this_cpu();
	other = bpf_map_lookup_elem(&cpus, &target);
	if (!cpu || !other)
		return 0;
	other->asked_at = bpf_ktime_get_ns();
	// Zero when a change of the quota asks, not a timer.
	other->asked_due = cpu->timer ? cpu->timer_work.due : 0;
	other->asked_timer = cpu->timer ? cpu->timer_work.begins : 0;
	other->asked_cgroup = cpu->timer ? cpu->timer_work.cgroup : 0;
	cpu->timer_work.queued++;
	return 0;
}

// Arguments: function, csd.
SEC("raw_tp/csd_function_entry")
int throttle_handler_entry(u64 *ctx)
{
	struct cpu *cpu;

	if (!unthrottle_handler || ctx[0] != unthrottle_handler)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	forget_queues(bpf_get_smp_processor_id());
	begin_work(&cpu->handler_work);
	cpu->handler_work.due = cpu->asked_at;
	cpu->handler_work.cgroup = cpu->asked_cgroup;
	return 0;
}

SEC("raw_tp/csd_function_exit")
int throttle_handler_exit(u64 *ctx)
{
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu;

	if (!unthrottle_handler || ctx[0] != unthrottle_handler)
		return 0;
	cpu = this_cpu();
	if (!cpu || !cpu->handler_work.begins)
		return 0;
	cpu->handler_work.ends = bpf_ktime_get_ns();
	tell_queues(number, cpu->handler_work.ends);
	cpu->handler_work.tasks = return_tasks(number, number, 1);
	count(counts, COUNT_HANDLERS);
	tell(EVENT_HANDLER, &cpu->handler_work);
	cpu->handler_work.begins = 0;
	return 0;
}

// The task that holds a mutex, or an rw_semaphore for writing; zero when the lock does not say.
INLINE u64 owner_of(u64 lock, u32 flags)
{
	struct mutex *mutex = (void *)lock;
	struct rw_semaphore *semaphore = (void *)lock;
	u64 owner = 0;

	if (flags & LCB_F_MUTEX)
		bpf_probe_read_kernel(&owner, sizeof(owner), &mutex->owner.counter);
	else if ((flags & (LCB_F_READ | LCB_F_WRITE)) && !(flags & (LCB_F_SPIN | LCB_F_RT | LCB_F_PERCPU)))
		bpf_probe_read_kernel(&owner, sizeof(owner), &semaphore->owner.counter);
	if (!(flags & LCB_F_MUTEX) && (owner & OWNER_READS))
		return 0;
	return owner & ~OWNER_FLAGS;
}

SEC("tp_btf/contention_begin")
int throttle_lock(u64 *ctx)
{
	struct task_struct *waiter, *owner;
	struct throttled *entry;
	struct event *event;
	u64 address;
	u32 tid = 0;

	if (!throttled_now)
		return 0;
	address = owner_of(ctx[0], (u32)ctx[1]);
	if (!address)
		return 0;
	owner = (void *)address;
	bpf_probe_read_kernel(&tid, sizeof(tid), &owner->pid);
	entry = bpf_map_lookup_elem(&throttled, &tid);
	if (!entry || entry->task != address)
		return 0;
	event = new_event(EVENT_LOCK);
	if (!event)
		return 0;
	waiter = bpf_get_current_task_btf();
	event->lock.at = bpf_ktime_get_ns();
	event->lock.lock = ctx[0];
	event->lock.cgroup = entry->episode.cgroup;
	event->lock.charged = entry->episode.charged;
	event->lock.flags = (u32)ctx[1];
	event->lock.waiter = waiter->pid;
	event->lock.holder = tid;
	event->lock.padding = 0;
	__builtin_memcpy(event->lock.comm, waiter->comm, sizeof(event->lock.comm));
	bpf_ringbuf_submit(event, NO_WAKEUP);
	return 0;
}
