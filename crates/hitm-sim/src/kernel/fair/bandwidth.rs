//! Bandwidth of a group: `struct cfs_bandwidth`, kernel/sched/sched.h, v6.12. Times are cycles.

use super::cfs_rq::CfsId;

/// A quota of CPU time.
#[derive(Debug, Clone, Default)]
pub(in crate::kernel) struct Bandwidth {
    pub(in crate::kernel) period: u64,
    /// Moment in a period at which the timer fires, and its next time.
    pub(in crate::kernel) phase: u64,
    pub(in crate::kernel) next_at: u64,
    pub(in crate::kernel) quota: u64,
    /// Most unused quota that is kept beside a quota.
    pub(in crate::kernel) burst: u64,
    /// Quota that may still be handed out.
    pub(in crate::kernel) runtime: u64,
    /// Throttled queues, in the order in which they are served.
    pub(in crate::kernel) throttled: Vec<CfsId>,
    pub(in crate::kernel) is_idle: bool,
    pub(in crate::kernel) is_active: bool,
    pub(in crate::kernel) is_slack_started: bool,
    pub(in crate::kernel) counts: BandwidthCounts,
}

/// Statistics of a quota: `cpu.stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BandwidthCounts {
    /// Periods that passed while it was in use.
    pub nr_periods: u64,
    /// Of these, those at whose end a queue was throttled.
    pub nr_throttled: u64,
    /// Cycles that were handed out, less what came back.
    pub handed_out: i64,
}

impl Bandwidth {
    /// A new period: `__refill_cfs_bandwidth_runtime`.
    pub(in crate::kernel) fn refill(&mut self) {
        self.runtime = (self.runtime + self.quota).min(self.quota + self.burst);
    }

    /// Takes as much as there is of `wanted`.
    pub(in crate::kernel) fn take(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.runtime);
        self.runtime -= taken;
        self.counts.handed_out += taken as i64;
        taken
    }
}
