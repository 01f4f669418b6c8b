//! Averages of CPUs on which nothing changes: `sched_balance_update_blocked_averages` of
//! kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** balancers read what a CPU has told of its load. A CPU tells it when its tasks
//! change and at its tick, and before it balances. For one whose tick is stopped the CPU that balances
//! for idle ones does it, once a tick and while any load is left.
//!
//! **What we do:** the same for a CPU's root queue.
//!
//! **What a test could notice:** queues of groups have no such averages, so that a CPU's list of them
//! is not gone through. A CPU that was newly idle does not update those of others.

use super::cfs_rq::CfsId;
use super::places::CfsWord;
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;

impl Kernel {
    /// `sched_balance_update_blocked_averages`: a CPU's averages decay while nothing there changes.
    pub(super) async fn update_blocked_averages(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_DOMAINS);
        let irqs = engine.set_irqs(false);
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        let root = CfsId(u32::from(rq.cpu.0));
        self.tell_averages(site, root).await;
        self.rq_unlock(rq).await;
        if irqs {
            engine.set_irqs(true);
        }
        let state = &self.balancer_of().cpus[rq.cpu.index()];
        state.updated_at.set(engine.now());
    }

    /// `update_nohz_stats`: the same for another CPU, once a tick and only while something is left.
    pub(super) async fn update_nohz_stats(&self, rq: &Rq) {
        let state = &self.balancer_of().cpus[rq.cpu.index()];
        let since = self.engine.now().saturating_sub(state.updated_at.get());
        let root = CfsId(u32::from(rq.cpu.0));
        let told = self.cfs_word(root, CfsWord::Avg);
        let told = self.engine.load(f::SCHED_BALANCE_DOMAINS, told);
        if told.await != 0 && since >= self.tick_period {
            self.update_blocked_averages(rq).await;
        }
    }
}
