//! Uses of a line's bytes by threads: the rows of the reader/writer matrix.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, CodeAddr, LINE_SIZE, ThreadId};

use super::{PLACE_SHARE_DIVISOR, READS_PER_WRITE_MIN, THREAD_SHARE_DIVISOR};
use crate::stats::{LineStats, RowStats, byte_mask};

/// A place in the line, used in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Its bytes.
    pub(super) mask: u64,
    pub(super) op: AccessOp,
}

impl Place {
    pub(super) fn reads(self) -> bool {
        self.op != AccessOp::Store
    }

    pub(super) fn writes(self) -> bool {
        self.op.is_write()
    }
}

/// The accesses to a place.
#[derive(Debug, Default, Clone)]
pub(super) struct PlaceUse {
    pub(super) accesses: u64,
    pub(super) contended: u64,
    pub(super) lost_cycles: u64,
    /// Accesses by instruction.
    pub(super) codes: BTreeMap<CodeAddr, u64>,
}

impl PlaceUse {
    pub(super) fn merge(&mut self, other: &PlaceUse) {
        self.accesses += other.accesses;
        self.contended += other.contended;
        self.lost_cycles = self.lost_cycles.saturating_add(other.lost_cycles);
        for (code, accesses) in &other.codes {
            *self.codes.entry(*code).or_default() += accesses;
        }
    }
}

/// One thread's use of the line.
#[derive(Debug, Default, Clone)]
pub(super) struct ThreadUse {
    pub(super) accesses: u64,
    pub(super) contended: u64,
    pub(super) places: BTreeMap<Place, PlaceUse>,
}

impl ThreadUse {
    fn add(&mut self, place: Place, code: CodeAddr, row: &RowStats) {
        let one = PlaceUse {
            accesses: row.sources.total(),
            contended: row.sources.contended(),
            lost_cycles: row.contention_stall.0,
            codes: BTreeMap::from([(code, row.sources.total())]),
        };
        self.accesses += one.accesses;
        self.contended += one.contended;
        self.places.entry(place).or_default().merge(&one);
    }

    /// Counts stores of which no sample says where the line was as ones that took it.
    pub(super) fn count_silent_stores(&mut self) {
        let stores = self.places.iter_mut();
        let stores = stores.filter(|(place, _)| place.op == AccessOp::Store);
        for (_, silent) in stores.filter(|(_, used)| used.contended == 0) {
            silent.contended = silent.accesses;
            self.contended += silent.accesses;
        }
    }

    fn mask_of(&self, wanted: impl Fn(Place) -> bool) -> u64 {
        let places = self.places.keys().filter(|place| wanted(**place));
        places.fold(0, |mask, place| mask | place.mask)
    }

    pub(super) fn touched(&self) -> u64 {
        self.mask_of(|_| true)
    }

    pub(super) fn written(&self) -> u64 {
        self.mask_of(Place::writes)
    }

    pub(super) fn locked(&self) -> u64 {
        self.mask_of(|place| place.op == AccessOp::LockedRmw)
    }

    pub(super) fn stored_plainly(&self) -> u64 {
        self.mask_of(|place| place.op == AccessOp::Store)
    }
}

/// The threads that use a line.
pub(super) type Threads = BTreeMap<ThreadId, ThreadUse>;

pub(super) fn threads_of(line: &LineStats) -> Threads {
    let mut threads = Threads::new();
    for (key, row) in &line.rows {
        let place = Place {
            mask: byte_mask(key.offset, key.size),
            op: key.op,
        };
        let thread = threads.entry(key.thread).or_default();
        thread.add(place, key.code, row);
    }
    threads
}

/// Step 2 of the decision: drops bystanders, and what a thread did only in passing.
pub(super) fn keep_what_counts(threads: &mut Threads) {
    threads.retain(|_, thread| thread.contended > 0);
    let total: u64 = threads.values().map(|t| t.contended).sum();
    let count = threads.len() as u64;
    threads.retain(|_, thread| {
        thread
            .contended
            .saturating_mul(THREAD_SHARE_DIVISOR * count)
            >= total
    });
    for thread in threads.values_mut() {
        let (accesses, contended) = (thread.accesses, thread.contended);
        thread.places.retain(|_, place| {
            place.accesses.saturating_mul(PLACE_SHARE_DIVISOR) >= accesses
                || place.contended.saturating_mul(PLACE_SHARE_DIVISOR) >= contended
        });
        thread.contended = thread.places.values().map(|p| p.contended).sum();
    }
}

/// Reads and writes of each byte of a line.
#[derive(Debug)]
pub(super) struct ByteCounts {
    reads: [u64; LINE_SIZE as usize],
    writes: [u64; LINE_SIZE as usize],
}

impl Default for ByteCounts {
    fn default() -> ByteCounts {
        ByteCounts {
            reads: [0; LINE_SIZE as usize],
            writes: [0; LINE_SIZE as usize],
        }
    }
}

impl ByteCounts {
    /// Counts reads of the bytes of a mask.
    pub(super) fn add_reads(&mut self, mask: u64, count: u64) {
        add(&mut self.reads, mask, count);
    }

    /// Counts writes of the bytes of a mask.
    pub(super) fn add_writes(&mut self, mask: u64, count: u64) {
        add(&mut self.writes, mask, count);
    }

    /// The bytes that are read at least [`READS_PER_WRITE_MIN`] times as often as they are written.
    pub(super) fn read_mostly(&self) -> u64 {
        let counts = self.reads.iter().zip(&self.writes).enumerate();
        let bytes = counts.filter(|(_, (reads, writes))| {
            **reads > 0 && **reads >= writes.saturating_mul(READS_PER_WRITE_MIN)
        });
        bytes.fold(0, |mask, (byte, _)| mask | 1 << byte)
    }
}

fn add(counts: &mut [u64], mask: u64, count: u64) {
    for (byte, sum) in counts.iter_mut().enumerate() {
        *sum += (mask >> byte & 1) * count;
    }
}

/// The bytes that are read-mostly by how often threads access them.
pub(super) fn read_mostly(threads: &Threads) -> u64 {
    let mut counts = ByteCounts::default();
    for (place, used) in threads.values().flat_map(|thread| &thread.places) {
        if place.reads() {
            counts.add_reads(place.mask, used.accesses);
        }
        if place.writes() {
            counts.add_writes(place.mask, used.accesses);
        }
    }
    counts.read_mostly()
}
