//! Signals that end a placement or an observation. They are noted, so that it is undone or shown
//! before the process ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time within which [`Stop::sleep`] notices a signal.
const STEP: Duration = Duration::from_millis(50);

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    IS_REQUESTED.store(true, Ordering::Release);
}

/// Flag of the caught signals.
#[derive(Debug, Clone, Copy)]
pub struct Stop(());

impl Stop {
    /// Catches SIGINT, SIGTERM and SIGHUP for the rest of this process. An ignored SIGHUP stays
    /// ignored, by which nohup(1) keeps a command running.
    pub fn catch() -> Stop {
        catch(libc::SIGINT);
        catch(libc::SIGTERM);
        // SAFETY: a plain system call; the former action is put back below if need be.
        let former = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        if former != libc::SIG_IGN {
            catch(libc::SIGHUP);
        }
        Stop(())
    }

    /// Catches SIGTERM alone: for guards, which ignore a terminal's signals.
    pub(super) fn catch_termination() -> Stop {
        catch(libc::SIGTERM);
        Stop(())
    }

    /// Returns true once a signal has come.
    pub fn is_requested(self) -> bool {
        IS_REQUESTED.load(Ordering::Acquire)
    }

    /// Sleeps for a time, or until a signal comes.
    pub fn sleep(self, time: Duration) {
        let begun = Instant::now();
        while !self.is_requested() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(STEP));
        }
    }
}

fn catch(signal: libc::c_int) {
    // SAFETY: the handler stores to an atomic alone. Without SA_RESTART, sleeps and waits end at a signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = note;
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}
