//! CPU choice for a woken task when load is balanced by domains: `select_task_rq_fair` of
//! kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** first the waker's CPU or the task's last one, by which is idle or less
//! loaded (wake affine), unless the waker wakes many (`wake_wide`). A waker that says that it is
//! about to sleep (`WF_SYNC`) counts as gone already. Then an idle CPU under that one's last-level
//! cache: the CPU itself, the last one, the one before, and a search over the cluster and the
//! cache. The search is for whole cores while there are idle ones, bounded by how busy the cache is
//! (`SIS_UTIL`).
//!
//! **What we do:** the same.
//!
//! **What a test could notice:** NUMA faults, `SD_BALANCE_WAKE` and energy models do not exist.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use super::domains::{Level, SchedDomain};
use super::pelt::Load;
use super::places::CfsWord;
use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::core::Wake;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::task::{Policy, Task};

/// The task that a task woke last, how often that changed, and since when it is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::kernel) struct Wakees {
    last: Option<crate::kernel::TaskId>,
    flips: u64,
    decayed_at: Cycles,
}

impl Kernel {
    /// For a task that may run on `prev`, which is not a CPU that a group has to itself.
    pub(super) async fn select_by_domains(&self, p: &Task, prev: CpuId, wake: Wake) -> CpuId {
        let this = self.engine.cpu();
        let waker = self.task(self.rq(this).curr.get());
        self.record_wakee(&waker, p);
        let wants_affine = this != prev
            && !self.is_wide(&waker, p)
            && p.may_run_on(this)
            && !self.placement.is_reserved(this);
        let target = if wants_affine {
            self.wake_affine(p, this, prev, wake).await
        } else {
            prev
        };
        let found = self.select_idle_sibling(p, prev, target).await;
        p.recent_cpu.set(prev);
        found
    }

    fn record_wakee(&self, waker: &Task, p: &Task) {
        let mut wakees = waker.wakees.get();
        let now = self.engine.now();
        if now.saturating_sub(wakees.decayed_at) > self.cycles(hitm_base::Nanos(1e9)) {
            // Only wake-ups of late say whether a task wakes many.
            wakees.flips /= 2;
            wakees.decayed_at = now;
        }
        if wakees.last != Some(p.id) {
            wakees.last = Some(p.id);
            wakees.flips += 1;
        }
        waker.wakees.set(wakees);
    }

    /// Returns true if waker and woken are one of many to many: then they are not put together.
    fn is_wide(&self, waker: &Task, p: &Task) -> bool {
        let factor = self.llc_weight(self.engine.cpu());
        let (a, b) = (waker.wakees.get().flips, p.wakees.get().flips);
        let (less, more) = (a.min(b), a.max(b));
        less >= factor && more >= less * factor
    }

    fn llc_weight(&self, cpu: CpuId) -> u64 {
        self.llc_domain(cpu).map_or(1, SchedDomain::weight)
    }

    /// The largest domain within the last-level cache.
    fn llc_domain(&self, cpu: CpuId) -> Option<&SchedDomain> {
        let domains = &self.balancer_of().cpus[cpu.index()].domains;
        domains.iter().rev().find(|domain| domain.shares_llc())
    }

    fn shares_cache(&self, a: CpuId, b: CpuId) -> bool {
        let topology = &self.engine.machine().topology;
        topology.llc_of(a) == topology.llc_of(b)
    }

    async fn wake_affine(&self, p: &Task, this: CpuId, prev: CpuId, wake: Wake) -> CpuId {
        let (engine, site) = (&self.engine, f::WAKE_AFFINE);
        // An idle waker's CPU handles an interrupt. Beyond its cache it must not draw tasks:
        // devices would gather them at their own node.
        if self.shares_cache(this, prev) && self.is_idle_cpu(this, site).await {
            let is_prev_idle = self.is_idle_cpu(prev, site).await;
            return if is_prev_idle { prev } else { this };
        }
        // A waker that is alone there and about to sleep makes room.
        if wake == Wake::Sync && engine.load(site, self.rq(this).p.nr_running).await == 1 {
            return this;
        }
        if self.is_idle_cpu(prev, site).await {
            return prev;
        }
        if self.is_less_loaded(p, this, prev, wake).await {
            this
        } else {
            prev
        }
    }

    /// `wake_affine_weight`: returns true if the waker's CPU with the task has less to do than its last one, by
    /// what both have told.
    async fn is_less_loaded(&self, p: &Task, this: CpuId, prev: CpuId, wake: Wake) -> bool {
        let told = |cpu: CpuId| self.rq(cpu).p.cfs[CfsWord::Avg as usize];
        let here = self.engine.load(f::WAKE_AFFINE, told(this)).await;
        let there = self.engine.load(f::WAKE_AFFINE, told(prev)).await;
        let (mut here, there) = (Load::from_word(here).load, Load::from_word(there).load);
        let (task, is_sync) = (self.task_h_load(p), wake == Wake::Sync);
        if is_sync {
            let waker = self.task_h_load(&self.task(self.rq(this).curr.get()));
            if waker > here {
                return true;
            }
            here -= waker;
        }
        let domains = &self.balancer_of().cpus[this.index()].domains;
        let common = domains.iter().find(|domain| domain.span.contains(prev));
        let pct = common.map_or(117, SchedDomain::imbalance_pct);
        // The waker's CPU may be busier by half of the imbalance that the domain lets be.
        let there = there.saturating_sub(task) * (100 + (pct - 100) / 2);
        (here + task) * 100 < there + u64::from(is_sync)
    }

    /// An idle CPU near `target`, else that itself.
    async fn select_idle_sibling(&self, p: &Task, prev: CpuId, target: CpuId) -> CpuId {
        let site = f::SELECT_IDLE_SIBLING;
        self.engine.call(site, self.costs.function);
        if self.takes_at_once(target, site).await {
            return target;
        }
        // In a cache with clusters, one of another cluster is kept for the case that there is none
        // in the own.
        let mut kept = None;
        for near in [prev, p.recent_cpu.get()] {
            let is_usable = near != target
                && self.shares_cache(near, target)
                && p.may_run_on(near)
                && !self.placement.is_reserved(near);
            if is_usable && self.takes_at_once(near, site).await {
                if self.shares_cluster(near, target) {
                    return near;
                }
                kept = kept.or(Some(near));
            }
        }
        let Some(domain) = self.llc_domain(target) else {
            return kept.unwrap_or(target);
        };
        let found = self.select_idle_cpu(p, domain, prev, target).await;
        found.or(kept).unwrap_or(target)
    }

    /// Returns true if two CPUs are of one cluster, or there are none.
    fn shares_cluster(&self, a: CpuId, b: CpuId) -> bool {
        let domains = &self.balancer_of().cpus[a.index()].domains;
        let mut clusters = domains
            .iter()
            .filter(|domain| domain.level == Level::Cluster);
        clusters
            .next()
            .is_none_or(|cluster| cluster.span.contains(b))
    }

    async fn select_idle_cpu(
        &self,
        p: &Task,
        domain: &SchedDomain,
        prev: CpuId,
        target: CpuId,
    ) -> Option<CpuId> {
        let (engine, site) = (&self.engine, f::SELECT_IDLE_SIBLING);
        let shared = self.llc_shared(target);
        let has_threads = self.has_threads(target);
        let seeks_core = has_threads && engine.load(site, shared.has_idle_cores).await != 0;
        // With no core wholly idle, a thread beside the last CPU has the task's data in its caches.
        if has_threads && !seeks_core && self.shares_cache(prev, target) {
            for thread in self.threads_of(prev) {
                if thread != target
                    && self.is_open(p, thread)
                    && self.takes_at_once(thread, site).await
                {
                    return Some(thread);
                }
            }
        }
        let mut left = u64::MAX;
        if !seeks_core {
            left = engine.load(site, shared.nr_idle_scan).await;
        }
        let mut one = None;
        let mut seen = CpuMask::empty(self.cpu_count());
        for cpu in self.search_order(domain, target) {
            if left == 0 {
                return one;
            }
            left -= 1;
            if !self.is_open(p, cpu) || seen.contains(cpu) {
                continue;
            }
            let is_idle = self.is_idle_cpu(cpu, site).await;
            if !is_idle && !self.has_idle_policy_alone(cpu, site).await {
                continue;
            }
            if !seeks_core {
                return Some(cpu);
            }
            one = one.or(Some(cpu));
            self.threads_of(cpu).for_each(|thread| seen.set(thread));
            if is_idle && self.are_others_idle(cpu, site).await {
                return Some(cpu);
            }
        }
        if seeks_core {
            // The next search need not look for a whole core.
            engine.store(site, shared.has_idle_cores, 0).await;
        }
        one
    }

    /// Returns true if a woken task runs on a CPU at once: it is idle, or has nothing but tasks of `SCHED_IDLE`.
    async fn takes_at_once(&self, cpu: CpuId, site: Site) -> bool {
        self.is_idle_cpu(cpu, site).await || self.has_idle_policy_alone(cpu, site).await
    }

    /// `sched_idle_cpu`: looked at only where there are tasks of `SCHED_IDLE`.
    async fn has_idle_policy_alone(&self, cpu: CpuId, site: Site) -> bool {
        if !self.fair.has_idle_policy.get() {
            return false;
        }
        let places = &self.rq(cpu).p;
        // `h_nr_idle` lies on the line of `h_nr_queued`.
        let places = [places.nr_running, places.cfs[CfsWord::NrQueued as usize]];
        let mut nr_running = 0;
        let take = |index, value| {
            if index == 0 {
                nr_running = value;
            }
        };
        self.engine.load_all(site, &places, take).await;
        let queued = &self.fair.cpu_tasks.borrow()[cpu.index()];
        let idles = queued
            .iter()
            .filter(|id| self.task(**id).policy.get() == Policy::Idle);
        let idles = idles.count() as u64;
        idles > 0 && idles == nr_running
    }

    /// The CPUs of a cache behind `target`, those of its cluster first.
    fn search_order(&self, domain: &SchedDomain, target: CpuId) -> Vec<CpuId> {
        let cpus: Vec<CpuId> = domain.span.iter().filter(|cpu| *cpu != target).collect();
        let from = cpus.iter().position(|cpu| *cpu > target).unwrap_or(0);
        let (before, behind) = cpus.split_at(from);
        let order = behind.iter().chain(before).copied();
        let (near, far): (Vec<CpuId>, Vec<CpuId>) =
            order.partition(|cpu| self.shares_cluster(target, *cpu));
        near.into_iter().chain(far).collect()
    }

    fn is_open(&self, p: &Task, cpu: CpuId) -> bool {
        p.may_run_on(cpu) && !self.placement.is_reserved(cpu)
    }

    fn has_threads(&self, cpu: CpuId) -> bool {
        self.threads_of(cpu).count() > 0
    }

    /// The other threads of a CPU's core, in its root domain.
    fn threads_of(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let first = self.rq(cpu).domains.first().map(Rc::clone);
        let is_core = self.balancer_of().cpus[cpu.index()]
            .domains
            .first()
            .is_some_and(|domain| domain.level == Level::Smt);
        let threads = first.filter(|_| is_core);
        let threads: Vec<CpuId> = threads.map_or_else(Vec::new, |span| span.iter().collect());
        threads.into_iter().filter(move |other| *other != cpu)
    }

    async fn are_others_idle(&self, cpu: CpuId, site: Site) -> bool {
        for other in self.threads_of(cpu) {
            if !self.is_idle_cpu(other, site).await {
                return false;
            }
        }
        true
    }

    /// A CPU becomes idle: its cache has an idle core if the other threads are idle, too.
    pub(in crate::kernel) async fn update_idle_core(&self, cpu: CpuId) {
        if self.balancer.is_none() || !self.has_threads(cpu) {
            return;
        }
        let (engine, site) = (&self.engine, f::UPDATE_IDLE_CORE);
        let place = self.llc_shared(cpu).has_idle_cores;
        if engine.load(site, place).await == 0 && self.are_others_idle(cpu, site).await {
            engine.store(site, place, 1).await;
        }
    }
}
