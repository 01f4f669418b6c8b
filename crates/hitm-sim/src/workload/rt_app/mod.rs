//! rt-app's JSON: a workload that scheduler developers already have, as plain data.
//!
//! Source: doc/tutorial.txt of rt-app (scheduler-tools/rt-app), all objects, properties and event
//! types that it names, with the freedoms that its `workgen` grants. These are comments, keys that
//! repeat, commas that are missing. A number behind a key makes it unique and means nothing: `run0`
//! is `run`.
//!
//! Invariants of an [`RtApp`] that was read: every forked task exists. No task has more than [`EVENTS_MAX`] events; priorities lie in their policy's range.
//!
//! Not modelled: utilisation clamps (`util_min`, `util_max`), memory binding (`nodes_membind`), access patterns (`memrun`), writing
//! to a device other than /dev/null (`iorun`), a slice of its own for a task of another policy than
//! `SCHED_DEADLINE` (`dl-runtime`), reclaiming (`dl-reclaim`). Nor is a phase that changes CPUs or task
//! group, or enters or leaves `SCHED_DEADLINE`. Each is an error that says so rather than a result that ignores it.
//! Keys that only say where rt-app logs or how it calibrates have no effect, and are listed
//! ([`RtApp::inert`]).

mod error;
mod events;
mod figures;
mod groups;
mod json;
mod read;
mod run;
mod scheduling;
mod spec;
mod sync;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use error::{Fault, RtAppError};
use figures::FIGURES;
pub use groups::GroupPaths;
pub use run::{Running, TaskResult};
pub(super) use spec::KIND;
pub use spec::RtAppFile;

/// Longest file, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Threads that all tasks of a file may make together.
pub const THREADS_MAX: u32 = 1 << 20;
/// Events of one file.
pub const EVENTS_MAX: usize = 1 << 20;
/// Longest time that a file may state: 10 days, far beyond any simulation.
pub const DURATION_MAX: Duration = Duration::from_secs(864_000);

/// One rt-app file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtApp {
    /// Properties of all tasks.
    pub global: Global,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Task>,
    /// Keys that the file has and that change nothing here, in its order: `global.logdir`.
    pub inert: Vec<String>,
}

/// The `global` object, as far as it changes what happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// After this time all threads are ended; none: when they have ended by themselves.
    pub duration: Option<Duration>,
    /// The policy of tasks that state none.
    pub default_policy: Policy,
    /// Mutexes have priority inheritance.
    pub pi_enabled: bool,
    /// Bytes of each thread's buffer that `mem` writes to and `iorun` writes out.
    pub mem_buffer_size_bytes: u64,
}

hitm_base::words! {
    /// A scheduling policy that is modelled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Policy {
        /// `SCHED_OTHER`
        Other = "SCHED_OTHER",
        /// `SCHED_BATCH`
        Batch = "SCHED_BATCH",
        /// `SCHED_IDLE`
        Idle = "SCHED_IDLE",
        /// `SCHED_FIFO`
        Fifo = "SCHED_FIFO",
        /// `SCHED_RR`
        Rr = "SCHED_RR",
        /// `SCHED_DEADLINE`
        Deadline = "SCHED_DEADLINE",
    }
}

impl Default for Global {
    fn default() -> Global {
        Global {
            duration: None,
            default_policy: Policy::Other,
            pi_enabled: false,
            mem_buffer_size_bytes: 4 << 20,
        }
    }
}

/// Scheduling that a task or a phase wants; what it leaves out stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedParams {
    /// `policy`
    pub policy: Option<Policy>,
    /// `priority`: 1 to 99 for the real-time policies, a nice value for the others.
    pub priority: Option<i32>,
    /// `cpus`: where it may run, ascending.
    pub cpus: Option<Vec<u32>>,
    /// `taskgroup`: the path of its cgroup; empty for the root.
    pub taskgroup: Option<String>,
    /// `dl-runtime`, `dl-deadline` and `dl-period` of `SCHED_DEADLINE`.
    pub deadline: Option<DeadlineTimes>,
}

/// Runtime of a task of `SCHED_DEADLINE` in each period, which it is to have until the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineTimes {
    /// `dl-runtime`
    pub runtime: Duration,
    /// `dl-deadline`; the period where a file states none.
    pub deadline: Duration,
    /// `dl-period`; the runtime where a file states none.
    pub period: Duration,
}

/// Number of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loops {
    /// Until the duration of the whole is over.
    Forever,
    /// This many times.
    Times(u64),
}

/// One object of `tasks`: a kind of thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its key.
    pub name: String,
    /// Threads made at the start. 0: only `fork` makes one.
    pub instances: u32,
    /// From the start to its first event.
    pub delay: Duration,
    /// Number of runs of all its phases.
    pub loops: Loops,
    /// Scheduling that it wants when it starts.
    pub sched: SchedParams,
    /// Its phases, in order.
    pub phases: Vec<Phase>,
}

/// One phase of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its key; the task's name when the events stand in the task itself.
    pub name: String,
    /// Number of its runs before the next one.
    pub loops: Loops,
    /// Scheduling that it wants when it begins.
    pub sched: SchedParams,
    /// Its events, in order.
    pub events: Vec<Event>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `run`: work that takes this long on a CPU of full capacity that nothing slows down.
    Run(Duration),
    /// `runtime`: busy until the thread has had this much CPU time.
    Runtime(Duration),
    /// `sleep`
    Sleep(Duration),
    /// `timer`: sleep until a period has passed since the timer's last use.
    Timer(Timer),
    /// `mem`: write this many bytes to the thread's buffer.
    Mem(u64),
    /// `iorun`: write this many bytes of the thread's buffer to /dev/null.
    Io(u64),
    /// `lock` of the named mutex.
    Lock(String),
    /// `unlock` of the named mutex.
    Unlock(String),
    /// `wait` on a condition.
    Wait(Condition),
    /// `signal` to one waiter of the named condition.
    Signal(String),
    /// `broad`: signal to all waiters of the named condition.
    Broadcast(String),
    /// `sync`: lock, signal, wait, unlock.
    Sync(Condition),
    /// `barrier`: wait until all of its users have come. A user is one event in one thread.
    Barrier(String),
    /// `suspend` until another thread resumes this one.
    Suspend,
    /// `resume` the suspended threads of the named task. None are where no task has the name.
    Resume(String),
    /// `sem_wait` until the count of the named semaphore is above 0, and take one from it.
    SemWait(String),
    /// `sem_post`: add one to the count of the named semaphore, which begins at 0.
    SemPost(String),
    /// `yield`
    Yield,
    /// `fork` one thread of the named task.
    Fork(String),
}

/// A condition variable and the mutex that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `ref`: the condition.
    pub name: String,
    /// `mutex`
    pub mutex: String,
}

/// A periodic timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// `ref`; one that begins with `unique` is each thread's own.
    pub name: String,
    /// `period`
    pub period: Duration,
    /// Handling of a missed period.
    pub mode: TimerMode,
}

impl Timer {
    /// Returns true if each thread has its own, rather than all threads one together.
    pub fn is_unique(&self) -> bool {
        self.name.starts_with("unique")
    }
}

/// Handling of a timer whose time has passed already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerMode {
    /// Start again from now.
    Relative,
    /// Keep to the multiples of the period since its first use.
    Absolute,
}

impl RtApp {
    /// Reads a file; `origin` is its name in errors.
    ///
    /// # Errors
    /// Text that is no JSON, keys and values that rt-app does not know, and what is not modelled.
    /// Names of tasks, resources and mutexes that lead nowhere. All with line, column and key.
    pub fn parse(text: &str, origin: &str) -> Result<RtApp, RtAppError> {
        read::parse(text, origin)
    }
}
