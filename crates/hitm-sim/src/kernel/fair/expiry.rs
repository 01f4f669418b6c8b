//! Slices that expire: kernel/sched/fair.c, v4.18 to v5.3.
//!
//! **What Linux does:** a slice is good for the period that it was taken in. What a queue has left of
//! it later is lost, and what an idle queue gives back late is lost, too.
//!
//! **What we do:** the same under [`Mechanism::ExpiringSlices`].

use hitm_base::Cycles;

use super::cfs_rq::CfsId;
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::mechanisms::Mechanism;

impl Kernel {
    /// The rest of a slice is lost when the period has ended that it was taken in; true when that
    /// leaves the queue nothing.
    pub(super) async fn expire_cfs_rq_runtime(&self, cfs: CfsId) -> bool {
        if !self.has(Mechanism::ExpiringSlices) {
            return false;
        }
        let now = self.engine.now().0;
        let group = {
            let groups = self.fair.groups.borrow();
            let runtime = &groups.tree.q(cfs).runtime;
            if now < runtime.expires_at || runtime.remaining < 0 {
                return false;
            }
            groups.group_of(cfs)
        };
        let (site, places) = (f::ACCOUNT_CFS_RQ_RUNTIME, self.fair.group_places(group));
        // `expires_seq` lies beside it.
        let _seen = self.engine.load(site, places.bandwidth_runtime).await;
        let mut groups = self.fair.groups.borrow_mut();
        let groups = &mut *groups;
        let runtime = &mut groups.tree.q_mut(cfs).runtime;
        let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth else {
            return false;
        };
        if runtime.expires_seq == bandwidth.expires_seq {
            // This CPU's clock is ahead of the timer: the period has not ended.
            runtime.expires_at += self.tick_period.0;
            return false;
        }
        bandwidth.counts.expired += Cycles(runtime.remaining as u64);
        runtime.remaining = 0;
        !runtime.is_throttled
    }
}
