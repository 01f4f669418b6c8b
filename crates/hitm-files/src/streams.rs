//! Standard input, output and error as this process was given them.
//!
//! Rust's runtime opens /dev/null in the place of a closed descriptor, before `main` runs: output
//! to it is lost without an error. So a function that the dynamic linker runs before the runtime
//! does (`.init_array`) notes which descriptors are open.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::limits;

const COUNT: libc::c_int = 3;

/// One bit for each descriptor that was closed when this process began.
static CLOSED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note() {
    for fd in 0..COUNT {
        // SAFETY: a plain system call that asks whether the descriptor is open.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds functions of this type, which run once, before `main`; this one needs
// nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

fn was_closed(fd: libc::c_int) -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << fd != 0
}

/// Standard output, of which every failure to write is an error. [`io::Stdout`] accepts bytes for a
/// closed descriptor, or one that is open for reading only, and drops them.
#[derive(Debug)]
pub struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if was_closed(libc::STDOUT_FILENO) {
            return Err(io::Error::other("standard output is closed"));
        }
        let copy = io::stdout().as_fd().try_clone_to_owned();
        let mut file = File::from(copy.map_err(limits::explain)?);
        file.write(bytes).map_err(limits::explain)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// State of a terminal that keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// There is something to read.
    Ready,
    /// Nothing came, or a signal ended the wait.
    Quiet,
    /// The other end of the terminal is closed: nothing will come.
    HungUp,
}

/// Waits for something to read on standard input, for a time at most. A signal ends the wait.
pub fn wait_for_input(time: Duration) -> Input {
    let mut input = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    let millis = time.as_millis().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads and writes the one description that is passed.
    let ready = unsafe { libc::poll(&mut input, 1, millis) };
    match ready {
        1 if input.revents == libc::POLLIN => Input::Ready,
        1 => Input::HungUp,
        _ => Input::Quiet,
    }
}

/// Closes in the program that `command` starts those standard descriptors that this process found
/// closed.
pub fn pass_closed(command: &mut Command) {
    let closed = CLOSED.load(Ordering::Relaxed);
    if closed == 0 {
        return;
    }
    // SAFETY: between fork and exec only these system calls are made.
    unsafe {
        command.pre_exec(move || {
            for fd in (0..COUNT).filter(|fd| closed & 1 << fd != 0) {
                libc::close(fd);
            }
            Ok(())
        });
    }
}
