//! The locks that callbacks take, and the order in which they take them.
//!
//! Callbacks run on the program's threads, inside of QEMU, which has locks of its own and sometimes stops
//! all threads (fork, translation flushes): it waits until none of them runs translated code. A thread in a
//! callback counts as one that does, except in callbacks of system calls. So a thread that held a lock
//! until QEMU has stopped the others would wait for one that waits for its lock. Four rules exclude that:
//!
//! 1. Each lock has a [`Rank`]. A thread that holds one takes only locks of higher ranks.
//! 2. No lock is held when a callback returns to QEMU: [`none_is_held`].
//! 3. Who holds a lock calls no function of QEMU and does not wait for the recorder or another thread.
//! 4. What threads look up without a lock is changed in one step, or each thread has its own.
//!
//! The development build checks the first two and stops with the names of both locks.
//!
//! # Forks
//!
//! A child gets a copy of all tables and of the forking thread alone. A lock that another thread held would
//! stay locked in it, and the table behind be half changed. So the forking thread takes the locks itself,
//! at the moment of the real fork (pthread_atfork(3)), by rank, and gives them back on both sides. QEMU has
//! stopped the others by then. Those that are in callbacks of system calls still run and may hold a lock.
//! By rule 3 they give it back soon.
//!
//! Taking the locks when the call begins, before QEMU stops the others, breaks rule 2. Tables that are
//! copied at each change, as those of shared memory are, would need no locks. There are some ten parts of
//! shared memory, but millions of allocations. Making locks new in the child would leave it tables that
//! are half changed.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Locks in the order in which a thread may take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rank {
    /// Sleeping tasks of a recorded machine.
    Tasks,
    /// CPUs of a recorded machine.
    Barrier,
    /// Functions that allocate, and their calls.
    Allocators,
    /// Live allocations.
    Heap,
    /// Timers of the program.
    Timers,
    /// Protection of QEMU's table of imports.
    Imports,
}

/// A mutex with a place in the order of locks.
#[derive(Debug)]
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// Access to what a mutex protects.
#[derive(Debug)]
pub(crate) struct RankedGuard<'a, T> {
    inner: MutexGuard<'a, T>,
    _held: Held,
}

/// The calling thread's note that it holds a lock of this rank.
#[derive(Debug)]
struct Held(Rank);

thread_local! {
    /// A bit for each rank of which the thread holds a lock; of use in the development build.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

impl<T> RankedMutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> RankedMutex<T> {
        let mutex = Mutex::new(value);
        RankedMutex { rank, mutex }
    }

    /// Waits for the lock and takes it.
    pub(crate) fn lock(&self) -> RankedGuard<'_, T> {
        // Before the wait, which may never end where the order is broken.
        let held = Held::note(self.rank);
        let inner = self.mutex.lock();
        RankedGuard {
            inner: inner.expect("a panic in the recorder ends the process"),
            _held: held,
        }
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl Held {
    fn note(rank: Rank) -> Held {
        if cfg!(debug_assertions) {
            let held = HELD.get();
            if let Some(other) = highest(held).filter(|other| *other as u32 >= rank as u32) {
                panic!("the lock {rank:?} is taken by a thread that holds {other:?}");
            }
            HELD.set(held | 1 << rank as u32);
        }
        Held(rank)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HELD.set(HELD.get() & !(1 << self.0 as u32));
        }
    }
}

/// The highest rank in a thread's bits.
fn highest(held: u32) -> Option<Rank> {
    let ranks = [
        Rank::Imports,
        Rank::Timers,
        Rank::Heap,
        Rank::Allocators,
        Rank::Barrier,
        Rank::Tasks,
    ];
    ranks.into_iter().find(|rank| held >> *rank as u32 & 1 == 1)
}

/// The calling thread goes where it may wait for others. Stops the development build if it holds a lock.
#[inline(always)]
pub(crate) fn none_is_held(place: &str) {
    if cfg!(debug_assertions)
        && let Some(rank) = highest(HELD.get())
    {
        panic!("the lock {rank:?} is held at {place}");
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn message(act: impl FnOnce()) -> String {
        let caught = catch_unwind(AssertUnwindSafe(act)).expect_err("it stops");
        caught.downcast_ref::<String>().expect("a text").clone()
    }

    #[test]
    fn locks_are_taken_by_rank() {
        let low = RankedMutex::new(Rank::Allocators, 1);
        let high = RankedMutex::new(Rank::Heap, 2);
        {
            let (first, mut second) = (low.lock(), high.lock());
            *second += *first;
        }
        // In turn, each order is right.
        assert_eq!(*high.lock(), 3);
        assert_eq!(*low.lock(), 1);
    }

    #[test]
    fn a_lock_out_of_order_stops_with_both_names() {
        let two = || [Rank::Allocators, Rank::Heap].map(|rank| RankedMutex::new(rank, ()));
        let [low, high] = two();
        let said = message(|| {
            let _held = high.lock();
            low.lock();
        });
        assert_eq!(
            said,
            "the lock Allocators is taken by a thread that holds Heap"
        );
        let said = message(|| {
            let _held = low.lock();
            low.lock();
        });
        assert!(said.ends_with("Allocators is taken by a thread that holds Allocators"));
        let [low, _] = two();
        let said = message(|| {
            let _held = low.lock();
            none_is_held("the end of a callback");
        });
        assert_eq!(said, "the lock Allocators is held at the end of a callback");
        none_is_held("the end of a test");
    }
}
