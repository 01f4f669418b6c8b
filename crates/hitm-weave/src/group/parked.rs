//! Locks whose sleepers have a futex each: parking_lot's.
//!
//! Such a lock's waiter marks the lock's word by a locked operation, queues itself, and sleeps at a word of its own.
//! The thread that gives the lock back wakes it there. Then it tries the lock again. So the lock is the word that a
//! thread changed by a locked operation shortly before its sleep, and that is the first of those that it changes so
//! again afterwards. The sleeper's own word shares its line with no lock.
//!
//! Queues have locks of their own, which are the last that a thread changes before its sleep. Threads that queue up for
//! work, as idle ones of Go do, change nothing else.
//!
//! A thread that changes words near its own by locked operations waits for a condition variable there, or for whoever
//! unparks it: the locks that it gives back before and takes again afterwards are not what it waits for.
//!
//! Not seen: locks that are handed to a sleeper, who then has nothing to try, and locks whose sleepers have a condition
//! variable each (Java's monitors).

use hitm_base::{AccessOp, CodeAddr, Cycles};

use crate::ThreadEvent;

/// Locked operations that are remembered before a sleep. Assumed 8 (4 to 16): parking_lot has 3 to 5 from its mark on
/// the lock to its sleep, OpenJDK's monitors 4.
const BEFORE: usize = 8;

/// Locked operations after a sleep of which one is to be on the lock. Assumed 4 (2 to 8).
const AFTER: usize = 4;

/// Bytes around the sleeper's own word that belong to what it sleeps by; a condition variable of glibc has 48.
const NEAR_BYTES: u64 = 64;

/// Accesses that are looked through for them, each time that a thread tells what it did.
const LOOKED_AT: usize = 64;

/// A sleep at a futex, until it is known for which lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parked {
    pub(super) futex: u64,
    pub(super) code: CodeAddr,
    pub(super) time: Cycles,
    before: [u64; BEFORE],
    /// Locked operations seen since.
    after: usize,
}

/// State of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The sleep was for the lock at this address.
    Lock(u64),
    /// It was for none.
    None,
    /// The thread's next step decides.
    Later,
}

/// The words that a thread changed by locked operations last, the latest last; 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastLocked([u64; BEFORE]);

fn locked(events: &[ThreadEvent]) -> impl DoubleEndedIterator<Item = u64> {
    let locked = events.iter().filter(|one| one.op == AccessOp::LockedRmw);
    locked.map(|one| one.addr)
}

impl LastLocked {
    /// Takes over what the thread did, in its order.
    pub(super) fn note(&mut self, events: &[ThreadEvent]) {
        let last = events.len().saturating_sub(LOOKED_AT);
        for addr in locked(&events[last..]) {
            self.0.rotate_left(1);
            self.0[BEFORE - 1] = addr;
        }
    }
}

impl Parked {
    /// None for a sleep by a condition variable, or another word that is changed by locked operations.
    pub(super) fn new(
        futex: u64,
        code: CodeAddr,
        time: Cycles,
        last: &LastLocked,
    ) -> Option<Parked> {
        let is_near = |addr: &u64| addr.abs_diff(futex) < NEAR_BYTES;
        (!last.0.iter().any(is_near)).then_some(Parked {
            futex,
            code,
            time,
            before: last.0,
            after: 0,
        })
    }

    /// Returns true if a word may be the lock of a queue: it is the last that the thread changed before its sleep.
    pub(super) fn may_be_queue(&self, word: u64) -> bool {
        self.before[BEFORE - 1] == word
    }

    /// Looks at what the thread did after its sleep.
    pub(super) fn look(&mut self, events: &[ThreadEvent]) -> Found {
        let first = events.len().min(LOOKED_AT);
        for addr in locked(&events[..first]) {
            if self.before.contains(&addr) {
                return Found::Lock(addr);
            }
            self.after += 1;
        }
        match self.after < AFTER {
            true => Found::Later,
            false => Found::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x1000;
    const BUCKET: u64 = 0x2000;
    const OWN: u64 = 0x3000;

    fn events(words: &[u64]) -> Vec<ThreadEvent> {
        let event = |addr: &u64| ThreadEvent {
            insn: 0,
            stores: 0,
            addr: *addr,
            code: CodeAddr(0x40),
            size: 4,
            op: AccessOp::LockedRmw,
        };
        words.iter().map(event).collect()
    }

    fn found(before: &[u64], after: &[&[u64]]) -> Vec<Found> {
        let mut last = LastLocked::default();
        last.note(&events(before));
        let Some(mut parked) = Parked::new(OWN, CodeAddr(0x50), Cycles(100), &last) else {
            return Vec::new();
        };
        let looked = after.iter().map(|words| parked.look(&events(words)));
        looked.collect()
    }

    #[test]
    fn the_lock_is_tried_again_and_its_queue_is_not() {
        let of_lock = found(&[LOCK, BUCKET, BUCKET], &[&[], &[OWN + 8, LOCK]]);
        assert_eq!(of_lock, [Found::Later, Found::Lock(LOCK)]);
    }

    #[test]
    fn the_last_word_before_a_sleep_may_be_its_queues() {
        let mut last = LastLocked::default();
        last.note(&events(&[LOCK, BUCKET]));
        let parked =
            Parked::new(OWN, CodeAddr(0x50), Cycles(100), &last).expect("it is none nearby");
        assert!(parked.may_be_queue(BUCKET) && !parked.may_be_queue(LOCK));
    }

    #[test]
    fn who_does_other_things_afterwards_waited_for_no_lock() {
        let others = [0x5000, 0x6000, 0x7000, 0x8000];
        let of_job = found(&[BUCKET], &[&others[..2], &others[2..]]);
        assert_eq!(of_job, [Found::Later, Found::None]);
    }

    #[test]
    fn the_mutex_beside_a_condition_variable_is_not_waited_for() {
        assert_eq!(found(&[LOCK, OWN - 40], &[&[LOCK]]), []);
    }
}
