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
//! - *When:* each window (`KernelConfig::lock_window`) the lock's last user adds up how many waited on average. From
//!   `lock_crowd` on, twice in a row, the lock is worth it; below `lock_calm`, four times in a row, no more.
//! - *How much of its time a thread holds the lock:* CPU time with the lock against CPU time
//!   between two uses. Both are of uses that had to wait, and without the waiting. Holding takes
//!   longer when the lock's data comes from afar. So of all uses those count whose predecessor was
//!   nearest.
//! - *How many CPUs:* ceil(1 / u): that many keep the lock in use all the time. No more than the
//!   threads' quotas of CPU time are worth.
//! - *Which:* the smallest domain (cluster, last-level cache, die, package) with so many CPUs on
//!   which all of the threads may run and of which no other group has any. Of equal ones that with
//!   the fewest other tasks, then with most of the threads already there. None: no placement. A
//!   group most of whose threads are of another already gets none: threads with two locks belong
//!   together once.
//! - *Moving:* a member that is elsewhere does not spin but sleeps, and wakes up in the domain.
//! - *Keeping it apart:* other fair tasks do not wake up in the domain and nobody pulls across its
//!   border. Those that are there and do not sleep are moved out by the stopper after the CPU's next
//!   tick, where load is balanced by domains. All this unless affinity leaves them no other CPU.
//! - *Changes:* another number of CPUs three times in a row moves the group or lets it go.
//!   A lock that nobody fights for is no reason to move.
//! - *The end:* when nobody comes to judge a lock and nobody waits for it, the next tick or wake-up does.
//!
//! **What a test could notice:** only exclusive waiters are looked at: writers of semaphores, and
//! mutexes.

mod group;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

pub use self::group::needed_cpus;
use self::group::{Group, Verdict};
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
        let groups = members.iter().map(|task| task.group);
        let quota_cpus = self.fair.quota_cpus(groups).unwrap_or(usize::MAX);
        let verdict = {
            let mut groups = affinity.groups.borrow_mut();
            let group = groups.entry(lock).or_default();
            let window = now.saturating_sub(group.since);
            let verdict = group.judge(window, &affinity.costs, quota_cpus);
            group.next_window(now);
            verdict
        };
        if members.is_empty() {
            return;
        }
        self.engine.work(site, affinity.costs.judge);
        match verdict {
            Verdict::Stay => {}
            Verdict::Place(needed) => self.place_group(affinity, lock, &members, needed),
            Verdict::Release => self.settle(affinity, lock, 0, None),
        }
    }

    fn place_group(
        &self,
        affinity: &LockAffinity,
        lock: LockId,
        members: &[Rc<Task>],
        needed: usize,
    ) {
        let before = affinity.groups.borrow()[&lock].placed.clone();
        let of_others = members.iter().filter(|task| {
            let domain = task.domain.borrow();
            domain.is_some() && *domain != before
        });
        if of_others.count() * 2 > members.len() {
            return;
        }
        let reserved = affinity.reserved_by(self.cpu_count(), Some(lock));
        let domain = self.best_domain(&reserved, members, needed);
        if domain != before {
            self.settle(affinity, lock, needed, domain);
        }
    }

    /// The smallest domain with so many CPUs that the group can have.
    fn best_domain(
        &self,
        reserved: &CpuMask,
        members: &[Rc<Task>],
        needed: usize,
    ) -> Option<Rc<CpuMask>> {
        let mut allowed = CpuMask::all(self.cpu_count());
        for task in members {
            allowed.keep(&task.allowed.borrow());
        }
        let open_of = |domain: &CpuMask| {
            let mut open = domain.clone();
            open.keep(&allowed);
            open
        };
        let home = self.rq(members.first()?.cpu()).root_domain;
        let span = &self.root_domains[home].span;
        let mut found: Vec<Rc<CpuMask>> = Vec::new();
        for cpu in span.iter() {
            let domains = &self.rq(cpu).domains;
            let fits = |domain: &&Rc<CpuMask>| {
                open_of(domain).count() >= needed
                    && domain.count() < span.count()
                    && domain.iter().all(|cpu| !reserved.contains(cpu))
            };
            let smallest = domains.iter().find(fits);
            let is_new = |domain: &&Rc<CpuMask>| found.last() != Some(*domain);
            if let Some(domain) = smallest.filter(is_new) {
                found.push(Rc::clone(domain));
            }
        }
        let rank = |domain: &Rc<CpuMask>| {
            let inside = members.iter().filter(|task| domain.contains(task.cpu()));
            let inside = inside.count();
            let tasks: usize = domain.iter().map(|cpu| self.fair_task_count(cpu)).sum();
            let others = tasks.saturating_sub(inside);
            (domain.count(), others, std::cmp::Reverse(inside))
        };
        let best = found.into_iter().min_by_key(rank)?;
        Some(Rc::new(open_of(&best)))
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
