//! An interactive machine: booted like a recorded one, at full speed, with a shell.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::emulator::{Emulator, Purpose};
use super::run::{Console, VmProgress};
use super::{VmConfig, VmError, run};
use crate::record::find_in_path;

/// Longest wait for the shell's end before pending signals are checked.
const LISTEN_TIME: Duration = Duration::from_millis(200);

/// Boots the machine of `config` and runs its command on this terminal; returns the command's exit
/// status. Nothing is recorded.
pub fn shell(config: &VmConfig, progress: &mut dyn FnMut(VmProgress<'_>)) -> Result<u8, VmError> {
    run::with_emulator(config, progress, |emulator, _, progress| {
        progress(VmProgress::Preparing("booting"));
        talk(emulator, progress)
    })
}

/// The default shell: busybox, which brings programs along, before shells that bring only
/// themselves.
pub fn default_shell() -> Vec<String> {
    match find_in_path("busybox") {
        Some(_) => vec!["busybox".into(), "sh".into()],
        None => vec!["sh".into()],
    }
}

fn talk(emulator: &Emulator<'_>, progress: &mut dyn FnMut(VmProgress<'_>)) -> Result<u8, VmError> {
    let io = |what: &'static str| move |source| VmError::system(what, source);
    let mut machine = emulator.start(Purpose::Boot)?;
    let console = Console::show(&machine.console).map_err(io("read the console"))?;
    let cpu_count = emulator.cpus.order.len();
    let ready = machine.agent.wait_until_ready(cpu_count);
    ready.map_err(|error| console.explain("booting", &error, &mut machine))?;
    progress(VmProgress::Running);
    let _raw = RawTerminal::enter();
    let typed = machine.console.try_clone();
    forward(typed.map_err(io("write to the console"))?);
    let sent = machine.agent.send("run");
    sent.map_err(|error| console.explain("running", &error, &mut machine))?;
    loop {
        let status = machine.agent.exit_status(LISTEN_TIME);
        let status = status.map_err(|error| console.explain("running", &error, &mut machine));
        if let Some(status) = status? {
            return Ok(status);
        }
    }
}

/// Forwards typed bytes to the guest, until the process ends.
fn forward(mut console: UnixStream) {
    std::thread::spawn(move || {
        let mut buffer = [0u8; 256];
        let mut input = io::stdin().lock();
        while let Ok(count @ 1..) = input.read(&mut buffer) {
            if console.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    });
}

/// This terminal without echo and line editing, which the guest's terminal does. Restores the
/// settings when dropped.
struct RawTerminal {
    before: libc::termios,
}

impl RawTerminal {
    fn enter() -> Option<RawTerminal> {
        let input = io::stdin();
        if !input.is_terminal() {
            return None;
        }
        let fd = input.as_raw_fd();
        // SAFETY: plain system calls on an open descriptor, with a structure that the first one fills.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(fd, &mut before) != 0 {
                return None;
            }
            let mut raw = before;
            libc::cfmakeraw(&mut raw);
            libc::tcsetattr(fd, libc::TCSANOW, &raw);
            Some(RawTerminal { before })
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // SAFETY: as in `enter`.
        unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSANOW, &self.before) };
    }
}
