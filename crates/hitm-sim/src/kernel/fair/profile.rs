//! Figures of distributing quotas, as a probe on `distribute_cfs_runtime` gives them.

use hitm_base::{CpuId, Cycles};

use super::walk::Walked;

/// One call of `distribute_cfs_runtime`, or of the part of it that a CPU does for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistributeCall {
    /// The CPU that did it.
    pub cpu: CpuId,
    /// Time at which it began.
    pub begin: Cycles,
    /// Time at which it ended.
    pub end: Cycles,
    /// Run queues that it locked.
    pub rqs: u64,
    /// Queues that it walked over.
    pub cfs_rqs: u64,
    /// Tasks that became runnable.
    pub tasks: u64,
    /// Interrupts that it sent to have queues let run by their CPUs.
    pub ipis: u64,
    /// Time for which others kept run queues locked that it wanted.
    pub lock_wait: Cycles,
    /// True if it gave out what came back within a period.
    pub is_slack: bool,
}

impl DistributeCall {
    pub(in crate::kernel) fn add(&mut self, walked: Walked) {
        self.cfs_rqs += walked.cfs_rqs;
        self.tasks += walked.tasks;
    }

    /// Time from begin to end.
    pub fn duration(&self) -> Cycles {
        self.end.saturating_sub(self.begin)
    }
}
