//! Accesses of running threads at native speed: clocks with registers, and debug registers.
//!
//! A sample of a thread's clock has all general registers, from which the accesses at its
//! instruction have their addresses. A watch tells who touches a word, from which instruction. Both
//! need no counters of the hardware and no rights beyond those over the threads, and the program is
//! neither stopped nor changed. Events end with their descriptors, so with this process.
//!
//! Prior work: Featherlight (Chabbi et al., PPoPP 2018) and ComDetective (Sasongko et al., SC 2019)
//! watch what samples of counters found.

mod record;
mod registers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

pub use registers::Registers;

use crate::clock::monotonic_ns;
use crate::procfs;
use crate::sampler::ring::{Attributes, Event, Ring, kind};

/// Bytes of a thread's ring: what 20 ms have at 4,999 Hz.
const RING_BYTES: usize = 32 << 10;
/// Limit on threads that are followed.
const THREADS_MAX: usize = 4096;
/// Callers of a sample.
const CALLERS_MAX: u16 = 16;
/// Words of eight bytes that a CPU's debug registers watch at a time.
pub const WATCHES_MAX: usize = 4;
/// Bytes of a watched word.
pub const WORD_BYTES: u64 = 8;

/// A thread seen at an instruction: by its clock, or because it touched a watched word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Number of the event.
    event: u64,
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
    /// Time until which those did that had not ended by themselves.
    pub ended_ns: u64,
    /// Threads whose watches could not be set.
    pub refused_count: u64,
}

/// Clocks of the threads of some processes.
#[derive(Debug)]
pub struct LineSampler {
    processes: Vec<u32>,
    /// The threads that are followed; all where there are none.
    only: Vec<u32>,
    period_ns: u64,
    threads: BTreeMap<u32, Thread>,
    bytes: Vec<u8>,
    /// Records that found no room in a ring.
    pub lost_count: u64,
    /// Threads without a clock: beyond the limit, or beyond the memory that the kernel allows for rings.
    pub left_out_count: u64,
}

/// A thread with a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledThread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
}

/// A thread that is followed.
#[derive(Debug)]
struct Thread {
    pid: u32,
    ring: Ring,
    clock: u64,
}

impl LineSampler {
    /// Starts clocks of `frequency` samples in a second of CPU time for the threads of these
    /// processes: for all of them, or for `only` these.
    ///
    /// # Errors
    /// The kernel allows none of them.
    pub fn open(processes: Vec<u32>, only: Vec<u32>, frequency: u32) -> io::Result<LineSampler> {
        let mut sampler = LineSampler {
            processes,
            only,
            period_ns: 1_000_000_000 / u64::from(frequency.max(1)),
            threads: BTreeMap::new(),
            bytes: Vec::new(),
            lost_count: 0,
            left_out_count: 0,
        };
        let failure = sampler.follow();
        match (sampler.threads.is_empty(), failure) {
            (true, Some(error)) => Err(error),
            _ => Ok(sampler),
        }
    }

    /// Nanoseconds of CPU time between samples of a thread.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Processes that are followed.
    pub fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// Threads with a clock, by their processes.
    pub fn threads(&self) -> impl Iterator<Item = SampledThread> + '_ {
        let threads = self.threads.iter();
        threads.map(|(tid, thread)| SampledThread {
            tid: *tid,
            pid: thread.pid,
        })
    }

    /// Adds processes to those that are followed.
    pub fn add_processes(&mut self, processes: Vec<u32>) {
        for pid in processes {
            if !self.processes.contains(&pid) {
                self.processes.push(pid);
            }
        }
    }

    /// Starts clocks of threads that have none, and ends those of threads that have ended. Returns
    /// the first failure; the others are followed.
    pub fn follow(&mut self) -> Option<io::Error> {
        let mut failure = None;
        let mut alive = Vec::new();
        self.left_out_count = 0;
        for pid in &self.processes {
            // A process that ended has no threads any more.
            for tid in procfs::threads(*pid).unwrap_or_default() {
                if !self.only.is_empty() && !self.only.contains(&tid) {
                    continue;
                }
                alive.push(tid);
                if self.threads.contains_key(&tid) {
                    continue;
                }
                if self.threads.len() == THREADS_MAX {
                    self.left_out_count += 1;
                    let text = format!("{THREADS_MAX} threads are the limit");
                    failure.get_or_insert_with(|| io::Error::other(text));
                    continue;
                }
                match Thread::open(*pid, tid, self.period_ns) {
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

    /// Returns true while one of the threads lives.
    pub fn is_alive(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Passes what clocks have seen to `sink`.
    pub fn samples(&mut self, mut sink: impl FnMut(Seen)) {
        self.drain(|clock, seen| {
            if seen.event == clock {
                sink(seen);
            }
        });
    }

    fn drain(&mut self, mut sink: impl FnMut(u64, Seen)) {
        let lost = &mut self.lost_count;
        for thread in self.threads.values_mut() {
            self.bytes.clear();
            thread.ring.read(&mut self.bytes);
            let missing = record::parse(&self.bytes, |seen| sink(thread.clock, seen));
            *lost = lost.saturating_add(missing);
        }
    }

    /// Watches words of a line on the threads `on`, until `time` is over. Each watch of a thread ends after
    /// `hits_max` hits. What clocks see meanwhile is dropped.
    pub fn watch(
        &mut self,
        watches: &[Watch],
        on: &[WatchedThread],
        limits: WatchLimits,
    ) -> Watched {
        let mut watched = Watched::default();
        let mut open: BTreeMap<u64, OpenWatch> = BTreeMap::new();
        for WatchedThread { tid, line } in on {
            let Some(thread) = self.threads.get(tid) else {
                continue;
            };
            let mut refused = false;
            for (number, watch) in watches.iter().take(WATCHES_MAX).enumerate() {
                match thread.watch(*tid, line + watch.offset, watch.access) {
                    Ok((id, file)) => {
                        open.insert(id, OpenWatch { number, file });
                    }
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(_) => refused = true,
                }
            }
            watched.refused_count += u64::from(refused);
        }
        let begun_ns = monotonic_ns();
        let start = Instant::now();
        open.values().for_each(|watch| watch.arm(limits.hits_max));
        std::thread::sleep(limits.time.saturating_sub(start.elapsed()));
        open.values().for_each(OpenWatch::disarm);
        let ended_ns = monotonic_ns();
        self.drain(|_, seen| {
            if let Some(watch) = open.get(&seen.event) {
                let watch = watch.number;
                watched.hits.push(Hit { watch, seen });
            }
        });
        watched.hits.sort_by_key(|hit| hit.seen.time_ns);
        watched.begun_ns = begun_ns;
        watched.ended_ns = ended_ns;
        watched
    }
}

/// Bounds of one turn of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchLimits {
    /// Its length.
    pub time: Duration,
    /// Hits of one watch of one thread.
    pub hits_max: u32,
}

/// Flags of all events: exclude_kernel, exclude_hv, exclude_callchain_kernel, use_clockid.
const FLAGS: u64 = 1 << 5 | 1 << 6 | 1 << 21 | 1 << 25;
/// Flag of events that do not count before they are told to.
const DISABLED: u64 = 1;

/// Attributes of an event of this kind that takes a sample each `period`.
fn attributes(of: u64, period: u64) -> Attributes {
    let mut words = [0; 14];
    words[0] = kind(of);
    words[2] = period;
    words[3] = record::SAMPLE_TYPE;
    words[5] = FLAGS;
    words[10] = registers::MASK;
    words[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
    words[13] = u64::from(CALLERS_MAX) << 32;
    words
}

impl Thread {
    fn open(pid: u32, tid: u32, period_ns: u64) -> io::Result<Thread> {
        const SOFTWARE: u64 = 1;
        let event = Event {
            attributes: attributes(SOFTWARE, period_ns),
            task: tid as i32,
            cpu: -1,
        };
        let file = event.open()?;
        Ok(Thread {
            pid,
            clock: id_of(&file)?,
            ring: Ring::of(file, RING_BYTES)?,
        })
    }

    /// Opens a watch whose records go into the thread's ring.
    fn watch(&self, tid: u32, address: u64, access: WatchedAccess) -> io::Result<(u64, File)> {
        const BREAKPOINT: u64 = 5;
        const EVERY_HIT: u64 = 1;
        let kind = match access {
            WatchedAccess::Write => 2,
            WatchedAccess::Any => 3,
        };
        let mut attributes = attributes(BREAKPOINT, EVERY_HIT);
        attributes[5] |= DISABLED;
        attributes[6] = kind << 32;
        attributes[7] = address;
        attributes[8] = WORD_BYTES;
        let event = Event {
            attributes,
            task: tid as i32,
            cpu: -1,
        };
        let file = event.open()?;
        let ring = self.ring.file().as_raw_fd();
        ioctl(&file, SET_OUTPUT, ring as libc::c_ulong)?;
        Ok((id_of(&file)?, file))
    }
}

/// A watch of one thread.
#[derive(Debug)]
struct OpenWatch {
    /// Number among the watched words.
    number: usize,
    file: File,
}

impl OpenWatch {
    /// Begins to count, up to `hits_max`.
    fn arm(&self, hits_max: u32) {
        // The thread may have ended.
        let _ = ioctl(&self.file, REFRESH, hits_max.into());
    }

    fn disarm(&self) {
        let _ = ioctl(&self.file, DISABLE, 0);
    }
}

/// `PERF_EVENT_IOC_*`.
const DISABLE: libc::c_ulong = 0x2401;
const REFRESH: libc::c_ulong = 0x2402;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;

fn ioctl(event: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a number.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number that an event's records have.
fn id_of(event: &File) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes eight bytes to the given place.
    match unsafe { libc::ioctl(event.as_raw_fd(), ID as _, &raw mut id) } {
        0.. => Ok(id),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
