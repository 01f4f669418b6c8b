//! Samples of running code on this host: perf's software clock, with callers.
//!
//! It needs neither BPF nor counters of the hardware, so that it works in virtual machines. Where
//! the kernel allows it (`CAP_PERFMON`, or `kernel.perf_event_paranoid` of 0 or less), each CPU has
//! one event. With `perf_event_paranoid` of 1 each thread of the chosen processes has one.

pub(crate) mod record;
pub(crate) mod ring;

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::lines::registers::MASK;
use crate::procfs;
pub use record::{RawSample, Record};
use ring::{Attributes, Event, Ring};

/// Interval between readings of the rings.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Bytes of a ring: 50 ms of samples with forty callers at 999 Hz take a fifth.
const RING_BYTES: usize = 128 << 10;
/// Bytes of the ring of a CPU, as many as `perf record` takes: a second of samples at 2 kHz, in which names are read.
const CPU_RING_BYTES: usize = 512 << 10;
/// Limit on threads with a ring of their own, 132 KiB each.
const RINGS_MAX: usize = 2048;

/// Target of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All processes.
    System,
    /// These processes, with threads that they start later.
    Processes(Vec<u32>),
}

/// Errors of sampling.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The kernel does not allow them.
    #[error(
        "cannot sample {whom}: the kernel does not allow it (kernel.perf_event_paranoid is {paranoid}); run as root, with CAP_PERFMON, or after `sysctl kernel.perf_event_paranoid={needed}`"
    )]
    Forbidden {
        /// The target.
        whom: &'static str,
        /// The kernel's setting.
        paranoid: String,
        /// The highest setting that allows it.
        needed: i32,
    },
    /// Any other error.
    #[error("cannot sample {whom}: perf_event_open: {source}")]
    Open {
        /// The target.
        whom: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A process that does not exist.
    #[error("no process {pid}: {source}")]
    NoProcess {
        /// Its number.
        pid: u32,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Open rings.
#[derive(Debug)]
pub struct Sampler {
    period_ns: u64,
    rings: Vec<Ring>,
    /// Threads with a ring in `rings`, when there is no ring for each CPU.
    of_threads: Option<Threads>,
    bytes: Vec<u8>,
    /// Threads without a ring, beyond the limit.
    pub threads_left_out: u64,
}

#[derive(Debug)]
struct Threads {
    processes: Vec<u32>,
    known: BTreeMap<u32, ()>,
}

impl Sampler {
    /// Starts to take `frequency` samples of each CPU in a second, while it is not idle.
    ///
    /// # Errors
    /// The kernel does not allow it, or a process does not exist.
    pub fn open(target: &Target, cpus: &[u32], frequency: u32) -> Result<Sampler, SamplerError> {
        let mut sampler = Sampler {
            period_ns: 1_000_000_000 / u64::from(frequency.max(1)),
            rings: Vec::new(),
            of_threads: None,
            bytes: Vec::new(),
            threads_left_out: 0,
        };
        if let Target::Processes(processes) = target {
            for pid in processes {
                let threads = procfs::threads(*pid);
                threads.map_err(|source| SamplerError::NoProcess { pid: *pid, source })?;
            }
        }
        match (sampler.open_cpus(cpus), target) {
            (Ok(()), _) => Ok(sampler),
            (Err(error), Target::System) => Err(denied("all CPUs", 0, error)),
            (Err(_), Target::Processes(processes)) => {
                sampler.rings.clear();
                sampler.of_threads = Some(Threads {
                    processes: processes.clone(),
                    known: BTreeMap::new(),
                });
                let opened = sampler.follow();
                opened.map_err(|error| denied("the kernel's part of threads", 1, error))?;
                Ok(sampler)
            }
        }
    }

    fn open_cpus(&mut self, cpus: &[u32]) -> io::Result<()> {
        for cpu in cpus {
            let event = Event {
                attributes: clock(self.period_ns),
                task: -1,
                cpu: *cpu as i32,
            };
            self.rings.push(Ring::of(event.open()?, CPU_RING_BYTES)?);
        }
        Ok(())
    }

    /// Opens a ring for each thread that has none yet.
    fn follow(&mut self) -> io::Result<()> {
        let Some(threads) = &mut self.of_threads else {
            return Ok(());
        };
        for pid in &threads.processes {
            // A process that ended has no threads any more.
            for tid in procfs::threads(*pid).unwrap_or_default() {
                if threads.known.contains_key(&tid) {
                    continue;
                }
                if threads.known.len() == RINGS_MAX {
                    self.threads_left_out += 1;
                    continue;
                }
                let event = Event {
                    attributes: clock(self.period_ns),
                    task: tid as i32,
                    cpu: -1,
                };
                let opened = event.open();
                match opened.and_then(|file| Ring::of(file, RING_BYTES)) {
                    Ok(ring) => self.rings.push(ring),
                    // It ended between the listing and the open.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) => return Err(error),
                }
                threads.known.insert(tid, ());
            }
        }
        Ok(())
    }

    /// Nanoseconds between samples.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns true if each thread has a ring of its own, because the kernel allows no ring for
    /// each CPU.
    pub fn is_by_thread(&self) -> bool {
        self.of_threads.is_some()
    }

    /// Passes each record to `sink` until `duration` is over or `goes_on` returns false. `goes_on`
    /// is called each 50 ms with the number of samples so far.
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        mut goes_on: impl FnMut(u64) -> bool,
        mut sink: impl FnMut(Record),
    ) {
        let start = Instant::now();
        let mut sample_count = 0;
        loop {
            let left = duration.map(|duration| duration.saturating_sub(start.elapsed()));
            let is_over = left == Some(Duration::ZERO) || !goes_on(sample_count);
            self.drain(|record| {
                sample_count += u64::from(matches!(record, Record::Sample(_)));
                sink(record);
            });
            if is_over {
                return;
            }
            // Without a ring for a new thread, sampling continues with the others.
            let _ = self.follow();
            thread::sleep(left.map_or(READ_EVERY, |left| left.min(READ_EVERY)));
        }
    }

    fn drain(&mut self, mut sink: impl FnMut(Record)) {
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.read(&mut self.bytes);
            record::parse(&self.bytes, &mut sink);
        }
    }
}

/// A clock of CPU time that takes a sample each `period_ns`.
fn clock(period_ns: u64) -> Attributes {
    const SOFTWARE: u64 = 1;
    // IP, TID, TIME, CALLCHAIN, CPU, REGS_USER.
    const SAMPLE: u64 = 1 | 2 | 4 | 32 | 128 | 4096;
    // exclude_hv, exclude_idle, comm, task, use_clockid: that of the BPF programs.
    const FLAGS: u64 = 1 << 6 | 1 << 7 | 1 << 9 | 1 << 13 | 1 << 25;
    let mut words = [0; 14];
    words[0] = ring::kind(SOFTWARE);
    words[2] = period_ns;
    words[3] = SAMPLE;
    words[5] = FLAGS;
    words[10] = MASK;
    words[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
    words
}

fn denied(whom: &'static str, needed: i32, error: io::Error) -> SamplerError {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return SamplerError::Open {
            whom,
            source: error,
        };
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    SamplerError::Forbidden {
        whom,
        paranoid: paranoid.map_or("unknown".into(), |text| text.trim().to_owned()),
        needed,
    }
}
