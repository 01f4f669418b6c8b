//! `hitm record`: runs a program under QEMU with the recorder loaded, and writes what it reports.
//!
//! Recorded processes tell a thread of this one, the engine, what they do, through a board in shared
//! memory. The engine prices it and fills a ring in the same memory; another thread drains the ring,
//! and the file gets each full block as one chunk. A killed recorder leaves a file
//! that is whole up to its last chunk, and takes the program with it
//! ([`RecordConfig::keeps_running`] leaves it alone).

mod allocators;
mod child;
mod command;
mod control;
mod descriptor;
mod engine;
mod futex;
mod host_time;
mod lifeline;
mod region;
mod run;
mod signals;
mod sink;
mod target;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use hitm_base::{Cycles, Machine};
use hitm_files::output_file::OutputError;
use hitm_trace::Header;
use hitm_weave::{CpuChoice, CpuError, Placement, ProgramCpus};
use thiserror::Error;

pub use allocators::{AllocatorError, AllocatorRule, AllocatorRules};
pub(crate) use child::{end_with_this_thread, inherit};
pub use control::{Begin, ControlFiles};
pub use hitm_trace::Caveat;
pub(crate) use region::Region;
pub(crate) use run::exit_code_of;
pub use run::{Ended, StoppedBy};
pub use signals::Signals;
pub use sink::Progress;
pub(crate) use sink::Sink;
pub(crate) use target::find_in_path;
pub use target::{Target, TargetError};
pub use tools::{Qemu, Tools, ToolsError};
pub(crate) use tools::{library, version_of};

/// Default window. Windows of 1,000 and 10,000 give the same HITM counts, and one of 100,000 loses
/// a quarter of them. 10,000 costs half of what 1,000 does.
pub const DEFAULT_WINDOW: Cycles = Cycles(10_000);

/// Settings of a recording.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Folder that the program runs in; none for this process's own.
    pub directory: Option<PathBuf>,
    /// Destination of the program's standard output.
    pub program_output: ProgramOutput,
    /// The modelled machine and the text it was read from.
    pub machine: (Machine, String),
    /// On which modelled CPUs the threads run.
    pub placement: Placement,
    /// Modelled CPUs that the program sees, and that its threads run on; none for the first 16 of the placement.
    pub cpus: Option<CpuChoice>,
    /// Cycles that a thread's clock may run ahead of the slowest.
    pub window: Cycles,
    /// The file to write; an existing one is replaced.
    pub output: PathBuf,
    /// A QEMU to use instead of the one that is found.
    pub qemu: Option<PathBuf>,
    /// Set if the program continues, unrecorded, when this process is killed. Otherwise it is
    /// killed as well, with all processes that are recorded.
    pub keeps_running: bool,
    /// Set if children and programs started by exec are recorded as well.
    pub follows: bool,
    /// Accesses whose functions' callers are recorded.
    pub callers: Callers,
    /// Functions of the program that allocate, beside those that hitm knows.
    pub allocators: AllocatorRules,
    /// The moment at which the recording begins; until then the program runs unrecorded.
    pub begin: Begin,
    /// Time from its beginning after which the recording ends as by a SIGTERM that is sent to this process.
    pub duration: Option<Duration>,
    /// FIFOs through which it is turned on and off.
    pub control: Option<ControlFiles>,
    /// Time after which a recording that stands still says so.
    pub stall: Stall,
    /// Time in which the programs live.
    pub clock: ProgramClock,
}

/// Place where a program's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramOutput {
    /// To this process's standard output.
    #[default]
    Inherited,
    /// To this process's standard error.
    Error,
    /// Nowhere.
    Discarded,
}

/// Accesses whose functions' callers are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Callers {
    /// None: `-g 0`.
    Nobody,
    /// Those since a process has two threads or shares memory: calls before have no names, and cost nothing.
    #[default]
    InCompany,
    /// All: a process that is alone is looked at too, which makes it twice as slow.
    All,
}

/// Time in which recorded programs live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramClock {
    /// The host's, which passes while the emulator works.
    #[default]
    Host,
    /// The modelled machine's: clocks, sleeps and time-outs follow the threads' virtual clocks.
    Modelled,
}

/// Patience with a recording in which nothing moves although a thread should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Time after which it is told.
    pub after: Duration,
    /// Set if it ends the recording, and the program.
    pub ends: bool,
}

/// News of a recording under way.
#[derive(Debug)]
pub enum News<'a> {
    /// Its extent so far: about every 100 ms.
    Progress(Progress),
    /// A sentence for the user.
    Note(&'a str),
    /// The programs and files that the recording is made with, a line each, before it begins.
    Tools(&'a [String]),
}

/// Reason for which nothing, or not everything, was recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The program cannot be recorded.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Something is missing on this host.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The machine has no such CPUs.
    #[error("the machine {machine} cannot be used so: {source}")]
    Cpus {
        /// The machine's name.
        machine: String,
        /// The reason.
        source: CpuError,
    },
    /// The operating system refused something.
    #[error("cannot {what}")]
    System {
        /// The refused action, such as `start a thread`.
        what: String,
        /// Its answer.
        source: std::io::Error,
    },
    /// A FIFO of [`RecordConfig::control`] cannot be opened.
    #[error("cannot take commands from {}", path.display())]
    Control {
        /// The FIFO.
        path: PathBuf,
        /// The system's answer.
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
        /// The reason.
        source: hitm_trace::WriteError,
    },
    /// The file was written, and is not what its name leads to.
    #[error("the recording {} is lost", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// The change that another process has made.
        source: std::io::Error,
    },
    /// QEMU ended before the recorder was loaded.
    #[error("the program did not start under {} ({status})", qemu.display())]
    NotStarted {
        /// The QEMU that was started.
        qemu: PathBuf,
        /// Its exit status, in words.
        status: String,
    },
}

/// Records a program. Returns when it has ended; `news` is called about every 100 ms.
///
/// The program keeps this process's standard input, output and error, its working directory and
/// its environment, where the settings do not say otherwise. Its exit status is in the result. The program ends with the calling thread,
/// unless [`RecordConfig::keeps_running`].
pub fn record(config: &RecordConfig, news: &mut dyn FnMut(News<'_>)) -> Result<Ended, RecordError> {
    let cpus = cpus(config)?;
    let target = Target::find_in(config.directory.as_deref(), &config.command)?;
    let tools = Tools::find(target.architecture, config.qemu.as_deref())?;
    let prepared = Prepared {
        config,
        cpus,
        target,
        tools,
    };
    news(News::Tools(&prepared.tools()));
    let result = run::run(&prepared, news);
    if let Err(RecordError::NotStarted { .. }) = result {
        // It may be QEMU that does not load the recorder.
        prepared.tools.qemu.check()?;
    }
    result
}

/// A recording that can begin.
struct Prepared<'a> {
    config: &'a RecordConfig,
    cpus: ProgramCpus,
    target: Target,
    tools: Tools,
}

fn cpus(config: &RecordConfig) -> Result<ProgramCpus, RecordError> {
    let (machine, _) = &config.machine;
    let (placement, choice) = (&config.placement, config.cpus.as_ref());
    let chosen = ProgramCpus::choose(&machine.topology, placement, choice);
    chosen.map_err(|source| RecordError::Cpus {
        machine: machine.name.clone(),
        source,
    })
}

impl Prepared<'_> {
    /// The programs and files that take part.
    fn tools(&self) -> [String; 4] {
        let Tools {
            qemu,
            heap_observer,
        } = &self.tools;
        let observer = heap_observer
            .as_ref()
            .map(|path| path.display().to_string());
        let (machine, _) = &self.config.machine;
        [
            format!(
                "program: {} ({})",
                self.target.program.display(),
                self.target.architecture.id()
            ),
            format!("emulator: {} ({})", qemu.path.display(), qemu.version),
            format!(
                "recorder: {}; heap observer: {}",
                qemu.plugin.display(),
                observer.unwrap_or_else(|| "none".to_owned())
            ),
            format!(
                "machine: {}, {} of its CPUs for the program; window {} cycles",
                machine.name,
                self.cpus.online().len(),
                self.config.window.0
            ),
        ]
    }

    fn header(&self) -> Header {
        let config = self.config;
        let (machine, machine_toml) = &config.machine;
        Header {
            hitm_version: env!("CARGO_PKG_VERSION").to_string(),
            args: config.command.clone(),
            machine_toml: machine_toml.clone(),
            window: config.window,
            placement: config.placement.to_string(),
            seed: 0,
            arch: self.target.architecture.id().to_string(),
            qemu_version: self.tools.qemu.version.clone(),
            clock: machine.clock,
            page_size_bytes: 4096,
            sampled: None,
        }
    }
}
