//! `hitm vm`: boots an unmodified kernel on the CPUs of a machine model and records it.
//!
//! A guest boots once at full speed and its state is saved. Each recording resumes from that state
//! with the recorder loaded. The guest's first program is our agent (guest/agent.c), which runs the
//! workload between two marker instructions.

mod agent;
mod caches;
mod emulator;
mod initramfs;
mod kernel;
mod memory;
mod moves;
mod objects;
mod qmp;
mod run;
mod shell;
mod snapshot;
mod topology;
mod workload;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hitm_base::{Cycles, Machine};
use hitm_files::ours;
use hitm_layout::layout_file::LayoutFile;
use thiserror::Error;

use crate::record::ToolsError;

pub use caches::caches;
pub(crate) use emulator::find as find_emulator;
pub use hitm_kernel::{Cache, Walks};
pub use kernel::KernelSource;
pub use memory::records as records_of_agent;
pub use run::{VmEnded, VmProgress, run};
pub use shell::{default_shell, shell};

/// Configuration of a guest, its workload and the recording.
#[derive(Debug, Clone)]
pub struct VmConfig {
    /// Source of the kernel.
    pub kernel: KernelSource,
    /// The modelled machine and the text it was read from.
    pub machine: (Machine, String),
    /// CPUs of the machine that the guest gets; `None` for all.
    pub cpu_count: Option<usize>,
    /// Memory of the guest in MiB.
    pub memory_mib: u64,
    /// Further options for the kernel.
    pub append: String,
    /// The program to run and its arguments: one of hitm's own by name, `hitm` for this program, or one
    /// of this host.
    pub command: Vec<String>,
    /// Further programs to bring along, in the same forms.
    pub others: Vec<String>,
    /// A QEMU to use instead of the one in PATH.
    pub qemu: Option<PathBuf>,
    /// Event that starts the recording.
    pub start: StartAt,
    /// Structures whose objects are priced in other layouts, and the text of each file.
    pub layouts: Vec<(LayoutFile, String)>,
    /// Walks beside those that come with hitm.
    pub walks: Walks,
    /// Cycles that a CPU's clock may run ahead of the slowest.
    pub window: Cycles,
    /// Time that the workload may take on this host.
    pub time_limit: Duration,
    /// Directory of kernels and snapshots.
    pub cache: PathBuf,
    /// The file to write; an existing one is replaced.
    pub output: PathBuf,
}

/// Event that starts the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The start of the workload.
    Workload,
    /// The first time that the guest executes this address after the snapshot.
    Address(u64),
}

/// Makes a folder of the cache where it is missing. A machine boots what lies there.
///
/// # Errors
/// It is not this user's alone.
fn cache_folder(path: &Path) -> Result<(), VmError> {
    ours::private_folder(path, true).map_err(|source| VmError::Cache {
        path: path.into(),
        source,
    })
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartAt::Workload => f.write_str("marker"),
            StartAt::Address(address) => write!(f, "{address:#x}"),
        }
    }
}

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<StartAt, String> {
        let address = text
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match (text, address) {
            ("workload", _) => Ok(StartAt::Workload),
            (_, Some(address)) => Ok(StartAt::Address(address)),
            _ => Err(format!(
                "found '{text}', expected 'workload' or an address like 0xffffffff81000000"
            )),
        }
    }
}

/// Errors of booting and recording a machine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VmError {
    /// There is no emulator at the given path.
    #[error("{} cannot be run: expected a qemu-system-x86_64, version 9 or newer", path.display())]
    NoSuchEmulator {
        /// Path that was given.
        path: PathBuf,
    },
    /// No emulator.
    #[error(
        "qemu-system-x86_64 is not installed; on Debian 12: `apt install -t bookworm-backports qemu-system-x86`, on Debian 13: `apt install qemu-system-x86`"
    )]
    NoEmulator,
    /// An emulator that is too old.
    #[error(
        "found {version}, expected QEMU 9 or newer; on Debian 12: `apt install -t bookworm-backports qemu-system-x86`"
    )]
    OldEmulator {
        /// Version that it reports.
        version: String,
    },
    /// hitm's own libraries are not there.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The guest cannot be cut out of the machine.
    #[error(
        "found {count} CPUs, expected a number that {machine} can give evenly: the same from each of its {packages} packages, at most {cpus} in all"
    )]
    CpuCount {
        /// Requested number of CPUs.
        count: usize,
        /// The machine's name.
        machine: String,
        /// Its packages.
        packages: usize,
        /// Its CPUs.
        cpus: usize,
    },
    /// apt knows no such kernel.
    #[error(
        "apt knows no package linux-image-{version}*-amd64 (newer ones are in backports; `apt-get update` first)"
    )]
    NoKernelPackage {
        /// Requested version.
        version: String,
    },
    /// A package was not downloaded or not unpacked.
    #[error("cannot get the package {package}: {what}")]
    Download {
        /// The package.
        package: String,
        /// Message of the program that failed.
        what: String,
    },
    /// The workload, or a file that it needs, is missing.
    #[error("cannot bring {program} into the guest: {problem}")]
    Workload {
        /// The program.
        program: String,
        /// Description of the problem.
        problem: String,
    },
    /// A layout does not fit the kernel.
    #[error("{what}")]
    Layout {
        /// Description of the problem.
        what: String,
    },
    /// The kernel has no object of the layouts' structures.
    #[error("nothing moves: no walk over the kernel's memory finds an object of {structs}")]
    NothingMoves {
        /// The structures.
        structs: String,
    },
    /// The workload did not end in time.
    #[error(
        "the workload did not end within {} s on this host (--timeout); what was recorded until then is in {}",
        limit.as_secs(),
        path.display()
    )]
    TimedOut {
        /// The time limit.
        limit: Duration,
        /// The recording.
        path: PathBuf,
    },
    /// The guest's file system does not fit its memory.
    #[error(
        "the guest's file system has {needed_mib} MiB, of which memory is needed twice while it is unpacked; the guest has {memory_mib} MiB (--memory)"
    )]
    FileSystemTooLarge {
        /// The file system's size.
        needed_mib: u64,
        /// The guest's memory.
        memory_mib: u64,
    },
    /// QEMU ended by itself.
    #[error("QEMU did not start ({status}); its message is above")]
    EmulatorEnded {
        /// Exit status of QEMU.
        status: String,
    },
    /// The guest failed to run its workload.
    #[error("{problem}\nthe last lines of its console:\n{console}")]
    Guest {
        /// Description of the failure.
        problem: String,
        /// End of the console's output.
        console: String,
    },
    /// A folder of the cache could be somebody else's.
    #[error("cannot use {} for kernels and snapshots (--snapshot-cache chooses another folder)", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused something.
    #[error("cannot {what}")]
    System {
        /// Action that was refused.
        what: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The recording failed.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
}

impl VmError {
    pub(crate) fn system(what: &str, source: io::Error) -> VmError {
        VmError::System {
            what: what.to_owned(),
            source,
        }
    }
}
