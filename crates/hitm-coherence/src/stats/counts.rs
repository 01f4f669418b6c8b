//! The counters of one row, in one cache line of the host.
//!
//! The counters are small, so that a row with everything that a report shows fits into 64 bytes.
//! One that would overflow is emptied into a full [`RowStats`] first. Nothing is lost, and a row
//! pays for it once in 65,535 accesses or four thousand million cycles.

use hitm_base::{Cycles, DataSource, Outcome};

use super::{LatencySum, RowStats, saturating_sum};

/// Sources whose latencies are summed apart: those that a report shows on their own.
const CLASS_COUNT: usize = 3;
const CLASS_LOCAL_HITM: usize = 1;
const CLASS_REMOTE_HITM: usize = 2;

/// Sums of one row since it was emptied last.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    latency_sum: [u32; CLASS_COUNT],
    latency_max: [u32; CLASS_COUNT],
    stall: u32,
    /// The part of `stall` that other CPUs' use of the line caused.
    lost: u32,
    sources: [u16; DataSource::ALL.len()],
}

/// A counter of the row has no room for what should be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

#[inline]
fn class_of(source: DataSource) -> usize {
    match source {
        DataSource::LocalHitm => CLASS_LOCAL_HITM,
        DataSource::RemoteHitm => CLASS_REMOTE_HITM,
        _ => 0,
    }
}

impl Counts {
    /// Adds one access; when it does not fit, nothing is changed.
    #[inline]
    pub(super) fn add(&mut self, outcome: &Outcome) -> Result<(), Full> {
        let source = outcome.source as usize;
        let class = class_of(outcome.source);
        let count = self.sources[source].wrapping_add(1);
        let latency_sum = u64::from(self.latency_sum[class]).saturating_add(outcome.latency.0);
        let stall = u64::from(self.stall).saturating_add(outcome.stall.0);
        let lost = u64::from(self.lost).saturating_add(outcome.lost.0);
        if count == 0 || (latency_sum | stall | lost) > u64::from(u32::MAX) {
            return Err(Full);
        }
        self.sources[source] = count;
        self.latency_sum[class] = latency_sum as u32;
        self.stall = stall as u32;
        self.lost = lost as u32;
        self.latency_max[class] = self.latency_max[class].max(outcome.latency.0 as u32);
        Ok(())
    }

    /// Moves everything into `row`.
    pub(super) fn empty_into(&mut self, row: &mut RowStats) {
        let counts = std::mem::take(self);
        let mut class_counts = [0; CLASS_COUNT];
        for source in DataSource::ALL {
            let count = u64::from(counts.sources[source as usize]);
            row.sources.0[source as usize] += count;
            class_counts[class_of(source)] += count;
        }
        let sum_of = |class: usize| LatencySum {
            count: class_counts[class],
            sum: Cycles(counts.latency_sum[class].into()),
            max: Cycles(counts.latency_max[class].into()),
        };
        (0..CLASS_COUNT).for_each(|class| row.latency.merge(&sum_of(class)));
        row.local_hitm.merge(&sum_of(CLASS_LOCAL_HITM));
        row.remote_hitm.merge(&sum_of(CLASS_REMOTE_HITM));
        row.stall = saturating_sum(row.stall, Cycles(counts.stall.into()));
        row.contention_stall = saturating_sum(row.contention_stall, Cycles(counts.lost.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_cache_line() {
        assert_eq!(size_of::<Counts>(), 64);
    }

    fn outcome(source: DataSource, latency: Cycles, stall: Cycles) -> Outcome {
        Outcome::by_source(source, latency, Cycles::ZERO, stall)
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut counts = Counts::default();
        let (most, one) = (Cycles(u32::MAX.into()), Cycles(1));
        counts
            .add(&outcome(DataSource::LocalHitm, most, most))
            .unwrap();
        assert_eq!(
            counts.add(&outcome(DataSource::LocalHitm, one, one)),
            Err(Full)
        );
        assert_eq!(
            counts.add(&outcome(DataSource::LocalPeer, one, one)),
            Err(Full)
        );
        assert_eq!(
            counts.add(&outcome(DataSource::L1, Cycles::MAX, one)),
            Err(Full)
        );
        counts
            .add(&outcome(DataSource::L1, one, Cycles::ZERO))
            .unwrap();
        let mut row = RowStats::default();
        counts.empty_into(&mut row);
        assert_eq!(row.latency.count, 2);
        assert_eq!((row.local_hitm.sum, row.local_hitm.max), (most, most));
        assert_eq!((row.stall, row.contention_stall), (most, most));
        counts.empty_into(&mut row);
        assert_eq!(row.latency.count, 2, "an empty row adds nothing");
    }
}
