//! Work of a group's tasks as it comes: each time from waking up to the next sleep.

use aya::maps::{HashMap, MapData, RingBuf};

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, halves, words};

/// A time that a task did not sleep. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// The task was woken.
    pub woken_ns: u64,
    /// It went to sleep.
    pub slept_ns: u64,
    /// The CPU time that it had between.
    pub ran_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The CPU on which it went to sleep.
    pub cpu: u32,
}

/// A task that does not sleep: since when, and its CPU time at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awake {
    /// The thread.
    pub tid: u32,
    /// The moment.
    pub since_ns: u64,
    /// Its CPU time before.
    pub ran_ns: u64,
}

/// Programs that observe a group's work until this is dropped.
pub struct Arrivals {
    object: Object,
    events: RingBuf<MapData>,
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl Arrivals {
    /// Starts to observe a cgroup and those below it. `awake` are its tasks that do not sleep.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(cgroup: u64, awake: &[Awake]) -> Result<Arrivals, Error> {
        let filter = Filter::Cgroup(cgroup);
        let mut object = Object::open_filtered(image::ARRIVALS, &filter, &[])?;
        let mut tasks: HashMap<_, u32, [u64; 2]> = HashMap::try_from(object.map_mut("tasks")?)?;
        for task in awake {
            tasks.insert(task.tid, [task.since_ns, task.ran_ns], 0)?;
        }
        object.attach("arrivals_switch", Hook::Typed("sched_switch"))?;
        object.attach("arrivals_new", Hook::Typed("sched_wakeup_new"))?;
        object.attach("arrivals_wakeup", Hook::Typed("sched_wakeup"))?;
        let events = RingBuf::try_from(object.take_map("events")?)?;
        Ok(Arrivals { object, events })
    }

    /// Passes the jobs since the last call to `take`. Must be called some ten times a second.
    pub fn drain(&mut self, mut take: impl FnMut(Job)) {
        while let Some(bytes) = self.events.next() {
            let mut words = words(&bytes);
            let mut next = || words.next().unwrap_or_default();
            let [woken_ns, slept_ns, ran_ns, thread] = [next(), next(), next(), next()];
            let (tid, cpu) = halves(thread);
            take(Job {
                woken_ns,
                slept_ns,
                ran_ns,
                tid,
                cpu,
            });
        }
    }

    /// Returns the tasks that do not sleep, in the order of their numbers.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn awake(&self) -> Result<Vec<Awake>, Error> {
        let map: HashMap<_, u32, [u64; 2]> = HashMap::try_from(self.object.map("tasks")?)?;
        let mut awake = Vec::new();
        for row in map.iter() {
            let (tid, [since_ns, ran_ns]) = row?;
            awake.push(Awake {
                tid,
                since_ns,
                ran_ns,
            });
        }
        awake.sort_by_key(|task| task.tid);
        Ok(awake)
    }

    /// Returns the number of jobs that are missing.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn lost(&self) -> Result<u64, Error> {
        let [_jobs, lost_events, lost_tasks] = self.object.counts()?;
        Ok(lost_events + lost_tasks)
    }
}
