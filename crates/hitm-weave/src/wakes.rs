//! Wakers of the waits on futexes.
//!
//! A waiter that returns is taken to have been woken by the thread that last asked for a wake at its
//! address. Where none did, it is the thread that ended last: the kernel announces its end by a wake
//! of its own (`CLONE_CHILD_CLEARTID`, how one thread joins another). That is an assumption when
//! several threads wake at one address, and not made for other system calls.

use std::collections::BTreeMap;

use crate::Slot;

/// Addresses that are remembered; a program that uses more futexes than that has the rest of its
/// wakes without a waker now and then.
const FUTEXES_MAX: usize = 1 << 16;

/// A thread, and the instruction by which it woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The thread.
    pub slot: Slot,
    /// Instructions that it had run.
    pub insn: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// The last wake at each futex, with its number.
    by_futex: BTreeMap<u64, (u64, Wake)>,
    count: u64,
    last_end: Option<Wake>,
}

impl Wakes {
    /// A thread asks to wake those that wait at `futex`.
    pub(crate) fn asked(&mut self, futex: u64, wake: Wake) {
        if self.by_futex.len() >= FUTEXES_MAX {
            self.by_futex.clear();
        }
        self.count += 1;
        self.by_futex.insert(futex, (self.count, wake));
    }

    /// Wakes so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last wake at `futex`, if there have been at most `count` before it.
    pub(crate) fn after(&self, futex: u64, count: u64) -> Option<Wake> {
        let last = self.by_futex.get(&futex);
        last.filter(|(number, _)| *number > count)
            .map(|(_, wake)| *wake)
    }

    /// A thread ends.
    pub(crate) fn ended(&mut self, wake: Wake) {
        self.last_end = Some(wake);
    }

    /// Returns the wake that is taken to have ended a wait at `futex`.
    pub(crate) fn of(&self, futex: u64) -> Option<Wake> {
        let last = self.by_futex.get(&futex).map(|(_, wake)| *wake);
        last.or(self.last_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_goes_before_an_end() {
        let wake = |slot, insn| Wake {
            slot: Slot(slot),
            insn,
        };
        let mut wakes = Wakes::default();
        assert_eq!(wakes.of(8), None);
        wakes.ended(wake(3, 70));
        wakes.asked(8, wake(1, 50));
        wakes.asked(8, wake(2, 60));
        assert_eq!(wakes.of(8), Some(wake(2, 60)));
        assert_eq!(wakes.of(16), Some(wake(3, 70)));
        assert_eq!(wakes.after(8, 1), Some(wake(2, 60)));
        assert_eq!(wakes.after(8, wakes.count()), None);
        assert_eq!(wakes.after(16, 0), None);
    }
}
