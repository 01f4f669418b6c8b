//! A timer that rings: the host's kernel does now what it does for such a timer.

use std::ffi::{c_int, c_long, c_ulong};
use std::str::FromStr;

use libc::{itimerspec, itimerval};

use super::{Timer, Times};
use crate::clock::{nanos_of_timespec, nanos_of_timeval, timespec_of, timeval_of};

/// The next moment.
const AT_ONCE: Times = Times {
    rest: 1,
    interval: 0,
};
/// Times that the host is asked if it has done it.
const LOOKS_MAX: usize = 10_000;

/// Lets a timer ring.
pub(super) fn ring(timer: Timer) {
    match timer {
        Timer::Interval(libc::ITIMER_VIRTUAL) => send(libc::SIGVTALRM),
        Timer::Interval(libc::ITIMER_PROF) => send(libc::SIGPROF),
        Timer::Interval(_) | Timer::Posix(_) => {
            let is_set = || host_times(timer).is_some_and(|times| times != Times::default());
            if set_host(timer, AT_ONCE) {
                let _ = (0..LOOKS_MAX).find(|_| !is_set());
            }
        }
        Timer::Fd(fd) => {
            if let Some(ticks) = ticks(fd)
                && !set_ticks(fd, ticks + 1)
                && set_host(timer, AT_ONCE)
            {
                let _ = (0..LOOKS_MAX).find(|_| self::ticks(fd) != Some(0));
            }
        }
    }
}

/// Sends this process a signal. The host's timer for it would count the emulator's time.
fn send(signal: c_int) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Times for which a timer of this descriptor has rung since it was read; none if it is none.
fn ticks(fd: c_int) -> Option<u64> {
    fdinfo(fd, "ticks:")
}

/// Number of the clock that a timer of this descriptor follows.
pub(super) fn clock_of(fd: c_int) -> Option<c_int> {
    fdinfo(fd, "clockid:")
}

/// A number that the kernel tells of a descriptor.
fn fdinfo<N: FromStr>(fd: c_int, name: &str) -> Option<N> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix(name))?;
    number.trim().parse().ok()
}

/// False where the kernel was built without it (CONFIG_CHECKPOINT_RESTORE).
fn set_ticks(fd: c_int, ticks: u64) -> bool {
    /// `_IOW('T', 0, u64)`.
    const TFD_IOC_SET_TICKS: c_ulong = 0x4008_5400;
    // SAFETY: the kernel reads the number.
    unsafe { libc::ioctl(fd, TFD_IOC_SET_TICKS, &ticks) == 0 }
}

/// Sets the host's timer; false if it has none of this name.
pub(super) fn set_host(timer: Timer, times: Times) -> bool {
    let spec = spec_of(times);
    // SAFETY: the kernel reads the times.
    let answer = unsafe {
        match timer {
            Timer::Interval(which) => {
                let value = value_of(times);
                libc::syscall(libc::SYS_setitimer, which, &value, 0)
            }
            Timer::Posix(id) => libc::syscall(libc::SYS_timer_settime, id, 0, &spec, 0),
            Timer::Fd(fd) => libc::syscall(libc::SYS_timerfd_settime, fd, 0, &spec, 0),
        }
    };
    answer == 0
}

/// Times of the host's timer; none of a descriptor.
fn host_times(timer: Timer) -> Option<Times> {
    let mut spec = spec_of(Times::default());
    let mut value = value_of(Times::default());
    // SAFETY: places for the times.
    let answer: c_long = unsafe {
        match timer {
            Timer::Interval(which) => libc::syscall(libc::SYS_getitimer, which, &mut value),
            Timer::Posix(id) => libc::syscall(libc::SYS_timer_gettime, id, &mut spec),
            Timer::Fd(_) => -1,
        }
    };
    let rest = match timer {
        Timer::Interval(_) => nanos_of_timeval(value.it_value),
        _ => nanos_of_timespec(spec.it_value),
    };
    (answer == 0).then(|| Times {
        rest: rest.unwrap_or(0),
        interval: 0,
    })
}

pub(super) fn spec_of(times: Times) -> itimerspec {
    itimerspec {
        it_interval: timespec_of(times.interval),
        it_value: timespec_of(times.rest),
    }
}

/// Microseconds, not one too few: 0 would turn the timer off.
pub(super) fn value_of(times: Times) -> itimerval {
    itimerval {
        it_interval: timeval_of(times.interval.next_multiple_of(1000)),
        it_value: timeval_of(times.rest.next_multiple_of(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_rings_as_often_as_it_is_let() {
        // SAFETY: plain calls, with a place for the number.
        unsafe {
            let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
            assert_eq!((ticks(fd), clock_of(fd)), (Some(0), Some(1)));
            ring(Timer::Fd(fd));
            assert!(ticks(fd) > Some(0));
            let mut count = 0u64;
            assert_eq!(libc::read(fd, (&raw mut count).cast(), 8), 8);
            assert_eq!(count, 1);
            libc::close(fd);
            assert_eq!(ticks(fd), None);
        }
    }
}
