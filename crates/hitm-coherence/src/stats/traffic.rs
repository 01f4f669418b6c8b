//! Hand-overs of lines between CPUs, and lost cycles over virtual time.
//!
//! Both need the order of accesses, which rows do not keep: a [`TrafficCollector`] takes the accesses of a
//! recording in its order a second time. A [`TrafficPlan`] says for which lines and rows it counts apart;
//! everything else is summed up, so that memory is bounded by the plan.
//!
//! The giver of a line is inferred from the order of its uses ([`LineUsers`]).

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, LineAddr, LineUse, LineUsers, Outcome};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

use super::{RowKey, saturating_sum};

/// Buckets of a time series: between half as many and as many cover the run.
const BUCKETS_MAX: usize = 256;

/// Width of a bucket before the first folding, as a power of two: 1,024 cycles.
const BUCKET_SHIFT_MIN: u32 = 10;

/// Pairs of instructions of one collector, by line: some 8 MiB of them.
const PAIRS_MAX: usize = 1 << 17;

/// Lines of one collector whose users are remembered: 32 MiB of them.
const USERS_MAX: usize = 1 << 20;

/// Lines and rows that are counted apart.
#[derive(Debug, Clone, Default)]
pub struct TrafficPlan {
    lines: IndexSet<LineAddr, FxBuildHasher>,
    rows: IndexSet<(LineAddr, RowKey), FxBuildHasher>,
    has_pairs: bool,
}

impl TrafficPlan {
    /// The same with hand-overs by the two instructions.
    #[must_use]
    pub fn with_pairs(self) -> TrafficPlan {
        TrafficPlan {
            has_pairs: true,
            ..self
        }
    }

    /// A plan for lines, and for rows of these lines. Rows of other lines are left out.
    pub fn new(
        lines: impl IntoIterator<Item = LineAddr>,
        rows: impl IntoIterator<Item = (LineAddr, RowKey)>,
    ) -> TrafficPlan {
        let lines: IndexSet<LineAddr, FxBuildHasher> = lines.into_iter().collect();
        let rows = rows.into_iter().filter(|(line, _)| lines.contains(line));
        TrafficPlan {
            rows: rows.collect(),
            lines,
            has_pairs: false,
        }
    }
}

/// Hand-overs from one CPU to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfers {
    /// Accesses whose data, or whose right to write, came from the other CPU, or that waited because of it.
    pub count: u64,
    /// The part of them that found the line modified.
    pub hitm_count: u64,
    /// Cycles that the takers lost by them.
    pub lost: Cycles,
}

impl Transfers {
    fn of(outcome: &Outcome) -> Transfers {
        Transfers {
            count: 1,
            hitm_count: outcome.source.is_hitm().into(),
            lost: outcome.lost,
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Transfers) {
        self.count += other.count;
        self.hitm_count += other.hitm_count;
        self.lost = saturating_sum(self.lost, other.lost);
    }
}

/// Hand-overs by giver and taker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Giving {
    /// By giver, then taker.
    pub pairs: BTreeMap<(CpuId, CpuId), Transfers>,
    /// Those whose giver is not known.
    pub unknown: Transfers,
}

impl Giving {
    fn add(&mut self, giver: Option<CpuId>, taker: CpuId, transfers: &Transfers) {
        match giver {
            Some(giver) => self.pairs.entry((giver, taker)).or_default(),
            None => &mut self.unknown,
        }
        .merge(transfers);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Giving) {
        self.unknown.merge(&other.unknown);
        for ((giver, taker), transfers) in &other.pairs {
            self.add(Some(*giver), *taker, transfers);
        }
    }
}

/// Two instructions of which one took a line after the other had used it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePair {
    /// The line, if it is one of the plan.
    pub line: Option<LineAddr>,
    /// The last instruction of the giver that used the line; none when the giver is not known.
    pub giver: Option<CodeAddr>,
    /// The instruction that took it.
    pub taker: CodeAddr,
}

/// The last use of a line by a CPU.
#[derive(Debug, Clone, Copy)]
struct LastUse {
    cpu: CpuId,
    code: CodeAddr,
}

impl LineUse for LastUse {
    fn cpu(&self) -> CpuId {
        self.cpu
    }
}

/// Traffic of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Hand-overs of all lines.
    pub run: Giving,
    /// Hand-overs of each line of the plan.
    pub lines: BTreeMap<LineAddr, Giving>,
    /// Hand-overs by instructions, if the plan has them.
    pub pairs: BTreeMap<CodePair, Transfers>,
    /// Width of a bucket of time: a power of two.
    pub bucket: Cycles,
    /// Lost cycles of each row of the plan, by bucket of time.
    pub rows: BTreeMap<(LineAddr, RowKey), Vec<u64>>,
    /// Those of the other rows of each line of the plan.
    pub other_rows: BTreeMap<LineAddr, Vec<u64>>,
    /// Those of all other lines.
    pub other_lines: Vec<u64>,
}

/// Lost cycles by bucket of time, which doubles when the run outgrows the buckets.
#[derive(Debug, Clone)]
struct Series {
    shift: u32,
    buckets: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series {
            shift: BUCKET_SHIFT_MIN,
            buckets: Vec::new(),
        }
    }
}

impl Series {
    fn add(&mut self, time: Cycles, lost: Cycles) {
        while time.0 >> self.shift >= BUCKETS_MAX as u64 {
            self.fold();
        }
        let bucket = (time.0 >> self.shift) as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(lost.0);
    }

    /// Makes one bucket of each two.
    fn fold(&mut self) {
        let pairs = self.buckets.chunks(2);
        let sum = |pair: &[u64]| {
            pair.iter()
                .fold(0, |sum: u64, lost| sum.saturating_add(*lost))
        };
        self.buckets = pairs.map(sum).collect();
        self.shift += 1;
    }

    /// Adds another series to this one; both have the same width afterwards.
    fn merge(&mut self, mut other: Series) {
        self.widen(other.shift);
        other.widen(self.shift);
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine = mine.saturating_add(theirs);
        }
    }

    fn widen(&mut self, shift: u32) {
        while self.shift < shift {
            self.fold();
        }
    }

    fn widened(mut self, shift: u32) -> Vec<u64> {
        self.widen(shift);
        self.buckets
    }
}

/// Counts hand-overs and lost cycles over time.
#[derive(Debug)]
pub struct TrafficCollector<'p> {
    plan: &'p TrafficPlan,
    users: IndexMap<LineAddr, LineUsers<LastUse>, FxBuildHasher>,
    run: Giving,
    pairs: IndexMap<CodePair, Transfers, FxBuildHasher>,
    /// By place in the plan.
    lines: BTreeMap<usize, Giving>,
    /// By place in the plan.
    rows: BTreeMap<usize, Series>,
    /// By place of the line in the plan.
    other_rows: BTreeMap<usize, Series>,
    other_lines: Series,
}

impl<'p> TrafficCollector<'p> {
    /// A collector that has counted nothing.
    pub fn new(plan: &'p TrafficPlan) -> TrafficCollector<'p> {
        TrafficCollector {
            plan,
            users: IndexMap::default(),
            run: Giving::default(),
            pairs: IndexMap::default(),
            lines: BTreeMap::new(),
            rows: BTreeMap::new(),
            other_rows: BTreeMap::new(),
            other_lines: Series::default(),
        }
    }

    /// Counts one access and its outcome, in the order of the run. Fences touch no line.
    pub fn add(&mut self, access: &Access, outcome: &Outcome) {
        if access.op == AccessOp::Fence {
            return;
        }
        let line = access.line();
        let is_full = self.users.len() >= USERS_MAX && !self.users.contains_key(&line);
        let mut unknown = LineUsers::default();
        let users = match is_full {
            true => &mut unknown,
            false => self.users.entry(line).or_default(),
        };
        let giver = users.giver(access.cpu, outcome.source.is_hitm());
        let last = LastUse {
            cpu: access.cpu,
            code: access.code,
        };
        users.touch(last, access.op.is_write());
        if outcome.is_handed_over() {
            self.add_contended(access, outcome, giver.map(|giver| giver.cpu));
            if self.plan.has_pairs {
                self.add_pair(access, outcome, giver.map(|giver| giver.code));
            }
        }
    }

    fn add_pair(&mut self, access: &Access, outcome: &Outcome, giver: Option<CodeAddr>) {
        let line = access.line();
        let mut pair = CodePair {
            line: self.plan.lines.contains(&line).then_some(line),
            giver,
            taker: access.code,
        };
        // What is too much is told by its taker alone.
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&pair) {
            (pair.line, pair.giver) = (None, None);
        }
        self.pairs
            .entry(pair)
            .or_default()
            .merge(&Transfers::of(outcome));
    }

    fn add_contended(&mut self, access: &Access, outcome: &Outcome, giver: Option<CpuId>) {
        let transfers = Transfers::of(outcome);
        self.run.add(giver, access.cpu, &transfers);
        let line = access.line();
        let Some(line_index) = self.plan.lines.get_index_of(&line) else {
            self.other_lines.add(access.time, outcome.lost);
            return;
        };
        let of_line = self.lines.entry(line_index).or_default();
        of_line.add(giver, access.cpu, &transfers);
        let key = RowKey {
            offset: access.offset(),
            size: access.size,
            op: access.op,
            thread: access.thread,
            code: access.code,
        };
        let series = match self.plan.rows.get_index_of(&(line, key)) {
            Some(row) => self.rows.entry(row).or_default(),
            None => self.other_rows.entry(line_index).or_default(),
        };
        series.add(access.time, outcome.lost);
    }

    /// Traffic of collectors that counted the lines of one run by the same plan, each line in one of them.
    pub fn finish(collectors: impl IntoIterator<Item = TrafficCollector<'p>>) -> Traffic {
        let mut traffic = Traffic::default();
        let mut other_lines = Series::default();
        let (mut rows, mut other_rows) = (Vec::new(), Vec::new());
        for collector in collectors {
            let plan = collector.plan;
            traffic.run.merge(&collector.run);
            for (pair, transfers) in &collector.pairs {
                traffic.pairs.entry(*pair).or_default().merge(transfers);
            }
            let line = |index: usize| plan.lines[index];
            let lines = collector.lines.into_iter();
            traffic
                .lines
                .extend(lines.map(|(index, giving)| (line(index), giving)));
            let of_rows = collector.rows.into_iter();
            rows.extend(of_rows.map(|(index, series)| (plan.rows[index], series)));
            let of_others = collector.other_rows.into_iter();
            other_rows.extend(of_others.map(|(index, series)| (line(index), series)));
            other_lines.merge(collector.other_lines);
        }
        let shifts = rows.iter().map(|(_, series)| series.shift);
        let shifts = shifts.chain(other_rows.iter().map(|(_, series)| series.shift));
        let shift = shifts.fold(other_lines.shift, u32::max);
        traffic.bucket = Cycles(1 << shift);
        let rows = rows.into_iter();
        traffic.rows = rows
            .map(|(key, series)| (key, series.widened(shift)))
            .collect();
        let other_rows = other_rows.into_iter();
        traffic.other_rows = other_rows
            .map(|(line, series)| (line, series.widened(shift)))
            .collect();
        traffic.other_lines = other_lines.widened(shift);
        traffic
    }
}

#[cfg(test)]
mod tests;
