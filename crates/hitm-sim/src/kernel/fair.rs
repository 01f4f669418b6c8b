//! The fair class, as far as real-time balancing needs something to preempt and to balance:
//! kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** EEVDF with groups, bandwidth and load balancing by domains.
//!
//! **What we do:** one queue a CPU ordered by virtual run time, a slice, wake-up on an idle CPU near
//! the old one, and newly idle CPUs that take a task from a near CPU, after they have looked at
//! `root_domain.overloaded` as Linux does.
//!
//! **What a test could notice:** weights are ignored; fairness between CPUs comes from newly idle
//! CPUs alone. This file is the boundary: the class is what core.rs calls here, and [`CfsRq`] is
//! its state in a run queue.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::Kernel;
use super::functions as f;
use super::rq::Rq;
use super::rt::Balancing;
use super::task::{Task, TaskId};

/// Time that a task may run on while others wait: `sysctl_sched_base_slice` on 8 and more CPUs.
const SLICE: Nanos = Nanos(3_000_000.0);
/// Cost of looking at one CPU's load beside its accesses, to judge whether newly idle balancing
/// fits into the expected idle time. Assumed 50 ns (20 to 150): decides how often a newly idle CPU
/// looks at others.
const SCAN_COST: Nanos = Nanos(50.0);

/// `struct cfs_rq`: what the lock holder alone reads.
#[derive(Debug, Default)]
pub(super) struct CfsRq {
    /// Waiting tasks by virtual run time.
    queue: Vec<(u64, TaskId)>,
    min_vruntime: u64,
    /// The running task, when it is of the class.
    curr: Option<TaskId>,
    /// When it got the CPU.
    picked_at: Cycles,
}

impl CfsRq {
    fn push(&mut self, vruntime: u64, task: TaskId) {
        let at = self
            .queue
            .partition_point(|entry| *entry <= (vruntime, task));
        self.queue.insert(at, (vruntime, task));
    }

    fn remove(&mut self, task: TaskId) {
        self.queue.retain(|(_, id)| *id != task);
    }

    fn nr_queued(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.curr.is_some())
    }
}

impl Kernel {
    pub(super) async fn enqueue_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_FAIR);
        engine.work(site, self.costs.function);
        let count = {
            let mut inner = rq.inner.borrow_mut();
            let slept_long = inner.cfs.min_vruntime.saturating_sub(self.cycles(SLICE).0);
            p.vruntime.set(p.vruntime.get().max(slept_long));
            inner.cfs.push(p.vruntime.get(), p.id);
            inner.cfs.nr_queued()
        };
        engine.load(site, rq.p.cfs_timeline).await;
        engine.store(site, p.p.run_node, 1).await;
        engine.store(site, rq.p.cfs_timeline, 1).await;
        engine.store(site, rq.p.cfs_nr_queued, count).await;
        self.add_nr_running(site, rq, 1).await;
    }

    pub(super) async fn dequeue_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_FAIR);
        engine.work(site, self.costs.function);
        self.update_curr_fair(rq);
        let count = {
            let mut inner = rq.inner.borrow_mut();
            inner.cfs.remove(p.id);
            if inner.cfs.curr == Some(p.id) {
                inner.cfs.curr = None;
            }
            inner.cfs.nr_queued()
        };
        engine.load(site, p.p.run_node).await;
        engine.store(site, rq.p.cfs_timeline, 1).await;
        engine.store(site, rq.p.cfs_nr_queued, count).await;
        self.sub_nr_running(site, rq, 1).await;
    }

    /// The task to run: the one that has run least, the running one included.
    pub(super) async fn pick_task_fair(&self, rq: &Rq) -> Option<Rc<Task>> {
        let (engine, site) = (&self.engine, f::PICK_NEXT_TASK_FAIR);
        engine.load(site, rq.p.cfs_nr_queued).await;
        self.update_curr_fair(rq);
        let inner = rq.inner.borrow();
        let curr = inner.cfs.curr.map(|id| (self.task(id).vruntime.get(), id));
        let first = inner.cfs.queue.first().copied();
        let best = curr.into_iter().chain(first).min();
        best.map(|(_, id)| self.task(id))
    }

    pub(super) async fn set_next_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PICK_NEXT_TASK_FAIR);
        engine.load(site, rq.p.cfs_timeline).await;
        engine.store(site, rq.p.cfs_curr, u64::from(p.id.0)).await;
        engine.store(site, p.p.exec_start, engine.now().0).await;
        let mut inner = rq.inner.borrow_mut();
        inner.cfs.remove(p.id);
        inner.cfs.curr = Some(p.id);
        inner.cfs.picked_at = engine.now();
        p.exec_start.set(engine.now());
    }

    pub(super) async fn put_prev_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PICK_NEXT_TASK_FAIR);
        self.update_curr_fair(rq);
        {
            let mut inner = rq.inner.borrow_mut();
            inner.cfs.curr = None;
            if p.on_rq.get() {
                inner.cfs.push(p.vruntime.get(), p.id);
            }
        }
        engine.store(site, rq.p.cfs_curr, 0).await;
    }

    fn update_curr_fair(&self, rq: &Rq) {
        let Some(curr) = rq.inner.borrow().cfs.curr else {
            return;
        };
        let curr = self.task(curr);
        let now = self.engine.now();
        let span = now.saturating_sub(curr.exec_start.get());
        curr.exec_start.set(now);
        curr.count(|totals| totals.run_time += span);
        curr.vruntime.set(curr.vruntime.get() + span.0);
        let mut inner = rq.inner.borrow_mut();
        inner.cfs.min_vruntime = inner.cfs.min_vruntime.max(curr.vruntime.get());
    }

    pub(super) async fn task_tick_fair(&self, rq: &Rq, p: &Task) {
        let site = f::TASK_TICK_FAIR;
        self.engine.store(site, p.p.exec_start, 0).await;
        self.update_curr_fair(rq);
        let over = {
            let inner = rq.inner.borrow();
            let ran = self.engine.now().saturating_sub(inner.cfs.picked_at);
            !inner.cfs.queue.is_empty() && ran >= self.cycles(SLICE)
        };
        if over {
            self.resched_curr(rq).await;
        }
    }

    pub(super) async fn wakeup_preempt_fair(&self, rq: &Rq, p: &Task, curr: &Task) {
        self.engine
            .work(f::WAKEUP_PREEMPT_FAIR, self.costs.function);
        self.update_curr_fair(rq);
        if curr.is_idle || p.vruntime.get() < curr.vruntime.get() {
            self.resched_curr(rq).await;
        }
    }

    pub(super) async fn select_task_rq_fair(&self, p: &Task, cpu: CpuId) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_FAIR);
        engine.work(site, self.costs.function);
        if engine.load(site, self.rq(cpu).p.nr_running).await == 0 {
            return cpu;
        }
        let topology = &engine.machine().topology;
        let near = |other: &CpuId| topology.llc_of(*other) == topology.llc_of(cpu);
        let allowed = Rc::clone(&p.allowed.borrow());
        // `nr_idle_scan` bounds the search on large domains.
        for other in allowed.iter().filter(near).take(8) {
            if engine.load(site, self.rq(other).p.nr_running).await == 0 {
                return other;
            }
        }
        cpu
    }

    /// The CPU has nothing to run: takes a task from another. True when there may be one now.
    pub(super) async fn sched_balance_newidle(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_NEWIDLE);
        engine.work(site, self.costs.function);
        if self.config.balancing == Balancing::Passive {
            let found = self.load_balance_rt(rq).await || self.pull_fair(rq).await;
            // Others may have put something here while the lock was dropped.
            return found || rq.inner.borrow().nr_running > 0;
        }
        engine.load(site, rq.p.rd).await;
        let overloaded = self.root_domains[rq.root_domain].overloaded;
        if engine.load(site, overloaded).await == 0 {
            return false;
        }
        engine.load(site, rq.p.avg_idle).await;
        let near_count = rq.llc.get().map_or(0, |(cpus, _)| cpus.len());
        let cost = Cycles(self.cycles(SCAN_COST).0 * near_count as u64);
        if rq.avg_idle.get() < cost {
            return false;
        }
        self.pull_fair(rq).await
    }

    /// Before the run: which CPUs a newly idle one looks at.
    pub(super) fn note_llc_domain(&self, rq: &Rq) {
        let topology = &self.engine.machine().topology;
        let is_within = |domain: &&Rc<super::cpumask::CpuMask>| {
            let mut cpus = domain.iter();
            cpus.all(|cpu| topology.llc_of(cpu) == topology.llc_of(rq.cpu))
        };
        let domain = rq.domains.iter().rev().find(is_within);
        let cpus = domain.into_iter().flat_map(|domain| domain.iter());
        let cpus: Vec<CpuId> = cpus.filter(|cpu| *cpu != rq.cpu).collect();
        let places = cpus.iter().map(|cpu| self.rq(*cpu).p.cfs_nr_queued);
        let places = places.collect();
        // Set once, when the kernel is made.
        let _ = rq.llc.set((cpus, places));
    }

    async fn pull_fair(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_RQ);
        let Some((cpus, places)) = rq.llc.get() else {
            return false;
        };
        let mut busiest = (1, None);
        engine
            .load_all(site, places, |index, count| {
                if count > busiest.0 {
                    busiest = (count, Some(cpus[index]));
                }
            })
            .await;
        let Some(cpu) = busiest.1 else {
            return false;
        };
        let source = self.rq(cpu);
        self.double_lock_balance(rq, source).await;
        let waiting: Vec<TaskId> = {
            let inner = source.inner.borrow();
            inner.cfs.queue.iter().map(|(_, id)| *id).collect()
        };
        let mut movable = waiting.into_iter().map(|id| self.task(id));
        let found = movable.find(|task| task.may_run_on(rq.cpu));
        if let Some(p) = &found {
            self.deactivate_task(source, p, false).await;
            self.set_task_cpu(p, rq.cpu).await;
            self.activate_task(rq, p).await;
        }
        self.rq_unlock(source).await;
        found.is_some() || rq.inner.borrow().nr_running > 0
    }

    /// What the tick does for the load balancer.
    pub(super) async fn periodic_balance(&self, rq: &Rq) {
        let interval = self.cycles(self.config.balance_interval);
        let now = self.engine.now();
        let due = now.0 / interval.0 > now.saturating_sub(self.tick_period).0 / interval.0;
        if due && self.config.balancing == Balancing::Passive && self.load_balance_rt(rq).await {
            self.resched_curr(rq).await;
        }
    }

    /// The CPU was idle for this long: `update_avg`, an eighth of the difference.
    pub(super) async fn update_avg_idle(&self, rq: &Rq, idle: Cycles) {
        let before = rq.avg_idle.get().0;
        // Twice the cost of a migration bounds it, as in ttwu_do_activate.
        let idle = idle.0.min(self.cycles(Nanos(1_000_000.0)).0);
        let after = (before * 7 + idle) / 8;
        rq.avg_idle.set(Cycles(after));
        self.engine.store(f::DO_IDLE, rq.p.avg_idle, after).await;
    }
}
