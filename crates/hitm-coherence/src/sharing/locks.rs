//! The locks in a line: their words, their other parts, and the data that they guard.
//!
//! A lock is an object that the caller knows as one, or a word that two or more threads hit with locked
//! operations and that has one of these signs:
//!
//! - its lockers also store to it plainly (the release of a spin lock);
//! - they store plainly to common bytes beside it, at the lock's pace (the data that it guards, or a
//!   mutex's own owner field);
//! - they read it at least [`SPIN_LOADS_PER_LOCKED`] times as often as they lock it, with two or more
//!   locked instructions (acquire and release).
//!
//! Bytes beside it belong to it when only its lockers touch them, two or more of them do, and at
//! the lock's pace. That is: no instruction runs more often than the word is locked. What is
//! counted beside the lock without being under it runs at a pace of its own. Of samples, whose counts are
//! estimates, more than [`SAMPLED_PACE_MAX`] times as often is a pace of its own.

use hitm_base::{AccessOp, CodeAddr};
use std::collections::{BTreeMap, BTreeSet};

use super::uses::{ThreadUse, Threads};
use super::{Known, SAMPLED_PACE_MAX, SPIN_LOADS_PER_LOCKED};

/// A lock in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lock {
    /// The bytes that are locked.
    pub(super) word: u64,
    /// Bytes beside them that the lockers share and write.
    pub(super) guarded: u64,
    /// All of it: word, guarded bytes, and what the lockers only read, as a mutex's kind.
    pub(super) scope: u64,
}

/// The locks among the places of a line. No two overlap.
pub(super) fn find(threads: &Threads, known: &Known<'_>) -> Vec<Lock> {
    let mut locks: Vec<Lock> = Vec::new();
    let objects = known.lock_objects.iter();
    let known_bytes = objects
        .clone()
        .fold(known.no_locks, |all, object| all | object);
    for object in objects {
        locks.extend(known_lock(threads, *object));
    }
    let pace_max = match known.are_samples {
        true => SAMPLED_PACE_MAX,
        false => 1,
    };
    for word in locked_words(threads, known_bytes) {
        locks.extend(found_lock(threads, word, known_bytes, pace_max));
    }
    join_overlapping(locks)
}

/// The bytes that at least two of the masks contain.
fn in_two(masks: impl Iterator<Item = u64>) -> u64 {
    let (_, twice) = masks.fold((0, 0), |(once, twice), mask| {
        (once | mask, twice | (once & mask))
    });
    twice
}

fn known_lock(threads: &Threads, object: u64) -> Option<Lock> {
    let users = threads.values().filter(|t| t.touched() & object != 0);
    let written = threads.values().fold(0, |all, t| all | t.written()) & object;
    (users.count() >= 2 && written != 0).then_some(Lock {
        word: written,
        guarded: 0,
        scope: object,
    })
}

/// The words that two threads or more hit with locked operations; what overlaps is one word.
fn locked_words(threads: &Threads, known: u64) -> Vec<u64> {
    let common = in_two(threads.values().map(ThreadUse::locked));
    let places = threads.values().flat_map(|thread| thread.places.keys());
    let masks: BTreeSet<u64> = places
        .filter(|place| place.op == AccessOp::LockedRmw && place.mask & common != 0)
        .map(|place| place.mask)
        .filter(|mask| mask & known == 0)
        .collect();
    let mut words: Vec<u64> = Vec::new();
    for mut word in masks {
        words.retain(|other| {
            let overlaps = other & word != 0;
            word |= if overlaps { *other } else { 0 };
            !overlaps
        });
        words.push(word);
    }
    words
}

/// Accesses of the lockers of a word to it.
#[derive(Debug, Default)]
struct WordUse {
    loads: u64,
    locked: u64,
    locked_codes: BTreeSet<CodeAddr>,
}

impl WordUse {
    fn of(lockers: &[&ThreadUse], word: u64) -> WordUse {
        let mut found = WordUse::default();
        let places = lockers.iter().flat_map(|thread| &thread.places);
        for (place, used) in places.filter(|(place, _)| place.mask & word != 0) {
            match place.op {
                AccessOp::Load => found.loads += used.accesses,
                AccessOp::LockedRmw => {
                    found.locked += used.accesses;
                    found.locked_codes.extend(used.codes.keys());
                }
                AccessOp::Store | AccessOp::Fence => {}
            }
        }
        found
    }

    fn is_spun_on(&self) -> bool {
        self.locked_codes.len() >= 2
            && self.loads >= self.locked.saturating_mul(SPIN_LOADS_PER_LOCKED)
    }
}

/// The lock at a word, of which nothing runs under it more than `pace_max` times as often as it is locked.
fn found_lock(threads: &Threads, word: u64, known: u64, pace_max: u64) -> Option<Lock> {
    let is_locker = |thread: &ThreadUse| thread.locked() & word != 0;
    let lockers: Vec<&ThreadUse> = threads.values().filter(|t| is_locker(t)).collect();
    let of_word = WordUse::of(&lockers, word);
    let strangers = threads.values().filter(|t| !is_locker(t));
    let of_strangers = strangers.fold(0, |all, thread| all | thread.touched());
    let beside = in_two(lockers.iter().map(|thread| thread.touched()))
        & !(word
            | known
            | of_strangers
            | faster_than(&lockers, of_word.locked.saturating_mul(pace_max)));
    let written = lockers.iter().fold(0, |all, t| all | t.written());
    let stored = in_two(lockers.iter().map(|thread| thread.stored_plainly()));
    let is_lock = stored & (word | beside) != 0 || of_word.is_spun_on();
    is_lock.then_some(Lock {
        word,
        guarded: beside & written,
        scope: word | beside,
    })
}

/// The bytes that some instruction touches more often than `locked_count` times.
fn faster_than(lockers: &[&ThreadUse], locked_count: u64) -> u64 {
    let mut counts: BTreeMap<(u64, CodeAddr), u64> = BTreeMap::new();
    for (place, used) in lockers.iter().flat_map(|thread| &thread.places) {
        for (code, accesses) in &used.codes {
            *counts.entry((place.mask, *code)).or_default() += accesses;
        }
    }
    let fast = counts.iter().filter(|(_, count)| **count > locked_count);
    fast.fold(0, |all, ((mask, _), _)| all | mask)
}

/// Makes one lock of those that share bytes, as the words of a condition variable do.
fn join_overlapping(locks: Vec<Lock>) -> Vec<Lock> {
    let mut joined: Vec<Lock> = Vec::new();
    for mut lock in locks {
        joined.retain(|other| {
            let overlaps = other.scope & lock.scope != 0;
            if overlaps {
                lock.word |= other.word;
                lock.guarded |= other.guarded;
                lock.scope |= other.scope;
            }
            !overlaps
        });
        lock.guarded &= !lock.word;
        joined.push(lock);
    }
    joined
}
