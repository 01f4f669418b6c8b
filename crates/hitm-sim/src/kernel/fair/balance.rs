//! CPU choice for woken fair tasks, and pulls by CPUs without tasks: kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** load balancing by domains, periodic and newly idle, and a search for idle
//! CPUs by cache.
//!
//! **What we do:** that, with [`super::LoadBalancing::Domains`] (wake.rs, nohz.rs). Otherwise a
//! wake-up takes an idle CPU near the old one. Newly idle CPUs take a task from a near CPU, after
//! they have looked at `root_domain.overloaded` as Linux does.
//!
//! **What a test could notice:** without domains, fairness between CPUs comes from newly idle CPUs
//! alone.

use std::collections::BTreeSet;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::places::CfsWord;
use crate::kernel::Kernel;
use crate::kernel::core::Wake;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::rq::{LlcDomain, Rq};
use crate::kernel::rt::Balancing;
use crate::kernel::task::{Task, TaskId};

impl Kernel {
    pub(in crate::kernel) async fn select_task_rq_fair(
        &self,
        p: &Task,
        cpu: CpuId,
        wake: Wake,
    ) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_FAIR);
        engine.call(site, self.costs.function);
        if let Some(cpu) = self.placement.select_task_rq(self, p, cpu).await {
            return cpu;
        }
        if self.balancer.is_some() {
            return self.select_by_domains(p, cpu, wake).await;
        }
        if engine.load(site, self.rq(cpu).p.nr_running).await == 0 {
            return cpu;
        }
        let topology = &engine.machine().topology;
        let near = |other: &CpuId| topology.llc_of(*other) == topology.llc_of(cpu);
        let allowed = Rc::clone(&p.allowed.borrow());
        // `nr_idle_scan` bounds the search on large domains.
        let is_open = |other: &CpuId| !self.placement.is_reserved(*other);
        let near = allowed.iter().filter(near).filter(is_open);
        for other in near.take(self.costs.idle_scan) {
            if engine.load(site, self.rq(other).p.nr_running).await == 0 {
                return other;
            }
        }
        cpu
    }

    /// Of the CPUs of a domain on which a task may run, that with the fewest tasks: `cpu` among equals.
    pub(in crate::kernel) async fn select_in_domain(
        &self,
        p: &Task,
        cpu: CpuId,
        domain: &CpuMask,
    ) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_FAIR);
        let mut best = (u64::MAX, cpu);
        let own = domain.contains(cpu).then_some(cpu);
        let others = domain.iter().filter(|other| *other != cpu);
        for other in own.into_iter().chain(others) {
            if !p.may_run_on(other) {
                continue;
            }
            let count = engine.load(site, self.rq(other).p.nr_running).await;
            if count < best.0 {
                best = (count, other);
            }
        }
        best.1
    }

    /// For a task on a CPU that a group has: an idle CPU outside, else that of the first few with the
    /// fewest tasks.
    pub(in crate::kernel) async fn select_outside(&self, p: &Task, cpu: CpuId) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_FAIR);
        let topology = &engine.machine().topology;
        let allowed = Rc::clone(&p.allowed.borrow());
        let mut open: Vec<CpuId> = allowed
            .iter()
            .filter(|other| !self.placement.is_reserved(*other))
            .collect();
        open.sort_by_key(|other| topology.distance(cpu, *other));
        let mut best = (u64::MAX, cpu);
        for other in open.into_iter().take(8) {
            let count = engine.load(site, self.rq(other).p.nr_running).await;
            if count < best.0 {
                best = (count, other);
            }
            if count == 0 {
                break;
            }
        }
        best.1
    }

    /// Number of fair tasks on a CPU's queue that are not of these.
    pub(in crate::kernel) fn fair_tasks_without(
        &self,
        cpu: CpuId,
        members: &BTreeSet<TaskId>,
    ) -> usize {
        let queued = &self.fair.cpu_tasks.borrow()[cpu.index()];
        queued.iter().filter(|id| !members.contains(id)).count()
    }

    /// The CPU has nothing to run: takes a task from another. True when there may be one now.
    pub(in crate::kernel) async fn sched_balance_newidle(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_NEWIDLE);
        engine.call(site, self.costs.function);
        if self.balancing.get() == Balancing::Passive {
            let found = self.load_balance_rt(rq).await || self.pull_fair(rq).await;
            // Others may have put something here while the lock was dropped.
            return found || rq.inner.borrow().nr_running > 0;
        }
        if self.balancer.is_some() {
            return self.newidle_by_domains(rq).await;
        }
        engine.touch(site, rq.p.rd).await;
        let overloaded = self.root_domains[rq.root_domain].overloaded;
        // Unless some run queue of the root domain has two tasks, there is nothing to take.
        if engine.load(site, overloaded).await == 0 {
            return false;
        }
        engine
            .load_known(site, rq.p.avg_idle, rq.avg_idle.get().0)
            .await;
        let near_count = rq
            .llc
            .get()
            .map_or(0, |(domain, _)| domain.cpus.len().saturating_sub(1));
        let cost = Cycles(self.costs.scan.0 * near_count as u64);
        // Not worth it when the search takes longer than the CPU expects to be idle.
        if rq.avg_idle.get() < cost {
            return false;
        }
        self.pull_fair(rq).await
    }

    /// Before the run: which CPUs newly idle ones look at.
    pub(in crate::kernel) fn note_llc_domains(&self) {
        let topology = &self.engine.machine().topology;
        let mut known: Vec<Rc<LlcDomain>> = Vec::new();
        for rq in &self.rqs {
            let is_within = |domain: &&Rc<CpuMask>| {
                let mut cpus = domain.iter();
                cpus.all(|cpu| topology.llc_of(cpu) == topology.llc_of(rq.cpu))
            };
            let domain = rq.domains.iter().rev().find(is_within);
            let cpus: Vec<CpuId> = domain
                .into_iter()
                .flat_map(|domain| domain.iter())
                .collect();
            let own = cpus.iter().position(|cpu| *cpu == rq.cpu).unwrap_or(0);
            let equal = known.iter().find(|domain| domain.cpus == cpus).cloned();
            let domain = equal.unwrap_or_else(|| {
                let nr_queued = |cpu: &CpuId| self.rq(*cpu).p.cfs[CfsWord::NrQueued as usize];
                let nr_queued = cpus.iter().map(nr_queued).collect();
                known.push(Rc::new(LlcDomain { cpus, nr_queued }));
                Rc::clone(&known[known.len() - 1])
            });
            // Set once, when the kernel is made.
            let _ = rq.llc.set((domain, own));
        }
    }

    async fn pull_fair(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_RQ);
        let Some((domain, own)) = rq.llc.get() else {
            return false;
        };
        let cpus = &domain.cpus;
        self.newidle_walk(rq.cpu, cpus).await;
        let mut busiest = (1, None);
        engine
            .load_others(site, &domain.nr_queued, *own, |index, count| {
                if count > busiest.0 && self.placement.may_balance(cpus[index], rq.cpu) {
                    busiest = (count, Some(cpus[index]));
                }
            })
            .await;
        let Some(cpu) = busiest.1 else {
            return false;
        };
        let source = self.rq(cpu);
        self.double_lock_balance(rq, source).await;
        let queued: Vec<TaskId> = self.fair.cpu_tasks.borrow()[cpu.index()].clone();
        let mut queued = queued.into_iter().map(|id| self.task(id));
        let is_movable = |task: &Rc<Task>| {
            task.may_run_on(rq.cpu)
                && self.placement.can_migrate(self, task, rq.cpu)
                && task.id != source.curr.get()
                && !self.is_delayed(task.se)
                && !self.is_hierarchy_stopped(self.queue_of(task.se))
        };
        let found = queued.find(is_movable);
        if let Some(p) = &found {
            self.deactivate_task(source, p, false).await;
            self.set_task_cpu(p, rq.cpu).await;
            self.activate_task(rq, p).await;
        }
        self.rq_unlock(source).await;
        found.is_some() || rq.inner.borrow().nr_running > 0
    }

    /// Does the tick's part of load balancing.
    pub(in crate::kernel) async fn periodic_balance(&self, rq: &Rq) {
        let interval = self.cycles(self.config.balance_interval);
        let now = self.engine.now();
        let due = now.0 / interval.0 > now.saturating_sub(self.tick_period).0 / interval.0;
        if due && self.balancing.get() == Balancing::Passive && self.load_balance_rt(rq).await {
            self.resched_curr(rq).await;
        }
    }

    /// The CPU was idle for this long: `update_avg`, an eighth of the difference.
    pub(in crate::kernel) async fn update_avg_idle(&self, rq: &Rq, idle: Cycles) {
        let before = rq.avg_idle.get().0;
        // Twice the cost of a migration bounds it, as in ttwu_do_activate.
        let idle = idle.0.min(self.cycles(Nanos(1_000_000.0)).0);
        let after = (before * 7 + idle) / 8;
        rq.avg_idle.set(Cycles(after));
        self.engine.store(f::DO_IDLE, rq.p.avg_idle, after).await;
    }
}
