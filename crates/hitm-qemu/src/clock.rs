//! The modelled machine's time, as the program reads it.
//!
//! QEMU asks the C library for the time. Its calls are answered here ([`crate::emulator`]): by what the callback
//! before a call has left in the thread's [`ANSWER`]. QEMU's own calls find no answer and go to the host.
//!
//! A thread's time is its virtual clock, or the latest time that any thread has read, if that is later: two
//! threads may be a window apart, and time that a program hands from one to the other never goes back.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::{Cycles, Machine};
use libc::{clockid_t, timespec, timeval};

use crate::library::library;

pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// A century is as good as any longer time.
const SECONDS_MAX: u64 = 100 * 366 * 86_400;
/// Of times(2) (`_SC_CLK_TCK`).
const TICKS_PER_SECOND: u64 = 100;

/// The host's clocks when the recording began, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) realtime: u64,
    pub(crate) monotonic: u64,
}

/// Kind of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Realtime,
    Monotonic,
    ThreadCpu,
    ProcessCpu,
}

impl Kind {
    /// Returns true if it counts time that threads run.
    pub(crate) fn counts_cpu(self) -> bool {
        matches!(self, Kind::ThreadCpu | Kind::ProcessCpu)
    }

    /// The kind of clock_gettime(2)'s clock; none of clocks that only the host has.
    pub(crate) fn of(clock: clockid_t) -> Option<Kind> {
        match clock {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => {
                Some(Kind::Realtime)
            }
            libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME => Some(Kind::Monotonic),
            libc::CLOCK_THREAD_CPUTIME_ID => Some(Kind::ThreadCpu),
            libc::CLOCK_PROCESS_CPUTIME_ID => Some(Kind::ProcessCpu),
            _ => None,
        }
    }
}

/// Answer to a thread's call for a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    /// Nanoseconds of the clock that was asked for.
    pub(crate) time: u64,
    /// Nanoseconds that the process, or the thread, has run.
    pub(crate) cpu: u64,
}

thread_local! {
    /// For the thread's next call.
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// Answers the thread's next call for a time.
pub(crate) fn answer(answer: Answer) {
    ANSWER.set(Some(answer));
}

/// Takes back an answer that nobody has asked for.
pub(crate) fn take_back() {
    ANSWER.set(None);
}

/// Clocks of a recording whose programs live in the modelled machine's time.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Start,
    machine: hitm_base::Clock,
    cpi_milli: u64,
    /// Time that the process's threads have run for, in cycles.
    process_cpu: AtomicU64,
}

impl Clock {
    /// Lets QEMU ask for the time of this machine; none if it cannot be made to, or the model is none.
    pub(crate) fn new(start: Start, machine_toml: &str) -> Option<Clock> {
        let machine = Machine::from_toml(machine_toml, "the machine").ok()?;
        is_replaced().then(|| Clock {
            start,
            machine: machine.clock,
            cpi_milli: machine.core.cpi_milli.into(),
            process_cpu: AtomicU64::new(0),
        })
    }

    /// Cycles in which a thread that never waits runs so many instructions.
    pub(crate) fn cycles_of(&self, insns: u64) -> Cycles {
        Cycles(insns * self.cpi_milli / 1000)
    }

    /// A span of virtual time in nanoseconds.
    pub(crate) fn nanos(&self, span: Cycles) -> u64 {
        self.machine.nanos(span).0 as u64
    }

    /// Nanoseconds of virtual time in cycles, not one too few.
    pub(crate) fn cycles(&self, nanos: u64) -> Cycles {
        self.machine.cycles(hitm_base::Nanos(nanos as f64)) + Cycles(1)
    }

    /// Time of a clock when `now` has passed since the recording began; `cpu` of that the thread has run.
    pub(crate) fn read(&self, kind: Kind, now: Cycles, cpu: Cycles) -> u64 {
        match kind {
            Kind::Realtime => self.start.realtime + self.nanos(now),
            Kind::Monotonic => self.start.monotonic + self.nanos(now),
            Kind::ThreadCpu => self.nanos(cpu),
            Kind::ProcessCpu => self.nanos(Cycles(self.process_cpu.load(Ordering::Relaxed))),
        }
    }

    /// A thread has run for `span` more.
    pub(crate) fn add_cpu(&self, span: Cycles) {
        self.process_cpu.fetch_add(span.0, Ordering::Relaxed);
    }

    /// The process is a forked child: none of its time has passed.
    pub(crate) fn forget_cpu(&self) {
        self.process_cpu.store(0, Ordering::Relaxed);
    }
}

library! {
    ANSWER.take() => Answer;
    CLOCK_GETTIME = "clock_gettime" as clock_gettime: fn(clock: clockid_t, time: *mut timespec) -> c_int,
        |answer, _, time| { put(time, timespec_of(answer.time)); 0 };
    GETTIMEOFDAY = "gettimeofday" as gettimeofday: fn(time: *mut timeval, zone: *mut c_void) -> c_int,
        |answer, time, _| { put(time, timeval_of(answer.time)); 0 };
    TIME = "time" as time: fn(time: *mut c_long) -> c_long,
        |answer, time| { let seconds = (answer.time / NANOS_PER_SECOND) as c_long; put(time, seconds); seconds };
    TIMES = "times" as times: fn(times: *mut libc::tms) -> c_long,
        |answer, times| { put(times, tms_of(answer.cpu)); ticks(answer.time) };
    GETRUSAGE = "getrusage" as getrusage: fn(who: c_int, usage: *mut libc::rusage) -> c_int,
        |answer, who, usage| used(answer.cpu, who, usage);
}

/// Writes to a place of QEMU's, if there is one.
pub(crate) fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: QEMU's own memory, or none.
        unsafe { place.write(value) };
    }
}

/// A time in nanoseconds; none of nonsense that the kernel refuses.
pub(crate) fn nanos_of(seconds: u64, nanos: u64) -> Option<u64> {
    let is_time = nanos < NANOS_PER_SECOND && seconds <= i64::MAX as u64;
    is_time.then(|| seconds.min(SECONDS_MAX) * NANOS_PER_SECOND + nanos)
}

pub(crate) fn nanos_of_timespec(time: timespec) -> Option<u64> {
    nanos_of(time.tv_sec as u64, time.tv_nsec as u64)
}

pub(crate) fn nanos_of_timeval(time: timeval) -> Option<u64> {
    nanos_of(time.tv_sec as u64, (time.tv_usec as u64).checked_mul(1000)?)
}

pub(crate) fn timespec_of(nanos: u64) -> timespec {
    timespec {
        tv_sec: (nanos / NANOS_PER_SECOND) as libc::time_t,
        tv_nsec: (nanos % NANOS_PER_SECOND) as c_long,
    }
}

pub(crate) fn timeval_of(nanos: u64) -> timeval {
    timeval {
        tv_sec: (nanos / NANOS_PER_SECOND) as libc::time_t,
        tv_usec: (nanos % NANOS_PER_SECOND / 1000) as libc::suseconds_t,
    }
}

fn ticks(nanos: u64) -> c_long {
    (nanos / (NANOS_PER_SECOND / TICKS_PER_SECOND)) as c_long
}

/// times(2): all of the time is the program's own.
fn tms_of(cpu: u64) -> libc::tms {
    // SAFETY: numbers, all of which may be 0.
    let all: libc::tms = unsafe { std::mem::zeroed() };
    libc::tms {
        tms_utime: ticks(cpu),
        ..all
    }
}

/// getrusage(2): time that the program itself ran; all else is the host's.
fn used(cpu: u64, who: c_int, usage: *mut libc::rusage) -> c_int {
    // SAFETY: QEMU's own memory.
    let answer = unsafe { libc::syscall(libc::SYS_getrusage, who, usage) } as c_int;
    // SAFETY: the kernel has written there, if it could.
    if answer == 0
        && let Some(usage) = unsafe { usage.as_mut() }
    {
        (usage.ru_utime, usage.ru_stime) = (timeval_of(cpu), timeval_of(0));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_get_the_answer_that_was_left_once() {
        assert!(is_replaced(), "the C library has all of them");
        let read = |clock| {
            let mut time = timespec_of(0);
            // SAFETY: a place for a time.
            unsafe { libc::clock_gettime(clock, &mut time) };
            time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_nsec as u64
        };
        let left = Answer {
            time: 7_000_000_012,
            cpu: 3_500_000_000,
        };
        answer(left);
        assert_eq!(read(libc::CLOCK_MONOTONIC), left.time);
        assert_ne!(read(libc::CLOCK_MONOTONIC), left.time, "the host's");
        answer(left);
        // SAFETY: places for the results.
        let (ticks, mut used) = unsafe { (libc::times(std::ptr::null_mut()), std::mem::zeroed()) };
        assert_eq!(ticks, 700);
        answer(left);
        let mut day = timeval_of(0);
        // SAFETY: as above.
        unsafe { libc::gettimeofday(&mut day, std::ptr::null_mut()) };
        assert_eq!(day.tv_sec, 7);
        answer(left);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::time(std::ptr::null_mut()) }, 7);
        answer(left);
        // SAFETY: as above.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
        assert_eq!((used.ru_utime.tv_sec, used.ru_utime.tv_usec), (3, 500_000));
    }

    #[test]
    fn nonsense_is_no_time_and_no_time_is_longer_than_a_century() {
        let of = |tv_sec, tv_nsec| nanos_of_timespec(timespec { tv_sec, tv_nsec });
        assert_eq!(of(3, 999_999_999), Some(3_999_999_999));
        assert_eq!(of(i64::MAX, 7), Some(SECONDS_MAX * NANOS_PER_SECOND + 7));
        assert_eq!(
            (of(-1, 0), of(0, -1), of(0, 1_000_000_000)),
            (None, None, None)
        );
        let of = |tv_sec, tv_usec| nanos_of_timeval(timeval { tv_sec, tv_usec });
        assert_eq!(of(1, 5), Some(1_000_005_000));
        assert_eq!((of(0, -1), of(0, 1_000_000)), (None, None));
    }

    #[test]
    fn time_is_that_of_the_machine() {
        let text = hitm_base::machine::preset("broadwell-4s").unwrap();
        let start = Start {
            realtime: 1_000,
            monotonic: 50,
        };
        let clock = Clock::new(start, text).unwrap();
        let now = Cycles(2_600_000);
        assert_eq!(clock.read(Kind::Monotonic, now, Cycles(0)), 1_000_050);
        assert_eq!(clock.read(Kind::ThreadCpu, now, Cycles(2_600)), 1_000);
        clock.add_cpu(Cycles(260));
        assert_eq!(clock.read(Kind::ProcessCpu, now, Cycles(0)), 100);
        assert!(clock.nanos(clock.cycles(12_345)) >= 12_345);
        assert!(Clock::new(start, "schema = 7").is_none());
    }
}
