//! The guest's system calls that ask for the time or wait for it.

use std::ffi::c_int;

use crate::arch::SystemCalls;
use crate::clock::{self, nanos_of};
use crate::guest_memory;
use crate::waits::{Kind, Timeout, timeout_of_futex};

/// A call's time-out as the guest writes it: the place of its argument, from 0.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// `struct timespec`.
    Timespec(usize),
    /// `struct timeval`.
    Timeval(usize),
    /// Milliseconds; below 0 there is none.
    Millis(usize),
    /// `struct timespec`, a time of the real-time clock.
    Until(usize),
    /// clock_nanosleep: clock, flags, time.
    Clock,
    Futex,
}

/// A time-out behind a pointer, argument number `place`.
const fn pointer(place: usize, expired: c_int) -> Kind {
    Kind::Pointer(Timeout {
        place,
        expired,
        until: None,
    })
}

/// The same, a time of the real-time clock.
const UNTIL: Kind = Kind::Pointer(Timeout {
    place: 4,
    expired: libc::ETIMEDOUT,
    until: Some(libc::CLOCK_REALTIME),
});

/// A wait's length as the guest asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Nanoseconds from now on.
    For(u64),
    /// Until this time of a clock, in nanoseconds.
    Until(clock::Kind, u64),
}

/// A clock that the guest asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// clock_gettime, gettimeofday, time.
    Clock(clock::Kind),
    /// times, getrusage.
    Usage { of_thread: bool },
}

impl SystemCalls {
    /// Question of a call for the time; none of any other call, and of clocks that only the host has.
    pub(crate) fn question(&self, number: i64, args: &[u64; 6]) -> Option<Question> {
        const RUSAGE_THREAD: u64 = libc::RUSAGE_THREAD as u64;
        if number == self.clock_gettime {
            clock::Kind::of(args[0] as i32).map(Question::Clock)
        } else if number == self.gettimeofday || self.time == Some(number) {
            Some(Question::Clock(clock::Kind::Realtime))
        } else if number == self.times {
            Some(Question::Usage { of_thread: false })
        } else if number == self.getrusage {
            let of_thread = args[0] == RUSAGE_THREAD;
            let of_process = args[0] == libc::RUSAGE_SELF as u64;
            (of_thread || of_process).then_some(Question::Usage { of_thread })
        } else {
            None
        }
    }

    /// Returns true for a call about the program's timers.
    pub(crate) fn is_of_timers(&self, number: i64) -> bool {
        self.timers.contains(&number)
    }

    /// Wait of a call that may end after a time; none if it does not wait, or without an end.
    pub(crate) fn wait(&self, number: i64, args: &[u64; 6]) -> Option<(Kind, Length)> {
        let (kind, form) = self.wait_form(number)?;
        match form {
            Form::Timespec(place) => {
                let nanos = timespec(args[place])?;
                (nanos > 0).then_some((kind, Length::For(nanos)))
            }
            Form::Timeval(place) => {
                let [seconds, micros] = words(args[place])?;
                let nanos = nanos_of(seconds, micros.checked_mul(1000)?)?;
                (nanos > 0).then_some((kind, Length::For(nanos)))
            }
            Form::Millis(place) => {
                let millis = u64::try_from(args[place] as i32).ok()?;
                (millis > 0).then_some((kind, Length::For(millis * 1_000_000)))
            }
            Form::Until(place) => {
                let end = timespec(args[place])?;
                Some((kind, Length::Until(clock::Kind::Realtime, end)))
            }
            Form::Clock => sleep(args).map(|length| (kind, length)),
            Form::Futex => futex(args),
        }
    }

    /// Kind of a call that may wait for a time, and the form of its time-out. QEMU makes poll by ppoll, select by
    /// pselect6 and epoll_wait by epoll_pwait.
    fn wait_form(&self, number: i64) -> Option<(Kind, Form)> {
        const AGAIN: c_int = libc::EAGAIN;
        Some(match number {
            _ if number == self.futex => (Kind::Futex, Form::Futex),
            _ if number == self.nanosleep => (Kind::Sleep, Form::Timespec(0)),
            _ if number == self.clock_nanosleep => (Kind::Sleep, Form::Clock),
            _ if self.poll == Some(number) => (pointer(2, 0), Form::Millis(2)),
            _ if number == self.ppoll => (pointer(2, 0), Form::Timespec(2)),
            _ if self.select == Some(number) => (pointer(4, 0), Form::Timeval(4)),
            _ if number == self.pselect6 => (pointer(4, 0), Form::Timespec(4)),
            _ if self.epoll_wait == Some(number) => (Kind::Millis, Form::Millis(3)),
            _ if number == self.epoll_pwait => (Kind::Millis, Form::Millis(3)),
            _ if number == self.rt_sigtimedwait => (pointer(2, AGAIN), Form::Timespec(2)),
            _ if number == self.semtimedop => (pointer(3, AGAIN), Form::Timespec(3)),
            _ if number == self.mq_timedsend => (UNTIL, Form::Until(4)),
            _ if number == self.mq_timedreceive => (UNTIL, Form::Until(4)),
            _ => return None,
        })
    }

    /// Address at which a sleep that a signal interrupts leaves the rest of its time.
    pub(crate) fn rest_at(&self, number: i64, args: &[u64; 6]) -> Option<u64> {
        const ABSOLUTE: u64 = libc::TIMER_ABSTIME as u64;
        let (_, form) = self.wait_form(number)?;
        let at = match form {
            Form::Timespec(0) => args[1],
            Form::Clock if args[1] & ABSOLUTE == 0 => args[3],
            _ => 0,
        };
        (at != 0).then_some(at)
    }
}

fn sleep(args: &[u64; 6]) -> Option<Length> {
    let kind = clock::Kind::of(args[0] as i32)?;
    let nanos = timespec(args[2])?;
    match (args[1] as i32 & libc::TIMER_ABSTIME, kind) {
        (_, clock::Kind::ThreadCpu | clock::Kind::ProcessCpu) => None,
        (0, _) => (nanos > 0).then_some(Length::For(nanos)),
        (_, kind) => Some(Length::Until(kind, nanos)),
    }
}

/// FUTEX_WAIT ends after a time, FUTEX_WAIT_BITSET and FUTEX_LOCK_PI at one.
fn futex(args: &[u64; 6]) -> Option<(Kind, Length)> {
    const COMMAND_MASK: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let command = args[1] as i32 & COMMAND_MASK;
    let nanos = timespec(args[3])?;
    let timeout = timeout_of_futex(args[1]);
    let kind = match (command, args[5] as u32) {
        (libc::FUTEX_WAIT, _) | (libc::FUTEX_WAIT_BITSET, u32::MAX) => Kind::Futex,
        (libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI, _) => Kind::Pointer(timeout),
        _ => return None,
    };
    let length = match timeout.until {
        None => Length::For(nanos),
        Some(libc::CLOCK_REALTIME) => Length::Until(clock::Kind::Realtime, nanos),
        Some(_) => Length::Until(clock::Kind::Monotonic, nanos),
    };
    Some((kind, length))
}

/// Nanoseconds of the `struct timespec` at `addr`; none where there is none, or nonsense that the kernel refuses.
fn timespec(addr: u64) -> Option<u64> {
    let [seconds, nanos] = words(addr)?;
    nanos_of(seconds, nanos)
}

fn words(addr: u64) -> Option<[u64; 2]> {
    (addr != 0).then_some(())?;
    guest_memory::read_words(addr, 2)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;

    fn x86() -> &'static SystemCalls {
        &X86_64.calls
    }

    /// The tests' own memory, as the guest's: its base is 0 here.
    fn at(time: &[u64; 2]) -> u64 {
        time.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn waits_have_lengths() {
        let time = [2, 500];
        let two = Length::For(2_000_000_500);
        assert_eq!(
            x86().wait(35, &[at(&time), 0, 0, 0, 0, 0]),
            Some((Kind::Sleep, two))
        );
        let until = Length::Until(clock::Kind::Monotonic, 2_000_000_500);
        let absolute = [1, libc::TIMER_ABSTIME as u64, at(&time), 0, 0, 0];
        assert_eq!(x86().wait(230, &absolute), Some((Kind::Sleep, until)));
        let milli = |timeout: i32| x86().wait(7, &[0, 0, timeout as u32 as u64, 0, 0, 0]);
        assert_eq!(milli(3), Some((pointer(2, 0), Length::For(3_000_000))));
        assert_eq!((milli(0), milli(-1)), (None, None), "at once, and for ever");
        let all = u64::from(u32::MAX);
        let bits = |bits| [0, (9 | 256) as u64, 0, at(&time), 0, bits];
        let realtime = Length::Until(clock::Kind::Realtime, 2_000_000_500);
        assert_eq!(x86().wait(202, &bits(all)), Some((Kind::Futex, realtime)));
        let kind = Kind::Pointer(timeout_of_futex(9 | 256));
        assert_eq!(x86().wait(202, &bits(2)), Some((kind, realtime)));
        let lock = [0, libc::FUTEX_LOCK_PI as u64, 0, at(&time), 0, 0];
        let kind = Kind::Pointer(timeout_of_futex(libc::FUTEX_LOCK_PI as u64));
        assert_eq!(x86().wait(202, &lock), Some((kind, realtime)));
        let receive = [0, 0, 0, 0, at(&time), 0];
        assert_eq!(x86().wait(243, &receive), Some((UNTIL, realtime)));
        assert_eq!(x86().wait(202, &[0; 6]), None, "without an end");
        let nonsense = [1, clock::NANOS_PER_SECOND];
        assert_eq!(x86().wait(35, &[at(&nonsense), 0, 0, 0, 0, 0]), None);
        assert_eq!(x86().wait(0, &[at(&time); 6]), None);
    }

    #[test]
    fn questions_are_those_for_the_machines_clocks() {
        let ask = |number, clock: i32| x86().question(number, &[clock as u64, 0, 0, 0, 0, 0]);
        let clock = |kind| Some(Question::Clock(kind));
        assert_eq!(
            ask(228, libc::CLOCK_MONOTONIC),
            clock(clock::Kind::Monotonic)
        );
        assert_eq!(ask(228, -6), None, "another process's time");
        assert_eq!(ask(201, 0), clock(clock::Kind::Realtime));
        assert_eq!(
            ask(98, libc::RUSAGE_SELF),
            Some(Question::Usage { of_thread: false })
        );
        assert_eq!(ask(98, libc::RUSAGE_CHILDREN), None);
        assert_eq!(x86().rest_at(35, &[0, 8, 0, 0, 0, 0]), Some(8));
    }
}
