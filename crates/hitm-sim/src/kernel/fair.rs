//! The fair class: kernel/sched/fair.c, v6.12.
//!
//! - [`tree`], [`entity`], [`cfs_rq`], [`weight`]: EEVDF on plain values, one queue at a time.
//! - [`group`]: task groups, each with a queue and an entity per CPU.
//! - [`places`]: which members of them have places in simulated memory.
//! - [`class`]: what core.rs calls; walks the hierarchy and prices its lines.
//! - [`bandwidth`], [`throttle`], [`expiry`], [`limbo`], [`distribute`]: quotas of CPU time and what happens without
//!   any left; [`profile`]: what that took.
//! - [`balance`]: which CPU a woken task takes, and what an idle CPU pulls. By domains: [`wake`],
//!   [`nohz`] (when and for whom), [`load_balance`] and [`group_stats`] (what moves), [`domains`],
//!   [`pelt`] (averages of load), [`blocked`] (those of CPUs where nothing changes).
//!
//! Queues and entities are kept by value, indexed by (group, CPU); the lock of a CPU's run queue
//! protects those of this CPU. Their lines exist once something touches them.

mod balance;
mod bandwidth;
mod blocked;
mod cfs_rq;
mod class;
mod distribute;
mod domains;
mod entity;
mod expiry;
mod group;
mod group_stats;
mod level;
mod limbo;
mod load_balance;
#[cfg(test)]
mod lockless_tests;
mod nohz;
mod pelt;
mod places;
mod profile;
#[cfg(test)]
mod tests;
mod throttle;
mod tree;
mod wake;
mod walk;
mod weight;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hitm_base::{CpuId, Cycles, Nanos};

use self::bandwidth::Bandwidth;
pub use self::bandwidth::BandwidthCounts;
use self::cfs_rq::CfsId;
pub(super) use self::entity::EntityId;
use self::entity::{Entity, Owner};
pub use self::group::GroupId;
use self::group::Groups;
pub(super) use self::nohz::Balancer;
pub use self::nohz::LoadBalancing;
pub(super) use self::pelt::Averages;
pub(super) use self::places::{CfsMember, CfsWord, SeMember, opaque_in, places_in};
use self::places::{GroupPlaces, GroupPools};
pub use self::profile::DistributeCall;
pub(super) use self::tree::Dequeue;
use self::tree::FairTree;
pub(super) use self::wake::Wakees;
pub use self::weight::weight_of_nice;
use super::{Kernel, KernelConfig, Policy, TaskId};
use crate::engine::{Arena, SimError};
pub use hitm_base::Histogram;

/// Time that a task may run on while others wait, for each of 1 + log2(CPUs, at most 8):
/// `sysctl_sched_base_slice`.
const BASE_SLICE: Nanos = Nanos(750_000.0);

hitm_base::words! {
    /// Handling of a group that has used its quota.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Throttling {
        /// The group is stopped; the period timer starts it again on all CPUs itself (before v6.3).
        Sync = "sync",
        /// The group is stopped; each CPU starts its own part (v6.3 to v6.17).
        Async = "async",
        /// Each task is stopped when it returns to user mode; each CPU starts its own (since v6.18).
        Task = "task",
        /// Each task is stopped when it returns to user mode; the period timer starts all of them
        /// itself: the patch on a kernel before v6.3.
        TaskSync = "task-sync",
    }
}

/// Times of bandwidth control, in cycles.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Slice that a queue takes at once: `sched_cfs_bandwidth_slice_us`.
    slice: u64,
    /// Runtime that an idle queue keeps: `min_cfs_rq_runtime`, 1 ms.
    least_left: u64,
    /// Time for which returned runtime is collected: `cfs_bandwidth_slack_period`, 5 ms.
    slack_delay: u64,
    /// Not so near to a new period: `min_bandwidth_expiration`, 2 ms.
    slack_least: u64,
}

/// The state of the class.
#[derive(Debug)]
pub(super) struct FairClass {
    groups: RefCell<Groups>,
    pools: GroupPools,
    group_places: RefCell<Vec<GroupPlaces>>,
    /// By CPU: its queued tasks, in the order in which they came (`rq.cfs_tasks`).
    cpu_tasks: RefCell<Vec<Vec<TaskId>>>,
    /// By CPU: queues that it shall let run (`rq.cfsb_csd_list`).
    csd_lists: RefCell<Vec<Vec<CfsId>>>,
    /// Cycles.
    load_interval: u64,
    /// Of averages, cycles.
    half_life: u64,
    times: Times,
    throttling: Throttling,
    /// True once a task of `SCHED_IDLE` was there.
    has_idle_policy: Cell<bool>,
    calls: RefCell<Vec<DistributeCall>>,
    csd_calls: RefCell<Vec<DistributeCall>>,
    throttle_calls: RefCell<Vec<DistributeCall>>,
}

impl FairClass {
    /// The root group on `cpus` CPUs; `cycles` says how many make a time.
    pub(super) fn new(
        arena: &mut Arena,
        cpus: usize,
        config: &KernelConfig,
        cycles: impl Fn(Nanos) -> u64,
    ) -> Result<FairClass, SimError> {
        let factor = 1 + cpus.min(8).ilog2();
        let slice = cycles(Nanos(BASE_SLICE.0 * f64::from(factor)));
        let tick = cycles(Nanos(1e9 / f64::from(config.hz)));
        Ok(FairClass {
            groups: RefCell::new(Groups::new(FairTree::new(slice, tick), cpus)),
            pools: GroupPools::new(arena, cpus)?,
            group_places: RefCell::new(vec![GroupPlaces::new(arena)?]),
            cpu_tasks: RefCell::new(vec![Vec::new(); cpus]),
            csd_lists: RefCell::new(vec![Vec::new(); cpus]),
            load_interval: cycles(config.load_avg_interval),
            half_life: cycles(Nanos(pelt::HALF_LIFE_NS)),
            times: Times {
                slice: cycles(config.cfs_bandwidth_slice),
                least_left: cycles(Nanos(1e6)),
                slack_delay: cycles(Nanos(5e6)),
                slack_least: cycles(Nanos(2e6)),
            },
            throttling: config.throttling,
            has_idle_policy: Cell::new(false),
            calls: RefCell::new(Vec::new()),
            csd_calls: RefCell::new(Vec::new()),
            throttle_calls: RefCell::new(Vec::new()),
        })
    }

    fn set_csd_queued(&self, cfs: CfsId, is_queued: bool) {
        let mut groups = self.groups.borrow_mut();
        groups.tree.q_mut(cfs).runtime.is_csd_queued = is_queued;
    }

    /// The timer asks a queue's CPU to let it run.
    fn note_asked(&self, cfs: CfsId, now: u64) {
        let mut groups = self.groups.borrow_mut();
        groups.tree.q_mut(cfs).runtime.asked_at = Some(now);
    }

    /// A queue has something to run, or a task of it was taken off: if it is throttled, that counts
    /// from now on.
    fn note_taken_off(&self, cfs: CfsId, now: u64) {
        let mut groups = self.groups.borrow_mut();
        let runtime = &mut groups.tree.q_mut(cfs).runtime;
        if runtime.is_throttled && runtime.throttled_clock.is_none() {
            runtime.throttled_clock = Some(now);
        }
    }

    fn note_throttle(&self, cpu: CpuId, span: Range<Cycles>, cfs_rqs: u64) {
        self.throttle_calls.borrow_mut().push(DistributeCall {
            cpu,
            begin: span.start,
            end: span.end,
            rqs: 1,
            cfs_rqs,
            ..DistributeCall::default()
        });
    }

    fn group_places(&self, group: GroupId) -> GroupPlaces {
        self.group_places.borrow()[group.index()]
    }

    /// The entity of a new task, which begins on `cpu`.
    pub(super) fn add_task(
        &self,
        task: TaskId,
        group: GroupId,
        cpu: usize,
        policy: Policy,
    ) -> EntityId {
        let mut groups = self.groups.borrow_mut();
        let cfs = groups.queue(group, cpu);
        let parent = groups.tree.q(cfs).se;
        let weight = weight::weight_of_policy(policy).unwrap_or(weight::NICE_0_WEIGHT);
        self.note_policy(policy);
        let entity = Entity::new(Owner::Task(task), cfs, parent, weight);
        groups.tree.add(entity)
    }

    /// A task, which is on no queue, gets the weight of a policy.
    pub(super) fn set_policy(&self, se: EntityId, policy: Policy, now: u64) {
        self.note_policy(policy);
        if let Some(weight) = weight::weight_of_policy(policy) {
            self.groups.borrow_mut().tree.reweight(se, weight, now);
        }
    }

    fn note_policy(&self, policy: Policy) {
        if policy == Policy::Idle {
            self.has_idle_policy.set(true);
        }
    }

    /// A group and all below it.
    pub(super) fn subtree(&self, group: GroupId) -> BTreeSet<GroupId> {
        self.groups.borrow().subtree(group).into_iter().collect()
    }

    /// Of a group and those above it the one with the tightest quota, and the CPUs that this is worth.
    pub(super) fn tightest_quota(&self, group: GroupId) -> Option<(GroupId, usize)> {
        let (bounding, thousandths) = self.groups.borrow().tightest_quota(group)?;
        Some((bounding, thousandths.div_ceil(1000) as usize))
    }

    /// CPUs that the quotas of tasks' groups are worth together; `None` where a task has none.
    pub(super) fn quota_cpus(&self, of_tasks: impl Iterator<Item = GroupId>) -> Option<usize> {
        let groups = self.groups.borrow();
        let mut bounds = BTreeMap::new();
        for group in of_tasks {
            let (bounding, thousandths) = groups.tightest_quota(group)?;
            bounds.insert(bounding, thousandths);
        }
        let sum: u64 = bounds.values().sum();
        (!bounds.is_empty()).then(|| sum.div_ceil(1000) as usize)
    }

    /// A task, which is on no queue, goes to another CPU.
    pub(super) fn set_task_rq(&self, se: EntityId, group: GroupId, cpu: usize) {
        self.groups.borrow_mut().set_task_rq(se, group, cpu);
    }
}

/// CPU time that a group may use of all CPUs: `cpu.max` and `cpu.max.burst`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// CPU time in each period.
    pub quota: Nanos,
    /// The period, at least 1 ms.
    pub period: Nanos,
    /// Unused quota that may be saved up beside it.
    pub burst: Nanos,
}

/// A task group to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupSpec {
    /// The group that it lies in.
    pub parent: GroupId,
    /// Its weight among its siblings: 1024 is `cpu.weight` 100.
    pub shares: u64,
    /// Its quota; `None` for no limit.
    pub quota: Option<Quota>,
}

impl GroupSpec {
    /// A group of usual weight without a quota.
    pub fn within(parent: GroupId) -> GroupSpec {
        GroupSpec {
            parent,
            shares: weight::NICE_0_WEIGHT,
            quota: None,
        }
    }
}

impl Kernel {
    /// Makes a task group, before the run.
    ///
    /// # Errors
    /// A parent that is not there, a quota or period below 1 ms.
    pub fn create_group(&self, spec: &GroupSpec) -> Result<GroupId, SimError> {
        let mut groups = self.fair.groups.borrow_mut();
        let number = groups.groups.len();
        if spec.parent.index() >= number {
            return Err(SimError::Workload(format!(
                "a group within group {}, of which there are {number}",
                spec.parent.0,
            )));
        }
        let bandwidth = match spec.quota {
            Some(Quota { quota, period, .. }) if quota.0 < 1e6 || period.0 < 1e6 => {
                return Err(SimError::Workload(format!(
                    "a quota of {} ns in {} ns, both of which must be at least 1 ms",
                    quota.0, period.0
                )));
            }
            Some(quota) => Some(self.bandwidth(&quota, number)),
            None => None,
        };
        let places = GroupPlaces::new(&mut self.arena.borrow_mut())?;
        let runtime = bandwidth.as_ref().map_or(0, |bandwidth| bandwidth.runtime);
        self.engine.set(places.bandwidth_runtime, runtime);
        self.fair.group_places.borrow_mut().push(places);
        let shares = spec.shares.max(weight::MIN_SHARES);
        Ok(groups.add(spec.parent, shares, bandwidth))
    }

    fn bandwidth(&self, quota: &Quota, number: usize) -> Bandwidth {
        let cycles = |span| self.cycles(span).0;
        let period = cycles(quota.period);
        // As init_cfs_bandwidth has it since v6.5, so that timers do not all fire at once.
        let name = format!("cfs_bandwidth {number}");
        let phase = self.engine.random(&name).below(period);
        let full = cycles(quota.quota);
        Bandwidth {
            period,
            phase,
            quota: full,
            burst: cycles(quota.burst),
            runtime: full,
            runtime_snap: full,
            ..Bandwidth::default()
        }
    }

    /// Has the period timer of a group's quota fire at `at` and whole periods from there.
    pub fn align_quota(&self, group: GroupId, at: Nanos) {
        let at = self.cycles(at).0;
        let mut groups = self.fair.groups.borrow_mut();
        if let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth {
            bandwidth.phase = at % bandwidth.period;
        }
    }

    /// Every call that distributed a quota so far.
    pub fn distribute_calls(&self) -> Vec<DistributeCall> {
        self.fair.calls.borrow().clone()
    }

    /// Every time that a CPU let its own queues run when asked to.
    pub fn csd_unthrottle_calls(&self) -> Vec<DistributeCall> {
        self.fair.csd_calls.borrow().clone()
    }

    /// Every walk that throttled queues.
    pub fn throttle_calls(&self) -> Vec<DistributeCall> {
        self.fair.throttle_calls.borrow().clone()
    }

    /// Returns the statistics of a group's quota so far.
    pub fn bandwidth_counts(&self, group: GroupId) -> Option<BandwidthCounts> {
        let groups = self.fair.groups.borrow();
        let bandwidth = groups.groups.get(group.index())?.bandwidth.as_ref()?;
        Some(bandwidth.counts)
    }
}
