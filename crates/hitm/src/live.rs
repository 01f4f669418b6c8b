//! `hitm live`: waits of this host's threads, while they run.
//!
//! [`record_locks`] samples and names; [`hitm_live::locks`] judges. A recording is a file of names,
//! so that `hitm report` can judge it on another host.

mod collect;
mod exact;
mod layers;
mod lines;
mod lock_whatif;
mod maps;
mod objects;
mod programs;
mod sleepers;
mod spins;
mod whatif;
mod windows;

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use collect::Collector;
use hitm_live::cgroups::path_of;
use hitm_live::procfs::Stat;
use hitm_live::recording::{LiveFormatError, LiveRecording};
use hitm_live::sampler::{SamplerError, Target};
use hitm_live::shim::Launch;
use hitm_live::tracepoints::Waiters;
use thiserror::Error;

use crate::record::{Signals, exit_code_of};
pub use exact::ExactError;
use hitm_files::input_file::{self, NamedBy};
use hitm_files::output_file::{self, OutputError};
use hitm_kernel::{KernelSymbols, SYMBOLS_MAX, SymbolList};
use layers::Layers;
pub use lines::{
    LineLooks, LineWindows, LinesConfig, LinesEnded, LinesError, LinesTarget, has_clock_samples,
    lines_of_samples, record_lines,
};
pub use lock_whatif::{
    Interval, KernelHere, LockAnswer, LockChange, LockInputs, LockRun, LockThreadInput, LockWhatIf,
    Preemption, Refusal, Unfit, lock_what_if,
};
pub use whatif::{
    DEVIATION_MAX, Deviation, DeviationOf, QuotaRun, QuotaSetting, Sufficient, Throttling,
    WhatIfError, simulate_quota, smallest, throttling_here,
};
pub use windows::LockWindows;

/// Target of the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveTarget {
    /// All processes.
    System,
    /// A process and its descendants.
    Process(u32),
    /// A cgroup and its descendants: a path below a hierarchy's root.
    Cgroup(String),
    /// A program that is started for it, with its arguments.
    Program(Vec<String>),
}

impl LiveTarget {
    fn text(&self) -> String {
        match self {
            LiveTarget::System => "everything on this host".to_owned(),
            LiveTarget::Process(pid) => format!("process {pid}"),
            LiveTarget::Cgroup(path) => format!("cgroup {path}"),
            LiveTarget::Program(command) => command.join(" "),
        }
    }

    /// Tasks whose waits the kernel counts.
    fn waiters(&self) -> Waiters {
        match self {
            LiveTarget::System => Waiters::All,
            LiveTarget::Process(pid) => Waiters::Processes(vec![*pid]),
            LiveTarget::Cgroup(path) => Waiters::Cgroup(path_of(path)),
            // It is a child of this process.
            LiveTarget::Program(_) => Waiters::Processes(vec![std::process::id()]),
        }
    }
}

/// Settings of `hitm live locks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocksConfig {
    /// Target of the observation.
    pub target: LiveTarget,
    /// Duration; `None` until a signal, or until the program ends.
    pub duration: Option<Duration>,
    /// Samples a second of each CPU.
    pub frequency: u32,
}

/// Progress so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveProgress {
    /// Time since the first sample.
    pub elapsed: Duration,
    /// Samples so far.
    pub sample_count: u64,
}

/// Errors of `hitm live`.
#[derive(Debug, Error)]
pub enum LiveError {
    /// There are no samples.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The kernel hides its addresses.
    #[error(
        "/proc/kallsyms has no addresses: run as root, or with CAP_SYSLOG and kernel.kptr_restrict=1"
    )]
    NoKernelNames,
    /// A program was to be started, and no layer can observe it.
    #[error("{samples}; the program's own locks cannot be observed either: {exact}")]
    Unobservable {
        /// Reason why there are no samples.
        samples: Box<LiveError>,
        /// Reason why the program's own locks cannot be observed.
        exact: ExactError,
    },
    /// A file of the kernel cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The program does not start.
    #[error("cannot run {program}: {source}")]
    CannotRun {
        /// Its name.
        program: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// No process is in the cgroup.
    #[error("no process is in a cgroup {path}; /proc/PID/cgroup has the paths of a process")]
    NoCgroup {
        /// Requested path.
        path: String,
    },
    /// A file that is no live recording.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: LiveFormatError,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl LiveError {
    /// Returns true if something is missing on this host: a permission of the kernel, or a part of
    /// hitm.
    pub fn is_missing(&self) -> bool {
        match self {
            LiveError::NoKernelNames | LiveError::Sampler(SamplerError::Forbidden { .. }) => true,
            LiveError::Unobservable { samples, exact } => {
                samples.is_missing() || exact.is_missing()
            }
            _ => false,
        }
    }
}

/// The recording, and the end of a program that was started.
#[derive(Debug)]
pub struct LiveEnded {
    /// The samples, by name.
    pub recording: LiveRecording,
    /// Exit code of the program, if one was started and has ended.
    pub exit_code: Option<u8>,
}

/// Observes until the time is over, the program ends, or a signal comes. `progress` is called now
/// and then. Layers that do not work here are named in the recording. The calling thread drops
/// capabilities that only starting needs.
///
/// # Errors
/// No layer works: the kernel allows no samples or hides its names, and no program was started whose own locks
/// could be observed. Or the target is not there.
pub fn record_locks(
    config: &LocksConfig,
    progress: &mut dyn FnMut(LiveProgress),
) -> Result<LiveEnded, LiveError> {
    let signals = Signals::catch();
    let mut layers = Layers::prepare(&config.target);
    let (mut child, members) = members(&config.target, layers.launch())?;
    let watched = members.clone();
    if let Err(error) = layers.sample(&members, config.frequency) {
        if let Some(child) = &mut child {
            // An unobserved run of the program is of no use.
            let _ = child.kill().and_then(|()| child.wait());
        }
        return Err(error);
    }
    let mut collector = Collector::new(members);
    let start = Instant::now();
    let mut exit_code = None;
    let mut goes_on = |sample_count| {
        let elapsed = start.elapsed();
        progress(LiveProgress {
            elapsed,
            sample_count,
        });
        if let Some(child) = &mut child
            && let Ok(Some(status)) = child.try_wait()
        {
            exit_code = Some(exit_code_of(status));
        }
        exit_code.is_none() && !watched.have_ended() && signals.pending().is_none()
    };
    layers.run(config.duration, &mut goes_on, &mut collector);
    let duration = start.elapsed();
    let mut recording = layers.finish(collector);
    recording.kernel = kernel_release();
    recording.cpu_count = online_cpus()?.len() as u32;
    recording.target = config.target.text();
    recording.duration_ns = duration.as_nanos() as u64;
    // A program that still runs when the time is over continues without us.
    drop(child);
    Ok(LiveEnded {
        recording,
        exit_code,
    })
}

/// Processes that count.
#[derive(Debug, Clone, Default)]
enum Members {
    #[default]
    All,
    Processes(Vec<u32>),
    Cgroup(String),
}

impl Members {
    /// Returns true when the processes that were named have ended.
    fn have_ended(&self) -> bool {
        let is_alive = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.is_alive());
        match self {
            Members::All | Members::Cgroup(_) => false,
            Members::Processes(processes) => !processes.iter().any(is_alive),
        }
    }

    /// Processes to sample where each thread needs a ring of its own.
    fn target(&self) -> Target {
        match self {
            Members::All => Target::System,
            Members::Processes(processes) => Target::Processes(processes.clone()),
            Members::Cgroup(path) => Target::Processes(programs::in_cgroup(path)),
        }
    }
}

/// Names the layer of samples that works for this process's threads.
///
/// # Errors
/// None does: the reason.
pub fn sampling_layer() -> Result<String, LiveError> {
    const FREQUENCY: u32 = 999;
    kernel_symbols()?;
    let target = Target::Processes(vec![std::process::id()]);
    Ok(layers::text(&layers::open(&target, FREQUENCY)?))
}

fn members(
    target: &LiveTarget,
    launch: Option<&Launch>,
) -> Result<(Option<Child>, Members), LiveError> {
    Ok(match target {
        LiveTarget::System => (None, Members::All),
        LiveTarget::Process(pid) => (None, Members::Processes(vec![*pid])),
        LiveTarget::Cgroup(path) => {
            let path = path_of(path);
            if programs::in_cgroup(&path).is_empty() {
                return Err(LiveError::NoCgroup { path });
            }
            (None, Members::Cgroup(path))
        }
        LiveTarget::Program(command) => {
            let (program, arguments) = command.split_first().expect("clap asks for a program");
            let mut command = Command::new(program);
            command.args(arguments);
            if let Some(launch) = launch {
                launch.observe(&mut command);
            }
            let child = command.spawn().map_err(|source| LiveError::CannotRun {
                program: program.clone(),
                source,
            })?;
            let pid = child.id();
            (Some(child), Members::Processes(vec![pid]))
        }
    })
}

fn kernel_symbols() -> Result<KernelSymbols, LiveError> {
    let path = Path::new("/proc/kallsyms");
    let failed = |source| LiveError::Read {
        path: path.into(),
        source,
    };
    let mut lines = BufReader::new(fs::File::open(path).map_err(failed)?);
    let mut symbols = SymbolList::default();
    let mut line = String::new();
    // The kernel makes 5 MB of text, of which 3 MB are names.
    while symbols.count() < SYMBOLS_MAX && lines.read_line(&mut line).map_err(failed)? > 0 {
        symbols.add(&line);
        line.clear();
    }
    named(symbols)
}

/// The symbols of /proc/kallsyms, unless it hides their addresses.
fn symbols_of(listed: &str) -> Result<KernelSymbols, LiveError> {
    let mut symbols = SymbolList::default();
    for line in listed.lines().take(SYMBOLS_MAX) {
        symbols.add(line);
    }
    named(symbols)
}

fn named(symbols: SymbolList) -> Result<KernelSymbols, LiveError> {
    match symbols.has_addresses() {
        true => Ok(symbols.finish()),
        false => Err(LiveError::NoKernelNames),
    }
}

fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn online_cpus() -> Result<Vec<u32>, LiveError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let text = read(path)?;
    let cpus = hitm_machine::cpu_list(text.trim());
    cpus.ok_or_else(|| LiveError::Read {
        path: path.into(),
        source: io::Error::other(format!("found '{}', expected a list of CPUs", text.trim())),
    })
}

fn read(path: &Path) -> Result<String, LiveError> {
    fs::read_to_string(path).map_err(|source| LiveError::Read {
        path: path.into(),
        source,
    })
}

/// Returns true if the file begins like a live recording.
pub fn is_live(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = [0; 14];
    let file = input_file::open(path, NamedBy::User);
    // A pipe would lose the bytes read here, so it is not checked.
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file
        && file.is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && &start == b"{\"hitm_live\":1"
}

/// Reads a live recording.
///
/// # Errors
/// The file cannot be read, or is none.
pub fn read_recording(path: &Path) -> Result<LiveRecording, LiveError> {
    let bytes = input_file::bytes(path, NamedBy::User).map_err(|source| LiveError::Read {
        path: path.into(),
        source,
    })?;
    LiveRecording::parse(&bytes).map_err(|source| LiveError::Format {
        path: path.into(),
        source,
    })
}

/// Writes a live recording.
///
/// # Errors
/// The file cannot be written.
pub fn write_recording(path: &Path, recording: &LiveRecording) -> Result<(), LiveError> {
    let text = serde_json::to_vec(recording).expect("numbers and names become JSON");
    Ok(output_file::write(path, &text)?)
}
