//! The guest's system calls that ask for the time or wait for it, by architecture.

use std::ffi::c_int;

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

/// A system call that may wait for a time.
#[derive(Debug)]
struct Row {
    number: i64,
    kind: Kind,
    form: Form,
}

const fn row(number: i64, kind: Kind, form: Form) -> Row {
    Row { number, kind, form }
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

/// QEMU makes poll by ppoll, select by pselect6 and epoll_wait by epoll_pwait. The last four are rt_sigtimedwait,
/// semtimedop, mq_timedsend and mq_timedreceive.
const X86_64: [Row; 13] = [
    row(202, Kind::Futex, Form::Futex),
    row(35, Kind::Sleep, Form::Timespec(0)),
    row(230, Kind::Sleep, Form::Clock),
    row(7, pointer(2, 0), Form::Millis(2)),
    row(271, pointer(2, 0), Form::Timespec(2)),
    row(23, pointer(4, 0), Form::Timeval(4)),
    row(270, pointer(4, 0), Form::Timespec(4)),
    row(232, Kind::Millis, Form::Millis(3)),
    row(281, Kind::Millis, Form::Millis(3)),
    row(128, pointer(2, libc::EAGAIN), Form::Timespec(2)),
    row(220, pointer(3, libc::EAGAIN), Form::Timespec(3)),
    row(242, UNTIL, Form::Until(4)),
    row(243, UNTIL, Form::Until(4)),
];

const AARCH64: [Row; 10] = [
    row(98, Kind::Futex, Form::Futex),
    row(101, Kind::Sleep, Form::Timespec(0)),
    row(115, Kind::Sleep, Form::Clock),
    row(73, pointer(2, 0), Form::Timespec(2)),
    row(72, pointer(4, 0), Form::Timespec(4)),
    row(22, Kind::Millis, Form::Millis(3)),
    row(137, pointer(2, libc::EAGAIN), Form::Timespec(2)),
    row(192, pointer(3, libc::EAGAIN), Form::Timespec(3)),
    row(182, UNTIL, Form::Until(4)),
    row(183, UNTIL, Form::Until(4)),
];

/// getitimer, alarm, setitimer, timer_create to timer_delete, timerfd_create, timerfd_settime and timerfd_gettime.
const X86_64_TIMERS: [i64; 11] = [36, 37, 38, 222, 223, 224, 225, 226, 283, 286, 287];
const AARCH64_TIMERS: [i64; 10] = [85, 86, 87, 102, 103, 107, 108, 109, 110, 111];

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

/// The calls of one architecture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedCalls {
    waits: &'static [Row],
    clock_gettime: i64,
    gettimeofday: i64,
    time: i64,
    times: i64,
    getrusage: i64,
    timers: &'static [i64],
}

impl TimedCalls {
    /// Those of QEMU's target `name`.
    pub(crate) fn of_target(name: &str) -> TimedCalls {
        match name {
            "aarch64" => TimedCalls {
                waits: &AARCH64,
                clock_gettime: 113,
                gettimeofday: 169,
                time: -1,
                times: 153,
                getrusage: 165,
                timers: &AARCH64_TIMERS,
            },
            _ => TimedCalls {
                waits: &X86_64,
                clock_gettime: 228,
                gettimeofday: 96,
                time: 201,
                times: 100,
                getrusage: 98,
                timers: &X86_64_TIMERS,
            },
        }
    }

    /// Question of a call for the time; none of any other call, and of clocks that only the host has.
    pub(crate) fn question(self, number: i64, args: &[u64; 6]) -> Option<Question> {
        const RUSAGE_THREAD: u64 = libc::RUSAGE_THREAD as u64;
        if number == self.clock_gettime {
            clock::Kind::of(args[0] as i32).map(Question::Clock)
        } else if number == self.gettimeofday || number == self.time {
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
    pub(crate) fn is_of_timers(self, number: i64) -> bool {
        self.timers.contains(&number)
    }

    /// Wait of a call that may end after a time; none if it does not wait, or without an end.
    pub(crate) fn wait(self, number: i64, args: &[u64; 6]) -> Option<(Kind, Length)> {
        let row = self.waits.iter().find(|row| row.number == number)?;
        match row.form {
            Form::Timespec(place) => {
                let nanos = timespec(args[place])?;
                (nanos > 0).then_some((row.kind, Length::For(nanos)))
            }
            Form::Timeval(place) => {
                let [seconds, micros] = words(args[place])?;
                let nanos = nanos_of(seconds, micros.checked_mul(1000)?)?;
                (nanos > 0).then_some((row.kind, Length::For(nanos)))
            }
            Form::Millis(place) => {
                let millis = u64::try_from(args[place] as i32).ok()?;
                (millis > 0).then_some((row.kind, Length::For(millis * 1_000_000)))
            }
            Form::Until(place) => {
                let end = timespec(args[place])?;
                Some((row.kind, Length::Until(clock::Kind::Realtime, end)))
            }
            Form::Clock => sleep(args).map(|length| (row.kind, length)),
            Form::Futex => futex(args),
        }
    }

    /// Address at which a sleep that a signal interrupts leaves the rest of its time.
    pub(crate) fn rest_at(self, number: i64, args: &[u64; 6]) -> Option<u64> {
        const ABSOLUTE: u64 = libc::TIMER_ABSTIME as u64;
        let row = self.waits.iter().find(|row| row.number == number)?;
        let at = match row.form {
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

    fn x86() -> TimedCalls {
        TimedCalls::of_target("x86_64")
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
