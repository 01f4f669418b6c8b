//! Lines counted as a whole: what each of them lost, and sums over all of them.
//!
//! A program whose buffers pass from thread to thread has millions of rows on lines that hardly matter.
//! A first pass with a [`LineTally`] says which lines earn rows. Its sums less those of these lines are what
//! is left, so that nothing is lost.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CodeAddr, Cycles, DataSource, LineAddr, Outcome, ThreadId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{LineStats, RowKey, RowStats, SourceCounts, saturating_sum};

/// Lines of a [`RestOfLines`] that are kept one by one: 32 MiB of them.
const HANDED_MAX: usize = 1 << 19;

/// Instructions that are kept one by one: 3 MiB of them. Few programs have as many that ever find a line gone.
const TAKERS_MAX: usize = 1 << 15;

/// Sources of [`Handovers::load_hitm`], in its order.
const LOAD_HITM: [DataSource; 2] = [DataSource::LocalHitm, DataSource::RemoteHitm];

fn load_hitm(loads: &[&SourceCounts]) -> [u64; 2] {
    LOAD_HITM.map(|source| loads.iter().map(|counts| counts.get(source)).sum())
}

/// Accesses that took a line from another CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handovers {
    /// Accesses whose data, or whose right to write, came from another CPU.
    pub count: u64,
    /// The part of them that found the line modified.
    pub hitm_count: u64,
    /// The loads and locked operations among these that found it modified in the same package, and in
    /// another one.
    pub load_hitm: [u64; 2],
    /// Cycles that threads lost by them.
    pub lost: Cycles,
}

impl Handovers {
    /// Those among the accesses of a row.
    pub fn of_row(key: &RowKey, row: &RowStats) -> Handovers {
        Handovers {
            count: row.sources.contended(),
            hitm_count: row.sources.hitm(),
            load_hitm: match key.op {
                AccessOp::Store => [0; 2],
                _ => load_hitm(&[&row.sources]),
            },
            lost: row.contention_stall,
        }
    }

    /// Those of a line.
    pub fn of_line(line: &LineStats) -> Handovers {
        let sources = [&line.loads, &line.stores, &line.rmws];
        Handovers {
            count: sources.iter().map(|counts| counts.contended()).sum(),
            hitm_count: line.hitm(),
            load_hitm: load_hitm(&[&line.loads, &line.rmws]),
            lost: line.contention_stall,
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Handovers) {
        self.count += other.count;
        self.hitm_count += other.hitm_count;
        for (mine, theirs) in self.load_hitm.iter_mut().zip(other.load_hitm) {
            *mine += theirs;
        }
        self.lost = saturating_sum(self.lost, other.lost);
    }

    /// That of an access that took its line from another CPU, or lost time because of one.
    fn of_access(op: AccessOp, outcome: &Outcome) -> Handovers {
        let is_load_from = |source| (op != AccessOp::Store && outcome.source == source).into();
        Handovers {
            count: outcome.source.is_contention().into(),
            hitm_count: outcome.source.is_hitm().into(),
            load_hitm: LOAD_HITM.map(is_load_from),
            lost: outcome.lost,
        }
    }

    /// Returns true if no access took its line from another CPU or lost time because of one.
    pub fn is_none(&self) -> bool {
        self.count == 0 && self.lost == Cycles::ZERO
    }

    /// Takes a part of these out, or all there is.
    pub fn take_out(&mut self, part: &Handovers) {
        self.count = self.count.saturating_sub(part.count);
        self.hitm_count = self.hitm_count.saturating_sub(part.hitm_count);
        for (mine, part) in self.load_hitm.iter_mut().zip(part.load_hitm) {
            *mine = mine.saturating_sub(part);
        }
        self.lost = self.lost.saturating_sub(part.lost);
    }
}

/// Sums over lines whose rows are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestOfLines {
    /// Number of lines.
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
    /// The lines that came from another CPU. Of more than 524,288, the first ones that were counted.
    pub handed: BTreeMap<LineAddr, Handovers>,
    /// The instructions that took the lines from another CPU. Of more than 32,768, the first ones that were
    /// counted.
    pub takers: BTreeMap<CodeAddr, Handovers>,
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

    /// All accesses that took one of these lines from another CPU.
    pub fn handovers(&self) -> Handovers {
        let sources = [&self.loads, &self.stores, &self.rmws];
        Handovers {
            count: sources.iter().map(|counts| counts.contended()).sum(),
            hitm_count: sources.iter().map(|counts| counts.hitm()).sum(),
            load_hitm: load_hitm(&[&self.loads, &self.rmws]),
            lost: self.contention_stall(),
        }
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
        for (line, handed) in other.handed {
            if self.handed.len() < HANDED_MAX {
                self.handed.insert(line, handed);
            }
        }
        for (code, taken) in other.takers {
            if self.takers.len() < TAKERS_MAX || self.takers.contains_key(&code) {
                self.takers.entry(code).or_default().merge(&taken);
            }
        }
    }

    /// Takes out a line whose rows are kept: all that `stats` has was counted here as well.
    pub fn take_out(&mut self, line: LineAddr, stats: &LineStats) {
        let is_contended = !Handovers::of_line(stats).is_none();
        self.line_count -= 1;
        self.contended_line_count -= u64::from(is_contended);
        self.loads.take_out(&stats.loads);
        self.stores.take_out(&stats.stores);
        self.rmws.take_out(&stats.rmws);
        self.stall = self.stall.saturating_sub(stats.stall);
        self.handed.remove(&line);
        for (key, row) in &stats.rows {
            if let Some(lost) = self.lost.get_mut(&key.thread) {
                *lost = lost.saturating_sub(row.contention_stall);
            }
            if let Some(taken) = self.takers.get_mut(&key.code) {
                taken.take_out(&Handovers::of_row(key, row));
                if taken.is_none() {
                    self.takers.remove(&key.code);
                }
            }
        }
    }
}

/// Counts accesses by line, some 70 bytes each.
#[derive(Debug, Clone, Default)]
pub struct LineTally {
    lines: IndexMap<LineAddr, Handovers, FxBuildHasher>,
    takers: IndexMap<CodeAddr, Handovers, FxBuildHasher>,
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
        if outcome.is_handed_over() {
            let handed = Handovers::of_access(access.op, outcome);
            whole.merge(&handed);
            self.add_taken(access.thread, access.code, &handed);
        }
    }

    /// Counts a line of which no access was counted yet: what its rows add up to.
    pub fn add_line(&mut self, line: LineAddr, stats: &LineStats) {
        self.all.loads.merge(&stats.loads);
        self.all.stores.merge(&stats.stores);
        self.all.rmws.merge(&stats.rmws);
        self.all.stall = saturating_sum(self.all.stall, stats.stall);
        self.lines.insert(line, Handovers::of_line(stats));
        for (key, row) in &stats.rows {
            let handed = Handovers::of_row(key, row);
            if !handed.is_none() {
                self.add_taken(key.thread, key.code, &handed);
            }
        }
    }

    #[inline]
    fn add_taken(&mut self, thread: ThreadId, code: CodeAddr, handed: &Handovers) {
        let lost = self.all.lost.entry(thread).or_default();
        *lost = saturating_sum(*lost, handed.lost);
        let is_full = self.takers.len() >= TAKERS_MAX;
        match self.takers.get_mut(&code) {
            Some(taken) => taken.merge(handed),
            None if is_full => {}
            None => drop(self.takers.insert(code, *handed)),
        }
    }

    /// The lines that came from another CPU, and how.
    pub fn handed(&self) -> impl Iterator<Item = (LineAddr, &Handovers)> {
        let handed = self.lines.iter().filter(|(_, whole)| !whole.is_none());
        handed.map(|(line, whole)| (*line, whole))
    }

    /// Lines so far.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = LineAddr> {
        self.lines.keys().copied()
    }

    /// The sums over all lines.
    pub fn sums(self) -> RestOfLines {
        let handed = self.lines.iter().filter(|(_, whole)| !whole.is_none());
        let kept = handed.clone().take(HANDED_MAX);
        RestOfLines {
            line_count: self.lines.len() as u64,
            contended_line_count: handed.count() as u64,
            handed: kept.map(|(line, whole)| (*line, *whole)).collect(),
            takers: self.takers.into_iter().collect(),
            ..self.all
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{CodeAddr, CpuId};
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
            (stall, lost) in (0u64..500).prop_flat_map(|stall| (Just(stall), 0..=stall)),
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
            let outcome = Outcome { source, latency: Cycles(stall), queued: Cycles::ZERO, stall: Cycles(stall), lost: Cycles(lost) };
            (access, outcome)
        }
    }

    proptest! {
        /// Whenever rows become a tally: it is that of all accesses.
        #[test]
        fn rows_become_a_tally(accesses in prop::collection::vec(counted(), 0..200), rows in 0usize..200) {
            let mut all = LineTally::default();
            accesses.iter().for_each(|(access, outcome)| all.add(access, outcome));
            let (first, then) = accesses.split_at(rows.min(accesses.len()));
            let mut collector = Collector::default();
            first.iter().for_each(|(access, outcome)| collector.add(access, outcome));
            let mut tally = LineTally::default();
            for (line, stats) in &collector.finish().lines {
                tally.add_line(*line, stats);
            }
            then.iter().for_each(|(access, outcome)| tally.add(access, outcome));
            prop_assert_eq!(tally.sums(), all.sums());
        }

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
            let handed: BTreeMap<LineAddr, Handovers> = tally.handed().map(|(line, handed)| (line, *handed)).collect();
            let mut rest = tally.sums();
            some.lines.iter().for_each(|(line, stats)| rest.take_out(*line, stats));
            let left = all.lines.iter().filter(|(line, _)| !has_rows(**line));
            let left: Vec<&LineStats> = left.map(|(_, stats)| stats).collect();
            prop_assert_eq!(rest.line_count, left.len() as u64);
            let sum = |of: fn(&LineStats) -> u64| left.iter().map(|line| of(line)).sum::<u64>();
            prop_assert_eq!(rest.access_count(), sum(LineStats::access_count));
            prop_assert_eq!(rest.stall.0, sum(|line| line.stall.0));
            prop_assert_eq!(rest.contention_stall().0, sum(|line| line.contention_stall.0));
            let is_contended = |line: &LineStats| !Handovers::of_line(line).is_none();
            let count = left.iter().filter(|line| is_contended(line)).count();
            prop_assert_eq!(rest.contended_line_count, count as u64);
            for (line, stats) in &all.lines {
                let found = handed.get(line).copied();
                prop_assert_eq!(found, is_contended(stats).then(|| Handovers::of_line(stats)));
                let left = rest.handed.get(line).copied();
                prop_assert_eq!(left, found.filter(|_| !has_rows(*line)));
            }
            let mut takers: BTreeMap<CodeAddr, Handovers> = BTreeMap::new();
            for (key, row) in left.iter().flat_map(|line| &line.rows) {
                takers.entry(key.code).or_default().merge(&Handovers::of_row(key, row));
            }
            takers.retain(|_, taken| !taken.is_none());
            prop_assert_eq!(&rest.takers, &takers);
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
