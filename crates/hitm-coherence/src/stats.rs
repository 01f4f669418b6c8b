//! Statistics of each line, apart from the mechanism that produced them.
//!
//! A [`Collector`] is fed one ([`Access`](hitm_base::Access), [`Outcome`]) pair
//! at a time, by a reader of recorded outcomes or by a simulation. [`Collector::finish`] makes the
//! ordered [`Statistics`] that reports read. Two of them over disjoint lines merge by
//! concatenation, which is what sharded replays do; the result does not depend on the number of
//! shards.
//!
//! Sums of cycles stop at the largest number instead of failing: outcomes may come from a file.

mod callers;
mod collect;
mod counts;
mod histogram;
mod holds;
mod queue;
mod rows;
mod tally;
mod traffic;
mod visits;

use std::collections::BTreeMap;
use std::fmt;

use hitm_base::{AccessOp, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId};

pub use callers::{CallCollector, CallCounts, CallStats};
pub use collect::Collector;
pub use histogram::LatencyHistogram;
pub use holds::{HoldCollector, HoldPlan, Holds};
pub use queue::{Ahead, Behind};
pub(crate) use rows::{RowId, RowTable};
pub use tally::{Handovers, LineTally, RestOfLines};
pub use traffic::{CodePair, Giving, Traffic, TrafficCollector, TrafficPlan, Transfers};
use visits::VisitsByLine;
pub use visits::{Visit, VisitSum, Visits};

/// Counts by [`DataSource`], indexed by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceCounts(pub [u64; DataSource::ALL.len()]);

impl SourceCounts {
    /// The count of one source.
    pub fn get(&self, source: DataSource) -> u64 {
        self.0[source as usize]
    }

    /// The sum over all sources.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Local and remote HITM together.
    pub fn hitm(&self) -> u64 {
        self.get(DataSource::LocalHitm) + self.get(DataSource::RemoteHitm)
    }

    /// Accesses whose data, or whose right to write, came from another CPU.
    pub fn contended(&self) -> u64 {
        let sources = DataSource::ALL.into_iter();
        let contended = sources.filter(|source| source.is_contention());
        contended.map(|source| self.get(source)).sum()
    }

    /// Takes `part` away, source by source.
    fn take_out(&mut self, part: &SourceCounts) {
        for (mine, part) in self.0.iter_mut().zip(part.0) {
            *mine -= part;
        }
    }

    /// Adds `other` source by source.
    pub fn merge(&mut self, other: &SourceCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// Latency of a group of accesses that waited for their line (loads and locked operations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencySum {
    /// Accesses that the sum is over.
    pub count: u64,
    /// Sum of their latencies.
    pub sum: Cycles,
    /// The largest.
    pub max: Cycles,
}

impl LatencySum {
    /// Adds another group.
    pub fn merge(&mut self, other: &LatencySum) {
        self.count += other.count;
        self.sum = saturating_sum(self.sum, other.sum);
        self.max = self.max.max(other.max);
    }

    /// Mean in cycles, 0 for an empty group.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum.0 as f64 / self.count as f64
        }
    }
}

/// Identity of a row in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Offset of the first byte in the line, 0 to 63.
    pub offset: u8,
    /// Bytes touched.
    pub size: u8,
    /// Load, store or locked operation.
    pub op: AccessOp,
    /// The thread that ran the instruction.
    pub thread: ThreadId,
    /// The instruction.
    pub code: CodeAddr,
}

/// Accesses of one thread by one instruction to one place in a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowStats {
    /// Accesses by the source of their data.
    pub sources: SourceCounts,
    /// Latency of all accesses of the row, hits included.
    pub latency: LatencySum,
    /// Latency of those that found the line modified in another package.
    pub remote_hitm: LatencySum,
    /// Latency of those that found the line modified in the same package.
    pub local_hitm: LatencySum,
    /// Cycles that the thread lost here, whatever the source.
    pub stall: Cycles,
    /// The part of `stall` that other CPUs' use of the line caused ([`hitm_base::Outcome::lost`]).
    pub contention_stall: Cycles,
    /// The CPUs that the accesses came from.
    pub cpus: CpuSet,
}

/// The bytes of a line that one thread reads and writes: a row of the reader/writer matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteUse {
    /// Bit i: byte i was read.
    pub read: u64,
    /// Bit i: byte i was written.
    pub written: u64,
    /// Loads, locked operations included.
    pub load_count: u64,
    /// Stores, locked operations included.
    pub store_count: u64,
}

/// Everything about one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineStats {
    /// Plain loads by source.
    pub loads: SourceCounts,
    /// Plain stores by source.
    pub stores: SourceCounts,
    /// Locked operations by source.
    pub rmws: SourceCounts,
    /// Latency of loads and locked operations, hits included.
    pub load_latency: LatencySum,
    /// Histogram of the latencies, in cycles, of loads and locked operations that left the core.
    pub latency_histogram: LatencyHistogram,
    /// Cycles that threads lost on this line, whatever the source.
    pub stall: Cycles,
    /// The part of `stall` that other CPUs' use of the line caused: what the report ranks by.
    pub contention_stall: Cycles,
    /// The rows, by key.
    pub rows: BTreeMap<RowKey, RowStats>,
    /// The reader/writer matrix, by thread.
    pub threads: BTreeMap<ThreadId, ByteUse>,
    /// The visits, where accesses were counted one by one, in their order.
    pub visits: Visits,
}

impl LineStats {
    /// All accesses to the line.
    pub fn access_count(&self) -> u64 {
        self.loads.total() + self.stores.total() + self.rmws.total()
    }

    /// Local and remote HITM of every kind of access.
    pub fn hitm(&self) -> u64 {
        self.loads.hitm() + self.stores.hitm() + self.rmws.hitm()
    }

    /// Makes the totals and the reader/writer matrix from the rows.
    fn sum_up_rows(&mut self) {
        for (key, row) in &self.rows {
            let counts = match key.op {
                AccessOp::Load => &mut self.loads,
                AccessOp::Store => &mut self.stores,
                AccessOp::LockedRmw | AccessOp::Fence => &mut self.rmws,
            };
            counts.merge(&row.sources);
            if key.op != AccessOp::Store {
                self.load_latency.merge(&row.latency);
            }
            self.stall = saturating_sum(self.stall, row.stall);
            self.contention_stall = saturating_sum(self.contention_stall, row.contention_stall);
            self.threads
                .entry(key.thread)
                .or_default()
                .add(key, row.sources.total());
        }
    }
}

impl RowStats {
    /// Adds one access.
    fn add(&mut self, outcome: &Outcome) {
        self.sources.0[outcome.source as usize] += 1;
        let one = LatencySum {
            count: 1,
            sum: outcome.latency,
            max: outcome.latency,
        };
        self.latency.merge(&one);
        match outcome.source {
            DataSource::RemoteHitm => self.remote_hitm.merge(&one),
            DataSource::LocalHitm => self.local_hitm.merge(&one),
            _ => {}
        }
        self.stall = saturating_sum(self.stall, outcome.stall);
        self.contention_stall = saturating_sum(self.contention_stall, outcome.lost);
    }

    /// Adds the accesses of another row.
    pub fn merge(&mut self, other: &RowStats) {
        self.sources.merge(&other.sources);
        self.latency.merge(&other.latency);
        self.remote_hitm.merge(&other.remote_hitm);
        self.local_hitm.merge(&other.local_hitm);
        self.stall = saturating_sum(self.stall, other.stall);
        self.contention_stall = saturating_sum(self.contention_stall, other.contention_stall);
        self.cpus.merge(&other.cpus);
    }
}

impl ByteUse {
    fn add(&mut self, key: &RowKey, count: u64) {
        let mask = byte_mask(key.offset, key.size);
        if key.op != AccessOp::Store {
            self.read |= mask;
            self.load_count += count;
        }
        if key.op.is_write() {
            self.written |= mask;
            self.store_count += count;
        }
    }
}

fn saturating_sum(a: Cycles, b: Cycles) -> Cycles {
    Cycles(a.0.saturating_add(b.0))
}

fn saturating_product(one: Cycles, count: u64) -> Cycles {
    Cycles(one.0.saturating_mul(count))
}

/// The bits of the bytes `offset .. offset + size` of a line.
pub fn byte_mask(offset: u8, size: u8) -> u64 {
    let ones = if size >= 64 {
        u64::MAX
    } else {
        (1 << size) - 1
    };
    ones << offset
}

/// A set of CPUs, as bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSet {
    /// The first 64 CPUs, in place: there is a set for each row.
    first: u64,
    /// 64 more in each word.
    others: Vec<u64>,
}

impl CpuSet {
    /// The CPUs whose bits are set, 64 of them in each word.
    pub fn of_words(words: &[u64]) -> CpuSet {
        let (first, others) = words.split_first().unwrap_or((&0, &[]));
        CpuSet {
            first: *first,
            others: others.to_vec(),
        }
    }

    /// Adds one CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        let bit = 1 << (cpu.index() % 64);
        let Some(word) = (cpu.index() / 64).checked_sub(1) else {
            self.first |= bit;
            return;
        };
        if word >= self.others.len() {
            self.others.resize(word + 1, 0);
        }
        self.others[word] |= bit;
    }

    /// Adds every CPU of `other`.
    pub fn merge(&mut self, other: &CpuSet) {
        self.first |= other.first;
        if other.others.len() > self.others.len() {
            self.others.resize(other.others.len(), 0);
        }
        for (mine, theirs) in self.others.iter_mut().zip(&other.others) {
            *mine |= theirs;
        }
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Returns the number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words().enumerate().flat_map(|(index, word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| CpuId((index * 64 + bit) as u16))
        })
    }
}

impl fmt::Display for CpuSet {
    /// Numbers and ranges: `0-3 8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut space = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek().is_some_and(|next| *next == last + 1) {
                last = cpus.next().unwrap_or(last);
            }
            match first == last {
                true => write!(f, "{space}{first}")?,
                false => write!(f, "{space}{first}-{last}")?,
            }
            space = " ";
        }
        Ok(())
    }
}

/// Statistics of a whole run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// By line: all, or those that matter.
    pub lines: BTreeMap<LineAddr, LineStats>,
    /// The lines that have no rows, summed up.
    pub rest: RestOfLines,
    /// Callers of the instructions of their rows, where accesses say so.
    pub calls: CallStats,
}

impl Statistics {
    /// Adds the statistics of other lines, without call chains. Panics when both know a line: shards are
    /// disjoint.
    pub fn merge_disjoint(&mut self, other: Statistics) {
        for (line, stats) in other.lines {
            let before = self.lines.insert(line, stats);
            assert!(before.is_none(), "{line:?} was counted in two shards");
        }
    }
}
