//! One attempt to balance a domain: kernel/sched/fair.c (`sched_balance_rq`), v6.12.
//!
//! **What Linux does:** for a CPU it looks at the loads of all CPUs of a domain. It finds the group
//! with most to give and in it the busiest run queue, and moves as many tasks as make it even.
//! Tasks that run cannot move; when attempts fail for that, the busiest CPU is asked to give the
//! running one away.
//!
//! **What we do:** the same kinds of groups, thresholds and limits. [`super::group_stats`] has the
//! arithmetic without accesses.
//!
//! **What a test could notice:** both run queues are locked while tasks move, where Linux holds one
//! after the other. Capacities do not change, so there are no misfits and no asymmetric packing.
//! NUMA faults are unknown.

use hitm_base::{CpuId, Cycles};

use super::domains::SchedDomain;
use super::group_stats::{Busiest, CpuStats, GroupStats, Migrate, find_busiest};
use super::pelt::{Load, SCALE};
use super::places::CfsWord;
use crate::engine::Place;
use crate::kernel::Kernel;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::task::{Policy, Task, TaskId};

/// Tasks that one attempt looks at, at most: `sysctl_sched_nr_migrate`.
const TASKS_AT_ONCE: usize = 32;

/// State of the CPU that an attempt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleType {
    /// A CPU that runs something.
    Busy,
    /// A CPU that has been idle.
    Idle,
    /// A CPU that is about to become idle.
    NewlyIdle,
}

/// An attempt to balance: the domain, and the state of the CPU that it is for.
#[derive(Debug, Clone, Copy)]
struct Attempt<'a> {
    domain: &'a SchedDomain,
    idle: IdleType,
}

/// Result of taking tasks from a run queue.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    moved: u64,
    /// Rest of the imbalance.
    left: u64,
    /// CPU that a task could go to which may not run here.
    neighbour: Option<CpuId>,
    /// Some may not run on the CPU; all of them.
    is_some_pinned: bool,
    is_all_pinned: bool,
}

impl Kernel {
    /// Balances one domain of a CPU, no lock held; returns how many tasks it got.
    pub(super) async fn sched_balance_rq(&self, rq: &Rq, number: usize, idle: IdleType) -> u64 {
        let domains = &self.balancer_of().cpus[rq.cpu.index()].domains;
        let domain = &domains[number];
        if !self.should_we_balance(rq, domain, idle).await {
            return 0;
        }
        let attempt = Attempt { domain, idle };
        let above = domains.get(number + 1);
        let mut excluded = CpuMask::empty(self.cpu_count());
        loop {
            let Some(busiest) = self.find_busiest_rq(rq, attempt, &excluded).await else {
                self.note_balanced(domain, above, idle);
                return 0;
            };
            let mut taken = Taken::default();
            if busiest.nr_running > 1 {
                taken = self.take_tasks(rq, attempt, &busiest).await;
                let above = above.map(|above| &above.groups[above.local]);
                if let (Some(group), true) = (above, taken.is_some_pinned && taken.moved == 0) {
                    group.is_imbalanced.set(true);
                }
                // When no task there may move, the next busiest run queue may have one.
                if taken.is_all_pinned {
                    excluded.set(busiest.cpu);
                    continue;
                }
            }
            if taken.moved > 0 {
                domain.failed.set(0);
                domain.interval_ms.set(domain.weight());
                return taken.moved;
            }
            if idle != IdleType::NewlyIdle {
                domain.failed.set(domain.failed.get() + 1);
                self.push_running(rq, number, &busiest).await;
            }
            return 0;
        }
    }

    /// Takes tasks for the CPU, and for its neighbours those that may not run on it.
    async fn take_tasks(&self, rq: &Rq, attempt: Attempt<'_>, busiest: &Busiest) -> Taken {
        let mut all = Taken::default();
        let mut tried = CpuMask::empty(self.cpu_count());
        let (mut target, mut left) = (rq, busiest.imbalance);
        loop {
            tried.set(target.cpu);
            let wanted = Busiest {
                imbalance: left,
                ..*busiest
            };
            let taken = self.take_for(target, attempt, &wanted, &tried).await;
            left = taken.left;
            all = Taken {
                moved: all.moved + taken.moved,
                is_some_pinned: all.is_some_pinned || taken.is_some_pinned,
                ..taken
            };
            match taken.neighbour {
                Some(cpu) if left > 0 => target = self.rq(cpu),
                _ => {
                    all.is_all_pinned &= all.moved == 0;
                    return all;
                }
            }
        }
    }

    /// Nothing to do: the next look may come later.
    fn note_balanced(&self, domain: &SchedDomain, above: Option<&SchedDomain>, idle: IdleType) {
        if let Some(above) = above {
            above.groups[above.local].is_imbalanced.set(false);
        }
        if idle == IdleType::NewlyIdle {
            return;
        }
        domain.failed.set(0);
        if domain.interval_ms.get() < 2 * domain.weight() {
            domain.interval_ms.set(domain.interval_ms.get() * 2);
        }
    }

    /// One CPU of a group balances for it: the first that is idle, preferably with its whole core,
    /// else the first.
    async fn should_we_balance(&self, rq: &Rq, domain: &SchedDomain, idle: IdleType) -> bool {
        if idle == IdleType::NewlyIdle {
            return true;
        }
        let group = &domain.groups[domain.local];
        let topology = &self.engine.machine().topology;
        let mut first_thread = None;
        let mut busy_core = None;
        for cpu in &group.cpus {
            let core = topology.core_of(*cpu);
            if busy_core == Some(core) || !self.is_idle_cpu(*cpu, f::SCHED_BALANCE_RQ).await {
                continue;
            }
            if domain.groups.len() > 1 && group.cores < group.cpus.len() as u64 {
                let others = group.cpus.iter().filter(|other| *other != cpu);
                let mut is_core_idle = true;
                for other in others.filter(|other| topology.core_of(**other) == core) {
                    is_core_idle &= self.is_idle_cpu(*other, f::SCHED_BALANCE_RQ).await;
                }
                if !is_core_idle {
                    first_thread = first_thread.or(Some(*cpu));
                    busy_core = Some(core);
                    continue;
                }
            }
            return *cpu == rq.cpu;
        }
        first_thread.or(group.cpus.first().copied()) == Some(rq.cpu)
    }

    /// The group and the run queue with most to give: `sched_balance_find_src_group` and `_rq`.
    async fn find_busiest_rq(
        &self,
        rq: &Rq,
        attempt: Attempt<'_>,
        excluded: &CpuMask,
    ) -> Option<Busiest> {
        let Attempt { domain, idle } = attempt;
        let stats = self.domain_stats(rq, domain).await;
        let groups: Vec<GroupStats> = domain
            .groups
            .iter()
            .zip(&stats)
            .map(|(group, cpus)| GroupStats::of(group, cpus, domain.imbalance_pct()))
            .collect();
        self.note_domain(rq, attempt, &groups).await;
        let found = find_busiest(domain, &groups, idle != IdleType::Busy)?;
        let cpus = stats[found.group].iter();
        let open = cpus.filter(|cpu| !excluded.contains(cpu.cpu));
        found.busiest_rq(open)
    }

    /// Reads what `update_sg_lb_stats` reads of each CPU, independent loads without a lock: what is still in
    /// another CPU's store buffer is not seen.
    pub(super) async fn domain_stats(&self, rq: &Rq, domain: &SchedDomain) -> Vec<Vec<CpuStats>> {
        let (engine, site) = (&self.engine, f::UPDATE_SD_LB_STATS);
        let mut all = Vec::new();
        for group in domain.groups.iter() {
            let may = |cpu: &&CpuId| self.placement.may_balance(rq.cpu, **cpu);
            let cpus: Vec<CpuId> = group.cpus.iter().filter(may).copied().collect();
            let places: Vec<Place> = cpus.iter().flat_map(|cpu| self.stat_places(*cpu)).collect();
            let mut words = vec![0; places.len()];
            engine
                .load_all(site, &places, |index, value| words[index] = value)
                .await;
            engine.work(site, Cycles(self.costs.function.0 * cpus.len() as u64 / 4));
            let seen = cpus.iter().zip(words.as_chunks().0);
            let stats = seen.map(|(cpu, [averages, h_nr, nr_running, curr])| CpuStats {
                cpu: *cpu,
                load: Load::from_word(*averages),
                h_nr: *h_nr,
                nr_running: *nr_running,
                is_idle: *nr_running == 0 && self.is_idle_task(*cpu, *curr),
            });
            all.push(stats.collect());
        }
        all
    }

    /// Returns true if `curr`, as it was read of a run queue, is the CPU's idle task.
    fn is_idle_task(&self, cpu: CpuId, curr: u64) -> bool {
        curr == u64::from(self.rq(cpu).idle.0)
    }

    /// In the order in which [`Kernel::domain_stats`] takes them.
    fn stat_places(&self, cpu: CpuId) -> [Place; 4] {
        let places = &self.rq(cpu).p;
        let cfs = |member: CfsWord| places.cfs[member as usize];
        [
            cfs(CfsWord::Avg),
            cfs(CfsWord::NrQueued),
            places.nr_running,
            places.curr,
        ]
    }

    /// Notes what an attempt learns for others: whether some CPU has tasks waiting, and how far a
    /// search for idle CPUs should go.
    async fn note_domain(&self, rq: &Rq, attempt: Attempt<'_>, groups: &[GroupStats]) {
        let (engine, site) = (&self.engine, f::UPDATE_SD_LB_STATS);
        let Attempt { domain, idle } = attempt;
        if domain.span == *rq.domains.last().expect("a domain is one of its CPU's") {
            let overloaded = self.root_domains[rq.root_domain].overloaded;
            let is_overloaded = u64::from(groups.iter().any(|group| group.has_overloaded));
            // Written only when it changes: all CPUs read it.
            if engine.load(site, overloaded).await != is_overloaded {
                engine.store(site, overloaded, is_overloaded).await;
            }
        }
        if idle == IdleType::NewlyIdle || domain.level != super::domains::Level::Llc {
            return;
        }
        let weight = domain.weight();
        let util = groups.iter().map(|group| group.load.util).sum::<u64>() / weight;
        let busy = (util * util * domain.imbalance_pct() / (100 * SCALE)).min(SCALE);
        let scan = (SCALE - busy) * weight / SCALE;
        let place = self.llc_shared(rq.cpu).nr_idle_scan;
        if engine.load(site, place).await != scan {
            engine.store(site, place, scan).await;
        }
    }

    /// `detach_tasks` and `attach_tasks`.
    async fn take_for(
        &self,
        target: &Rq,
        attempt: Attempt<'_>,
        busiest: &Busiest,
        tried: &CpuMask,
    ) -> Taken {
        let source = self.rq(busiest.cpu);
        let irqs = self.engine.set_irqs(false);
        self.double_rq_lock(target, source).await;
        self.update_rq_clock(source).await;
        let mut taken = self.move_tasks(target, attempt, busiest).await;
        if taken.is_some_pinned && attempt.idle != IdleType::NewlyIdle {
            taken.neighbour = self.neighbour_for_pinned(source, attempt.domain, tried);
        }
        self.rq_unlock(source).await;
        self.rq_unlock(target).await;
        if irqs {
            self.engine.set_irqs(true);
        }
        taken
    }

    async fn move_tasks(&self, target: &Rq, attempt: Attempt<'_>, busiest: &Busiest) -> Taken {
        let Attempt { domain, idle } = attempt;
        let source = self.rq(busiest.cpu);
        let mut taken = Taken {
            left: busiest.imbalance,
            ..Taken::default()
        };
        // The list begins with the task that came first: it has waited longest.
        let queued: Vec<TaskId> = self.fair.cpu_tasks.borrow()[source.cpu.index()].clone();
        let most = TASKS_AT_ONCE.min(queued.len());
        let mut pinned = 0;
        for id in queued.iter().take(most) {
            // The last task stays: its CPU would be idle then and take it back.
            if idle != IdleType::Busy && source.inner.borrow().nr_running <= 1 {
                break;
            }
            let p = self.task(*id);
            let exec_start = self.se_member(p.se, super::places::SeMember::ExecStart);
            self.engine.touch(f::DETACH_TASKS, exec_start).await;
            if !p.may_run_on(target.cpu) {
                pinned += 1;
                continue;
            }
            let may_move = self.placement.can_migrate(self, &p, target.cpu);
            if !may_move || !self.can_migrate(&p, source, domain) {
                continue;
            }
            let failed = domain.failed.get();
            let Some(worth) = self.worth(&p, busiest.migrate, taken.left, failed) else {
                continue;
            };
            self.move_queued_task_fair(source, target, &p).await;
            taken.moved += 1;
            taken.left = taken.left.saturating_sub(worth);
            // One task is enough for a newly idle CPU, and keeps the locks for a short time.
            if idle == IdleType::NewlyIdle || taken.left == 0 {
                break;
            }
        }
        taken.is_some_pinned = pinned > 0;
        taken.is_all_pinned = pinned == most && most > 0;
        taken
    }

    /// A CPU of the local group, not tried yet, on which a task that waits there may run.
    fn neighbour_for_pinned(
        &self,
        source: &Rq,
        domain: &SchedDomain,
        tried: &CpuMask,
    ) -> Option<CpuId> {
        let group = domain.groups[domain.local].cpus.iter();
        let mut open = group
            .filter(|cpu| !tried.contains(**cpu) && self.placement.may_balance(source.cpu, **cpu));
        let queued = &self.fair.cpu_tasks.borrow()[source.cpu.index()];
        let may = |cpu: &&CpuId| {
            let mut waiting = queued.iter().filter(|id| **id != source.curr.get());
            waiting.any(|id| self.task(*id).may_run_on(**cpu))
        };
        open.find(may).copied()
    }

    /// Part of the imbalance that a task's move takes away; `None` when it is worth too much. After
    /// failures more is allowed.
    fn worth(&self, p: &Task, migrate: Migrate, left: u64, failed: u32) -> Option<u64> {
        let worth = match migrate {
            Migrate::Task => return Some(1),
            Migrate::Load => self.task_h_load(p).max(1),
            Migrate::Util => p.averages.get().value().util,
        };
        (worth >> failed.min(63) <= left).then_some(worth)
    }

    /// Returns true if a queued task, which may run there, can go to another CPU.
    fn can_migrate(&self, p: &Task, source: &Rq, domain: &SchedDomain) -> bool {
        if p.id == source.curr.get()
            || self.is_delayed(p.se)
            || self.is_hierarchy_stopped(self.queue_of(p.se))
        {
            return false;
        }
        let since = self.engine.now().saturating_sub(p.exec_start.get());
        // Its data is likely to be in the caches of its CPU.
        let is_hot = p.policy.get() != Policy::Idle
            && domain.level > super::domains::Level::Smt
            && since < self.balancer_of().times.migration_cost;
        !is_hot || domain.failed.get() > domain.cache_nice_tries()
    }

    /// Both run queues are locked.
    pub(super) async fn move_queued_task_fair(&self, source: &Rq, rq: &Rq, p: &Task) {
        self.deactivate_task(source, p, false).await;
        self.set_task_cpu(p, rq.cpu).await;
        self.activate_task(rq, p).await;
        self.wakeup_preempt(rq, p).await;
    }

    /// Returns true if a CPU has nothing to do, as `idle_cpu` finds out.
    pub(super) async fn is_idle_cpu(&self, cpu: CpuId, site: crate::engine::Site) -> bool {
        let places = &self.rq(cpu).p;
        let places = [places.curr, places.nr_running, places.ttwu_pending];
        let mut values = [0; 3];
        self.engine
            .load_all(site, &places, |index, value| values[index] = value)
            .await;
        let [curr, nr_running, ttwu_pending] = values;
        self.is_idle_task(cpu, curr) && nr_running == 0 && ttwu_pending == 0
    }
}
