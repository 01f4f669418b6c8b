//! Clocks of threads, or of CPUs where the kernel allows it.
//!
//! A thread's clock is set up and taken down at each switch of threads, which is dear for those that switch all the
//! time. A CPU's clock stays.

use std::collections::BTreeMap;
use std::io;

use super::event::{self, Sight, Whom};
use super::watches::Pending;
use super::{Extent, SampledThread, Seen, record};
use crate::procfs;
use crate::sampler::ring::Ring;

/// Bytes of a thread's ring: what 20 ms have at 4,999 Hz.
const RING_BYTES: usize = 32 << 10;
/// Bytes of a CPU's ring: the same at 20 kHz, with callers.
const CPU_RING_BYTES: usize = 128 << 10;
/// Limit on threads that have a clock each.
const THREADS_MAX: usize = 4096;

/// A clock and its ring.
#[derive(Debug)]
struct Clock {
    id: u64,
    ring: Ring,
}

impl Clock {
    fn open(whom: Whom, sight: Sight, period_ns: u64, ring_bytes: usize) -> io::Result<Clock> {
        let file = sight.clock(whom, period_ns)?;
        Ok(Clock {
            id: event::id_of(&file)?,
            ring: Ring::of(file, ring_bytes)?,
        })
    }
}

/// A thread that is followed.
#[derive(Debug)]
struct Thread {
    pid: u32,
    /// None where CPUs have the clocks.
    clock: Option<Clock>,
}

/// Clocks that tick.
#[derive(Debug)]
pub(super) struct Clocks {
    sight: Sight,
    period_ns: u64,
    threads: BTreeMap<u32, Thread>,
    cpus: BTreeMap<u32, Clock>,
    is_ticking: bool,
    bytes: Vec<u8>,
    /// Records that found no room in a ring.
    pub(super) lost_count: u64,
    /// Threads without a clock.
    pub(super) left_out_count: u64,
}

/// Records read from the rings.
pub(super) struct Drained {
    /// True if a clock made it.
    pub(super) is_of_clock: bool,
    pub(super) seen: Seen,
}

impl Clocks {
    /// Clocks of all CPUs, which see all threads.
    pub(super) fn of_cpus(cpus: &[u32], extent: Extent, period_ns: u64) -> io::Result<Clocks> {
        let sight = match extent {
            Extent::Programs => Sight::Programs,
            Extent::WithKernel => Sight::Both,
            Extent::WholeKernel => Sight::Kernel,
        };
        let mut clocks = Clocks::empty(sight, period_ns);
        for cpu in cpus {
            let clock = Clock::open(Whom::Cpu(*cpu), sight, period_ns, CPU_RING_BYTES)?;
            clocks.cpus.insert(*cpu, clock);
        }
        Ok(clocks)
    }

    /// Clocks of threads; [`Clocks::follow`] opens them.
    pub(super) fn of_threads(period_ns: u64) -> Clocks {
        Clocks::empty(Sight::Programs, period_ns)
    }

    fn empty(sight: Sight, period_ns: u64) -> Clocks {
        Clocks {
            sight,
            period_ns,
            threads: BTreeMap::new(),
            cpus: BTreeMap::new(),
            is_ticking: false,
            bytes: Vec::new(),
            lost_count: 0,
            left_out_count: 0,
        }
    }

    pub(super) fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Threads that are followed.
    pub(super) fn threads(&self) -> impl Iterator<Item = SampledThread> + '_ {
        let threads = self.threads.iter();
        threads.map(|(tid, thread)| SampledThread {
            tid: *tid,
            pid: thread.pid,
        })
    }

    /// CPUs with a clock, and their rings.
    pub(super) fn cpus(&self) -> impl Iterator<Item = (u32, &Ring)> {
        self.cpus.iter().map(|(cpu, clock)| (*cpu, &clock.ring))
    }

    /// Ring of a thread; none where CPUs have the clocks.
    pub(super) fn ring(&self, tid: u32) -> Option<&Ring> {
        let thread = self.threads.get(&tid)?;
        thread.clock.as_ref().map(|clock| &clock.ring)
    }

    pub(super) fn has_thread(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Follows threads that are not yet, `only` these if there are some, and leaves those that have ended. Returns the
    /// first failure.
    pub(super) fn follow(&mut self, processes: &[u32], only: &[u32]) -> Option<io::Error> {
        let mut failure = None;
        let mut alive = Vec::new();
        self.left_out_count = 0;
        for pid in processes {
            // A process that ended has no threads any more.
            for tid in procfs::threads(*pid).unwrap_or_default() {
                if !only.is_empty() && !only.contains(&tid) {
                    continue;
                }
                alive.push(tid);
                if self.threads.contains_key(&tid) {
                    continue;
                }
                match self.thread(*pid, tid) {
                    Ok(thread) => {
                        self.threads.insert(tid, thread);
                    }
                    // It ended between the listing and the open.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        self.left_out_count += 1;
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        alive.sort_unstable();
        self.threads
            .retain(|tid, _| alive.binary_search(tid).is_ok());
        failure
    }

    fn thread(&self, pid: u32, tid: u32) -> io::Result<Thread> {
        if !self.cpus.is_empty() {
            return Ok(Thread { pid, clock: None });
        }
        if self.threads.len() == THREADS_MAX {
            let text = format!("{THREADS_MAX} threads are the limit");
            return Err(io::Error::other(text));
        }
        let whom = Whom::Thread(tid);
        let clock = Clock::open(whom, self.sight, self.period_ns, RING_BYTES)?;
        event::enable(clock.ring.file(), self.is_ticking);
        Ok(Thread {
            pid,
            clock: Some(clock),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Clock> {
        let threads = self.threads.values();
        let of_threads = threads.filter_map(|thread| thread.clock.as_ref());
        of_threads.chain(self.cpus.values())
    }

    /// Lets the clocks tick, or stops them.
    pub(super) fn tick(&mut self, ticks: bool) {
        self.is_ticking = ticks;
        self.all()
            .for_each(|clock| event::enable(clock.ring.file(), ticks));
    }

    /// Returns true where threads have a clock each.
    pub(super) fn are_of_threads(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Records in the rings.
    pub(super) fn pending(&self) -> Pending {
        Pending::of(self.all().map(|clock| &clock.ring))
    }

    /// Passes on what is in the rings.
    pub(super) fn drain(&mut self, mut sink: impl FnMut(Drained)) {
        let threads = self.threads.values_mut();
        let of_threads = threads.filter_map(|thread| thread.clock.as_mut());
        for clock in of_threads.chain(self.cpus.values_mut()) {
            self.bytes.clear();
            clock.ring.read(&mut self.bytes);
            let missing = record::parse(&self.bytes, |seen| {
                sink(Drained {
                    is_of_clock: seen.event == clock.id,
                    seen,
                });
            });
            self.lost_count = self.lost_count.saturating_add(missing);
        }
    }
}
