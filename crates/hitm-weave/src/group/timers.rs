//! Timers of processes: setitimer, timer_create and timerfd in virtual time.
//!
//! A timer rings when the slowest thread is that far, or at once when nobody runs. Somebody in its process then
//! lets the host's kernel do what a timer does, and all threads wait until that has happened.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::Cycles;

use super::Group;

/// Timers that a recording may have: a program that sets more says what cannot be.
const TIMERS_MAX: usize = 1 << 16;

/// A timer's name: its process, and the number that this gave it.
pub type TimerName = (u32, u64);

/// Times at which a timer rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerTimes {
    /// The next one.
    pub next: Cycles,
    /// From one to the next; zero for a timer that rings once.
    pub interval: Cycles,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeMap<TimerName, TimerTimes>,
    /// Processes in which a timer has rung and nobody has seen to it.
    ringing: BTreeSet<u32>,
}

impl Timers {
    pub(super) fn is_any_ringing(&self) -> bool {
        !self.ringing.is_empty()
    }

    pub(super) fn is_any_set(&self) -> bool {
        !self.set.is_empty()
    }

    /// The next time at which one rings.
    pub(super) fn first(&self) -> Option<Cycles> {
        self.set.values().map(|times| times.next).min()
    }

    /// Timers that ring until then. One that should have rung several times rings once.
    fn take_due(&mut self, until: Cycles) -> Vec<TimerName> {
        let due = self.set.iter().filter(|(_, times)| times.next <= until);
        let due: Vec<TimerName> = due.map(|(name, _)| *name).collect();
        for name in &due {
            let times = self.set.get_mut(name).expect("it was found there");
            let Some(missed) = (until.0 - times.next.0).checked_div(times.interval.0) else {
                self.set.remove(name);
                continue;
            };
            times.next += Cycles((missed + 1).saturating_mul(times.interval.0));
        }
        due
    }
}

impl Group {
    /// Sets a timer, in place of its former times; no times turn it off. False if there are too many.
    pub fn set_timer(&mut self, name: TimerName, times: Option<TimerTimes>) -> bool {
        match times {
            Some(times) => drop(self.timers.set.insert(name, times)),
            None => drop(self.timers.set.remove(&name)),
        }
        self.timers.set.len() <= TIMERS_MAX
    }

    /// Turns a timer off; its times, if it was on.
    pub fn take_timer(&mut self, name: TimerName) -> Option<TimerTimes> {
        self.timers.set.remove(&name)
    }

    /// Lets timers within `window` of the present ring. All threads wait until [`Group::has_rung`] was called for
    /// each of their processes. Call it after [`Group::weave_all`].
    pub fn ring_timers(&mut self, window: Cycles) -> Vec<TimerName> {
        if self.timers.set.is_empty() {
            return Vec::new();
        }
        let due = self.timers.take_due(self.now() + window);
        self.timers
            .ringing
            .extend(due.iter().map(|(process, _)| process));
        due
    }

    /// The timers of a process that rang have done what they do.
    pub fn has_rung(&mut self, process: u32) {
        self.timers.ringing.remove(&process);
    }

    /// The process is gone, with its timers.
    pub fn forget_timers(&mut self, process: u32) {
        self.timers.set.retain(|(owner, _), _| *owner != process);
        self.has_rung(process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_at_its_times() {
        let mut timers = Timers::default();
        let times = |next, interval| TimerTimes {
            next: Cycles(next),
            interval: Cycles(interval),
        };
        timers.set.insert((0, 1), times(100, 0));
        timers.set.insert((0, 2), times(50, 40));
        assert_eq!(timers.first(), Some(Cycles(50)));
        assert!(timers.take_due(Cycles(49)).is_empty());
        assert_eq!(timers.take_due(Cycles(50)), [(0, 2)]);
        assert_eq!(timers.take_due(Cycles(100)), [(0, 1), (0, 2)]);
        assert_eq!(timers.first(), Some(Cycles(130)));
        assert_eq!(timers.take_due(Cycles(1000)), [(0, 2)], "once for all");
        assert_eq!(timers.first(), Some(Cycles(1010)));
    }
}
