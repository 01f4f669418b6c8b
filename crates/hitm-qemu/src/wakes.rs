//! Who ended whose wait on a futex.
//!
//! A waiter that returns is taken to have been woken by the thread that last asked for a wake at its
//! address; where none did, by the thread that ended last, whose end the kernel announces by a wake
//! of its own (`CLONE_CHILD_CLEARTID`: how one thread joins another). That is a guess when several
//! threads wake at one address, and not made for other system calls.

use std::collections::BTreeMap;

use hitm_weave::Slot;

/// Addresses that are remembered; a program that uses more futexes than that has the rest of its
/// wakes without a waker now and then.
const FUTEXES_MAX: usize = 1 << 16;

/// A thread, and the instruction by which it woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) slot: Slot,
    pub(crate) insn: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Wakes {
    by_futex: BTreeMap<u64, Wake>,
    last_end: Option<Wake>,
}

impl Wakes {
    /// A thread asks to wake those that wait at `futex`.
    pub(crate) fn asked(&mut self, futex: u64, wake: Wake) {
        if self.by_futex.len() >= FUTEXES_MAX {
            self.by_futex.clear();
        }
        self.by_futex.insert(futex, wake);
    }

    /// A thread ends.
    pub(crate) fn ended(&mut self, wake: Wake) {
        self.last_end = Some(wake);
    }

    /// Who ended a wait at `futex`.
    pub(crate) fn of(&self, futex: u64) -> Option<Wake> {
        self.by_futex.get(&futex).copied().or(self.last_end)
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
    }
}
