//! Callers of the instructions that accessed lines: call chains, counted by row.
//!
//! A chain is kept once, however often it occurs, and a row counts how often each of its chains
//! occurred. Invariant: memory is bounded by `FRAMES_MAX` and `COUNTS_MAX`; accesses whose chain does
//! not fit any more are counted in [`CallStats::left_out`].

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CodeAddr, Cycles, DataSource, LineAddr, Outcome};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

use super::{Handovers, RowKey, RowStats, saturating_sum};

/// Return addresses that are kept, 32 MiB of them; a large program has some ten thousand chains of
/// some twenty calls.
const FRAMES_MAX: usize = 4 << 20;
/// Frames that a chain counts for besides its calls: its places in the tables.
const FRAMES_PER_CHAIN: usize = 4;
/// Pairs of a row and a chain that are counted, some 80 bytes each.
const COUNTS_MAX: usize = 1 << 20;

/// Sums over accesses: those of one row by one chain, or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    /// Accesses.
    pub access_count: u64,
    /// Cycles lost whose cause is another CPU's use of the line.
    pub contention_stall: Cycles,
    /// Loads and locked operations that found the line modified: local HITM and remote HITM.
    pub load_hitm: [u64; 2],
}

impl CallCounts {
    /// The counts of all accesses of a row.
    pub fn of_row(key: &RowKey, row: &RowStats) -> CallCounts {
        CallCounts {
            access_count: row.sources.total(),
            contention_stall: row.contention_stall,
            load_hitm: Handovers::of_row(key, row).load_hitm,
        }
    }

    /// Takes counts out; those that are not there stay where they are.
    pub fn take_out(&mut self, other: &CallCounts) {
        self.access_count = self.access_count.saturating_sub(other.access_count);
        self.contention_stall = self.contention_stall.saturating_sub(other.contention_stall);
        for (mine, others) in self.load_hitm.iter_mut().zip(other.load_hitm) {
            *mine = mine.saturating_sub(others);
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &CallCounts) {
        self.access_count += other.access_count;
        self.contention_stall = saturating_sum(self.contention_stall, other.contention_stall);
        for (mine, others) in self.load_hitm.iter_mut().zip(other.load_hitm) {
            *mine += others;
        }
    }

    /// The counts of one access.
    fn of(access: &Access, outcome: &Outcome) -> CallCounts {
        let is_load = access.op != AccessOp::Store;
        let is_from = |source| u64::from(is_load && outcome.source == source);
        CallCounts {
            access_count: 1,
            contention_stall: outcome.lost,
            load_hitm: [
                is_from(DataSource::LocalHitm),
                is_from(DataSource::RemoteHitm),
            ],
        }
    }
}

/// The call chains of a run, by row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallStats {
    /// The chains: return addresses, innermost call first.
    pub chains: Vec<Box<[CodeAddr]>>,
    /// For each row its chains, by their place in `chains`, in the order of appearance.
    pub rows: BTreeMap<(LineAddr, RowKey), Vec<(u32, CallCounts)>>,
    /// Accesses whose chain did not fit.
    pub left_out: u64,
}

impl CallStats {
    /// Returns true if no access had a chain.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.left_out == 0
    }

    /// The accesses of a row by their chains; at the end, without one, those whose chain is not known, if there are any.
    pub fn parts_of_row(
        &self,
        line: LineAddr,
        key: &RowKey,
        row: &RowStats,
    ) -> impl Iterator<Item = (Option<&[CodeAddr]>, CallCounts)> {
        let mut left = CallCounts::of_row(key, row);
        let known: Vec<(&[CodeAddr], CallCounts)> = self.of_row(line, *key).collect();
        known.iter().for_each(|(_, counts)| left.take_out(counts));
        let is_some = left.access_count > 0 || left.contention_stall.0 > 0;
        let known = known.into_iter();
        let known = known.map(|(chain, counts)| (Some(chain), counts));
        known.chain(is_some.then_some((None, left)))
    }

    /// The chains of a row and what each of them adds up to.
    pub fn of_row(
        &self,
        line: LineAddr,
        row: RowKey,
    ) -> impl Iterator<Item = (&[CodeAddr], CallCounts)> {
        let counts = self.rows.get(&(line, row)).into_iter().flatten();
        counts.map(|(chain, counts)| (&*self.chains[*chain as usize], *counts))
    }
}

/// Counts call chains; [`CallCollector::finish`] puts them in order.
#[derive(Debug, Default)]
pub struct CallCollector {
    chains: IndexSet<Box<[CodeAddr]>, FxBuildHasher>,
    frames: usize,
    counts: IndexMap<(LineAddr, RowKey, u32), CallCounts, FxBuildHasher>,
    left_out: u64,
}

impl CallCollector {
    /// Counts an access whose function was called by these. Fences touch no line and are not counted.
    pub fn add(&mut self, access: &Access, outcome: &Outcome, callers: &[CodeAddr]) {
        if access.op == AccessOp::Fence {
            return;
        }
        if self.try_add(access, outcome, callers).is_none() {
            self.left_out += 1;
        }
    }

    /// `None` when there is no room.
    fn try_add(&mut self, access: &Access, outcome: &Outcome, callers: &[CodeAddr]) -> Option<()> {
        let chain = self.number(callers)?;
        let row = RowKey {
            offset: access.offset(),
            size: access.size,
            op: access.op,
            thread: access.thread,
            code: access.code,
        };
        let key = (access.line(), row, chain);
        let is_full = self.counts.len() >= COUNTS_MAX;
        if is_full && !self.counts.contains_key(&key) {
            return None;
        }
        let counts = self.counts.entry(key).or_default();
        counts.merge(&CallCounts::of(access, outcome));
        Some(())
    }

    /// The place of a chain among all.
    fn number(&mut self, callers: &[CodeAddr]) -> Option<u32> {
        if let Some(known) = self.chains.get_index_of(callers) {
            return Some(known as u32);
        }
        let frames = self.frames + callers.len() + FRAMES_PER_CHAIN;
        if frames > FRAMES_MAX {
            return None;
        }
        self.frames = frames;
        // Fewer than `FRAMES_MAX`.
        Some(self.chains.insert_full(callers.into()).0 as u32)
    }

    /// Everything that was counted.
    pub fn finish(self) -> CallStats {
        let mut rows: BTreeMap<(LineAddr, RowKey), Vec<(u32, CallCounts)>> = BTreeMap::new();
        for ((line, row, chain), counts) in self.counts {
            rows.entry((line, row)).or_default().push((chain, counts));
        }
        CallStats {
            chains: self.chains.into_iter().collect(),
            rows,
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{CpuId, ThreadId};

    use super::*;

    fn access(addr: u64) -> Access {
        Access {
            thread: ThreadId(0),
            cpu: CpuId(0),
            time: Cycles::ZERO,
            addr,
            size: 1,
            op: AccessOp::Load,
            code: CodeAddr(0x40_1000),
        }
    }

    fn outcome(source: DataSource, stall: u64) -> Outcome {
        Outcome::by_source(source, Cycles(stall), Cycles::ZERO, Cycles(stall))
    }

    #[test]
    fn a_row_counts_each_of_its_chains() {
        let mut collector = CallCollector::default();
        let (one, other) = ([CodeAddr(1), CodeAddr(2)], [CodeAddr(1)]);
        let hitm = outcome(DataSource::RemoteHitm, 300);
        for callers in [&one[..], &other, &one] {
            collector.add(&access(0x1008), &hitm, callers);
        }
        collector.add(&access(0x1008), &outcome(DataSource::L1, 4), &one);
        collector.add(&access(0x1010), &hitm, &one);
        let stats = collector.finish();
        assert_eq!((stats.chains.len(), stats.rows.len()), (2, 2));
        let (line, row) = *stats.rows.keys().next().unwrap();
        let counts = |access_count, cycles, remote_hitm| CallCounts {
            access_count,
            contention_stall: Cycles(cycles),
            load_hitm: [0, remote_hitm],
        };
        let found: Vec<_> = stats.of_row(line, row).collect();
        assert_eq!(
            found,
            [
                (&one[..], counts(3, 600, 2)),
                (&other[..], counts(1, 300, 1))
            ]
        );
    }

    #[test]
    fn chains_without_end_are_counted_and_not_kept() {
        let mut collector = CallCollector::default();
        let hit = outcome(DataSource::L1, 4);
        let mut callers = vec![CodeAddr(0); 1000];
        for number in 0..5000 {
            callers[0] = CodeAddr(number);
            collector.add(&access(0x1000), &hit, &callers);
        }
        let stats = collector.finish();
        let kept = stats.chains.len() as u64;
        assert_eq!(kept, (FRAMES_MAX / (1000 + FRAMES_PER_CHAIN)) as u64);
        assert_eq!(stats.left_out, 5000 - kept);
    }
}
