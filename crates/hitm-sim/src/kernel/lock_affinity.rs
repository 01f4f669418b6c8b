//! Lock-aware placement: threads that fight for one lock share as few and as near CPUs as the lock can
//! keep busy.
//!
//! **What Linux does:** nothing of the kind. The idea is that of Li Qiang, "Affinity scheduling of
//! multi-threaded applications on openEuler" (KylinSec). Threads related by a lock are recognised.
//! The CPUs that they can use follow from the share `u` of its time for which a thread holds the
//! lock. Woken threads go to the smallest scheduling domain with so many CPUs, and that domain is
//! kept out of load balancing. How its patch does so is not published; what follows is ours.
//!
//! **What we do:**
//! - *Who belongs together:* writers that had to wait for the same lock.
//! - *Windows:* each window (`KernelConfig::lock_window`) the lock's last user adds up how many waited on
//!   average, between the limits `lock_crowd` and `lock_calm`.
//! - *How much of its time a thread holds the lock:* CPU time with the lock against CPU time
//!   between two uses. Both are of uses that had to wait, and without the waiting. Holding takes
//!   longer when the lock's data comes from afar. So of all uses those count whose predecessor was
//!   nearest.
//! - *How many CPUs, which, and when:* `hitm_policy` has the rule, which `hitm place` follows on a host.
//! - *Moving:* a member that is elsewhere does not spin but sleeps, and wakes up in the domain.
//! - *Keeping it apart:* other fair tasks do not wake up in the domain and nobody pulls across its
//!   border. Those that are there and do not sleep are moved out by the stopper after the CPU's next
//!   tick, where load is balanced by domains. All this unless affinity leaves them no other CPU.
//! - *The end:* when nobody comes to judge a lock and nobody waits for it, the next tick or wake-up does.
//!
//! **What a test could notice:** only exclusive waiters are looked at: writers of semaphores, and
//! mutexes.

mod group;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};
use hitm_policy::{Need, Spot, Step, cpus_of_use, may_form_group, tightest};

use self::group::Group;
use super::costs::{Costs, LockCosts};
use super::cpumask::CpuMask;
use super::functions as f;
use super::lock_stat::{LockId, Use};
use super::placement::PlacementPolicy;
use super::task::{Task, TaskId};
use super::{Kernel, KernelConfig};
use crate::engine::{Engine, Site};

/// A decision about a lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The lock that it is about.
    pub lock: LockId,
    /// Time of the decision.
    pub at: Cycles,
    /// Share of its time for which a thread holds the lock, as estimated.
    pub hold_share: f64,
    /// CPUs that the lock can keep busy.
    pub needed: usize,
    /// The CPUs chosen; `None` when the threads may run everywhere again.
    pub cpus: Option<Vec<CpuId>>,
}

/// The state of the policy.
#[derive(Debug)]
pub(super) struct LockAffinity {
    groups: RefCell<BTreeMap<LockId, Group>>,
    /// CPUs of all groups.
    reserved: RefCell<CpuMask>,
    decisions: RefCell<Vec<Decision>>,
    window: Cycles,
    costs: LockCosts,
}

impl PlacementPolicy for LockAffinity {
    fn new(engine: &Engine, config: &KernelConfig, costs: &Costs) -> LockAffinity {
        let machine = engine.machine();
        LockAffinity {
            groups: RefCell::default(),
            reserved: RefCell::new(CpuMask::empty(machine.topology.cpu_count())),
            decisions: RefCell::default(),
            window: machine.clock.cycles(config.lock_window),
            costs: costs.lock,
        }
    }

    async fn select_task_rq(&self, kernel: &Kernel, p: &Task, cpu: CpuId) -> Option<CpuId> {
        self.judge_unused(kernel, f::SELECT_TASK_RQ_FAIR);
        let domain = p.domain.borrow().clone();
        match domain {
            Some(domain) => Some(kernel.select_in_domain(p, cpu, &domain).await),
            None if self.is_reserved(cpu) => Some(kernel.select_outside(p, cpu).await),
            None => None,
        }
    }

    /// Two CPUs that are both free for everybody, or of one group.
    fn may_balance(&self, one: CpuId, other: CpuId) -> bool {
        if self.reserved.borrow().is_empty() {
            return true;
        }
        let groups = self.groups.borrow();
        let domain_of = |cpu| {
            let mut placed = groups.values().filter_map(|group| group.placed.as_ref());
            placed.position(|domain| domain.contains(cpu))
        };
        domain_of(one) == domain_of(other)
    }

    fn is_reserved(&self, cpu: CpuId) -> bool {
        self.reserved.borrow().contains(cpu)
    }

    fn is_stranger(&self, p: &Task, cpu: CpuId) -> bool {
        let domain = p.domain.borrow();
        let is_member = domain.as_ref().is_some_and(|domain| domain.contains(cpu));
        !is_member && self.is_reserved(cpu)
    }

    fn task_tick(&self, kernel: &Kernel, site: Site) {
        self.judge_unused(kernel, site);
    }

    fn may_spin(&self, p: &Task, cpu: CpuId) -> bool {
        let domain = p.domain.borrow();
        domain.as_ref().is_none_or(|domain| domain.contains(cpu))
    }

    fn lock_wanted(&self, p: &Task, lock: LockId, cpu_time: Cycles) {
        let mut groups = self.groups.borrow_mut();
        groups.entry(lock).or_default().wanted(p.id, cpu_time);
    }

    fn lock_taken(&self, p: &Task, lock: LockId, wait: Cycles, is_contended: bool) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(lock).or_default();
        if !group.taken(p.id, wait, is_contended) {
            return;
        }
        if group.placed.is_some() && p.domain.borrow().is_none() {
            *p.domain.borrow_mut() = group.placed.clone();
        }
    }

    /// At the end of a window its user judges the lock.
    fn lock_released(&self, kernel: &Kernel, p: &Task, lock: LockId, used: Use) {
        let since = {
            let mut groups = self.groups.borrow_mut();
            let group = groups.entry(lock).or_default();
            group.released(p.id, used, kernel.cpu_time(p));
            group.since
        };
        if kernel.engine.now().saturating_sub(since) >= self.window {
            self.judge(kernel, lock, f::UP_WRITE);
        }
    }

    fn lock_affinity(&self) -> Option<&LockAffinity> {
        Some(self)
    }
}

impl LockAffinity {
    fn members(&self, lock: LockId) -> Vec<TaskId> {
        let groups = self.groups.borrow();
        let group = groups.get(&lock);
        group.map_or_else(Vec::new, |group| group.members.keys().copied().collect())
    }

    /// The CPUs of all groups but that of `except`.
    fn reserved_by(&self, cpus: usize, except: Option<LockId>) -> CpuMask {
        let groups = self.groups.borrow();
        let groups = groups.iter().filter(|(lock, _)| Some(**lock) != except);
        let placed = groups.filter_map(|(_, group)| group.placed.as_ref());
        CpuMask::of(cpus, placed.flat_map(|domain| domain.iter()))
    }
    /// Judges locks with CPUs of their own that nobody comes back to. The CPU that notices does it.
    fn judge_unused(&self, kernel: &Kernel, site: Site) {
        if self.reserved.borrow().is_empty() {
            return;
        }
        let is_unused = |group: &Group| {
            let unused = kernel.engine.now().saturating_sub(group.since);
            group.placed.is_some() && group.waiting == 0 && unused >= self.window
        };
        let unused: Vec<LockId> = {
            let groups = self.groups.borrow();
            let unused = groups.iter().filter(|(_, group)| is_unused(group));
            unused.map(|(lock, _)| *lock).collect()
        };
        for lock in unused {
            self.judge(kernel, lock, site);
        }
    }

    fn judge(&self, kernel: &Kernel, lock: LockId, site: Site) {
        let now = kernel.engine.now();
        let members = self.members(lock).into_iter();
        let members: Vec<Rc<Task>> = members.map(|id| kernel.task(id)).collect();
        let quota_cpus = quota_cpus_of(kernel, &members);
        let step = {
            let mut groups = self.groups.borrow_mut();
            let group = groups.entry(lock).or_default();
            let window = now.saturating_sub(group.since);
            let step = group.judge(window, &self.costs, quota_cpus);
            group.next_window(now);
            step
        };
        if members.is_empty() {
            return;
        }
        kernel.engine.work(site, self.costs.judge);
        match step {
            Step::Stay => {}
            Step::Place(needed) => {
                let need = Need::new(needed, quota_cpus);
                self.place_group(kernel, lock, &members, need);
            }
            Step::Release => self.settle(kernel, lock, 0, None),
        }
    }

    fn place_group(&self, kernel: &Kernel, lock: LockId, members: &[Rc<Task>], need: Need) {
        let before = self.groups.borrow()[&lock].placed.clone();
        let of_others = members.iter().filter(|task| {
            let domain = task.domain.borrow();
            domain.is_some() && *domain != before
        });
        if !may_form_group(members.len(), of_others.count()) {
            return;
        }
        let reserved = self.reserved_by(kernel.cpu_count(), Some(lock));
        let domain = best_domain(kernel, members, &reserved, need);
        if domain.as_ref() != before.as_deref() {
            self.settle(kernel, lock, need.least, domain.map(Rc::new));
        }
    }

    /// Gives the group its domain, or none.
    fn settle(&self, kernel: &Kernel, lock: LockId, needed: usize, domain: Option<Rc<CpuMask>>) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(lock).or_default();
        for task in group.members.keys() {
            let task = kernel.task(*task);
            let mut of_task = task.domain.borrow_mut();
            if of_task.is_none() || *of_task == group.placed {
                of_task.clone_from(&domain);
            }
        }
        let hold_share = group.hold_share(&self.costs).unwrap_or(0.0);
        group.settle(domain.clone());
        drop(groups);
        *self.reserved.borrow_mut() = self.reserved_by(kernel.cpu_count(), None);
        self.decisions.borrow_mut().push(Decision {
            lock,
            at: kernel.engine.now(),
            hold_share,
            needed,
            cpus: domain.map(|domain| domain.iter().collect()),
        });
    }
}

fn quota_cpus_of(kernel: &Kernel, members: &[Rc<Task>]) -> Option<usize> {
    kernel
        .fair
        .quota_cpus(members.iter().map(|task| task.group))
}

fn best_domain(
    kernel: &Kernel,
    members: &[Rc<Task>],
    reserved: &CpuMask,
    need: Need,
) -> Option<CpuMask> {
    let ids: BTreeSet<TaskId> = members.iter().map(|task| task.id).collect();
    let home = kernel.rq(members.first()?.cpu()).root_domain;
    let spot = |cpu: CpuId| Spot {
        cpu,
        is_open: members.iter().all(|task| task.may_run_on(cpu)),
        is_taken: reserved.contains(cpu),
        others: kernel.fair_tasks_without(cpu, &ids),
        inside: members.iter().filter(|task| task.cpu() == cpu).count(),
    };
    let spots: Vec<Spot> = kernel.root_domains[home].span.iter().map(spot).collect();
    let found = tightest(&kernel.engine.machine().topology, &spots, need)?;
    (!found.is_everything).then(|| CpuMask::of(kernel.cpu_count(), found.cpus))
}

impl Kernel {
    /// Returns the decisions of lock-aware placement so far.
    pub fn lock_decisions(&self) -> Vec<Decision> {
        let affinity = self.placement.lock_affinity();
        affinity.map_or_else(Vec::new, |affinity| affinity.decisions.borrow().clone())
    }

    /// Share of its time for which a thread holds a lock, as lock-aware placement sees it now.
    pub fn lock_hold_share(&self, lock: LockId) -> Option<f64> {
        let affinity = self.placement.lock_affinity()?;
        let groups = affinity.groups.borrow();
        groups.get(&lock)?.hold_share(&affinity.costs)
    }

    /// CPUs that threads would get which each hold a lock for this share of their time, where others
    /// have `reserved`.
    pub fn lock_domain(
        &self,
        members: &[Rc<Task>],
        reserved: &CpuMask,
        hold_share: f64,
    ) -> Option<CpuMask> {
        let need = Need::new(cpus_of_use(hold_share), quota_cpus_of(self, members));
        best_domain(self, members, reserved, need)
    }
}
