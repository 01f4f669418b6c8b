//! `hitm record`: runs a program under QEMU with the recorder loaded, and writes what it reports.
//!
//! Three parties share one region of memory: this process makes it and drains the ring in it; the
//! plugin inside QEMU fills the ring; the file gets each full block as one chunk. A killed program
//! leaves its last block in the ring, and this process writes it. A killed recorder leaves a file
//! that is whole up to its last chunk, and takes the program with it
//! ([`RecordConfig::keeps_running`] leaves it alone).

mod child;
mod command;
mod region;
mod run;
mod signals;
mod sink;
mod target;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use hitm_base::{Cycles, Machine};
use hitm_trace::Header;
use hitm_weave::Placement;
use thiserror::Error;

use crate::output_file::OutputError;

pub(crate) use child::{end_with_this_thread, inherit};
pub(crate) use region::Region;
pub use run::Ended;
pub(crate) use signals::Signals;
pub use sink::Progress;
pub(crate) use sink::Sink;
pub(crate) use target::find_in_path;
pub use target::{Architecture, Target, TargetError};
pub(crate) use tools::library_directory;
pub use tools::{Qemu, Tools, ToolsError};

/// The window that is used when none is asked for. 1,000 and 10,000 give the same HITM counts, and
/// 100,000 loses a quarter of them; 10,000 costs half of what 1,000 does.
pub const DEFAULT_WINDOW: Cycles = Cycles(10_000);

/// What to record, and how.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The modelled machine and the text it was read from.
    pub machine: (Machine, String),
    /// On which modelled CPUs the threads run.
    pub placement: Placement,
    /// How far a thread's clock may run ahead of the slowest.
    pub window: Cycles,
    /// The file to write; an existing one is replaced.
    pub output: PathBuf,
    /// A QEMU to use instead of the one that is found.
    pub qemu: Option<PathBuf>,
    /// Set if the program goes on, unrecorded, when this process is killed. Otherwise it is killed
    /// as well; the programs that it forked go on in any case.
    pub keeps_running: bool,
    /// Time after which the recording ends as by a SIGTERM that is sent to this process.
    pub duration: Option<Duration>,
}

/// Why nothing, or not everything, was recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The program cannot be recorded.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Something is missing on this host.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The placement names a CPU that the machine does not have.
    #[error("--threads-to names CPU {cpu}, but the machine {machine} has CPUs 0 to {last}")]
    NoSuchCpu {
        /// The CPU.
        cpu: u16,
        /// The machine's name.
        machine: String,
        /// Its highest CPU.
        last: usize,
    },
    /// The operating system refused something.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: String,
        /// Its answer.
        source: std::io::Error,
    },
    /// The file cannot be written, or another process writes it.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing the file failed. What was written before is readable.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: hitm_trace::WriteError,
    },
    /// QEMU ended before the recorder was loaded.
    #[error("the program did not start under {} ({status})", qemu.display())]
    NotStarted {
        /// The QEMU that was started.
        qemu: PathBuf,
        /// How it ended.
        status: String,
    },
}

/// Records a program. Returns when it has ended; `progress` is called about every 100 ms.
///
/// The program keeps this process's standard input, output and error, its working directory and
/// its environment. Its exit status is in the result. The program ends with the calling thread,
/// unless [`RecordConfig::keeps_running`].
pub fn record(
    config: &RecordConfig,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Ended, RecordError> {
    check_placement(config)?;
    let target = Target::find(&config.command)?;
    let tools = Tools::find(target.architecture, config.qemu.as_deref())?;
    let header = header(config, &target, &tools);
    run::run(config, &target, &tools, &header, progress)
}

fn check_placement(config: &RecordConfig) -> Result<(), RecordError> {
    let (machine, _) = &config.machine;
    config
        .placement
        .order(&machine.topology)
        .map(drop)
        .map_err(|cpu| RecordError::NoSuchCpu {
            cpu: cpu.0,
            machine: machine.name.clone(),
            last: machine.topology.cpu_count() - 1,
        })
}

fn header(config: &RecordConfig, target: &Target, tools: &Tools) -> Header {
    let (machine, machine_toml) = &config.machine;
    Header {
        hitm_version: env!("CARGO_PKG_VERSION").to_string(),
        args: config.command.clone(),
        machine_toml: machine_toml.clone(),
        window: config.window,
        placement: config.placement.to_string(),
        seed: 0,
        arch: target.architecture.name().to_string(),
        qemu_version: tools.qemu.version.clone(),
        clock: machine.clock,
        page_size_bytes: 4096,
        sampled: None,
    }
}
