//! System calls that wait for a time: their end is in virtual time, and the recorder tells it.
//!
//! The callback before the call leaves the wait for the thread, and QEMU's way into the kernel
//! ([`crate::safe_syscall`]) finds it there. A sleep becomes a wait at the word that the recorder sets when the
//! time is over ([`hitm_weave::board::Port::alarm`]). A futex's waiter waits at both words. Other calls are made
//! again with short time-outs of the host's until one of the two has happened.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{clockid_t, timespec};

use crate::clock::timespec_of;
use crate::library::fail;
use crate::parker;
use crate::safe_syscall;

/// Time-outs of the host's, doubled from the first to the last.
const SLICE_NANOS: [u64; 2] = [100_000, 2_000_000];
/// A wait without an end, that a signal interrupts as it does a sleep: without a time-out Linux would start the
/// call again.
static LONG: timespec = timespec {
    tv_sec: 100_000_000,
    tv_nsec: 0,
};

/// Kind of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// nanosleep, clock_nanosleep.
    Sleep,
    /// A futex whose waiters any wake wakes.
    Futex,
    /// The time-out is behind a pointer: ppoll, a futex with a set of bits.
    Pointer(Timeout),
    /// epoll_pwait: milliseconds.
    Millis,
}

/// A time-out behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout {
    /// Number of its argument.
    pub(crate) place: usize,
    /// The error that says that it is over; 0 for an answer of 0.
    pub(crate) expired: c_int,
    /// The host's clock by which it is a time, not a span.
    pub(crate) until: Option<clockid_t>,
}

impl Kind {
    /// Result of a system call whose time is over.
    fn result_of_late(self) -> i64 {
        match self {
            Kind::Sleep | Kind::Millis => 0,
            Kind::Futex => -i64::from(libc::ETIMEDOUT),
            Kind::Pointer(timeout) => -i64::from(timeout.expired),
        }
    }
}

/// Wait with an end in virtual time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) kind: Kind,
    /// Becomes 1 when the time is over.
    pub(crate) alarm: &'static AtomicU32,
}

thread_local! {
    /// The wait of the thread's system call.
    static WAIT: Cell<Option<Wait>> = const { Cell::new(None) };
}

/// Lets the thread's next system call that may block end with `wait`'s alarm.
pub(crate) fn begin(wait: Wait) {
    WAIT.set(Some(wait));
}

/// The thread's system call has returned; true if its time was over.
pub(crate) fn end(result: i64) -> bool {
    WAIT.take()
        .is_some_and(|wait| wait.is_over() && result == wait.kind.result_of_late())
}

/// Lets QEMU make its system calls through this module; false if it cannot be made to.
///
/// # Safety
/// QEMU runs no other thread yet.
pub(crate) unsafe fn install() -> bool {
    // SAFETY: as the caller says.
    unsafe { safe_syscall::replace(system_call) }
}

/// QEMU's way into the kernel.
unsafe extern "C" fn system_call(
    pending: *const c_int,
    number: c_long,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
) -> c_long {
    let args = [a1, a2, a3, a4, a5, a6];
    let Some(wait) = WAIT.get() else {
        // SAFETY: QEMU's own call.
        return unsafe { safe_syscall::call(pending, number, args) };
    };
    // SAFETY: QEMU's own call.
    let make = |number, args| unsafe { safe_syscall::call(pending, number, args) };
    match wait.kind {
        Kind::Sleep => wait.sleep(make),
        Kind::Futex => wait.at_futex(args, make),
        Kind::Pointer(timeout) => wait.in_slices(number, args, timeout, make),
        Kind::Millis => wait.in_millis(number, args, make),
    }
}

impl Wait {
    fn is_over(self) -> bool {
        self.alarm.load(Ordering::SeqCst) == 1
    }

    /// Waits for the alarm. A signal interrupts it, as it does nanosleep(2).
    fn sleep(self, make: impl Fn(c_long, [u64; 6]) -> c_long) -> c_long {
        let word = self.alarm.as_ptr().expose_provenance() as u64;
        while !self.is_over() {
            let long = (&raw const LONG).expose_provenance() as u64;
            let args = [word, libc::FUTEX_WAIT as u64, 0, long, 0, 0];
            let answer = make(libc::SYS_futex, args);
            if answer < 0 && !matches!(error(), libc::EAGAIN | libc::ETIMEDOUT) {
                return answer;
            }
        }
        0
    }

    /// Waits for the alarm or for the futex's word (futex_waitv(2), Linux 5.16).
    fn at_futex(self, args: [u64; 6], make: impl Fn(c_long, [u64; 6]) -> c_long) -> c_long {
        const U32: u32 = 2;
        let [at, operation, value, ..] = args;
        let private = operation as u32 & libc::FUTEX_PRIVATE_FLAG as u32;
        let word = self.alarm.as_ptr().expose_provenance() as u64;
        let waiters = [
            Waiter::at(at, value as u32, U32 | private),
            Waiter::at(word, 0, U32),
        ];
        let waiters = waiters.as_ptr().expose_provenance() as u64;
        let answer = make(libc::SYS_futex_waitv, [waiters, 2, 0, 0, 0, 0]);
        match answer {
            0 => 0,
            1 => fail(libc::ETIMEDOUT),
            _ if error() == libc::ENOSYS => {
                self.in_slices(libc::SYS_futex, args, timeout_of_futex(operation), make)
            }
            _ if error() == libc::EAGAIN && self.is_over() => fail(libc::ETIMEDOUT),
            answer => answer,
        }
    }

    /// Makes a call with time-outs of the host's until it ends for another reason, or the time is over.
    fn in_slices(
        self,
        number: c_long,
        mut args: [u64; 6],
        timeout: Timeout,
        make: impl Fn(c_long, [u64; 6]) -> c_long,
    ) -> c_long {
        let [mut nanos, last] = SLICE_NANOS;
        loop {
            let mut slice = match timeout.until {
                Some(clock) => host_time_after(nanos, clock),
                None => timespec_of(nanos),
            };
            args[timeout.place] = (&raw mut slice).expose_provenance() as u64;
            let answer = make(number, args);
            let is_expired = match timeout.expired {
                0 => answer == 0,
                expired => answer < 0 && error() == expired,
            };
            if !is_expired || self.is_over() {
                return answer;
            }
            nanos = (nanos * 2).min(last);
        }
    }

    fn in_millis(
        self,
        number: c_long,
        mut args: [u64; 6],
        make: impl Fn(c_long, [u64; 6]) -> c_long,
    ) -> c_long {
        loop {
            args[3] = 1;
            let answer = make(number, args);
            if answer != 0 || self.is_over() {
                return answer;
            }
        }
    }
}

/// The time-out of a futex's operation: of FUTEX_WAIT a span, of the others a time.
pub(crate) fn timeout_of_futex(operation: u64) -> Timeout {
    const COMMAND_MASK: c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let operation = operation as c_int;
    let is_real = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    let until = match operation & COMMAND_MASK {
        libc::FUTEX_WAIT => None,
        libc::FUTEX_LOCK_PI => Some(libc::CLOCK_REALTIME),
        _ if is_real => Some(libc::CLOCK_REALTIME),
        _ => Some(libc::CLOCK_MONOTONIC),
    };
    Timeout {
        place: 3,
        expired: libc::ETIMEDOUT,
        until,
    }
}

/// The host's time after a span.
fn host_time_after(nanos: u64, clock: clockid_t) -> timespec {
    timespec_of(parker::nanos_of(clock) + nanos)
}

/// A word to wait at (`struct futex_waitv`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Waiter {
    value: u64,
    addr: u64,
    flags: u32,
    reserved: u32,
}

impl Waiter {
    fn at(addr: u64, value: u32, flags: u32) -> Waiter {
        Waiter {
            value: value.into(),
            addr,
            flags,
            reserved: 0,
        }
    }
}

fn error() -> c_int {
    // SAFETY: the calling thread's own error.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the call, with no QEMU in between.
    fn make(number: c_long, [a1, a2, a3, a4, a5, a6]: [u64; 6]) -> c_long {
        // SAFETY: the tests' own memory.
        unsafe { libc::syscall(number, a1, a2, a3, a4, a5, a6) }
    }

    /// A wait whose time is over after some milliseconds of the host's.
    fn wait(kind: Kind) -> Wait {
        let alarm: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            alarm.store(1, Ordering::SeqCst);
            let word = alarm.as_ptr().expose_provenance() as u64;
            make(libc::SYS_futex, [word, libc::FUTEX_WAKE as u64, 1, 0, 0, 0]);
        });
        Wait { kind, alarm }
    }

    #[test]
    fn waits_end_with_their_alarms() {
        assert_eq!(wait(Kind::Sleep).sleep(make), 0);
        let word = AtomicU32::new(7);
        let at = word.as_ptr().expose_provenance() as u64;
        let args = [at, libc::FUTEX_WAIT as u64, 7, 0, 0, 0];
        assert_eq!(wait(Kind::Futex).at_futex(args, make), -1);
        assert_eq!(error(), libc::ETIMEDOUT);
        let bits = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME) as u64;
        let ends = |number, args, timeout| {
            wait(Kind::Pointer(timeout)).in_slices(number, args, timeout, make)
        };
        let args = [at, bits, 7, 0, 0, 1];
        assert_eq!(ends(libc::SYS_futex, args, timeout_of_futex(bits)), -1);
        assert_eq!(error(), libc::ETIMEDOUT);
        let poll = Timeout {
            place: 2,
            expired: 0,
            until: None,
        };
        assert_eq!(ends(libc::SYS_ppoll, [0; 6], poll), 0);
    }

    #[test]
    fn a_futex_that_changes_or_is_woken_ends_a_wait_before_its_time() {
        let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(7)));
        let at = word.as_ptr().expose_provenance() as u64;
        let args = [at, libc::FUTEX_WAIT as u64, 8, 0, 0, 0];
        let alarm: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let wait = Wait {
            kind: Kind::Futex,
            alarm,
        };
        assert_eq!(wait.at_futex(args, make), -1);
        assert_eq!(error(), libc::EAGAIN);
        let waker = std::thread::spawn(move || {
            while make(libc::SYS_futex, [at, libc::FUTEX_WAKE as u64, 1, 0, 0, 0]) == 0 {
                std::thread::yield_now();
            }
        });
        let args = [at, libc::FUTEX_WAIT as u64, 7, 0, 0, 0];
        assert_eq!(wait.at_futex(args, make), 0);
        waker.join().unwrap();
    }
}
