//! Accesses of running threads at native speed: clocks with registers, and debug registers.
//!
//! A sample of a thread's clock has all general registers, from which the accesses at its
//! instruction have their addresses. A watch tells who touches a word, from which instruction. Both
//! need no counters of the hardware and no rights beyond those over the threads, and the program is
//! neither stopped nor changed. Events end with their descriptors, so with this process.
//!
//! Prior work: Featherlight (Chabbi et al., PPoPP 2018) and ComDetective (Sasongko et al., SC 2019)
//! watch what samples of counters found.

mod calibration;
mod clocks;
mod counters;
mod event;
mod record;
pub(crate) mod registers;
mod watches;
mod words;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

pub use calibration::{Calibrated, Calibration, Stand};
pub use counters::CountedAccess;
pub use registers::Registers;
pub use words::{WatchedWord, WordEvent, WordWatches};

use self::clocks::Clocks;
use self::counters::Counters;
use self::event::{Sight, Whom};
use self::watches::{Bearer, OpenWatches};
use crate::procfs;

/// CPUs have the clocks where there are up to this many for each thread. Assumed, 1 to 16: each clock costs its CPU
/// some 5 us a tick, whoever runs there.
const CPUS_A_THREAD: usize = 4;
/// Callers of a sample.
const CALLERS_MAX: u16 = 16;
/// Words of eight bytes that a CPU's debug registers watch at a time.
pub const WATCHES_MAX: usize = 4;
/// Bytes of a watched word.
pub const WORD_BYTES: u64 = 8;

/// A thread seen at an instruction: by its clock, or because it touched a watched word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Number of the event; of no meaning elsewhere.
    pub event: u64,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its CPU.
    pub cpu: u32,
    /// Nanoseconds of the kernel's clock.
    pub time_ns: u64,
    /// The instruction that it goes on with.
    pub code: u64,
    /// Return addresses, innermost first.
    pub callers: Vec<u64>,
    /// Its registers; none in programs of 32 bits.
    pub registers: Option<Registers>,
}

/// Accesses that a watch stops at. The debug registers of x86-64 know no reads alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedAccess {
    /// Writes.
    Write,
    /// Reads and writes.
    Any,
}

/// A word to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Its offset in the line, a multiple of [`WORD_BYTES`].
    pub offset: u64,
    /// Accesses that count.
    pub access: WatchedAccess,
}

/// A thread that is watched, and where its process has the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedThread {
    /// The thread.
    pub tid: u32,
    /// Address of the line's first byte.
    pub line: u64,
}

/// An access to a watched word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Number of its watch.
    pub watch: usize,
    /// The thread, behind the access.
    pub seen: Seen,
}

/// Result of a turn of watches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watched {
    /// Hits by time.
    pub hits: Vec<Hit>,
    /// Time at which watches began to count, on the clock of their hits.
    pub begun_ns: u64,
    /// Time from which on all of them did.
    pub armed_ns: u64,
    /// Those of threads.
    pub armed: Vec<ArmedWatch>,
    /// Time until which those did that had not ended by themselves.
    pub ended_ns: u64,
    /// Threads whose watches could not be set.
    pub refused_count: u64,
}

/// A watch of a thread, and the time for which it counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmedWatch {
    /// Its number among the watched words.
    pub watch: usize,
    /// The thread.
    pub tid: u32,
    /// Time at which it began to count, on the clock of hits.
    pub since_ns: u64,
    /// Time for which it counted while the thread ran.
    pub counted_ns: u64,
}

/// A thread that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledThread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
}

/// Bounds of one turn of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchLimits {
    /// Its length, if there are fewer hits.
    pub time: Duration,
    /// Hits of all watches, some, after which it ends before if they are of several threads.
    pub hits_enough: usize,
    /// Hits of one watch of one thread.
    pub hits_max: u32,
}

/// Code that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The programs of the processes.
    Programs,
    /// These, and the kernel when it works for them.
    WithKernel,
    /// The kernel, whoever it works for.
    WholeKernel,
}

impl Extent {
    /// Returns true if the kernel is looked at, which takes `CAP_PERFMON` and clocks of all CPUs.
    pub const fn has_kernel(self) -> bool {
        matches!(self, Extent::WithKernel | Extent::WholeKernel)
    }
}

/// Returns true if an address is the kernel's.
pub const fn is_kernels(address: u64) -> bool {
    address >> 63 == 1
}

/// Threads and code that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Processes.
    pub processes: Vec<u32>,
    /// Their threads that are looked at; all where there are none.
    pub only: Vec<u32>,
    /// Code.
    pub extent: Extent,
    /// CPUs of this host.
    pub cpus: Vec<u32>,
}

impl Scope {
    /// Threads that are looked at.
    fn thread_count(&self) -> usize {
        match self.only.len() {
            0 => {
                let threads = self.processes.iter().map(|pid| procfs::threads(*pid));
                threads.flatten().map(|threads| threads.len()).sum()
            }
            count => count,
        }
    }
}

/// Clocks of some processes, and of the kernel.
#[derive(Debug)]
pub struct LineSampler {
    processes: BTreeSet<u32>,
    only: Vec<u32>,
    extent: Extent,
    clocks: Clocks,
    counters: Counters,
}

impl LineSampler {
    /// Opens clocks of `frequency` samples in a second of CPU time: of the CPUs where the kernel allows it and
    /// where they are not many more than threads, of all threads elsewhere.
    ///
    /// # Errors
    /// The kernel allows none of them.
    pub fn open(scope: Scope, frequency: u32) -> io::Result<LineSampler> {
        let period_ns = 1_000_000_000 / u64::from(frequency.max(1));
        let extent = scope.extent;
        let by_cpu =
            extent.has_kernel() || scope.cpus.len() <= CPUS_A_THREAD * scope.thread_count();
        let clocks = match by_cpu {
            true => Clocks::of_cpus(&scope.cpus, extent, period_ns),
            false => Ok(Clocks::of_threads(period_ns)),
        };
        let clocks = match clocks {
            Err(_) if !extent.has_kernel() => Clocks::of_threads(period_ns),
            clocks => clocks?,
        };
        let counters = match extent == Extent::Programs && !clocks.are_of_threads() {
            true => Counters::of_cpus(&scope.cpus),
            false => Counters::default(),
        };
        let mut sampler = LineSampler {
            processes: scope.processes.into_iter().collect(),
            only: scope.only,
            extent,
            clocks,
            counters,
        };
        let failure = sampler.follow();
        match (sampler.is_alive(), failure) {
            (false, Some(error)) => Err(error),
            _ => Ok(sampler),
        }
    }

    /// Nanoseconds of CPU time between samples of a thread.
    pub fn period_ns(&self) -> u64 {
        self.clocks.period_ns()
    }

    /// Processes that are followed.
    pub fn processes(&self) -> Vec<u32> {
        self.processes.iter().copied().collect()
    }

    /// Threads that are followed.
    pub fn threads(&self) -> impl Iterator<Item = SampledThread> + '_ {
        self.clocks.threads()
    }

    /// Records that found no room in a ring.
    pub fn lost_count(&self) -> u64 {
        self.clocks.lost_count
    }

    /// Threads without a clock: beyond the limit, or beyond the memory that the kernel allows for rings.
    pub fn left_out_count(&self) -> u64 {
        self.clocks.left_out_count
    }

    /// Adds processes to those that are followed.
    pub fn add_processes(&mut self, processes: Vec<u32>) {
        self.processes.extend(processes);
    }

    /// Follows threads that are not yet, and leaves those that have ended. Returns the first failure; the others are
    /// followed.
    pub fn follow(&mut self) -> Option<io::Error> {
        let processes = self.processes();
        self.clocks.follow(&processes, &self.only)
    }

    /// Returns true while one of the threads lives; the whole kernel always does.
    pub fn is_alive(&self) -> bool {
        self.extent == Extent::WholeKernel || self.threads().next().is_some()
    }

    /// Lets the clocks tick, or stops them: those of threads cost something at each switch.
    pub fn tick(&mut self, ticks: bool) {
        self.clocks.tick(ticks);
        self.counters.tick(ticks);
    }

    /// Returns true where threads have a clock each, because CPUs may not.
    pub fn is_by_thread(&self) -> bool {
        self.clocks.are_of_threads()
    }

    /// Passes what clocks have seen to `sink`.
    pub fn samples(&mut self, mut sink: impl FnMut(Seen)) {
        let LineSampler {
            processes,
            only,
            extent,
            clocks,
            ..
        } = self;
        clocks.drain(|drained| {
            let is_chosen = only.is_empty() || only.contains(&drained.seen.tid);
            let is_ours = *extent == Extent::WholeKernel
                || is_chosen && processes.contains(&drained.seen.pid);
            if drained.is_of_clock && is_ours {
                sink(drained.seen);
            }
        });
    }

    /// Name of the counter that tells addresses, if this host has one and allows it.
    pub fn counter(&self) -> Option<&str> {
        self.counters.name.as_deref()
    }

    /// Passes accesses that a counter has seen to `sink`.
    pub fn counted(&mut self, mut sink: impl FnMut(CountedAccess)) {
        let LineSampler {
            processes,
            only,
            counters,
            ..
        } = self;
        counters.drain(|access| {
            let is_chosen = only.is_empty() || only.contains(&access.tid);
            if is_chosen && processes.contains(&access.pid) {
                sink(access);
            }
        });
    }

    /// Watches words of a line on the threads `on`, until `time` is over. Each watch of a thread ends after
    /// `hits_max` hits. What clocks see meanwhile is dropped, if they tick.
    pub fn watch(
        &mut self,
        watches: &[Watch],
        on: &[WatchedThread],
        limits: WatchLimits,
    ) -> Watched {
        let mut open = OpenWatches::default();
        for WatchedThread { tid, line } in on {
            if self.clocks.has_thread(*tid) {
                let bearer = Bearer {
                    whom: Whom::Thread(*tid),
                    sight: Sight::Programs,
                    ring: self.clocks.ring(*tid),
                };
                open.set(bearer, *line, watches);
            }
        }
        self.turn(open, limits)
    }

    /// Watches words of a line of the kernel on all CPUs, whoever the kernel works for.
    pub fn watch_kernel(&mut self, watches: &[Watch], line: u64, limits: WatchLimits) -> Watched {
        let mut open = OpenWatches::default();
        for (cpu, ring) in self.clocks.cpus() {
            let bearer = Bearer {
                whom: Whom::Cpu(cpu),
                sight: Sight::Kernel,
                ring: Some(ring),
            };
            open.set(bearer, line, watches);
        }
        self.turn(open, limits)
    }

    fn turn(&mut self, mut open: OpenWatches, limits: WatchLimits) -> Watched {
        let clocks = &self.clocks;
        let mut watched = open.run(limits, || clocks.pending());
        let mut hits = Vec::new();
        self.clocks
            .drain(|drained| hits.extend(open.hit(drained.seen)));
        let mut others = Vec::new();
        let lost = open.drain(|seen| others.push(seen));
        self.clocks.lost_count = self.clocks.lost_count.saturating_add(lost);
        hits.extend(others.into_iter().filter_map(|seen| open.hit(seen)));
        hits.sort_by_key(|hit| hit.seen.time_ns);
        watched.hits = hits;
        watched
    }
}

#[cfg(test)]
mod tests;
