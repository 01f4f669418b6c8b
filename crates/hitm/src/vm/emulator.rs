//! QEMU's command line, and the sockets to it.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hitm_files::{limits, temporary};

use super::agent::Agent;
use super::qmp::Qmp;
use super::topology::GuestCpus;
use super::{VmConfig, VmError};
use crate::record::{Region, end_with_this_thread, find_in_path, inherit, library, version_of};

/// The emulator of whole x86-64 machines.
const EMULATOR: &str = "qemu-system-x86_64";
/// The recorder for it.
const PLUGIN: &str = "libhitm_qemu_api2.so";
/// Earlier versions refuse the recorder, and cannot keep a machine's state in a file.
const MAJOR_VERSION_MIN: u32 = 9;
const CLOCK: &str = "libhitm_clock.so";

/// A CPU with all that a current kernel needs. Left out: five page-table levels and MONITOR/MWAIT,
/// which slow the emulation or which the recorder does not know.
const CPU: &str = "Icelake-Server,la57=off,monitor=off,check=off";

/// Options of every kernel. No address randomisation, no mitigations, no timer check, and no lockup
/// or stall alarm: a busy host delays the guest's timers. Each slab cache keeps its own objects
/// (`slab_nomerge`), so that its name tells their type. CPUs come up one after the other: a
/// parallel bring-up spins on all of them, and keeps a small host busy.
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet nokaslr norandmaps no5lvl slab_nomerge mitigations=off nosoftlockup \
    nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable no_timer_check cpuhp.parallel=0 panic=-1";

/// The variable that [`CLOCK`] reads the slowdown from.
const SLOWDOWN: &str = "HITM_CLOCK_SLOWDOWN";
/// CPUs up to which a guest runs on the host's time. An emulated tick of Linux 6.12 takes some 20
/// us: at 250 Hz two hundred CPUs would keep one of the host fully busy.
const CPUS_IN_HOST_TIME: usize = 64;

/// Time that QEMU may take to open its sockets.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// Time that a QEMU may take to exit after it closed its sockets.
const ENDING_TIME: Duration = Duration::from_millis(500);

/// QEMU's command line, as far as boot and recording share it.
#[derive(Debug)]
pub(super) struct Emulator<'c> {
    pub(super) qemu: PathBuf,
    pub(super) image: PathBuf,
    pub(super) initramfs: &'c File,
    pub(super) config: &'c VmConfig,
    pub(super) cpus: &'c GuestCpus,
}

/// QEMU's arguments in which boot and recording differ.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose<'r> {
    /// Boot at full speed.
    Boot,
    /// Resume from a snapshot, with the recorder.
    Record {
        /// The state of the machine.
        snapshot: &'r Path,
        /// Shared memory that the recorder writes to.
        region: &'r Region,
        /// The kernel's functions that matter to the recorder.
        functions: &'r Functions,
    },
}

/// Functions of a kernel that the recorder is told of, as far as this one has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Functions {
    /// Entry addresses of those whose calls are counted.
    pub(super) calls: Vec<u64>,
    /// Code of those that wait for the lock that is their first argument.
    pub(super) lock_waits: Vec<Range<u64>>,
    /// Entry addresses of those that let a CPU go on with another task.
    pub(super) schedulers: Vec<u64>,
    /// The first one that runs on that task's stack.
    pub(super) switch: Option<u64>,
}

impl Functions {
    /// Adds them to the plugin's arguments.
    fn write(&self, arguments: &mut String) {
        let address = |at: &u64| format!("{at:#x}");
        let range = |code: &Range<u64>| format!("{:#x}-{:#x}", code.start, code.end);
        let lists = [
            ("calls", self.calls.iter().map(address).collect::<Vec<_>>()),
            ("lock_waits", self.lock_waits.iter().map(range).collect()),
            ("schedulers", self.schedulers.iter().map(address).collect()),
            ("task_switch", self.switch.iter().map(address).collect()),
        ];
        for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            let _ = write!(arguments, ",{name}={}", list.join("/"));
        }
    }
}

/// A running QEMU. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) child: Child,
    pub(super) qmp: Qmp,
    pub(super) agent: Agent,
    pub(super) console: std::os::unix::net::UnixStream,
}

impl Machine {
    /// Exit status of QEMU, if it ended, for the error of a broken connection.
    pub(super) fn ending(&mut self) -> String {
        // A process that closes its sockets may run for a moment.
        let started = Instant::now();
        while started.elapsed() < ENDING_TIME {
            if let Ok(Some(status)) = self.child.try_wait() {
                return format!(" (QEMU ended: {status})");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        String::new()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of the emulator: the given one, or the one in PATH.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf, VmError> {
    let found = given
        .map(Path::to_path_buf)
        .or_else(|| find_in_path(EMULATOR));
    let qemu = found.ok_or(VmError::NoEmulator)?;
    let version = match version_of(&qemu) {
        Ok(version) => version,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let what = format!("run {}", qemu.display());
            return Err(VmError::system(&what, limits::explain_start(error)));
        }
    };
    if version.is_empty() {
        return Err(VmError::NoSuchEmulator { path: qemu });
    }
    match major_version(&version) {
        None | Some(0..MAJOR_VERSION_MIN) => Err(VmError::OldEmulator { version }),
        _ => Ok(qemu),
    }
}

/// "QEMU emulator version 10.0.2 (Debian …)"
fn major_version(version: &str) -> Option<u32> {
    let (_, numbers) = version.split_once("version ")?;
    numbers.split('.').next()?.parse().ok()
}

/// Version that the emulator reports; empty when it cannot be run.
pub(super) fn version(qemu: &Path) -> String {
    version_of(qemu).unwrap_or_default()
}

impl Emulator<'_> {
    /// The kernel's command line.
    pub(super) fn append(&self) -> String {
        let further = &self.config.append;
        format!("{KERNEL_OPTIONS} {further}").trim_end().to_owned()
    }

    /// Slowdown of the guest's time against the host's while nothing is recorded.
    fn slowdown(&self) -> usize {
        self.cpus.order.len().div_ceil(CPUS_IN_HOST_TIME)
    }

    /// Everything that the state of a booted machine depends on, its kernel and files excepted.
    pub(super) fn identity(&self) -> Vec<String> {
        let mut words = self.cpus.arguments(self.config.memory_mib);
        words.extend([self.append(), CPU.to_owned(), version(&self.qemu)]);
        words
    }

    /// Starts QEMU and connects to it.
    pub(super) fn start(&self, purpose: Purpose<'_>) -> Result<Machine, VmError> {
        let sockets = temporary::directory()
            .map_err(|source| VmError::system("make a folder for sockets", source))?;
        let mut command = self.command(purpose, sockets.path())?;
        let mut child = command.spawn().map_err(|source| {
            let what = format!("start {}", self.qemu.display());
            VmError::system(&what, limits::explain_start(source))
        })?;
        let connected = connect(&mut child, sockets.path());
        // Connections do not need the sockets' names: from here on a killed hitm leaves none.
        drop(sockets);
        match connected {
            Ok((qmp, agent, console)) => Ok(Machine {
                child,
                qmp,
                agent,
                console,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn command(&self, purpose: Purpose<'_>, sockets: &Path) -> Result<Command, VmError> {
        let mut command = Command::new(&self.qemu);
        command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", CPU]);
        command.args(self.cpus.arguments(self.config.memory_mib));
        command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        command.arg("-kernel").arg(&self.image);
        inherit(&mut command, self.initramfs);
        let initramfs = format!("/proc/self/fd/{}", self.initramfs.as_raw_fd());
        command.args(["-initrd", &initramfs]);
        command.arg("-append").arg(self.append());
        for (option, socket) in [
            ("-serial", "console"),
            ("-serial", "agent"),
            ("-qmp", "qmp"),
        ] {
            let path = sockets.join(socket);
            command.arg(option);
            command.arg(format!("unix:{},server=on,wait=off", path.display()));
        }
        if let Purpose::Record {
            snapshot,
            region,
            functions,
        } = purpose
        {
            command.arg("-incoming");
            command.arg(format!("file:{}", snapshot.display()));
            command.arg("-plugin");
            let plugin = library(PLUGIN)?;
            let start = &self.config.start;
            let mut arguments = format!("{},start={start}", region.plugin_arguments());
            functions.write(&mut arguments);
            command.arg(format!("{},{arguments}", plugin.display()));
            command.env("LD_PRELOAD", library(CLOCK)?);
            region.inherit(&mut command);
        } else if self.slowdown() > 1 {
            command.env("LD_PRELOAD", library(CLOCK)?);
            command.env(SLOWDOWN, self.slowdown().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Without hitm the machine has no use, and nothing would end it.
        end_with_this_thread(&mut command);
        Ok(command)
    }
}

fn connect(
    child: &mut Child,
    sockets: &Path,
) -> Result<(Qmp, Agent, std::os::unix::net::UnixStream), VmError> {
    let started = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(VmError::EmulatorEnded {
                status: status.to_string(),
            });
        }
        // QEMU opens its sockets in the order of its arguments: the last one opens last.
        if let Ok(qmp) = Qmp::connect(&sockets.join("qmp")) {
            let system = |source| VmError::system("connect to QEMU", source);
            let agent = Agent::connect(&sockets.join("agent")).map_err(system)?;
            let console = std::os::unix::net::UnixStream::connect(sockets.join("console"));
            return Ok((qmp, agent, console.map_err(system)?));
        }
        if started.elapsed() > START_TIME_MAX {
            return Err(VmError::EmulatorEnded {
                status: "it opens no sockets".into(),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(
            major_version("QEMU emulator version 7.2.22 (Debian 1:7.2)"),
            Some(7)
        );
        assert_eq!(major_version("QEMU emulator version 10.0.2"), Some(10));
        assert_eq!(major_version("something else"), None);
    }
}
