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
use super::Kernel;
use super::costs::LockCosts;
use super::cpumask::CpuMask;
use super::functions as f;
use super::lock_stat::{LockId, Use};
use super::task::{Task, TaskId};
use crate::engine::Site;

hitm_base::words! {
    /// Placement of threads that fight for a lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Placement {
        /// Wherever the classes put them, as in Linux.
        Default = "default",
        /// Together, on as many CPUs as the lock can keep busy.
        LockAware = "lock-aware",
    }
}

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

impl LockAffinity {
    pub(super) fn new(cpus: usize, window: u64, costs: LockCosts) -> LockAffinity {
        LockAffinity {
            groups: RefCell::default(),
            reserved: RefCell::new(CpuMask::empty(cpus)),
            decisions: RefCell::default(),
            window: Cycles(window),
            costs,
        }
    }

    /// A thread wants a lock.
    pub(super) fn wanted(&self, task: TaskId, lock: LockId, cpu_time: Cycles) {
        let mut groups = self.groups.borrow_mut();
        groups.entry(lock).or_default().wanted(task, cpu_time);
    }

    /// It has it.
    pub(super) fn taken(&self, task: &Task, lock: LockId, wait: Cycles, contended: bool) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(lock).or_default();
        if !group.taken(task.id, wait, contended) {
            return;
        }
        if group.placed.is_some() && task.domain.borrow().is_none() {
            *task.domain.borrow_mut() = group.placed.clone();
        }
    }

    fn released(&self, task: TaskId, lock: LockId, used: Use, cpu_time: Cycles) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(lock).or_default();
        group.released(task, used, cpu_time);
    }

    /// Returns true if two CPUs are both free for everybody, or of one group.
    fn are_together(&self, one: CpuId, other: CpuId) -> bool {
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
}

impl Kernel {
    /// Returns the decisions of lock-aware placement so far.
    pub fn lock_decisions(&self) -> Vec<Decision> {
        let affinity = self.lock_affinity.as_ref();
        affinity.map_or_else(Vec::new, |affinity| affinity.decisions.borrow().clone())
    }

    /// Share of its time for which a thread holds a lock, as lock-aware placement sees it now.
    pub fn lock_hold_share(&self, lock: LockId) -> Option<f64> {
        let affinity = self.lock_affinity.as_ref()?;
        let groups = affinity.groups.borrow();
        groups.get(&lock)?.hold_share(&affinity.costs)
    }

    /// A use of a lock is over; at the end of a window its user judges the lock.
    pub(super) fn note_lock_use(&self, task: &Task, lock: LockId, used: Use) {
        let Some(affinity) = &self.lock_affinity else {
            return;
        };
        affinity.released(task.id, lock, used, self.cpu_time(task));
        let since = affinity.groups.borrow()[&lock].since;
        if self.engine.now().saturating_sub(since) >= affinity.window {
            self.judge_lock(affinity, lock, f::UP_WRITE);
        }
    }

    /// Judges locks with CPUs of their own that nobody comes back to. The CPU that notices does it.
    pub(super) fn judge_unused_locks(&self, site: Site) {
        let Some(affinity) = &self.lock_affinity else {
            return;
        };
        if affinity.reserved.borrow().is_empty() {
            return;
        }
        let is_unused = |group: &Group| {
            let unused = self.engine.now().saturating_sub(group.since);
            group.placed.is_some() && group.waiting == 0 && unused >= affinity.window
        };
        let unused: Vec<LockId> = {
            let groups = affinity.groups.borrow();
            let unused = groups.iter().filter(|(_, group)| is_unused(group));
            unused.map(|(lock, _)| *lock).collect()
        };
        for lock in unused {
            self.judge_lock(affinity, lock, site);
        }
    }

    fn judge_lock(&self, affinity: &LockAffinity, lock: LockId, site: Site) {
        let now = self.engine.now();
        let members = affinity.members(lock).into_iter();
        let members: Vec<Rc<Task>> = members.map(|id| self.task(id)).collect();
        let quota_cpus = self.quota_cpus_of(&members);
        let step = {
            let mut groups = affinity.groups.borrow_mut();
            let group = groups.entry(lock).or_default();
            let window = now.saturating_sub(group.since);
            let step = group.judge(window, &affinity.costs, quota_cpus);
            group.next_window(now);
            step
        };
        if members.is_empty() {
            return;
        }
        self.engine.work(site, affinity.costs.judge);
        match step {
            Step::Stay => {}
            Step::Place(needed) => {
                let need = Need::new(needed, quota_cpus);
                self.place_group(affinity, lock, &members, need);
            }
            Step::Release => self.settle(affinity, lock, 0, None),
        }
    }

    fn quota_cpus_of(&self, members: &[Rc<Task>]) -> Option<usize> {
        self.fair.quota_cpus(members.iter().map(|task| task.group))
    }

    fn place_group(&self, affinity: &LockAffinity, lock: LockId, members: &[Rc<Task>], need: Need) {
        let before = affinity.groups.borrow()[&lock].placed.clone();
        let of_others = members.iter().filter(|task| {
            let domain = task.domain.borrow();
            domain.is_some() && *domain != before
        });
        if !may_form_group(members.len(), of_others.count()) {
            return;
        }
        let reserved = affinity.reserved_by(self.cpu_count(), Some(lock));
        let domain = self.best_domain(members, &reserved, need);
        if domain.as_ref() != before.as_deref() {
            self.settle(affinity, lock, need.least, domain.map(Rc::new));
        }
    }

    /// CPUs that threads would get which each hold a lock for this share of their time, where others
    /// have `reserved`.
    pub fn lock_domain(
        &self,
        members: &[Rc<Task>],
        reserved: &CpuMask,
        hold_share: f64,
    ) -> Option<CpuMask> {
        let need = Need::new(cpus_of_use(hold_share), self.quota_cpus_of(members));
        self.best_domain(members, reserved, need)
    }

    fn best_domain(&self, members: &[Rc<Task>], reserved: &CpuMask, need: Need) -> Option<CpuMask> {
        let ids: BTreeSet<TaskId> = members.iter().map(|task| task.id).collect();
        let home = self.rq(members.first()?.cpu()).root_domain;
        let spot = |cpu: CpuId| Spot {
            cpu,
            is_open: members.iter().all(|task| task.may_run_on(cpu)),
            is_taken: reserved.contains(cpu),
            others: self.fair_tasks_without(cpu, &ids),
            inside: members.iter().filter(|task| task.cpu() == cpu).count(),
        };
        let spots: Vec<Spot> = self.root_domains[home].span.iter().map(spot).collect();
        let found = tightest(&self.engine.machine().topology, &spots, need)?;
        (!found.is_everything).then(|| CpuMask::of(self.cpu_count(), found.cpus))
    }

    /// Gives the group its domain, or none.
    fn settle(
        &self,
        affinity: &LockAffinity,
        lock: LockId,
        needed: usize,
        domain: Option<Rc<CpuMask>>,
    ) {
        let mut groups = affinity.groups.borrow_mut();
        let group = groups.entry(lock).or_default();
        for task in group.members.keys() {
            let task = self.task(*task);
            let mut of_task = task.domain.borrow_mut();
            if of_task.is_none() || *of_task == group.placed {
                of_task.clone_from(&domain);
            }
        }
        let hold_share = group.hold_share(&affinity.costs).unwrap_or(0.0);
        group.settle(domain.clone());
        drop(groups);
        *affinity.reserved.borrow_mut() = affinity.reserved_by(self.cpu_count(), None);
        affinity.decisions.borrow_mut().push(Decision {
            lock,
            at: self.engine.now(),
            hold_share,
            needed,
            cpus: domain.map(|domain| domain.iter().collect()),
        });
    }

    /// Returns true if a task that wants a lock may spin for it where it is.
    pub(super) fn may_spin(&self, task: &Task) -> bool {
        let domain = task.domain.borrow();
        domain
            .as_ref()
            .is_none_or(|domain| domain.contains(self.engine.cpu()))
    }

    /// Returns true if a fair task that is in no group should not go to a CPU.
    pub(super) fn is_reserved_cpu(&self, cpu: CpuId) -> bool {
        let affinity = self.lock_affinity.as_ref();
        affinity.is_some_and(|affinity| affinity.reserved.borrow().contains(cpu))
    }

    /// Returns true if a fair task should leave a CPU because a group has it to itself.
    pub(super) fn is_stranger(&self, task: &Task, cpu: CpuId) -> bool {
        let domain = task.domain.borrow();
        let is_member = domain.as_ref().is_some_and(|domain| domain.contains(cpu));
        !is_member && self.is_reserved_cpu(cpu)
    }

    /// Returns true if load may be balanced between two CPUs.
    pub(super) fn may_balance(&self, one: CpuId, other: CpuId) -> bool {
        let affinity = self.lock_affinity.as_ref();
        affinity.is_none_or(|affinity| affinity.are_together(one, other))
    }
}
