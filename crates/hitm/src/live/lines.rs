//! `hitm live lines`: lines that the threads of running programs fight over, at native speed.
//!
//! Samples of the threads' clocks tell which lines their instructions may stand at, watches of those lines who else
//! touches them ([`hitm_live::lines`]). The two take turns until the time is over. The result is a recording, with
//! names and verdicts as any other.

mod budget;
mod candidates;
mod code;
mod host;
mod kernel;
mod looks;
mod memory;
mod observed;
mod pace;
mod sampled;
mod subject;
mod told;
mod touches;
mod visits;
mod watching;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hitm_kernel::Walks;
use hitm_live::kernel::PeekError;
use hitm_live::lines::{Extent, LineSampler, Scope};
use hitm_live::procfs::Stat;
use thiserror::Error;

use self::budget::{Budget, Part};
use self::host::Host;
use self::kernel::LiveKernel;
pub use self::looks::{LineLooks, LineWindows};
use self::memory::{Line, Space};
use self::observed::Observed;
pub use self::sampled::{has_clock_samples, lines_of_samples};
pub use self::subject::LinesTarget;
use self::subject::Subject;
use self::watching::Watcher;
use super::{LiveError, LiveProgress, LiveTarget, online_cpus};

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
    /// Target of the observation; the whole system only for the kernel's lines.
    pub target: LinesTarget,
    /// The kernel's lines, too.
    pub has_kernel: bool,
    /// Walks to the kernel's objects beside those that come with hitm; slab caches and variables of them are used.
    pub walks: Walks,
    /// Duration; `None` until a signal, or until the program ends.
    pub duration: Option<Duration>,
    /// Samples in a second of a thread's CPU time.
    pub frequency: u32,
}

impl LinesConfig {
    /// Code that is looked at.
    fn extent(&self) -> Extent {
        match (self.has_kernel, &self.target) {
            (false, _) => Extent::Programs,
            (true, LinesTarget::All(LiveTarget::System)) => Extent::WholeKernel,
            (true, _) => Extent::WithKernel,
        }
    }
}

/// Errors of `hitm live lines`.
#[derive(Debug, Error)]
pub enum LinesError {
    /// The target, or a program to start.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The kernel allows no clock of these threads.
    #[error(
        "cannot sample the threads: perf_event_open: {source}{}",
        missing_right(source, paranoid)
    )]
    Sampler {
        /// The kernel's setting.
        paranoid: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A thread that was asked for is not there.
    #[error("there is no thread {tid}; /proc/PID/task has the threads of a process")]
    NoThread {
        /// Its number.
        tid: u32,
    },
    /// No thread of the target is there.
    #[error("{target} has no threads")]
    NoThreads {
        /// The target in words.
        target: String,
    },
    /// The kernel's memory cannot be read.
    #[error("cannot look at the kernel: {0}")]
    Kernel(PeekError),
    /// The kernel's types cannot be read.
    #[error("cannot look at the kernel: {0}")]
    Types(io::Error),
    /// This host has no model.
    #[error(transparent)]
    Machine(#[from] hitm_machine::Error),
    /// The model of this host is none.
    #[error("the model of this host: {0}")]
    Model(#[from] hitm_base::machine::MachineError),
    /// The samples of another tool cannot be read.
    #[error("cannot read {}", path.display())]
    Samples {
        /// The file.
        path: PathBuf,
        /// The error, with its place.
        source: Box<hitm_perf::read::ReadError>,
    },
    /// Samples of programs whose code is not decoded here.
    #[error("{} has samples of {arch}: a host of that architecture reads them", path.display())]
    Architecture {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        arch: String,
    },
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
            LinesError::Kernel(PeekError::Unavailable(_)) => true,
            _ => false,
        }
    }
}

/// The right that the kernel misses, behind its error.
fn missing_right(error: &io::Error, paranoid: &str) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let missing = match paranoid.parse::<i32>() {
        Ok(..=2) => "it takes the right to trace them, as their user or with CAP_SYS_PTRACE",
        _ => "it takes 2 or less, or CAP_PERFMON, and the right to trace them",
    };
    format!(" (kernel.perf_event_paranoid is {paranoid}; {missing})")
}

/// The end of an observation.
#[derive(Debug)]
pub struct LinesEnded {
    /// The recording, as the bytes of its file.
    pub recording: Vec<u8>,
    /// Exit code of the program, if one was started and has ended.
    pub exit_code: Option<u8>,
}

/// Observes once: until the time is over, the threads end, or a signal comes.
///
/// # Errors
/// The kernel does not allow it, or the target is not there.
pub fn record_lines(
    config: LinesConfig,
    progress: &mut dyn FnMut(LiveProgress),
) -> Result<LinesEnded, LinesError> {
    LineLooks::begin(config)?.look(progress)
}

/// CPU time of each process since its start.
fn cpu_times(processes: &[u32]) -> BTreeMap<u32, Duration> {
    let cpu_time = |pid: &u32| Some((*pid, Stat::of(*pid)?.cpu_time()));
    processes.iter().filter_map(cpu_time).collect()
}

/// Facts that are known before threads are looked at.
struct Known {
    host: Host,
    /// None when it is not looked at.
    kernel: Option<LiveKernel>,
}

/// An observation that goes on.
struct Watch<'a> {
    subject: &'a mut Subject,
    sampler: LineSampler,
    /// The reason for which threads have no clock.
    left_out: Option<io::Error>,
    observed: Observed,
    budget: Budget,
    begun: Instant,
    looked: Instant,
}

impl<'a> Watch<'a> {
    fn begin(
        config: &LinesConfig,
        subject: &'a mut Subject,
        known: Known,
    ) -> Result<Watch<'a>, LinesError> {
        let Known { host, kernel } = known;
        let scope = Scope {
            processes: subject.processes(),
            only: subject.only(),
            extent: config.extent(),
            cpus: online_cpus()?,
        };
        let opened = LineSampler::open(scope, config.frequency);
        let sampler = opened.map_err(|source| {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            LinesError::Sampler {
                paranoid: paranoid.map_or("unknown".into(), |text| text.trim().to_owned()),
                source,
            }
        })?;
        if !sampler.is_alive() && !subject.may_be_empty() {
            let target = config.target.text();
            return Err(LinesError::NoThreads { target });
        }
        let period_ns = sampler.period_ns();
        let budget = Budget::new(&host);
        let mut observed = Observed::new(&config.target, host, &sampler.processes(), period_ns);
        observed.code.kernel = kernel;
        let now = Instant::now();
        Ok(Watch {
            observed,
            budget,
            subject,
            sampler,
            left_out: None,
            begun: now,
            looked: now,
        })
    }

    fn run(
        &mut self,
        duration: Option<Duration>,
        is_over: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(LiveProgress),
    ) {
        let left =
            |begun: Instant| duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        while self.goes_on() && !is_over() && left(self.begun) != Some(Duration::ZERO) {
            progress(LiveProgress {
                elapsed: self.begun.elapsed(),
                sample_count: self.observed.sample_count,
            });
            let phase = left(self.begun).map_or(SAMPLE_FOR, |left| left.min(SAMPLE_FOR));
            self.sample_or_rest(phase);
            self.budget.earn(self.sampler.threads());
            self.budget.earn_stops(cpu_times(&self.sampler.processes()));
            let has_watches = self.observed.host.figures.watches_all;
            let lines = if has_watches { LINES_A_PHASE } else { 0 };
            for line in self.observed.candidates.next(lines) {
                // Watches of the kernel's lines are on CPUs, whose threads do not switch them.
                let is_cheap = line.space == Space::Kernel;
                if left(self.begun) == Some(Duration::ZERO)
                    || !is_cheap && !self.budget.has_time(Part::Watches)
                {
                    break;
                }
                let begun = Instant::now();
                let stop_count = self.round(line);
                if !is_cheap {
                    self.budget.spend(Part::Watches, begun.elapsed());
                    self.budget.spend_stops(stop_count);
                }
            }
        }
    }

    /// Returns true while a thread of the target runs.
    fn goes_on(&mut self) -> bool {
        self.subject.reap();
        let since = self.looked.elapsed();
        if since >= LOOK_EVERY || self.observed.is_stale && since >= LOOK_WHEN_STALE {
            self.looked = Instant::now();
            self.sampler.add_processes(self.subject.processes());
            self.observed.look(&self.sampler.processes());
        }
        // A thread without a clock is left out; the others go on.
        self.left_out = self.sampler.follow().or(self.left_out.take());
        self.sampler.is_alive()
    }

    /// Takes samples for a while, or waits where that would cost the threads too much.
    fn sample_or_rest(&mut self, duration: Duration) {
        let is_dear = self.sampler.is_by_thread();
        if is_dear && !self.budget.has_time(Part::Clocks) {
            return thread::sleep(duration);
        }
        self.sample(duration);
        if is_dear {
            self.budget.spend(Part::Clocks, duration);
        }
    }

    /// Takes samples for a while.
    fn sample(&mut self, duration: Duration) {
        self.sampler.tick(true);
        let begun = Instant::now();
        while begun.elapsed() < duration {
            thread::sleep(READ_EVERY.min(duration.saturating_sub(begun.elapsed())));
            self.drain();
        }
        self.sampler.tick(false);
        self.drain();
        self.observed.sampled_ns += begun.elapsed().as_nanos() as u64;
    }

    fn drain(&mut self) {
        self.sampler.samples(|seen| self.observed.sample(&seen));
        self.sampler
            .counted(|access| self.observed.counted(&access));
    }

    /// Watches a line. Returns how often that stopped threads.
    fn round(&mut self, line: Line) -> u64 {
        let observed = &mut self.observed;
        let Some(candidate) = observed.candidates.lines.get_mut(&line) else {
            return 0;
        };
        let mut watcher = Watcher {
            sampler: &mut self.sampler,
            memory: &observed.memory,
            code: &mut observed.code,
            threads: &mut observed.threads,
            figures: observed.host.figures,
        };
        let round = watcher.round(line, candidate);
        observed.candidates.refused_count += round.refused_count;
        if let Some(kernel) = &mut observed.code.kernel
            && line.space == Space::Kernel
            && candidate.touches.is_shared()
        {
            let touches = candidate.touches.rates(&candidate.codes);
            kernel.look_at(line.at, &touches);
        }
        round.stop_count
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
            self.sampler.lost_count(),
            "samples found no room in the kernel's rings",
        );
        if let Some(counter) = self.sampler.counter() {
            let what = format!("samples of {counter} chose lines to watch, too");
            note(observed.counted_count, &what);
        }
        if let Some(why) = &self.left_out {
            let count = self.sampler.left_out_count();
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
