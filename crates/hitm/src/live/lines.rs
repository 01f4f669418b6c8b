//! `hitm live lines`: lines that the threads of running programs fight over, at native speed.
//!
//! Samples of the threads' clocks tell which lines their instructions may stand at, watches of those lines who else
//! touches them ([`hitm_live::lines`]). The two take turns until the time is over. The result is a recording, with
//! names and verdicts as any other.

mod candidates;
mod memory;
mod told;
mod touches;
mod visits;
mod watching;

use std::collections::BTreeMap;
use std::io;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use hitm_live::lines::{LineSampler, Seen};
use hitm_live::procfs;
use thiserror::Error;

use self::candidates::{Candidates, SampledAt};
use self::memory::{Line, Memory};
use self::told::HostMachine;
use self::watching::Watcher;
use super::programs::Programs;
use super::{LiveError, LiveProgress, LiveTarget, Members, members, programs};
use crate::record::{Signals, exit_code_of};

/// Time between readings of the rings.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Length of a phase of samples.
const SAMPLE_FOR: Duration = Duration::from_millis(100);
/// Lines that are watched between two phases of samples, some 20 ms each.
const LINES_A_PHASE: usize = 5;
/// Time between looks for new processes and mappings, and between those that an unknown address asks for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_WHEN_STALE: Duration = Duration::from_millis(100);

/// Settings of `hitm live lines`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinesConfig {
    /// Target of the observation; not the whole system.
    pub target: LiveTarget,
    /// Duration; `None` until a signal, or until the program ends.
    pub duration: Option<Duration>,
    /// Samples in a second of a thread's CPU time.
    pub frequency: u32,
}

/// Errors of `hitm live lines`.
#[derive(Debug, Error)]
pub enum LinesError {
    /// The target, or a program to start.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The kernel allows no clock of these threads.
    #[error(
        "cannot sample the threads: perf_event_open: {source} (kernel.perf_event_paranoid is {paranoid}; it takes 2 or \
         less, or CAP_PERFMON, and the right to trace them)"
    )]
    Sampler {
        /// The kernel's setting.
        paranoid: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// No thread of the target is there.
    #[error("{target} has no threads")]
    NoThreads {
        /// The target in words.
        target: String,
    },
    /// This host has no model.
    #[error(transparent)]
    Machine(#[from] hitm_machine::Error),
    /// The model of this host is none.
    #[error("the model of this host: {0}")]
    Model(#[from] hitm_base::machine::MachineError),
    /// The recording cannot be written.
    #[error("cannot write the recording: {0}")]
    Write(#[from] hitm_trace::WriteError),
}

impl LinesError {
    /// Returns true if a permission is missing on this host.
    pub fn is_missing(&self) -> bool {
        match self {
            LinesError::Live(error) => error.is_missing(),
            LinesError::Sampler { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

/// A thread that was sampled.
#[derive(Debug, Clone, Default)]
struct SampledTask {
    name: String,
    samples: u64,
    /// The same by CPU.
    cpus: BTreeMap<u32, u64>,
}

/// Result of an observation.
struct Observed {
    args: Vec<String>,
    memory: Memory,
    programs: Programs,
    threads: BTreeMap<u32, SampledTask>,
    candidates: Candidates,
    period_ns: u64,
    /// Time of the phases of samples.
    sampled_ns: u64,
    duration_ns: u64,
    sample_count: u64,
    /// Set when an address was in no known mapping.
    is_stale: bool,
    /// Samples at an instruction that may have accessed memory at a known address.
    addressed_count: u64,
    notes: Vec<String>,
}

impl Observed {
    fn new(target: &LiveTarget, processes: &[u32], period_ns: u64) -> Observed {
        let mut memory = Memory::default();
        memory.read(processes);
        Observed {
            args: match target {
                LiveTarget::Program(command) => command.clone(),
                target => vec![target.text()],
            },
            programs: Programs::new(memory.mappings()),
            memory,
            threads: BTreeMap::new(),
            candidates: Candidates::default(),
            period_ns,
            sampled_ns: 0,
            duration_ns: 0,
            sample_count: 0,
            is_stale: false,
            addressed_count: 0,
            notes: Vec::new(),
        }
    }

    /// CPU time of the threads in their programs, as samples tell it.
    fn cpu_ns(&self) -> u64 {
        self.sample_count * self.period_ns
    }

    /// Counts a sample for the lines that it may stand at.
    fn sample(&mut self, seen: &Seen) {
        self.sample_count += 1;
        let thread = self.threads.entry(seen.tid).or_insert_with(|| SampledTask {
            name: procfs::comm(seen.tid).unwrap_or_default(),
            ..SampledTask::default()
        });
        thread.samples += 1;
        *thread.cpus.entry(seen.cpu).or_default() += 1;
        let stack = seen.registers.map_or(0, |registers| registers.stack());
        let mut lines: BTreeMap<Line, SampledAt> = BTreeMap::new();
        let mut has_address = false;
        self.is_stale |= !self.memory.has(seen.pid, seen.code);
        for access in self.programs.accesses(seen) {
            let Some(address) = access.address else {
                continue;
            };
            has_address = true;
            self.is_stale |= !self.memory.has(seen.pid, address);
            if let Some(line) = self.memory.line(seen.pid, address, stack) {
                lines.entry(line).or_default().add(&access);
            }
        }
        self.addressed_count += u64::from(has_address);
        for (line, at) in &lines {
            self.candidates.sampled(*line, seen.tid, at);
        }
    }

    /// Reads the mappings again. Files are read again where there are new ones.
    fn look(&mut self, processes: &[u32]) {
        self.is_stale = false;
        let before = self.memory.mappings();
        self.memory.read(processes);
        let mappings = self.memory.mappings();
        if mappings != before {
            self.programs = Programs::new(mappings);
        }
    }
}

/// The end of an observation.
#[derive(Debug)]
pub struct LinesEnded {
    /// The recording, as the bytes of its file.
    pub recording: Vec<u8>,
    /// Exit code of the program, if one was started and has ended.
    pub exit_code: Option<u8>,
}

/// Observes until the time is over, the threads end, or a signal comes.
///
/// # Errors
/// The kernel does not allow it, or the target is not there.
pub fn record_lines(
    config: &LinesConfig,
    progress: &mut dyn FnMut(LiveProgress),
) -> Result<LinesEnded, LinesError> {
    let signals = Signals::catch();
    let file = hitm_machine::host()?;
    let machine = HostMachine {
        machine: file.resolve()?,
        toml: file.to_toml(),
    };
    let (child, members) = members(&config.target, None)?;
    hurry();
    let mut watch = Watch::begin(config, members, child)?;
    watch.run(config.duration, &signals, progress);
    let exit_code = watch.exit_code;
    let mut recording = Vec::new();
    told::write(&watch.finish(), &machine, &mut recording)?;
    Ok(LinesEnded {
        recording,
        exit_code,
    })
}

/// Gets ahead of the threads that are looked at where that is allowed: with hundreds of them on few CPUs, rings would
/// fill before they are read. A program that was started has begun, and keeps the usual priority.
fn hurry() {
    const NICE: libc::c_int = -10;
    // SAFETY: a system call without memory. Where it is not allowed nothing changes.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// An observation that goes on.
struct Watch {
    members: Members,
    child: Option<Child>,
    exit_code: Option<u8>,
    sampler: LineSampler,
    /// The reason for which threads have no clock.
    left_out: Option<io::Error>,
    observed: Observed,
    begun: Instant,
    looked: Instant,
}

impl Watch {
    fn begin(
        config: &LinesConfig,
        members: Members,
        mut child: Option<Child>,
    ) -> Result<Watch, LinesError> {
        let opened = LineSampler::open(processes(&members), config.frequency);
        let sampler = opened.map_err(|source| {
            // An unobserved run of the program is of no use.
            if let Some(child) = &mut child {
                let _ = child.kill().and_then(|()| child.wait());
            }
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            LinesError::Sampler {
                paranoid: paranoid.map_or("unknown".into(), |text| text.trim().to_owned()),
                source,
            }
        })?;
        if !sampler.is_alive() {
            let target = config.target.text();
            return Err(LinesError::NoThreads { target });
        }
        let now = Instant::now();
        Ok(Watch {
            observed: Observed::new(&config.target, sampler.processes(), sampler.period_ns()),
            members,
            child,
            exit_code: None,
            sampler,
            left_out: None,
            begun: now,
            looked: now,
        })
    }

    fn run(
        &mut self,
        duration: Option<Duration>,
        signals: &Signals,
        progress: &mut dyn FnMut(LiveProgress),
    ) {
        let left =
            |begun: Instant| duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        while self.goes_on()
            && signals.pending().is_none()
            && left(self.begun) != Some(Duration::ZERO)
        {
            progress(LiveProgress {
                elapsed: self.begun.elapsed(),
                sample_count: self.observed.sample_count,
            });
            let phase = left(self.begun).map_or(SAMPLE_FOR, |left| left.min(SAMPLE_FOR));
            self.sample(phase);
            for line in self.observed.candidates.next(LINES_A_PHASE) {
                if left(self.begun) == Some(Duration::ZERO) {
                    break;
                }
                self.round(line);
            }
        }
    }

    /// Returns true while a thread of the target runs.
    fn goes_on(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            self.exit_code = Some(exit_code_of(status));
            self.child = None;
        }
        let since = self.looked.elapsed();
        if since >= LOOK_EVERY || self.observed.is_stale && since >= LOOK_WHEN_STALE {
            self.looked = Instant::now();
            self.sampler.add_processes(processes(&self.members));
            self.observed.look(self.sampler.processes());
        }
        // A thread without a clock is left out; the others go on.
        self.left_out = self.sampler.follow().or(self.left_out.take());
        self.sampler.is_alive()
    }

    /// Takes samples for a while.
    fn sample(&mut self, duration: Duration) {
        // What clocks saw while lines were watched counts for nothing.
        self.sampler.samples(|_| {});
        let begun = Instant::now();
        while begun.elapsed() < duration {
            thread::sleep(READ_EVERY.min(duration.saturating_sub(begun.elapsed())));
            self.sampler.samples(|seen| self.observed.sample(&seen));
        }
        self.observed.sampled_ns += begun.elapsed().as_nanos() as u64;
    }

    /// Watches a line.
    fn round(&mut self, line: Line) {
        let observed = &mut self.observed;
        let Some(candidate) = observed.candidates.lines.get_mut(&line) else {
            return;
        };
        let mut watcher = Watcher {
            sampler: &mut self.sampler,
            memory: &observed.memory,
            programs: &mut observed.programs,
        };
        observed.candidates.refused_count += watcher.round(line, candidate);
    }

    fn finish(mut self) -> Observed {
        let observed = &mut self.observed;
        observed.duration_ns = self.begun.elapsed().as_nanos() as u64;
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                observed.notes.push(format!("{count} {what}"));
            }
        };
        note(
            self.sampler.lost_count,
            "samples found no room in the kernel's rings",
        );
        if let Some(why) = &self.left_out {
            let count = self.sampler.left_out_count;
            note(count, &format!("threads were left out: {why}"));
        }
        note(
            observed.candidates.refused_count,
            "times the kernel refused to watch a thread",
        );
        note(
            observed.candidates.left_out_count,
            "samples are of lines beyond the limit",
        );
        // A program that still runs when the time is over continues without us.
        self.observed
    }
}

/// Processes that are looked at now, with those that they have started.
fn processes(members: &Members) -> Vec<u32> {
    let first = match members {
        Members::All => Vec::new(),
        Members::Processes(processes) => processes.clone(),
        Members::Cgroup(path) => programs::in_cgroup(path),
    };
    let mut all = programs::with_descendants(first);
    all.retain(|pid| *pid != std::process::id());
    all
}
