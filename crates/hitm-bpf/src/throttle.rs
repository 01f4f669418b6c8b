//! Throttling: the times of each task from leaving its CPU to running again, and the work of the
//! timers that refill quota.

#[cfg(test)]
mod tests;

use aya::maps::{HashMap, MapData, RingBuf};

use crate::object::{Hook, Object, image};
use crate::symbols::QuotaFunctions;
use crate::{Error, comm, halves, words};

/// Minimum of CPUs that the tables have room for: a kernel numbers them from zero.
const CPUS_MAX: u32 = 8192;
/// Words of a throttled task: the episode, the task and the queue that is charged.
const THROTTLED_WORDS: usize = EPISODE_WORDS + 2;
/// Words of an episode.
const EPISODE_WORDS: usize = 13;

/// One time that a task was throttled. Times are CLOCK_MONOTONIC in nanoseconds; zero for a step
/// that did not happen or was not observed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Episode {
    /// The task left its CPU because its group was throttled.
    pub out_ns: u64,
    /// Time for which the group's timer was set.
    pub due_ns: u64,
    /// The timer's function started.
    pub timer_ns: u64,
    /// The timer's walk asked the task's CPU to unthrottle. Zero when the walk ran on that CPU.
    pub queued_ns: u64,
    /// The task's CPU started to unthrottle.
    pub handler_ns: u64,
    /// The task was no longer throttled.
    pub back_ns: u64,
    /// The task ran again. Zero while it does not yet.
    pub in_ns: u64,
    /// The inode number of its cgroup's folder; zero for a group without one.
    pub cgroup: u64,
    /// The same of the group whose queue was throttled: its own, or one above. Zero when none was
    /// seen.
    pub charged: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// The CPU that it left.
    pub out_cpu: u32,
    /// The CPU that it runs on again.
    pub in_cpu: u32,
}

/// A timer's walk over throttled queues, or the work of a CPU that a walk asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Work {
    /// A timer: the moment it was set for. A CPU: the moment it was asked.
    pub due_ns: u64,
    /// Its begin, with interrupts off.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The inode number of the folder of the timer's group.
    pub cgroup: u64,
    /// The CPU that did it.
    pub cpu: u32,
    /// True for the slack timer, which gives back quota that other CPUs did not use.
    pub is_slack: bool,
    /// CPUs that the walk asked to unthrottle.
    pub queued: u32,
    /// Tasks of this CPU that it put back.
    pub tasks: u32,
    /// The task that was interrupted.
    pub tid: u32,
    /// Its name.
    pub comm: String,
}

/// A throttling of a group's queue on one CPU that has ended. The kernel counts it in cpu.stat at
/// its end, with all of its time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueTime {
    /// The queue was no longer throttled.
    pub end_ns: u64,
    /// Time for which it was throttled and had tasks, by the queue's own clock.
    pub throttled_ns: u64,
    /// The inode number of the group's folder.
    pub cgroup: u64,
    /// The CPU.
    pub cpu: u32,
}

/// A task that waits for a kernel lock whose holder is throttled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockWaiter {
    /// The begin of its wait.
    pub at_ns: u64,
    /// The lock's address.
    pub lock: u64,
    /// The holder's cgroup.
    pub cgroup: u64,
    /// The group whose queue is throttled; zero when none was seen.
    pub charged: u64,
    /// LCB_F_* of the kernel's tracepoint.
    pub flags: u32,
    /// The waiting thread.
    pub waiter: u32,
    /// The throttled thread that holds the lock.
    pub holder: u32,
    /// The waiter's name.
    pub comm: String,
}

/// One event of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThrottleEvent {
    /// A task was throttled and runs again.
    Episode(Episode),
    /// A period timer or a slack timer did its work.
    Timer(Work),
    /// A CPU unthrottled its own queues because a timer asked for it.
    Handler(Work),
    /// A task waits for a throttled one.
    Lock(LockWaiter),
    /// A queue was throttled and is no longer.
    Queue(QueueTime),
}

/// Totals of the programs, and events that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleCounts {
    /// Episodes that ended.
    pub episodes: u64,
    /// Timers' walks.
    pub timers: u64,
    /// CPUs that unthrottled at a walk's request.
    pub handlers: u64,
    /// Events that are missing because the reader fell behind by more than 4 MiB.
    pub lost_events: u64,
    /// Episodes that are missing because 16,384 tasks were throttled already.
    pub lost_tasks: u64,
    /// Episodes without the time of unthrottling, because 64 tasks of their CPU were throttled
    /// already.
    pub not_followed: u64,
    /// Episodes and queues' times that are missing because their end was not seen.
    pub unseen_ends: u64,
    /// Episodes that are missing because the kernel refused a row of the table, which had room.
    pub refused: u64,
}

/// Programs that observe throttling until this is dropped.
pub struct Throttling {
    object: Object,
    events: RingBuf<MapData>,
    is_asynchronous: bool,
}

impl std::fmt::Debug for Throttling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Throttling").finish_non_exhaustive()
    }
}

impl Throttling {
    /// Starts to observe every group.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here, or the kernel has no groups with quota.
    pub fn attach() -> Result<Throttling, Error> {
        let functions = QuotaFunctions::find()?;
        if functions.period_timer == 0 {
            let reason =
                "no sched_cfs_period_timer: the kernel has no quotas (CONFIG_CFS_BANDWIDTH)";
            return Err(Error::Symbols(reason.to_owned()));
        }
        let mut constants = functions.constants().to_vec();
        constants.push(("cpu_count", cpus().to_ne_bytes().to_vec()));
        let mut object = Object::open(image::THROTTLE, &constants)?;
        let is_asynchronous = functions.unthrottle_handler != 0;
        attach(&mut object, is_asynchronous)?;
        // Before Linux 6.18 a task that wakes up in a throttled queue never gets a CPU.
        if functions.throttle_work == 0 {
            object.attach("throttle_wakeup", Hook::Typed("sched_wakeup"))?;
            object.attach("throttle_new", Hook::Typed("sched_wakeup_new"))?;
        }
        let events = RingBuf::try_from(object.take_map("events")?)?;
        Ok(Throttling {
            object,
            events,
            is_asynchronous,
        })
    }

    /// True when this kernel's timers ask other CPUs to unthrottle (Linux 6.4 and later); false
    /// when they walk over all CPUs' queues themselves.
    pub fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// Passes the events since the last call to `take`. Must be called some ten times a second.
    pub fn drain(&mut self, mut take: impl FnMut(ThrottleEvent)) {
        while let Some(bytes) = self.events.next() {
            let words: Vec<u64> = words(&bytes).collect();
            if let Some(event) = decode(&words) {
                take(event);
            }
        }
    }

    /// Returns the episodes of tasks that do not run again yet.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Episode>, Error> {
        let map: HashMap<_, u32, [u64; THROTTLED_WORDS]> =
            HashMap::try_from(self.object.map("throttled")?)?;
        let mut unfinished = Vec::new();
        for row in map.iter() {
            let (_, [words @ .., task, _queue]) = row?;
            if task != 0 {
                unfinished.push(episode(&words));
            }
        }
        unfinished.sort();
        Ok(unfinished)
    }

    /// Returns the programs' totals.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn counts(&self) -> Result<ThrottleCounts, Error> {
        let counts: [u64; 8] = self.object.counts()?;
        Ok(ThrottleCounts {
            episodes: counts[0],
            timers: counts[1],
            handlers: counts[2],
            lost_events: counts[3],
            lost_tasks: counts[4],
            not_followed: counts[5],
            unseen_ends: counts[6],
            refused: counts[7],
        })
    }
}

/// Attaches each end before its beginning, so that no beginning lacks its end.
fn attach(object: &mut Object, is_asynchronous: bool) -> Result<(), Error> {
    if is_asynchronous {
        object.attach("throttle_handler_exit", Hook::Raw("csd_function_exit"))?;
        object.attach("throttle_handler_entry", Hook::Raw("csd_function_entry"))?;
        object.attach("throttle_queue", Hook::Raw("csd_queue_cpu"))?;
    }
    object.attach("throttle_timer_exit", Hook::Typed("hrtimer_expire_exit"))?;
    object.attach("throttle_timer_entry", Hook::Typed("hrtimer_expire_entry"))?;
    object.attach("throttle_lock", Hook::Typed("contention_begin"))?;
    object.attach("throttle_switch", Hook::Typed("sched_switch"))
}

/// Number of CPUs that this kernel may ever have.
pub(crate) fn cpus() -> u32 {
    let count = aya::util::nr_cpus().unwrap_or(CPUS_MAX as usize);
    u32::try_from(count).map_or(CPUS_MAX, |count| count.min(CPUS_MAX))
}

/// Decodes `struct event` of throttle.bpf.c.
fn decode(words: &[u64]) -> Option<ThrottleEvent> {
    let (kind, rest) = words.split_first()?;
    match halves(*kind).0 {
        0 => Some(ThrottleEvent::Episode(episode(rest.first_chunk()?))),
        1 => Some(ThrottleEvent::Timer(work(rest.first_chunk()?))),
        2 => Some(ThrottleEvent::Handler(work(rest.first_chunk()?))),
        3 => Some(ThrottleEvent::Lock(lock(rest.first_chunk()?))),
        4 => Some(ThrottleEvent::Queue(queue(rest.first_chunk()?))),
        _ => None,
    }
}

fn episode(words: &[u64; EPISODE_WORDS]) -> Episode {
    let (tid, pid) = halves(words[9]);
    let (out_cpu, in_cpu) = halves(words[12]);
    Episode {
        out_ns: words[0],
        due_ns: words[1],
        timer_ns: words[2],
        queued_ns: words[3],
        handler_ns: words[4],
        back_ns: words[5],
        in_ns: words[6],
        cgroup: words[7],
        charged: words[8],
        tid,
        pid,
        comm: comm([words[10], words[11]]),
        out_cpu,
        in_cpu,
    }
}

fn work(words: &[u64; 9]) -> Work {
    let (cpu, is_slack) = halves(words[4]);
    let (queued, tasks) = halves(words[5]);
    Work {
        due_ns: words[0],
        begin_ns: words[1],
        end_ns: words[2],
        cgroup: words[3],
        cpu,
        is_slack: is_slack != 0,
        queued,
        tasks,
        tid: halves(words[6]).0,
        comm: comm([words[7], words[8]]),
    }
}

fn queue(words: &[u64; 4]) -> QueueTime {
    QueueTime {
        end_ns: words[0],
        throttled_ns: words[1],
        cgroup: words[2],
        cpu: halves(words[3]).0,
    }
}

fn lock(words: &[u64; 8]) -> LockWaiter {
    let [at_ns, lock, cgroup, charged, who, holder, name @ ..] = *words;
    let (flags, waiter) = halves(who);
    LockWaiter {
        at_ns,
        lock,
        cgroup,
        charged,
        flags,
        waiter,
        holder: halves(holder).0,
        comm: comm(name),
    }
}
