//! Bandwidth of a group: `struct cfs_bandwidth`, kernel/sched/sched.h, v6.12. Times are cycles.

use hitm_base::Cycles;

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
    /// Time at which that timer fires.
    pub(in crate::kernel) slack_at: u64,
    /// Time for which the timer was set that distributes.
    pub(in crate::kernel) due_at: u64,
    /// `runtime` after the last refill.
    pub(in crate::kernel) runtime_snap: u64,
    /// Before 5.4: time at which slices of this refill expire, and its number.
    pub(in crate::kernel) expires_at: u64,
    pub(in crate::kernel) expires_seq: u64,
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
    /// Time for which queues with something to run were throttled, each CPU's apart.
    pub throttled_time: Cycles,
    /// Periods in which more than a quota was used.
    pub nr_bursts: u64,
    /// Time beyond the quota that was used in them.
    pub burst_time: Cycles,
    /// Time of slices that expired before it was used (before 5.4).
    pub expired: Cycles,
}

impl Bandwidth {
    /// A new period: `__refill_cfs_bandwidth_runtime`.
    pub(in crate::kernel) fn refill(&mut self) {
        let refilled = self.runtime + self.quota;
        let beyond = self.runtime_snap.saturating_sub(refilled);
        self.counts.nr_bursts += u64::from(beyond > 0);
        self.counts.burst_time += Cycles(beyond);
        self.runtime = refilled.min(self.quota + self.burst);
        self.runtime_snap = self.runtime;
    }

    /// Takes as much as there is of `wanted`.
    pub(in crate::kernel) fn take(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.runtime);
        self.runtime -= taken;
        self.counts.handed_out += taken as i64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_was_used_beyond_a_quota() {
        let mut bandwidth = Bandwidth {
            quota: 100,
            burst: 50,
            runtime: 100,
            runtime_snap: 100,
            ..Bandwidth::default()
        };
        let bursts = |bandwidth: &Bandwidth| {
            let counts = bandwidth.counts;
            (bandwidth.runtime, counts.nr_bursts, counts.burst_time.0)
        };
        bandwidth.refill();
        assert_eq!(bursts(&bandwidth), (150, 0, 0));
        assert_eq!(bandwidth.take(130), 130);
        bandwidth.refill();
        assert_eq!(bursts(&bandwidth), (120, 1, 30));
        assert_eq!(bandwidth.take(500), 120);
        bandwidth.refill();
        assert_eq!(bursts(&bandwidth), (100, 2, 50));
        assert_eq!(bandwidth.take(60), 60);
        bandwidth.refill();
        assert_eq!(bursts(&bandwidth), (140, 2, 50));
        assert_eq!(bandwidth.counts.handed_out, 310);
    }
}
