//! Lines counted as a whole: what each of them lost, and sums over all of them.
//!
//! A program whose buffers pass from thread to thread has millions of rows on lines that hardly matter.
//! A first pass with a [`LineTally`] says which lines earn rows. Its sums less those of these lines are what
//! is left, so that nothing is lost.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, Cycles, LineAddr, Outcome, ThreadId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{LineStats, SourceCounts, saturating_sum};

/// Sums over lines whose rows are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestOfLines {
    /// Lines.
    pub line_count: u64,
    /// The part of them that came from another CPU at least once.
    pub contended_line_count: u64,
    /// Plain loads by source.
    pub loads: SourceCounts,
    /// Plain stores by source.
    pub stores: SourceCounts,
    /// Locked operations by source.
    pub rmws: SourceCounts,
    /// Cycles that threads lost on these lines, whatever the source.
    pub stall: Cycles,
    /// The part of `stall` that other CPUs' use of the lines caused, by thread.
    pub lost: BTreeMap<ThreadId, Cycles>,
}

impl RestOfLines {
    /// Accesses to these lines.
    pub fn access_count(&self) -> u64 {
        self.loads.total() + self.stores.total() + self.rmws.total()
    }

    /// Cycles that threads lost to other CPUs' use of these lines.
    pub fn contention_stall(&self) -> Cycles {
        let lost = self.lost.values();
        lost.fold(Cycles::ZERO, |sum, lost| saturating_sum(sum, *lost))
    }

    /// Adds the sums over other lines.
    pub fn merge(&mut self, other: RestOfLines) {
        self.line_count += other.line_count;
        self.contended_line_count += other.contended_line_count;
        self.loads.merge(&other.loads);
        self.stores.merge(&other.stores);
        self.rmws.merge(&other.rmws);
        self.stall = saturating_sum(self.stall, other.stall);
        for (thread, lost) in other.lost {
            let sum = self.lost.entry(thread).or_default();
            *sum = saturating_sum(*sum, lost);
        }
    }

    /// Takes out a line whose rows are kept: all that `line` has was counted here as well.
    pub fn take_out(&mut self, line: &LineStats) {
        let sources = [&line.loads, &line.stores, &line.rmws];
        let is_contended = sources.iter().any(|counts| counts.contended() > 0);
        self.line_count -= 1;
        self.contended_line_count -= u64::from(is_contended);
        self.loads.take_out(&line.loads);
        self.stores.take_out(&line.stores);
        self.rmws.take_out(&line.rmws);
        self.stall = self.stall.saturating_sub(line.stall);
        for (key, row) in &line.rows {
            if let Some(lost) = self.lost.get_mut(&key.thread) {
                *lost = lost.saturating_sub(row.contention_stall);
            }
        }
    }
}

/// Sums of one line.
#[derive(Debug, Clone, Copy, Default)]
struct Whole {
    contention_stall: Cycles,
    is_contended: bool,
}

/// Counts accesses by line, some 40 bytes each.
#[derive(Debug, Clone, Default)]
pub struct LineTally {
    lines: IndexMap<LineAddr, Whole, FxBuildHasher>,
    all: RestOfLines,
}

impl LineTally {
    /// Counts one access and its outcome. Fences touch no line and are not counted.
    pub fn add(&mut self, access: &Access, outcome: &Outcome) {
        let counts = match access.op {
            AccessOp::Load => &mut self.all.loads,
            AccessOp::Store => &mut self.all.stores,
            AccessOp::LockedRmw => &mut self.all.rmws,
            AccessOp::Fence => return,
        };
        counts.0[outcome.source as usize] += 1;
        self.all.stall = saturating_sum(self.all.stall, outcome.stall);
        let whole = self.lines.entry(access.line()).or_default();
        if outcome.source.is_contention() {
            whole.is_contended = true;
            whole.contention_stall = saturating_sum(whole.contention_stall, outcome.stall);
            let lost = self.all.lost.entry(access.thread).or_default();
            *lost = saturating_sum(*lost, outcome.stall);
        }
    }

    /// The contended lines with what they lost.
    pub fn contended(&self) -> impl Iterator<Item = (LineAddr, Cycles)> {
        let contended = self.lines.iter().filter(|(_, whole)| whole.is_contended);
        contended.map(|(line, whole)| (*line, whole.contention_stall))
    }

    /// Lines so far.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// The sums over all lines.
    pub fn sums(self) -> RestOfLines {
        let contended = self.lines.values().filter(|whole| whole.is_contended);
        RestOfLines {
            line_count: self.lines.len() as u64,
            contended_line_count: contended.count() as u64,
            ..self.all
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{CodeAddr, CpuId, DataSource};
    use proptest::prelude::*;

    use super::*;
    use crate::stats::Collector;

    prop_compose! {
        fn counted()(
            line in 0u64..6,
            offset in 0u64..60,
            thread in 0u32..4,
            op in prop::sample::select(vec![AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw, AccessOp::Fence]),
            source in prop::sample::select(DataSource::ALL.to_vec()),
            stall in 0u64..500,
        ) -> (Access, Outcome) {
            let access = Access {
                time: Cycles::ZERO,
                addr: line * 64 + offset,
                code: CodeAddr(0x40_1000 + offset),
                thread: ThreadId(thread),
                cpu: CpuId(thread as u16),
                size: 1,
                op,
            };
            let outcome = Outcome { source, latency: Cycles(stall), queued: Cycles::ZERO, stall: Cycles(stall) };
            (access, outcome)
        }
    }

    proptest! {
        /// Whichever lines have rows: those and the rest are all that there is.
        #[test]
        fn rows_and_the_rest_are_everything(accesses in prop::collection::vec(counted(), 0..200), listed in 0u64..64) {
            let has_rows = |line: LineAddr| listed >> line.0 & 1 == 1;
            let (mut all, mut some) = (Collector::default(), Collector::default());
            let mut tally = LineTally::default();
            for (access, outcome) in &accesses {
                all.add(access, outcome);
                tally.add(access, outcome);
                if has_rows(access.line()) {
                    some.add(access, outcome);
                }
            }
            let (all, some) = (all.finish(), some.finish());
            let contended: BTreeMap<LineAddr, Cycles> = tally.contended().collect();
            let mut rest = tally.sums();
            some.lines.values().for_each(|line| rest.take_out(line));
            let left = all.lines.iter().filter(|(line, _)| !has_rows(**line));
            let left: Vec<&LineStats> = left.map(|(_, stats)| stats).collect();
            prop_assert_eq!(rest.line_count, left.len() as u64);
            let sum = |of: fn(&LineStats) -> u64| left.iter().map(|line| of(line)).sum::<u64>();
            prop_assert_eq!(rest.access_count(), sum(LineStats::access_count));
            prop_assert_eq!(rest.stall.0, sum(|line| line.stall.0));
            prop_assert_eq!(rest.contention_stall().0, sum(|line| line.contention_stall.0));
            let is_contended = |line: &LineStats| line.loads.contended() + line.stores.contended() + line.rmws.contended() > 0;
            let count = left.iter().filter(|line| is_contended(line)).count();
            prop_assert_eq!(rest.contended_line_count, count as u64);
            for (line, stats) in &all.lines {
                let lost = contended.get(line).copied();
                prop_assert_eq!(lost, is_contended(stats).then_some(stats.contention_stall));
            }
            let mut lost: BTreeMap<ThreadId, u64> = BTreeMap::new();
            for (key, row) in left.iter().flat_map(|line| &line.rows) {
                *lost.entry(key.thread).or_default() += row.contention_stall.0;
            }
            for (thread, cycles) in &rest.lost {
                prop_assert_eq!(cycles.0, lost.get(thread).copied().unwrap_or(0));
            }
        }
    }
}
