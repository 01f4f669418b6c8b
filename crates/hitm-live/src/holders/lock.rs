//! A lock: its waiters, its holder as far as is known, and the time so far.

use indexmap::IndexMap;

use super::holds::Holds;
use super::thread::{Faults, State, Thread};
use crate::recording::HolderTimes;

/// Changes of the number of waiters that may wait to be counted.
const CHANGES_MAX: usize = 4096;

/// Identity of a lock: its process, zero for the kernel, and its address.
pub(super) type Key = (u32, u64);

/// The thread that has a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Unknown,
    /// It was released, and nobody has been seen with it since.
    Free,
    /// A thread.
    Known(u32),
}

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) holder: Holder,
    /// Everything before is counted.
    pub(super) settled: u64,
    /// Waiters at that moment.
    waiters: u64,
    /// Later changes of their number.
    changes: Vec<(u64, i64)>,
    pub(super) times: HolderTimes,
    /// Time preempted, by taker.
    pub(super) takers: IndexMap<u32, u64>,
    /// Time asleep for other locks.
    pub(super) chain: IndexMap<Key, u64>,
    /// Looks that found a thread of the process as the owner, and others that found something else.
    pub(super) owners: u64,
    pub(super) others: u64,
    /// A word that threads spin for, and whether its writes are seen now. None for other locks.
    pub(super) is_watched: Option<bool>,
    /// Its holds while writes are seen.
    pub(super) holds: Holds,
}

impl Lock {
    pub(super) fn new(now: u64) -> Lock {
        Lock {
            holder: Holder::Unknown,
            settled: now,
            waiters: 0,
            changes: Vec::new(),
            times: HolderTimes::default(),
            takers: IndexMap::new(),
            chain: IndexMap::new(),
            owners: 0,
            others: 0,
            is_watched: None,
            holds: Holds::default(),
        }
    }

    /// True while somebody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        let changes = self.changes.iter().map(|(_, change)| change).sum::<i64>();
        self.waiters.saturating_add_signed(changes) > 0
    }

    /// A waiter comes or goes. Returns true where the lock must be settled, for want of room.
    pub(super) fn change(&mut self, at: u64, change: i64) -> bool {
        self.changes.push((at.max(self.settled), change));
        self.changes.len() >= CHANGES_MAX
    }

    /// Time of all waiters between two moments, the first one not before what is settled. A change that was told late
    /// counts from the one before it on.
    fn weight(&self, from: u64, to: u64) -> u64 {
        let (mut waiters, mut at, mut sum) = (self.waiters, from, 0u64);
        for (moment, change) in &self.changes {
            let moment = (*moment).clamp(at, to);
            sum = sum.saturating_add((moment - at).saturating_mul(waiters));
            (at, waiters) = (moment, waiters.saturating_add_signed(*change));
            if at == to {
                return sum;
            }
        }
        sum.saturating_add((to - at).saturating_mul(waiters))
    }

    /// Counts the time up to `to` as the holder's states.
    pub(super) fn charge_holder(&mut self, holder: &Thread, to: u64) {
        let stretches: Vec<_> = holder.stretches(self.settled, to).collect();
        for part in stretches {
            let ns = self.weight(part.from, part.to);
            if ns == 0 {
                continue;
            }
            match part.state {
                State::Running => {
                    let faults = holder.faults(part.from, part.to);
                    self.add_run(ns, part.to - part.from, faults);
                }
                State::Preempted(taker) => {
                    self.times.preempted_ns += ns;
                    *self.takers.entry(taker).or_default() += ns;
                }
                State::Throttled => self.times.throttled_ns += ns,
                State::Faulting => self.times.major_fault_ns += ns,
                State::Asleep(lock) => {
                    self.times.asleep_ns += ns;
                    if let Some(lock) = lock {
                        *self.chain.entry(lock).or_default() += ns;
                    }
                }
                State::Waking => self.times.waking_ns += ns,
                State::Unknown => self.times.unknown_ns += ns,
            }
        }
        self.settle(to);
    }

    /// Adds a time that the holder ran, of which `ns` is the waiters'.
    fn add_run(&mut self, ns: u64, ran: u64, faults: Faults) {
        let part = |fault: u64| {
            let scaled = u128::from(fault.min(ran)) * u128::from(ns) / u128::from(ran.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let major = part(faults.major_ns);
        let minor = part(faults.minor_ns).min(ns - major.min(ns));
        self.times.major_fault_ns += major;
        self.times.minor_fault_ns += minor;
        self.times.running_ns += ns.saturating_sub(major + minor);
    }

    /// Counts the time up to `to` as that of a lock without holder.
    pub(super) fn charge_free(&mut self, to: u64) {
        self.times.waking_ns += self.weight(self.settled, to.max(self.settled));
        self.settle(to);
    }

    /// Counts the time up to `to` as one of which nothing is known. Time in which a word is not watched is left out.
    pub(super) fn charge_unknown(&mut self, to: u64) {
        if self.is_watched != Some(false) {
            self.times.unknown_ns += self.weight(self.settled, to.max(self.settled));
        }
        self.settle(to);
    }

    fn settle(&mut self, to: u64) {
        if to <= self.settled {
            return;
        }
        let passed = self.changes.iter().filter(|(at, _)| *at <= to);
        let change = passed.map(|(_, change)| change).sum::<i64>();
        self.waiters = self.waiters.saturating_add_signed(change);
        self.changes.retain(|(at, _)| *at > to);
        self.settled = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_three_waiters_is_three() {
        let mut lock = Lock::new(100);
        lock.change(110, 1);
        lock.change(120, 2);
        lock.change(150, -3);
        assert_eq!(lock.weight(100, 200), 10 + 90);
        assert_eq!(lock.weight(130, 140), 30);
        assert!(!lock.is_waited_for());
        lock.charge_free(130);
        assert_eq!(lock.times.waking_ns, 10 + 30);
        lock.charge_unknown(300);
        assert_eq!(lock.times.unknown_ns, 60);
        assert_eq!((lock.settled, lock.changes.len()), (300, 0));
    }

    #[test]
    fn a_change_that_is_told_late_counts_at_once() {
        let mut lock = Lock::new(0);
        lock.change(100, 1);
        lock.change(150, 1);
        lock.change(120, -1);
        assert_eq!(lock.weight(0, 200), 50 + 50);
    }

    #[test]
    fn faults_are_parts_of_the_time_that_a_holder_runs() {
        let mut lock = Lock::new(0);
        lock.change(0, 2);
        let faults = |minor_ns, major_ns| Faults { minor_ns, major_ns };
        let mut holder = Thread::new(State::Running);
        holder.mark(0, faults(0, 0));
        holder.mark(100, faults(30, 10));
        holder.enter(State::Asleep(Some((0, 7))), 150);
        lock.charge_holder(&holder, 200);
        let expected = HolderTimes {
            running_ns: 2 * (150 - 40),
            minor_fault_ns: 60,
            major_fault_ns: 20,
            asleep_ns: 100,
            ..HolderTimes::default()
        };
        assert_eq!(lock.times, expected);
        assert_eq!(lock.chain.get(&(0, 7)), Some(&100));
    }
}
