//! New periods of quotas, and their distribution: kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** a timer of each quota refills it once a period and goes through its
//! throttled queues. Each of them gets what it lacks and 1 ns; then they ask for slices as any
//! other. Before v6.3 the timer unthrottles the queues of all CPUs itself, in one go and with
//! interrupts off. Since then it asks each CPU to do its own, with one interrupt. Half a slice that
//! comes back from idle CPUs is given out by a second timer 5 ms later.
//!
//! **What we do:** the same, on the CPU on which the timer was started first (the timer is pinned).
//!
//! **What a test could notice:** a period that is too short for its own timer is not scaled up. Before
//! v5.4 a period without a task refilled nothing; here it does.

use hitm_base::{CpuId, Cycles};

use super::cfs_rq::CfsId;
use super::group::GroupId;
use super::places::CfsMember;
use super::profile::DistributeCall;
use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::hrtimer::Expiry;
use crate::kernel::smp::Call;

impl Kernel {
    /// Runtime left of a group's quota, whose lock is held.
    fn bandwidth_runtime(&self, group: GroupId) -> u64 {
        let groups = self.fair.groups.borrow();
        let bandwidth = groups.groups[group.index()].bandwidth.as_ref();
        bandwidth.map_or(0, |bandwidth| bandwidth.runtime)
    }

    pub(super) async fn load_bandwidth(&self, site: Site, group: GroupId) {
        let place = self.fair.group_places(group).bandwidth_runtime;
        let known = self.bandwidth_runtime(group);
        self.engine.load_known(site, place, known).await;
    }

    pub(super) async fn store_bandwidth(&self, site: Site, group: GroupId) {
        let place = self.fair.group_places(group).bandwidth_runtime;
        let runtime = self.bandwidth_runtime(group);
        self.engine.store(site, place, runtime).await;
    }

    /// Starts the period timer of a quota, whose lock is held, unless it runs.
    pub(in crate::kernel) async fn start_cfs_bandwidth(&self, group: GroupId) {
        let at = {
            let mut groups = self.fair.groups.borrow_mut();
            let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth else {
                return;
            };
            if bandwidth.is_active {
                return;
            }
            bandwidth.is_active = true;
            let now = self.engine.now().0;
            let (phase, period) = (bandwidth.phase, bandwidth.period);
            // The first moment after `now` that is the phase plus whole periods.
            bandwidth.next_at = now + period - (now + period - phase) % period;
            bandwidth.expires_at = bandwidth.next_at;
            bandwidth.expires_seq += 1;
            bandwidth.next_at
        };
        let flags = self.fair.group_places(group).bandwidth_flags;
        self.engine.store(f::START_CFS_BANDWIDTH, flags, 1).await;
        self.hrtimer_start_for(Expiry::CfsPeriod(group), Cycles(at))
            .await;
    }

    /// `sched_cfs_period_timer`. Interrupts are off.
    pub(in crate::kernel) async fn sched_cfs_period_timer(&self, group: GroupId) {
        let (engine, site) = (&self.engine, f::SCHED_CFS_PERIOD_TIMER);
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        self.load_bandwidth(site, group).await;
        engine.call(site, self.costs.function);
        let (is_over, has_throttled) = self.refill(group);
        self.store_bandwidth(site, group).await;
        engine.store(site, places.bandwidth_flags, 1).await;
        if has_throttled {
            // Locks of run queues are taken before that of the quota, so that this one is given up.
            while self.has_to_distribute(group) {
                self.spin_unlock(places.bandwidth_lock).await;
                self.distribute_cfs_runtime(group, false).await;
                self.spin_lock(places.bandwidth_lock).await;
            }
        }
        let next = if is_over {
            None
        } else {
            self.next_period(group)
        };
        self.spin_unlock(places.bandwidth_lock).await;
        if let Some(at) = next {
            self.hrtimer_start_for(Expiry::CfsPeriod(group), at).await;
        }
    }

    /// A new period; whether the timer may stop, and whether a queue is throttled.
    fn refill(&self, group: GroupId) -> (bool, bool) {
        let now = self.engine.now().0;
        let mut groups = self.fair.groups.borrow_mut();
        let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth else {
            return (true, false);
        };
        bandwidth.refill();
        bandwidth.due_at = bandwidth.next_at;
        bandwidth.expires_at = now + bandwidth.period;
        bandwidth.expires_seq += 1;
        bandwidth.counts.nr_periods += 1;
        let has_throttled = !bandwidth.throttled.is_empty();
        if bandwidth.is_idle && !has_throttled {
            bandwidth.is_active = false;
            return (true, false);
        }
        bandwidth.counts.nr_throttled += u64::from(has_throttled);
        bandwidth.is_idle = !has_throttled;
        (false, has_throttled)
    }

    fn has_to_distribute(&self, group: GroupId) -> bool {
        let groups = self.fair.groups.borrow();
        let bandwidth = groups.groups[group.index()].bandwidth.as_ref();
        // Queues that their own CPU is about to unthrottle are served.
        let waits = |cfs: &CfsId| !groups.tree.q(*cfs).runtime.is_csd_queued;
        bandwidth
            .is_some_and(|bandwidth| bandwidth.runtime > 0 && bandwidth.throttled.iter().any(waits))
    }

    fn next_period(&self, group: GroupId) -> Option<Cycles> {
        let now = self.engine.now().0;
        let mut groups = self.fair.groups.borrow_mut();
        let bandwidth = groups.groups[group.index()].bandwidth.as_mut()?;
        while bandwidth.next_at <= now {
            bandwidth.next_at += bandwidth.period;
        }
        Some(Cycles(bandwidth.next_at))
    }

    /// Gives each throttled queue what it lacks and lets it run. Interrupts are off.
    async fn distribute_cfs_runtime(&self, group: GroupId, is_slack: bool) {
        let engine = &self.engine;
        let mut call = DistributeCall {
            cpu: engine.cpu(),
            begin: engine.now(),
            is_slack,
            ..DistributeCall::default()
        };
        let throttled = {
            let groups = self.fair.groups.borrow();
            let bandwidth = groups.groups[group.index()].bandwidth.as_ref();
            bandwidth.map(|bandwidth| bandwidth.throttled.clone())
        };
        let mut own = Vec::new();
        for cfs in throttled.unwrap_or_default() {
            if !self.distribute_to(group, cfs, &mut call, &mut own).await {
                break;
            }
        }
        for cfs in own {
            let rq = self.rq(self.cpu_of(cfs));
            self.rq_lock(rq).await;
            self.fair.set_csd_queued(cfs, false);
            if self.fair.groups.borrow().tree.q(cfs).runtime.is_throttled {
                call.add(self.unthrottle_cfs_rq(rq, cfs).await);
            }
            self.rq_unlock(rq).await;
        }
        call.end = engine.now();
        self.fair.calls.borrow_mut().push(call);
    }

    /// One queue; false when nothing is left for the next.
    async fn distribute_to(
        &self,
        group: GroupId,
        cfs: CfsId,
        call: &mut DistributeCall,
        own: &mut Vec<CfsId>,
    ) -> bool {
        let (engine, site) = (&self.engine, f::DISTRIBUTE_CFS_RUNTIME);
        let rq = self.rq(self.cpu_of(cfs));
        let list = self.cfs_member(cfs, CfsMember::ThrottledList);
        engine.touch(site, list).await;
        call.lock_wait += self.rq_lock(rq).await;
        call.rqs += 1;
        let lack = {
            let groups = self.fair.groups.borrow();
            let runtime = &groups.tree.q(cfs).runtime;
            (runtime.is_throttled && !runtime.is_csd_queued).then(|| 1 - runtime.remaining)
        };
        let Some(lack) = lack else {
            self.rq_unlock(rq).await;
            return true;
        };
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        self.load_bandwidth(site, group).await;
        let (left, remaining) = {
            let mut groups = self.fair.groups.borrow_mut();
            let bandwidth = groups.groups[group.index()].bandwidth.as_mut();
            let bandwidth = bandwidth.expect("only quotas are distributed");
            let amount = bandwidth.take(lack.max(0) as u64);
            let left = bandwidth.runtime;
            let (due_at, expires_at) = (bandwidth.due_at, bandwidth.expires_at);
            let runtime = &mut groups.tree.q_mut(cfs).runtime;
            runtime.remaining += amount as i64;
            runtime.expires_at = expires_at;
            (runtime.due_at, runtime.asked_at) = (due_at, None);
            (left, runtime.remaining)
        };
        self.store_bandwidth(site, group).await;
        self.spin_unlock(places.bandwidth_lock).await;
        let place = self.cfs_member(cfs, CfsMember::RuntimeRemaining);
        engine.dirty(site, place).await;
        if remaining > 0 {
            if !self.fair.throttling.is_async() {
                call.add(self.unthrottle_cfs_rq(rq, cfs).await);
            } else if rq.cpu == engine.cpu() {
                self.fair.set_csd_queued(cfs, true);
                own.push(cfs);
            } else {
                let sent_ipi = self.unthrottle_cfs_rq_async(rq.cpu, cfs).await;
                call.ipis += u64::from(sent_ipi);
            }
        }
        self.rq_unlock(rq).await;
        left > 0
    }

    /// Asks the CPU of a queue to let it run; returns whether that took an interrupt.
    async fn unthrottle_cfs_rq_async(&self, cpu: CpuId, cfs: CfsId) -> bool {
        let site = f::DISTRIBUTE_CFS_RUNTIME;
        self.fair.set_csd_queued(cfs, true);
        self.fair.note_asked(cfs, self.engine.now().0);
        let is_first = {
            let mut lists = self.fair.csd_lists.borrow_mut();
            lists[cpu.index()].push(cfs);
            lists[cpu.index()].len() == 1
        };
        let list = self.cfs_member(cfs, CfsMember::ThrottledCsdList);
        self.engine.dirty(site, list).await;
        is_first && self.queue_call(cpu, Call::Unthrottle, site).await
    }

    /// This CPU was asked to let its queues run: `__cfsb_csd_unthrottle`. Interrupts are off.
    pub(in crate::kernel) async fn cfsb_csd_unthrottle(&self, cpu: CpuId) {
        let engine = &self.engine;
        let mut call = DistributeCall {
            cpu,
            begin: engine.now(),
            rqs: 1,
            ..DistributeCall::default()
        };
        let rq = self.rq(cpu);
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        let list = std::mem::take(&mut self.fair.csd_lists.borrow_mut()[cpu.index()]);
        for cfs in list {
            self.fair.set_csd_queued(cfs, false);
            let place = self.cfs_member(cfs, CfsMember::ThrottledCsdList);
            engine.dirty(f::CFSB_CSD_UNTHROTTLE, place).await;
            if self.fair.groups.borrow().tree.q(cfs).runtime.is_throttled {
                call.add(self.unthrottle_cfs_rq(rq, cfs).await);
            }
        }
        self.rq_unlock(rq).await;
        call.end = engine.now();
        self.fair.csd_calls.borrow_mut().push(call);
    }

    /// Something came back from idle CPUs: gives it out soon, unless a new period is near. The
    /// quota's lock is held.
    pub(in crate::kernel) async fn start_cfs_slack_bandwidth(&self, group: GroupId) {
        let now = self.engine.now().0;
        let times = self.fair.times;
        let at = {
            let mut groups = self.fair.groups.borrow_mut();
            let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth else {
                return;
            };
            let is_near = bandwidth.next_at < now + times.slack_delay + times.slack_least;
            if bandwidth.is_slack_started || is_near {
                return;
            }
            bandwidth.is_slack_started = true;
            bandwidth.slack_at = now + times.slack_delay;
            bandwidth.slack_at
        };
        self.hrtimer_start_for(Expiry::CfsSlack(group), Cycles(at))
            .await;
    }

    /// `do_sched_cfs_slack_timer`. Interrupts are off.
    pub(in crate::kernel) async fn sched_cfs_slack_timer(&self, group: GroupId) {
        let (engine, site) = (&self.engine, f::SCHED_CFS_SLACK_TIMER);
        let times = self.fair.times;
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        self.load_bandwidth(site, group).await;
        let now = engine.now().0;
        let is_worth_it = {
            let mut groups = self.fair.groups.borrow_mut();
            let bandwidth = groups.groups[group.index()].bandwidth.as_mut();
            bandwidth.is_some_and(|bandwidth| {
                bandwidth.is_slack_started = false;
                bandwidth.due_at = bandwidth.slack_at;
                let is_near = bandwidth.next_at < now + times.slack_least;
                !is_near && bandwidth.runtime > times.slice
            })
        };
        self.spin_unlock(places.bandwidth_lock).await;
        if is_worth_it {
            self.distribute_cfs_runtime(group, true).await;
        }
    }

    /// The CPU of a queue.
    fn cpu_of(&self, cfs: CfsId) -> CpuId {
        CpuId((cfs.index() % self.cpu_count()) as u16)
    }
}
