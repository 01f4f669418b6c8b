//! Instructions of one source line as one row: a compiler makes several of one statement, and a reader fixes the
//! statement.

use crate::model::{LineReport, RowReport};

/// Accesses by the instructions of one source line to one place in a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SourceRow {
    /// The first instruction, with the figures of all.
    pub(super) row: RowReport,
    /// Number of instructions.
    pub(super) code_count: usize,
}

/// The rows of a line in their order, those of one source line together at the first of them. Rows without a source
/// line stay apart, and so do those with call paths, which are an instruction's own.
pub(super) fn by_source(line: &LineReport) -> Vec<SourceRow> {
    let mut merged: Vec<SourceRow> = Vec::new();
    for row in &line.rows {
        match merged.iter_mut().find(|known| is_same(&known.row, row)) {
            Some(known) => {
                add(&mut known.row, row);
                known.code_count += 1;
            }
            None => merged.push(SourceRow {
                row: row.clone(),
                code_count: 1,
            }),
        }
    }
    merged
}

fn is_same(a: &RowReport, b: &RowReport) -> bool {
    let place = |row: &RowReport| (row.offset, row.size_bytes, row.op, row.thread_count);
    let has_line = a.source_short.contains(':');
    let has_paths = !a.call_paths.is_empty() || !b.call_paths.is_empty();
    has_line
        && !has_paths
        && place(a) == place(b)
        && a.source == b.source
        && a.function == b.function
        && a.member == b.member
        && a.threads == b.threads
}

fn add(sum: &mut RowReport, row: &RowReport) {
    // A share of the line's HITM is the row's count of them but for a factor.
    sum.remote_hitm_cycles_mean = Mean::new(sum.remote_hitm_cycles_mean, sum.remote_hitm_share)
        .with(Mean::new(
            row.remote_hitm_cycles_mean,
            row.remote_hitm_share,
        ));
    sum.local_hitm_cycles_mean = Mean::new(sum.local_hitm_cycles_mean, sum.local_hitm_share)
        .with(Mean::new(row.local_hitm_cycles_mean, row.local_hitm_share));
    sum.load_cycles_mean = Mean::new(sum.load_cycles_mean, sum.access_count as f64)
        .with(Mean::new(row.load_cycles_mean, row.access_count as f64));
    sum.remote_hitm_share += row.remote_hitm_share;
    sum.local_hitm_share += row.local_hitm_share;
    sum.store_hit_share += row.store_hit_share;
    sum.store_miss_share += row.store_miss_share;
    sum.lost_cycles = sum.lost_cycles.saturating_add(row.lost_cycles);
    sum.lost_share += row.lost_share;
    sum.access_count += row.access_count;
    // The same threads: the larger count has the CPUs of both, unless they moved in between.
    sum.cpu_count = sum.cpu_count.max(row.cpu_count);
    sum.nodes.extend(&row.nodes);
    sum.nodes.sort_unstable();
    sum.nodes.dedup();
}

/// A mean and the count that it is of, but for a factor.
struct Mean {
    cycles: Option<f64>,
    of: f64,
}

impl Mean {
    fn new(cycles: Option<f64>, of: f64) -> Mean {
        Mean { cycles, of }
    }

    /// The mean of both.
    fn with(self, other: Mean) -> Option<f64> {
        let of = self.of + other.of;
        match (self.cycles, other.cycles) {
            (Some(a), Some(b)) if of > 0.0 => Some((a * self.of + b * other.of) / of),
            (a, b) => a.or(b),
        }
    }
}
