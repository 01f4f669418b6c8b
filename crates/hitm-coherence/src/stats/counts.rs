//! The counters of one row, in one cache line of the host.
//!
//! The counters are small, so that a row with everything that a report shows fits into 64 bytes.
//! One that would overflow is emptied into a full [`RowStats`] first. Nothing is lost, and a row
//! pays for it once in 65,535 accesses or four thousand million cycles.

use hitm_base::{Cycles, DataSource};

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
    /// Cycles lost: at index 1 those that another CPU's use of the line caused.
    stall: [u32; 2],
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
    pub(super) fn add(
        &mut self,
        source: DataSource,
        latency: Cycles,
        stall: Cycles,
    ) -> Result<(), Full> {
        let class = class_of(source);
        let cause = usize::from(source.is_contention());
        let count = self.sources[source as usize].wrapping_add(1);
        let latency_sum = u64::from(self.latency_sum[class]).saturating_add(latency.0);
        let stall_sum = u64::from(self.stall[cause]).saturating_add(stall.0);
        if count == 0 || (latency_sum | stall_sum) > u64::from(u32::MAX) {
            return Err(Full);
        }
        self.sources[source as usize] = count;
        self.latency_sum[class] = latency_sum as u32;
        self.stall[cause] = stall_sum as u32;
        self.latency_max[class] = self.latency_max[class].max(latency.0 as u32);
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
        let [own, others] = counts.stall.map(|cycles| Cycles(cycles.into()));
        row.stall = saturating_sum(row.stall, saturating_sum(own, others));
        row.contention_stall = saturating_sum(row.contention_stall, others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_cache_line() {
        assert_eq!(size_of::<Counts>(), 64);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut counts = Counts::default();
        let (most, one) = (Cycles(u32::MAX.into()), Cycles(1));
        counts.add(DataSource::LocalHitm, most, most).unwrap();
        assert_eq!(counts.add(DataSource::LocalHitm, one, one), Err(Full));
        assert_eq!(counts.add(DataSource::LocalPeer, one, one), Err(Full));
        assert_eq!(counts.add(DataSource::L1, Cycles::MAX, one), Err(Full));
        counts.add(DataSource::L1, one, one).unwrap();
        let mut row = RowStats::default();
        counts.empty_into(&mut row);
        assert_eq!(row.latency.count, 2);
        assert_eq!((row.local_hitm.sum, row.local_hitm.max), (most, most));
        assert_eq!((row.stall, row.contention_stall), (most + one, most));
        counts.empty_into(&mut row);
        assert_eq!(row.latency.count, 2, "an empty row adds nothing");
    }
}
