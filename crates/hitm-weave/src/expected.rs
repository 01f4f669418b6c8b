//! Threads that are about to run, and that the host has not got round to: the others wait for them.
//!
//! A thread that waits at a futex is away, and nobody waits for it. When another thread has asked for
//! a wake there, three things may be true. The wake ended the wait, so the thread comes back. Or the thread
//! had not fallen asleep yet and comes back because the word has changed. Or it sleeps on. The count that
//! FUTEX_WAKE answers tells how many were woken. Whether one of the others is asleep, only the host knows:
//! the driver looks ([`crate::Group::unsettled`]).
//!
//! A thread or process that was created comes with its first instruction, and is expected until then.

use std::collections::{BTreeMap, BTreeSet};

use crate::Slot;

/// Wait at a futex.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    futex: u64,
    /// It has been seen asleep.
    is_settled: bool,
}

/// One futex.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Futex {
    /// Threads that wait.
    waiters: u32,
    /// Wakes that have begun and not been answered.
    wakes: u32,
    /// Threads that are woken and not back. Below zero when a sleeper is faster than its waker's return.
    woken: i64,
    /// The thread that ends wakes those that wait for its end.
    is_ending: bool,
}

impl Futex {
    fn expected(self) -> i64 {
        self.woken.clamp(0, self.waiters.into())
    }
}

/// A thread or process that was created.
#[derive(Debug, Clone, Copy)]
struct Created {
    number: u64,
    /// Process of which it is a thread; none for a process.
    process: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Expected {
    waiting: BTreeMap<Slot, Waiting>,
    futexes: BTreeMap<u64, Futex>,
    /// Sum over all futexes.
    woken: i64,
    /// Waiters that have been there at a wake and may be on their way back.
    unsettled: BTreeSet<Slot>,
    /// Threads that have not come yet, by the operating system's numbers.
    newcomers: BTreeMap<u32, Created>,
    created_count: u64,
}

impl Expected {
    /// Returns true if nobody is expected.
    pub(crate) fn is_empty(&self) -> bool {
        self.woken == 0 && self.unsettled.is_empty() && self.newcomers.is_empty()
    }

    /// Changes a futex, and forgets it when there is nothing to remember.
    fn change(&mut self, at: u64, change: impl FnOnce(&mut Futex)) {
        let futex = self.futexes.entry(at).or_default();
        let before = futex.expected();
        change(futex);
        // A wake of a thread that nobody knew, or that has come back by itself.
        let is_stale = match futex.woken {
            1.. => futex.waiters == 0,
            _ => futex.wakes == 0,
        };
        if is_stale {
            futex.woken = 0;
        }
        self.woken += futex.expected() - before;
        if *futex == Futex::default() {
            self.futexes.remove(&at);
        }
    }

    /// The thread waits at `futex`.
    pub(crate) fn begin_wait(&mut self, slot: Slot, futex: u64) {
        let waiting = Waiting {
            futex,
            is_settled: false,
        };
        self.waiting.insert(slot, waiting);
        self.change(futex, |futex| {
            futex.waiters += 1;
            futex.woken += i64::from(futex.is_ending);
        });
    }

    /// The thread waits no more; `is_woken`: because a wake ended its wait.
    pub(crate) fn end_wait(&mut self, slot: Slot, is_woken: bool) {
        self.unsettled.remove(&slot);
        if let Some(waiting) = self.waiting.remove(&slot) {
            self.change(waiting.futex, |futex| {
                futex.waiters -= 1;
                futex.woken -= i64::from(is_woken);
                futex.is_ending = false;
            });
        }
    }

    /// A wake at `futex` begins.
    pub(crate) fn begin_wake(&mut self, futex: u64) {
        self.change(futex, |futex| futex.wakes += 1);
    }

    /// A wake at `futex` has ended the waits of `count` threads.
    pub(crate) fn end_wake(&mut self, at: u64, count: u32) {
        if let Some(futex) = self.futexes.get(&at)
            && futex.waiters > 0
        {
            let waiting = self.waiting.iter();
            let doubtful = waiting.filter(|(_, one)| one.futex == at && !one.is_settled);
            self.unsettled.extend(doubtful.map(|(slot, _)| *slot));
        }
        self.change(at, |futex| {
            futex.wakes = futex.wakes.saturating_sub(1);
            futex.woken += i64::from(count);
        });
    }

    /// A thread ends, whose end all that wait at `futex` await.
    pub(crate) fn end_at(&mut self, futex: u64) {
        self.change(futex, |futex| {
            futex.woken = futex.waiters.into();
            futex.is_ending = futex.waiters == 0;
        });
    }

    /// The thread whose end all that wait at `futex` await goes on.
    pub(crate) fn cancel_end(&mut self, futex: u64) {
        self.change(futex, |futex| {
            futex.woken = 0;
            futex.is_ending = false;
        });
    }

    /// Returns true if the thread `tid` was created and has not come.
    pub(crate) fn expects(&self, tid: u32) -> bool {
        self.newcomers.contains_key(&tid)
    }

    /// The thread `tid` of a process, or a process, was created, and comes. At its end it wakes those that
    /// wait at `futex`.
    pub(crate) fn expect_thread(&mut self, tid: u32, process: Option<u32>, futex: Option<u64>) {
        self.created_count += 1;
        let number = self.created_count;
        self.newcomers.insert(tid, Created { number, process });
        if let Some(at) = futex {
            // The word of another thread before.
            self.change(at, |futex| futex.is_ending = false);
        }
    }

    /// The thread `tid` has come, or will not come.
    pub(crate) fn arrive(&mut self, tid: u32) {
        self.newcomers.remove(&tid);
    }

    /// Returns true if other threads of the process were created before the thread `tid` and have not come.
    pub(crate) fn has_earlier(&self, tid: u32, process: u32) -> bool {
        let created = self.newcomers.get(&tid);
        let number = created.map_or(u64::MAX, |created| created.number);
        let mut others = self.newcomers.values();
        others.any(|other| other.process == Some(process) && other.number < number)
    }

    /// Waiters of which it is not known that they are asleep.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = Slot> {
        self.unsettled.iter().copied()
    }

    /// The thread has been seen asleep.
    pub(crate) fn settle(&mut self, slot: Slot) {
        self.unsettled.remove(&slot);
        if let Some(waiting) = self.waiting.get_mut(&slot) {
            waiting.is_settled = true;
        }
    }

    /// Threads that have not come yet, by the operating system's numbers.
    pub(crate) fn newcomers(&self) -> impl Iterator<Item = u32> {
        self.newcomers.keys().copied()
    }

    /// Waiters at futexes where somebody was woken, by futex.
    pub(crate) fn woken(&self) -> BTreeMap<u64, Vec<Slot>> {
        let mut found: BTreeMap<u64, Vec<Slot>> = BTreeMap::new();
        if self.woken > 0 {
            for (slot, waiting) in &self.waiting {
                let futex = self.futexes.get(&waiting.futex);
                if futex.is_some_and(|futex| futex.expected() > 0) {
                    found.entry(waiting.futex).or_default().push(*slot);
                }
            }
        }
        found
    }

    /// Nobody who waits at `futex` comes back, against what was said.
    pub(crate) fn give_up(&mut self, futex: u64) {
        self.change(futex, |futex| futex.woken = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x40;

    #[test]
    fn a_woken_thread_is_expected_until_it_is_back() {
        let mut expected = Expected::default();
        expected.begin_wait(Slot(1), AT);
        expected.settle(Slot(1));
        assert!(expected.is_empty(), "it sleeps");
        expected.begin_wake(AT);
        expected.end_wake(AT, 1);
        assert!(!expected.is_empty());
        expected.end_wait(Slot(1), true);
        assert!(expected.is_empty());
        assert!(expected.futexes.is_empty(), "nothing is kept");
    }

    #[test]
    fn a_sleeper_may_be_faster_than_its_waker() {
        let mut expected = Expected::default();
        expected.begin_wait(Slot(1), AT);
        expected.begin_wake(AT);
        expected.end_wait(Slot(1), true);
        assert!(expected.is_empty());
        expected.begin_wait(Slot(1), AT);
        expected.end_wake(AT, 1);
        expected.settle(Slot(1));
        assert!(expected.is_empty(), "that was the wait before");
        // Woken by somebody who asked elsewhere (FUTEX_REQUEUE): no later wake is short of one for it.
        expected.end_wait(Slot(1), true);
        expected.begin_wait(Slot(1), AT);
        expected.begin_wake(AT);
        expected.end_wake(AT, 1);
        assert_eq!(expected.woken().len(), 1);
    }

    #[test]
    fn a_waiter_that_is_not_woken_is_looked_at_once() {
        let mut expected = Expected::default();
        expected.begin_wait(Slot(1), AT);
        expected.begin_wait(Slot(2), AT);
        expected.begin_wake(AT);
        expected.end_wake(AT, 0);
        assert!(expected.unsettled().eq([Slot(1), Slot(2)]));
        expected.settle(Slot(1));
        // The word had changed before it fell asleep.
        expected.end_wait(Slot(2), false);
        assert!(expected.is_empty());
        expected.begin_wake(AT);
        expected.end_wake(AT, 0);
        assert!(expected.is_empty());
    }

    #[test]
    fn wakes_of_threads_that_nobody_knows_are_not_waited_for() {
        let mut expected = Expected::default();
        expected.begin_wake(AT);
        expected.end_wake(AT, 3);
        expected.begin_wait(Slot(1), AT);
        assert!(expected.is_empty());
        expected.begin_wake(AT);
        expected.end_wake(AT, 2);
        expected.settle(Slot(1));
        assert_eq!(expected.woken(), BTreeMap::from([(AT, vec![Slot(1)])]));
        expected.give_up(AT);
        assert!(expected.is_empty());
    }

    #[test]
    fn threads_come_in_the_order_of_their_creation() {
        let mut expected = Expected::default();
        expected.expect_thread(9, Some(0), None);
        expected.expect_thread(8, Some(0), None);
        expected.expect_thread(5, None, None);
        assert!(expected.has_earlier(8, 0) && !expected.has_earlier(9, 0));
        assert!(expected.has_earlier(7, 0), "not heard of yet");
        assert!(!expected.has_earlier(5, 1), "a process waits for nobody");
        expected.arrive(9);
        assert!(!expected.has_earlier(8, 0));
    }

    #[test]
    fn the_end_of_a_thread_wakes_whoever_waits_for_it_now_or_later() {
        for waits_first in [true, false] {
            let mut expected = Expected::default();
            expected.expect_thread(7, Some(0), Some(AT));
            assert!(!expected.is_empty());
            expected.arrive(7);
            if waits_first {
                expected.begin_wait(Slot(1), AT);
                assert!(expected.is_empty());
            }
            expected.end_at(AT);
            if !waits_first {
                assert!(expected.is_empty());
                expected.begin_wait(Slot(1), AT);
            }
            assert!(!expected.is_empty());
            expected.end_wait(Slot(1), waits_first);
            assert!(expected.is_empty());
            assert!(expected.futexes.is_empty(), "nothing is kept");
        }
    }
}
