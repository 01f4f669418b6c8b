//! The fair class: kernel/sched/fair.c, v6.12.
//!
//! - [`tree`], [`entity`], [`cfs_rq`], [`weight`]: EEVDF on plain values, one queue at a time.
//! - [`group`]: task groups, each with a queue and an entity per CPU.
//! - [`places`]: which members of them have places in simulated memory.
//! - [`class`]: what core.rs calls; walks the hierarchy and prices its lines.
//! - [`balance`]: which CPU a woken task takes, and what an idle CPU pulls.
//!
//! Queues and entities are kept by value, indexed by (group, CPU); the lock of a CPU's run queue
//! protects those of this CPU. Their lines exist once something touches them.

mod balance;
mod cfs_rq;
mod class;
mod entity;
mod group;
mod places;
#[cfg(test)]
mod tests;
mod tree;
mod weight;

use std::cell::RefCell;

use hitm_base::Nanos;

pub(super) use self::entity::EntityId;
use self::entity::{Entity, Owner};
pub use self::group::GroupId;
use self::group::Groups;
pub(super) use self::places::{CfsMember, SeMember, places_in};
use self::places::{GroupPlaces, GroupPools};
pub(super) use self::tree::Dequeue;
use self::tree::FairTree;
use super::{Kernel, Policy, TaskId};
use crate::engine::{Arena, SimError};

/// Time that a task may run on while others wait, for each of 1 + log2(CPUs, at most 8):
/// `sysctl_sched_base_slice`.
const BASE_SLICE: Nanos = Nanos(750_000.0);
/// Least time between two reports of a queue's load to its group: `update_tg_load_avg`.
const LOAD_INTERVAL: Nanos = Nanos(1_000_000.0);

/// The state of the class.
#[derive(Debug)]
pub(super) struct FairClass {
    groups: RefCell<Groups>,
    pools: GroupPools,
    group_places: RefCell<Vec<GroupPlaces>>,
    /// By CPU: its queued tasks, in the order in which they came (`rq.cfs_tasks`).
    cpu_tasks: RefCell<Vec<Vec<TaskId>>>,
    /// Cycles.
    load_interval: u64,
}

impl FairClass {
    /// The root group on `cpus` CPUs; `cycles` says how many make a time.
    pub(super) fn new(
        arena: &mut Arena,
        cpus: usize,
        hz: u32,
        cycles: impl Fn(Nanos) -> u64,
    ) -> Result<FairClass, SimError> {
        let factor = 1 + cpus.min(8).ilog2();
        let slice = cycles(Nanos(BASE_SLICE.0 * f64::from(factor)));
        let tick = cycles(Nanos(1e9 / f64::from(hz)));
        Ok(FairClass {
            groups: RefCell::new(Groups::new(FairTree::new(slice, tick), cpus)),
            pools: GroupPools::new(arena, cpus)?,
            group_places: RefCell::new(vec![GroupPlaces::new(arena)?]),
            cpu_tasks: RefCell::new(vec![Vec::new(); cpus]),
            load_interval: cycles(LOAD_INTERVAL),
        })
    }

    fn group_places(&self, group: GroupId) -> GroupPlaces {
        self.group_places.borrow()[group.index()]
    }

    /// The entity of a new task, which begins on `cpu`.
    pub(super) fn add_task(
        &self,
        task: TaskId,
        (group, cpu): (GroupId, usize),
        policy: Policy,
    ) -> EntityId {
        let nice = match policy {
            Policy::Normal(nice) => nice,
            Policy::Fifo(_) | Policy::Rr(_) => 0,
        };
        let mut groups = self.groups.borrow_mut();
        let cfs = groups.queue(group, cpu);
        let parent = groups.tree.q(cfs).se;
        let weight = weight::weight_of_nice(nice);
        let entity = Entity::new(Owner::Task(task), cfs, parent, weight);
        groups.tree.add(entity)
    }

    /// A task, which is on no queue, goes to another CPU.
    pub(super) fn set_task_rq(&self, se: EntityId, group: GroupId, cpu: usize) {
        self.groups.borrow_mut().set_task_rq(se, group, cpu);
    }
}

/// A task group to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSpec {
    /// The group that it lies in.
    pub parent: GroupId,
    /// Its weight among its siblings: 1024 is `cpu.weight` 100.
    pub shares: u64,
}

impl GroupSpec {
    /// A group of usual weight.
    pub fn within(parent: GroupId) -> GroupSpec {
        GroupSpec {
            parent,
            shares: weight::NICE_0_WEIGHT,
        }
    }
}

impl Kernel {
    /// Makes a task group, before the run.
    pub fn create_group(&self, spec: &GroupSpec) -> Result<GroupId, SimError> {
        let mut groups = self.fair.groups.borrow_mut();
        if spec.parent.index() >= groups.groups.len() {
            return Err(SimError::Workload(format!(
                "a group within group {}, of which there are {}",
                spec.parent.0,
                groups.groups.len()
            )));
        }
        let places = GroupPlaces::new(&mut self.arena.borrow_mut())?;
        self.fair.group_places.borrow_mut().push(places);
        Ok(groups.add(spec.parent, spec.shares.max(weight::MIN_SHARES)))
    }
}
