//! SIGINT, SIGTERM and SIGHUP while a program is recorded: they end the recording.
//!
//! Ctrl-C on a terminal reaches the program as well, and what it does is its own business; this
//! process only notes that the recording is to end. A signal that somebody sent to this process
//! alone is passed on once the recording has ended. A SIGHUP that is ignored when the recording
//! begins stays ignored: that is how nohup(1) keeps a command running.

use std::sync::atomic::{AtomicI32, Ordering};

static PENDING: AtomicI32 = AtomicI32::new(0);
/// Set when the signal came from a process and not from the terminal.
static IS_FOR_US_ALONE: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid description.
    let from_process = unsafe { (*info).si_code } <= 0;
    IS_FOR_US_ALONE.store(from_process.into(), Ordering::Relaxed);
    PENDING.store(signal, Ordering::Release);
}

/// While this lives, none of the signals ends this process.
#[derive(Debug)]
pub struct Signals {
    previous: Vec<(libc::c_int, libc::sighandler_t)>,
}

impl Signals {
    /// Catches the signals from now on. One that came while they were caught already stays.
    pub fn catch() -> Signals {
        if action(libc::SIGINT) != note as *const () as libc::sighandler_t {
            PENDING.store(0, Ordering::Relaxed);
        }
        let mut caught = vec![libc::SIGINT, libc::SIGTERM];
        if action(libc::SIGHUP) != libc::SIG_IGN {
            caught.push(libc::SIGHUP);
        }
        let install = |signal| (signal, install(signal));
        Signals {
            previous: caught.into_iter().map(install).collect(),
        }
    }

    /// Returns true if one of the signals came.
    pub fn has_come(&self) -> bool {
        self.pending().is_some()
    }

    /// The signal that came, if one did, and whether it is to be passed on.
    pub(crate) fn pending(&self) -> Option<(libc::c_int, bool)> {
        match PENDING.load(Ordering::Acquire) {
            0 => None,
            signal => Some((signal, IS_FOR_US_ALONE.load(Ordering::Relaxed) != 0)),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, handler) in &self.previous {
            // SAFETY: gives the signal back to the handler that had it.
            unsafe { libc::signal(*signal, *handler) };
        }
    }
}

/// The present action of a signal.
fn action(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: a plain system call that fills the structure.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

fn install(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: the handler only stores to atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        let mut previous: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, &mut previous);
        previous.sa_sigaction
    }
}
