//! The program's timers (setitimer, alarm, timer_create, timerfd) in the modelled machine's time.
//!
//! QEMU sets the host's timers for the guest. Its calls are answered here: the times are kept, and the host's timer
//! stays off ([`answers`]). A timer of a CPU clock rings when a thread whose time it counts is that far. Any other one
//! rings when the recorder says so, to the [`ringer`]. To ring is to let the host's kernel do now what it does for
//! such a timer ([`ring`]).

mod answers;
mod ring;
mod ringer;

pub(crate) use answers::{begin, end, install};
pub(crate) use ringer::{forked, lend, outlives_exec, start_ringer, take_back};

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use hitm_weave::Slot;
use hitm_weave::board::INTERVAL_TIMER;

use crate::clock::Kind;
use crate::locks::{Rank, RankedGuard, RankedMutex};

/// The process's timers.
static TIMERS: RankedMutex<Timers> = RankedMutex::new(Rank::Timers, Timers::new());
/// A timer of a CPU clock has been set.
static ANY_COUNTS_CPU: AtomicBool = AtomicBool::new(false);

/// A timer of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// setitimer(2): ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF.
    Interval(c_int),
    /// timer_create(2), by the kernel's number.
    Posix(u32),
    /// timerfd_create(2).
    Fd(c_int),
}

impl Timer {
    /// Its name among the timers of the process.
    pub(crate) fn number(self) -> u64 {
        let (kind, number) = match self {
            Timer::Interval(which) => (INTERVAL_TIMER, which as u32),
            Timer::Posix(id) => (1, id),
            Timer::Fd(fd) => (2, fd as u32),
        };
        kind << 32 | u64::from(number)
    }

    fn of_number(number: u64) -> Option<Timer> {
        let low = number as u32;
        match number >> 32 {
            0 => Some(Timer::Interval(low as c_int)),
            1 => Some(Timer::Posix(low)),
            2 => Some(Timer::Fd(low as c_int)),
            _ => None,
        }
    }
}

/// The thread's time by each clock, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) thread: Slot,
    pub(crate) realtime: u64,
    pub(crate) monotonic: u64,
    pub(crate) thread_cpu: u64,
    pub(crate) process_cpu: u64,
}

impl Now {
    fn of(&self, clock: Kind) -> u64 {
        match clock {
            Kind::Realtime => self.realtime,
            Kind::Monotonic => self.monotonic,
            Kind::ThreadCpu => self.thread_cpu,
            Kind::ProcessCpu => self.process_cpu,
        }
    }
}

/// A timer's times, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// From now to the next time that it rings; 0 for a timer that is off.
    pub(crate) rest: u64,
    /// From one time to the next; 0 for a timer that rings once.
    pub(crate) interval: u64,
}

/// A timer that a call has set, or turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) timer: Timer,
    pub(crate) times: Times,
    /// It rings when threads are that far, and not when the recorder says so.
    pub(crate) counts_cpu: bool,
}

/// Times of its clock at which a timer rings, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Rings {
    /// The next one; 0 if it is off.
    next: u64,
    /// From one to the next; 0 for a timer that rings once.
    interval: u64,
}

impl Rings {
    const NEVER: Rings = Rings {
        next: 0,
        interval: 0,
    };
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    clock: Kind,
    rings: Rings,
    /// The thread whose CPU time counts.
    thread: Slot,
    /// CPU time of that thread, in nanoseconds, when it was last looked at.
    ran: u64,
}

impl Setting {
    fn times(&self, now: u64) -> Times {
        let Rings { next, interval } = self.rings;
        let rest = match (next, next.checked_sub(now)) {
            (0, _) => 0,
            // Until the thread looks, a timer that is due is not off.
            (_, Some(0)) => 1,
            (_, Some(rest)) => rest,
            (_, None) => {
                let since = (now - next).checked_rem(interval);
                since.map_or(0, |since| interval - since)
            }
        };
        Times { rest, interval }
    }
}

/// Timers of a process.
#[derive(Debug)]
pub(crate) struct Timers {
    settings: BTreeMap<Timer, Setting>,
}

impl Timers {
    const fn new() -> Timers {
        Timers {
            settings: BTreeMap::new(),
        }
    }

    /// The timer's times by the program's time; none of one that is not known.
    fn times(&self, timer: Timer, now: &Now) -> Option<Times> {
        let setting = self.settings.get(&timer)?;
        Some(setting.times(now.of(setting.clock)))
    }

    /// Sets a timer of this clock; its times before.
    fn set(&mut self, timer: Timer, clock: Kind, rings: Rings, now: &Now) -> Times {
        let before = self.times(timer, now).unwrap_or_default();
        let setting = Setting {
            clock,
            rings,
            thread: now.thread,
            ran: now.thread_cpu,
        };
        if rings.next != 0 && clock.counts_cpu() {
            ANY_COUNTS_CPU.store(true, Ordering::Relaxed);
        }
        self.settings.insert(timer, setting);
        before
    }

    /// Timers of CPU clocks that ring now.
    fn take_due(&mut self, thread: Slot, thread_cpu: u64, process_cpu: u64) -> Vec<Timer> {
        let mut due = Vec::new();
        for (timer, setting) in &mut self.settings {
            let now = match setting.clock {
                Kind::ThreadCpu if setting.thread == thread => {
                    setting.ran = thread_cpu;
                    thread_cpu
                }
                Kind::ProcessCpu => process_cpu,
                _ => continue,
            };
            let Rings { next, interval } = setting.rings;
            if next != 0 && next <= now {
                due.push(*timer);
                let missed = (now - next).checked_div(interval);
                setting.rings.next = missed.map_or(0, |missed| next + (missed + 1) * interval);
            }
        }
        due
    }
}

/// The program has setitimer's timer of real time from the one before it, that rings at `next`, in nanoseconds.
pub(crate) fn keep_interval(next: u64, interval: u64) {
    let setting = Setting {
        clock: Kind::Monotonic,
        rings: Rings { next, interval },
        thread: Slot(0),
        ran: 0,
    };
    let real = Timer::Interval(libc::ITIMER_REAL);
    TIMERS.lock().settings.insert(real, setting);
}

/// Locks the timers, for a fork.
pub(crate) fn hold() -> RankedGuard<'static, Timers> {
    TIMERS.lock()
}

/// Lets timers ring that count the CPU time of a thread, or its process's, in nanoseconds.
#[inline(always)]
pub(crate) fn count_cpu(thread: Slot, times: impl FnOnce() -> (u64, u64)) {
    if ANY_COUNTS_CPU.load(Ordering::Relaxed) {
        let (thread_cpu, process_cpu) = times();
        let due = TIMERS.lock().take_due(thread, thread_cpu, process_cpu);
        due.into_iter().for_each(ring::ring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn now(monotonic: u64, cpu: u64) -> Now {
        Now {
            thread: Slot(0),
            realtime: 7_000 * MS + monotonic,
            monotonic,
            thread_cpu: cpu,
            process_cpu: 2 * cpu,
        }
    }

    #[test]
    fn a_timer_tells_what_is_left() {
        let mut timers = Timers::new();
        let (real, at) = (Timer::Interval(libc::ITIMER_REAL), now(5 * MS, 0));
        let times = |rest, interval| Times { rest, interval };
        let rings = Rings {
            next: (5 + 10) * MS,
            interval: 4 * MS,
        };
        let before = timers.set(real, Kind::Monotonic, rings, &at);
        assert_eq!(before, Times::default());
        let left = |timers: &Timers, at| timers.times(real, &now(at, 0));
        assert_eq!(left(&timers, 6 * MS), Some(times(9 * MS, 4 * MS)));
        assert_eq!(left(&timers, 16 * MS), Some(times(3 * MS, 4 * MS)));
        let before = timers.set(real, Kind::Monotonic, Rings::NEVER, &now(15 * MS, 0));
        assert_eq!(before, times(1, 4 * MS), "it is due and has not rung");
        assert_eq!(left(&timers, 16 * MS), Some(Times::default()));
        assert_eq!(timers.times(Timer::Fd(3), &at), None);
    }

    #[test]
    fn cpu_timers_ring_when_their_thread_has_run_for_so_long() {
        let mut timers = Timers::new();
        let (profile, own) = (Timer::Interval(libc::ITIMER_PROF), Timer::Posix(3));
        let rings = |interval| Rings {
            next: 10 * MS,
            interval,
        };
        timers.set(profile, Kind::ProcessCpu, rings(10 * MS), &now(0, 0));
        timers.set(own, Kind::ThreadCpu, rings(0), &now(0, 0));
        let due = |timers: &mut Timers, thread, cpu| timers.take_due(Slot(thread), cpu, 2 * cpu);
        assert_eq!(due(&mut timers, 0, 4 * MS), []);
        assert_eq!(due(&mut timers, 0, 5 * MS), [profile]);
        assert_eq!(due(&mut timers, 1, 12 * MS), [profile], "not its own");
        assert_eq!(due(&mut timers, 0, 12 * MS), [own]);
        assert_eq!(due(&mut timers, 0, 14 * MS), []);
        assert_eq!(due(&mut timers, 0, 15 * MS), [profile]);
        assert_eq!(timers.settings[&own].ran, 15 * MS);
    }

    #[test]
    fn names_are_numbers_and_back() {
        for timer in [Timer::Interval(2), Timer::Posix(7), Timer::Fd(9)] {
            assert_eq!(Timer::of_number(timer.number()), Some(timer));
        }
        assert_eq!(Timer::of_number(u64::MAX), None);
    }
}
