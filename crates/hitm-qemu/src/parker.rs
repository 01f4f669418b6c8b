//! Place of a thread that waits in the barrier.
//!
//! The standard library's parking computes the end of its wait from the process's clock, which
//! follows the recorder's own time while a whole machine is recorded. A futex takes a span.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libc::clockid_t;

use crate::clock::{NANOS_PER_SECOND, timespec_of};

/// A place for one thread to wait, and for others to wake it.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    woken: AtomicU32,
}

impl Parker {
    /// Waits until [`Parker::unpark`], or something else, happens; whether it was the end of
    /// `timeout`. A wake that came before counts.
    pub(crate) fn park(&self, timeout: Duration) -> bool {
        if self.woken.swap(0, Ordering::Acquire) == 1 {
            return false;
        }
        let timed_out = wait(&self.woken, libc::FUTEX_PRIVATE_FLAG, 0, timeout);
        self.woken.swap(0, Ordering::Acquire) == 0 && timed_out
    }

    /// Wakes the thread that waits, or the next that will.
    pub(crate) fn unpark(&self) {
        self.woken.store(1, Ordering::Release);
        wake(&self.woken, libc::FUTEX_PRIVATE_FLAG, 1);
    }
}

/// Waits while a word that processes share has this value; true when it was for the whole `time`.
pub(crate) fn wait_shared(word: &AtomicU32, value: u32, time: Duration) -> bool {
    wait(word, 0, value, time)
}

/// Wakes all that wait at a word that processes share.
pub(crate) fn wake_shared(word: &AtomicU32) {
    wake(word, 0, c_int::MAX);
}

/// Waits while the word has this value; true when it was for the whole `time`.
fn wait(word: &AtomicU32, flag: c_int, value: u32, time: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word lives as long as the call; the kernel reads the span.
    unsafe {
        let result = libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | flag,
            value,
            &timeout,
        );
        result != 0 && *libc::__errno_location() == libc::ETIMEDOUT
    }
}

/// Wakes so many of those that wait at the word.
fn wake(word: &AtomicU32, flag: c_int, count: c_int) {
    // SAFETY: as in `wait`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | flag,
            count,
        )
    };
}

/// The host's `CLOCK_MONOTONIC` in nanoseconds, whatever the process's clock says.
pub(crate) fn host_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// One of the host's clocks in nanoseconds.
pub(crate) fn nanos_of(clock: clockid_t) -> u64 {
    let mut time = timespec_of(0);
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &mut time) };
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_wake_ends_a_wait_and_is_not_lost() {
        let parker = Arc::new(Parker::default());
        parker.unpark();
        assert!(!parker.park(Duration::from_secs(60)));
        assert!(parker.park(Duration::from_millis(1)));
        let other = Arc::clone(&parker);
        let waker = std::thread::spawn(move || other.unpark());
        assert!(!parker.park(Duration::from_secs(60)));
        waker.join().unwrap();
    }
}
