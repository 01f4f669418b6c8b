//! Place of a thread that waits in the barrier.
//!
//! The standard library's parking computes the end of its wait from the process's clock, which
//! follows the recorder's own time while a whole machine is recorded. A futex takes a span.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the word lives as long as `self`; the kernel reads the span.
        let timed_out = unsafe {
            let result = libc::syscall(
                libc::SYS_futex,
                self.woken.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                0,
                &timeout,
            );
            result != 0 && *libc::__errno_location() == libc::ETIMEDOUT
        };
        self.woken.swap(0, Ordering::Acquire) == 0 && timed_out
    }

    /// Wakes the thread that waits, or the next that will.
    pub(crate) fn unpark(&self) {
        self.woken.store(1, Ordering::Release);
        // SAFETY: as in `park`.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.woken.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }
}

/// Waits while a word that processes share has this value; true when it was for the whole `time`.
pub(crate) fn wait_shared(word: &AtomicU32, value: u32, time: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word lives as long as the call; the kernel reads the span.
    unsafe {
        let result = libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &timeout,
        );
        result != 0 && *libc::__errno_location() == libc::ETIMEDOUT
    }
}

/// Wakes all that wait at a word that processes share.
pub(crate) fn wake_shared(word: &AtomicU32) {
    // SAFETY: as in `wait_shared`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        );
    }
}

/// The host's `CLOCK_MONOTONIC` in nanoseconds, whatever the process's clock says.
pub(crate) fn host_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
