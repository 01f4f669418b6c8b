//! The store buffer of one simulated CPU.
//!
//! As in the weave, stores retire into it at once and drain in program order. Those that wait at
//! the head for the line that has arrived commit with it, one a cycle. Here stores carry values, so
//! a younger load of the same place sees them.

use std::collections::VecDeque;

use hitm_base::Cycles;
use hitm_coherence::directory::LineId;

use super::memory::{Place, Site};

/// A store that has retired and is not committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posted {
    pub(super) place: Place,
    pub(super) site: Site,
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// State of the oldest store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// Its line has not been requested.
    Idle,
    /// Its request waits in the line's queue; it left the core then.
    Queued(Cycles),
    /// Its line arrives then. The value is in memory already: later requests for the line are
    /// served after its arrival, so nobody can see it earlier.
    Granted(Cycles),
}

/// The bit for a line in a set of lines that may have more than were put in.
pub(super) fn line_bit(line: LineId) -> u64 {
    1 << (line.index() % 64)
}

#[derive(Debug, Clone)]
pub(super) struct StoreBuffer {
    pub(super) entries: VecDeque<Posted>,
    pub(super) head: Head,
    capacity: usize,
}

impl StoreBuffer {
    pub(super) fn new(capacity: usize) -> StoreBuffer {
        StoreBuffer {
            entries: VecDeque::with_capacity(capacity),
            head: Head::Idle,
            capacity,
        }
    }

    /// Address of the oldest store, or of the next one when there is none.
    pub(super) fn first(&self) -> *const Posted {
        self.entries.as_slices().0.as_ptr()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// Removes the oldest store.
    pub(super) fn pop(&mut self) {
        self.entries.pop_front();
        if self.entries.is_empty() {
            // The ring begins anew, so that a CPU's stores stay in few cache lines of the host.
            self.entries.clear();
        }
    }

    /// The value that this CPU sees in a word that has `committed` in memory, if a store waits for
    /// it.
    pub(super) fn forward(&self, place: Place, committed: u64) -> Option<u64> {
        let mut value = committed;
        let mut found = false;
        for store in &self.entries {
            if store.place.word == place.word {
                value = (value & !store.mask) | (store.value & store.mask);
                found = true;
            }
        }
        found.then_some(value)
    }

    /// The value that this CPU sees in a word that has `committed` in memory.
    #[inline]
    pub(super) fn value(&self, place: Place, committed: u64) -> u64 {
        if self.is_empty() {
            return committed;
        }
        self.forward(place, committed).unwrap_or(committed)
    }

    /// The lines of all stores, as [`line_bit`]s.
    pub(super) fn lines(&self) -> u64 {
        let bits = self.entries.iter().map(|store| line_bit(store.place.line));
        bits.fold(0, |lines, bit| lines | bit)
    }

    /// Arrival of the line that the oldest store waits for, if that is `place`'s line and it has
    /// been granted.
    pub(super) fn arrival(&self, place: Place) -> Option<Cycles> {
        let oldest = self.entries.front()?;
        match self.head {
            Head::Granted(done) if oldest.place.line == place.line => Some(done),
            _ => None,
        }
    }
}
