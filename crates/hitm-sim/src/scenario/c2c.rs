//! The lines of the kernel's memory in the form of `perf c2c`: a line, and in it a row for each member
//! and function.
//!
//! Objects of one type are counted together: line 3 of `rq` is that of all run queues. A locked
//! operation is a load and a store, as for the hardware's counters.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, Cycles, DataSource, LINE_SIZE};
use hitm_coherence::stats::{CpuSet, SourceCounts};

use crate::engine::{MemberKey, Profile, ProfileRow};

/// A line of the kernel's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct C2cLine {
    /// Type of its object, and the member behind whose pointer it lies: `root_domain.rto_mask->`.
    pub object: String,
    /// Objects of the type that were in use.
    pub object_count: u64,
    /// Offset of its first byte in the object.
    pub offset_bytes: u64,
    /// Accesses to it.
    pub counts: C2cCounts,
    /// By member and function, in order of offset.
    pub rows: Vec<C2cRow>,
}

/// Accesses of one function to one member.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct C2cRow {
    /// Offset in the line.
    pub offset_bytes: u64,
    /// The member that was accessed.
    pub member: String,
    /// The function that accessed it.
    pub function: &'static str,
    /// Accesses of it.
    pub counts: C2cCounts,
    /// Locked operations, which are among the loads and the stores.
    pub locked: u64,
    /// The CPUs that the function ran on, warm-up included.
    pub cpus: CpuSet,
    /// The longest load, warm-up included.
    pub load_cycles_max: Cycles,
    /// Those of the accesses that a sampling perf leaves out: short loads, and HITMs of locked operations.
    pub unsampled: C2cCounts,
}

/// Counts of accesses, and the time that loads took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct C2cCounts {
    /// Loads of a line that another package had modified.
    pub remote_hitm: u64,
    /// Loads of a line that another core of the package had modified.
    pub local_hitm: u64,
    /// Loads of a line that a core of another NUMA node had modified, in the package or not.
    pub node_hitm: u64,
    /// Loads, locked operations included.
    pub loads: u64,
    /// Stores, locked operations included.
    pub stores: u64,
    /// Cycles that the loads took.
    pub load_cycles: Cycles,
}

/// Sources below the threshold of 30 cycles that `perf c2c record` sets (`--ldlat`): the own core's
/// caches and its store buffer, on every preset.
const SHORT_SOURCES: [DataSource; 3] = [DataSource::L1, DataSource::L2, DataSource::StoreBuffer];

impl C2cCounts {
    /// Mean cycles of a load.
    pub fn load_cycles_mean(&self) -> f64 {
        match self.loads {
            0 => 0.0,
            loads => self.load_cycles.0 as f64 / loads as f64,
        }
    }

    fn add(&mut self, other: &C2cCounts) {
        self.remote_hitm += other.remote_hitm;
        self.local_hitm += other.local_hitm;
        self.node_hitm += other.node_hitm;
        self.loads += other.loads;
        self.stores += other.stores;
        self.load_cycles += other.load_cycles;
    }

    fn without(&self, part: &C2cCounts) -> C2cCounts {
        C2cCounts {
            remote_hitm: self.remote_hitm - part.remote_hitm,
            local_hitm: self.local_hitm - part.local_hitm,
            node_hitm: self.node_hitm - part.node_hitm,
            loads: self.loads - part.loads,
            stores: self.stores - part.stores,
            load_cycles: self.load_cycles.saturating_sub(part.load_cycles),
        }
    }
}

impl C2cLine {
    /// The line as `perf c2c` shows it: loads below its latency threshold have no sample, and samples of
    /// locked operations are not labelled as HITM.
    #[must_use]
    pub fn as_sampled(&self) -> C2cLine {
        let rows = self.rows.iter().map(C2cRow::as_sampled);
        let rows = rows.filter(|row| row.counts.loads + row.counts.stores > 0);
        line(
            self.object.clone(),
            self.offset_bytes,
            self.object_count,
            rows,
        )
    }

    /// The least and the largest mean of the rows that make at least a hundredth of the loads.
    pub fn load_cycles_range(&self) -> Option<(f64, f64)> {
        let rows = self.rows.iter().map(|row| &row.counts);
        let rows = rows.filter(|row| row.loads > 0 && row.loads * 100 >= self.counts.loads);
        let means = rows.map(C2cCounts::load_cycles_mean);
        means.fold(None, |range, mean| {
            let (least, most) = range.unwrap_or((mean, mean));
            Some((mean.min(least), mean.max(most)))
        })
    }
}

/// By offset, member and function.
type RowsByPlace<'a> = BTreeMap<(u64, &'a str, &'static str), C2cRow>;
type RowKey<'a> = (&'a MemberKey, &'static str, AccessOp);

/// The lines of all members that were accessed since `before`, those that cost most first.
pub(super) fn lines(profile: &Profile, before: Option<&Profile>) -> Vec<C2cLine> {
    let before: BTreeMap<RowKey<'_>, ProfileRow> = before
        .map(Profile::rows)
        .unwrap_or_default()
        .iter()
        .map(|entry| ((entry.member, entry.function, entry.op), entry.row.clone()))
        .collect();
    let mut lines: BTreeMap<(String, u64), RowsByPlace<'_>> = BTreeMap::new();
    for entry in profile.rows() {
        let key = (entry.member, entry.function, entry.op);
        let row = since(entry.row, before.get(&key));
        if row.count == 0 {
            continue;
        }
        let member = entry.member;
        let rows = lines.entry(line_of(member)).or_default();
        let offset_bytes = member.offset_bytes % LINE_SIZE;
        let merged = rows.entry((offset_bytes, member.path.as_str(), entry.function));
        let merged = merged.or_insert_with(|| C2cRow {
            offset_bytes,
            member: member.path.clone(),
            function: entry.function,
            ..C2cRow::default()
        });
        merged.add(entry.op, &row);
    }
    let rows = lines.into_iter();
    let mut lines: Vec<C2cLine> = rows
        .map(|((object, offset_bytes), rows)| {
            let type_name = object.split('.').next().unwrap_or_default();
            let object_count = profile.object_count(type_name);
            line(object, offset_bytes, object_count, rows.into_values())
        })
        .collect();
    // A stable sort: lines of equal cost stay in order of type and offset.
    lines.sort_by_key(|line| std::cmp::Reverse(line.counts.load_cycles));
    lines
}

/// The object and the offset in it at which a member's line begins.
fn line_of(member: &MemberKey) -> (String, u64) {
    let behind = member.path.rfind("->").map(|at| &member.path[..at + 2]);
    let object = match behind {
        Some(pointer) => format!("{}.{pointer}", member.type_name),
        None => member.type_name.clone(),
    };
    (object, member.offset_bytes / LINE_SIZE * LINE_SIZE)
}

fn since(row: &ProfileRow, before: Option<&ProfileRow>) -> ProfileRow {
    let mut row = row.clone();
    if let Some(before) = before {
        for (count, old) in row.sources.0.iter_mut().zip(before.sources.0) {
            *count -= old;
        }
        row.count -= before.count;
        row.latency_sum = row.latency_sum - before.latency_sum;
        row.queued = row.queued - before.queued;
        row.node_hitm -= before.node_hitm;
    }
    row
}

fn line(
    object: String,
    offset_bytes: u64,
    object_count: u64,
    rows: impl Iterator<Item = C2cRow>,
) -> C2cLine {
    let mut line = C2cLine {
        object,
        object_count,
        offset_bytes,
        counts: C2cCounts::default(),
        rows: rows.collect(),
    };
    for row in &line.rows {
        line.counts.add(&row.counts);
    }
    line
}

impl C2cRow {
    fn as_sampled(&self) -> C2cRow {
        C2cRow {
            counts: self.counts.without(&self.unsampled),
            unsampled: C2cCounts::default(),
            ..self.clone()
        }
    }

    fn add(&mut self, op: AccessOp, row: &ProfileRow) {
        let sources: &SourceCounts = &row.sources;
        self.cpus.merge(&row.cpus);
        let (counts, unsampled) = (&mut self.counts, &mut self.unsampled);
        let [remote_hitm, local_hitm] =
            [DataSource::RemoteHitm, DataSource::LocalHitm].map(|source| sources.get(source));
        if op != AccessOp::Load {
            counts.stores += row.count;
        }
        if op == AccessOp::LockedRmw {
            self.locked += row.count;
            unsampled.remote_hitm += remote_hitm;
            unsampled.local_hitm += local_hitm;
            unsampled.node_hitm += row.node_hitm;
        }
        if op == AccessOp::Store {
            return;
        }
        counts.loads += row.count;
        let short: u64 = SHORT_SOURCES
            .iter()
            .map(|source| sources.get(*source))
            .sum();
        unsampled.loads += short;
        // The row's shortest is one of them.
        unsampled.load_cycles += Cycles(row.latency_min.0.saturating_mul(short));
        counts.remote_hitm += remote_hitm;
        counts.local_hitm += local_hitm;
        counts.node_hitm += row.node_hitm;
        counts.load_cycles += row.latency_sum;
        self.load_cycles_max = self.load_cycles_max.max(row.latency_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: AccessOp, sources: &[(DataSource, u64)], cycles: u64) -> ProfileRow {
        let mut row = ProfileRow {
            latency_min: Cycles(5),
            latency_sum: Cycles(cycles),
            ..ProfileRow::default()
        };
        for (source, count) in sources {
            row.sources.0[*source as usize] += count;
            row.count += count;
        }
        if op == AccessOp::LockedRmw {
            row.node_hitm = 1;
        }
        row
    }

    #[test]
    fn perf_samples_long_loads_and_labels_no_locked_one() {
        let mut counter = C2cRow::default();
        let loads = [(DataSource::L1, 10), (DataSource::RemoteHitm, 2)];
        counter.add(AccessOp::Load, &row(AccessOp::Load, &loads, 50 + 2_000));
        let locked = [(DataSource::RemoteHitm, 3)];
        counter.add(
            AccessOp::LockedRmw,
            &row(AccessOp::LockedRmw, &locked, 3_000),
        );
        let line = line("x".into(), 0, 1, std::iter::once(counter));
        let whole = line.counts;
        assert_eq!(
            (whole.loads, whole.remote_hitm, whole.node_hitm),
            (15, 5, 1)
        );
        let sampled = line.as_sampled().counts;
        assert_eq!(
            (sampled.loads, sampled.remote_hitm, sampled.node_hitm),
            (5, 2, 0)
        );
        assert_eq!((sampled.stores, sampled.load_cycles), (3, Cycles(5_000)));
    }
}
