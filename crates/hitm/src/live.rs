//! `hitm live`: what this host's threads wait for, while they run.
//!
//! [`record_locks`] samples and names; [`hitm_live::locks`] judges. A recording is a file of names, so
//! that `hitm report` can judge it on another host.

mod collect;
mod objects;
mod programs;
mod windows;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hitm_live::lock_waits::LockWaits;
use hitm_live::recording::{LiveFormatError, LiveRecording};
use hitm_live::sampler::{Sampler, SamplerError, Target};
use thiserror::Error;

use crate::input_file::{self, NamedBy};
use crate::kernel::{KernelSymbols, SYMBOLS_MAX};
use crate::output_file::{self, OutputError};
use crate::record::Signals;
use collect::Collector;
pub use windows::LockWindows;

/// Whom to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveTarget {
    /// Everything that runs.
    System,
    /// A process and what it starts.
    Process(u32),
    /// A cgroup and those below it: a path below a hierarchy's root.
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
}

/// What `hitm live locks` is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocksConfig {
    /// Whom to look at.
    pub target: LiveTarget,
    /// For how long; without it until a signal, or until the program ends.
    pub duration: Option<Duration>,
    /// Samples a second of each CPU.
    pub frequency: u32,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveProgress {
    /// Time since the first sample.
    pub elapsed: Duration,
    /// Samples so far.
    pub sample_count: u64,
}

/// Why nothing was seen.
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
    /// A file of the kernel cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The program does not start.
    #[error("cannot run {program}: {source}")]
    CannotRun {
        /// Its name.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No process is in the cgroup.
    #[error("no process is in a cgroup {path}; /proc/PID/cgroup has the paths of a process")]
    NoCgroup {
        /// The path that was asked for.
        path: String,
    },
    /// A file that is no live recording.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: LiveFormatError,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// What was seen, and how a program that was started ended.
#[derive(Debug)]
pub struct LiveEnded {
    /// The samples, by name.
    pub recording: LiveRecording,
    /// What the program ended with, if one was started and it did end.
    pub exit_code: Option<u8>,
}

/// Samples until the time is over, the program ends, or a signal comes. `progress` is asked now and then.
///
/// # Errors
/// The kernel allows no samples or hides its names, or the target is not there.
pub fn record_locks(
    config: &LocksConfig,
    progress: &mut dyn FnMut(LiveProgress),
) -> Result<LiveEnded, LiveError> {
    let symbols = Rc::new(kernel_symbols()?);
    let signals = Signals::catch();
    let (mut child, members) = members(&config.target)?;
    let opened = Sampler::open(&members.target(), &online_cpus()?, config.frequency);
    let mut sampler = match (opened, &mut child) {
        (Err(error), Some(child)) => {
            // Nobody wants a program whose samples cannot be taken.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error.into());
        }
        (opened, _) => opened?,
    };
    let waits = LockWaits::attach(members.process());
    let mut collector = Collector::new(symbols, members);
    let start = Instant::now();
    let mut exit_code = None;
    let mut seen = 0;
    sampler.run(
        config.duration,
        |sample_count| {
            seen = sample_count;
            let elapsed = start.elapsed();
            progress(LiveProgress {
                elapsed,
                sample_count,
            });
            if let Some(child) = &mut child
                && let Ok(Some(status)) = child.try_wait()
            {
                exit_code = Some(code_of(status));
            }
            exit_code.is_none() && signals.pending().is_none()
        },
        |record| collector.take(record),
    );
    let waits = waits.and_then(|mut waits| waits.take());
    let waits = waits.map(|waits| collector.take_waits(&waits));
    let mut recording = collector.finish();
    recording.kernel = kernel_release();
    recording.cpu_count = online_cpus()?.len() as u32;
    recording.target = config.target.text();
    recording.period_ns = sampler.period_ns();
    recording.duration_ns = start.elapsed().as_nanos() as u64;
    recording.layers.push(layer(&sampler));
    match waits {
        Ok(()) => recording.layers.push(WAITS_LAYER.to_owned()),
        Err(reason) => recording.missing.push(format!("{WAITS_LAYER}: {reason}")),
    }
    recording.lost_count += sampler.threads_left_out;
    end(child, exit_code);
    Ok(LiveEnded {
        recording,
        exit_code,
    })
}

/// Returns the layer of samples that works for this process's threads, in words.
///
/// # Errors
/// None does: the reason.
pub fn sampling_layer() -> Result<String, LiveError> {
    const FREQUENCY: u32 = 999;
    kernel_symbols()?;
    let target = Target::Processes(vec![std::process::id()]);
    let sampler = Sampler::open(&target, &online_cpus()?, FREQUENCY)?;
    Ok(layer(&sampler))
}

fn layer(sampler: &Sampler) -> String {
    let of_whom = match sampler.is_by_thread() {
        true => "of each thread",
        false => "of each CPU",
    };
    let hertz = 1_000_000_000 / sampler.period_ns();
    format!("samples of the CPU clock {of_whom} at {hertz} Hz, with callers")
}

/// A program that is still running when the time is over goes on without us.
fn end(child: Option<Child>, exit_code: Option<u8>) {
    if exit_code.is_none() {
        drop(child);
    }
}

/// Which processes count.
#[derive(Debug, Clone)]
enum Members {
    All,
    Processes(Vec<u32>),
    Cgroup(String),
}

/// The layer that sees waiters asleep.
const WAITS_LAYER: &str = "waits by the kernel's tracepoints (BPF)";

impl Members {
    /// The process whose waits alone are counted in the kernel, if there is one.
    fn process(&self) -> Option<u32> {
        match self {
            Members::Processes(processes) => processes.first().copied(),
            Members::All | Members::Cgroup(_) => None,
        }
    }

    /// The processes that are sampled where each thread needs a ring of its own.
    fn target(&self) -> Target {
        match self {
            Members::All => Target::System,
            Members::Processes(processes) => Target::Processes(processes.clone()),
            Members::Cgroup(path) => Target::Processes(programs::in_cgroup(path)),
        }
    }
}

fn members(target: &LiveTarget) -> Result<(Option<Child>, Members), LiveError> {
    Ok(match target {
        LiveTarget::System => (None, Members::All),
        LiveTarget::Process(pid) => (None, Members::Processes(vec![*pid])),
        LiveTarget::Cgroup(path) => {
            let path = programs::cgroup_path(path);
            if programs::in_cgroup(&path).is_empty() {
                return Err(LiveError::NoCgroup { path });
            }
            (None, Members::Cgroup(path))
        }
        LiveTarget::Program(command) => {
            let (program, arguments) = command.split_first().expect("clap asks for a program");
            let child = Command::new(program).args(arguments).spawn();
            let child = child.map_err(|source| LiveError::CannotRun {
                program: program.clone(),
                source,
            })?;
            let pid = child.id();
            (Some(child), Members::Processes(vec![pid]))
        }
    })
}

fn code_of(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).map_or(0, |code| code as u8)
}

fn kernel_symbols() -> Result<KernelSymbols, LiveError> {
    let text = read(Path::new("/proc/kallsyms"))?;
    let lines = text.lines().take(SYMBOLS_MAX);
    let symbols: Vec<(u64, String)> = lines.filter_map(KernelSymbols::entry).collect();
    match symbols.iter().all(|(address, _)| *address == 0) {
        true => Err(LiveError::NoKernelNames),
        false => Ok(KernelSymbols::of(symbols)),
    }
}

fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn online_cpus() -> Result<Vec<u32>, LiveError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let text = read(path)?;
    let cpus = crate::machine::cpu_list(text.trim());
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
    // A pipe keeps what was read of it: such a file is not looked into.
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
