//! Task groups: `struct task_group`, kernel/sched/sched.h, v6.12.
//!
//! **What Linux does:** a group has one queue and one entity on each CPU. The entity's weight is
//! the group's `shares`, divided among the CPUs by the load that the group has on each
//! (`calc_group_shares`). The load is a decaying average, added up in `task_group.load_avg` at most
//! once a millisecond and CPU (`update_tg_load_avg`).
//!
//! **What we do:** the same with the load of the moment instead of its average, added up as often.
//!
//! **What a test could notice:** a group's weight on a CPU follows its load at once, not within
//! some 30 ms. Groups neither come nor go during a run.

use super::bandwidth::Bandwidth;
use super::cfs_rq::{CfsId, CfsRq};
use super::entity::{Entity, EntityId, Owner};
use super::tree::FairTree;
use super::weight::{MIN_SHARES, NICE_0_WEIGHT};

/// A task group; 0 is the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group of all tasks that were put into no other.
    pub const ROOT: GroupId = GroupId(0);

    pub(in crate::kernel) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One group.
#[derive(Debug)]
pub(in crate::kernel) struct TaskGroup {
    /// The group that it lies in; the root's is itself.
    pub(in crate::kernel) parent: GroupId,
    pub(in crate::kernel) children: Vec<GroupId>,
    /// Its weight (`cpu.weight` 100 is 1024).
    pub(in crate::kernel) shares: u64,
    /// `load_avg`: what the queues of all CPUs have reported.
    pub(in crate::kernel) load_sum: u64,
    pub(in crate::kernel) bandwidth: Option<Bandwidth>,
}

/// All groups with their queues.
#[derive(Debug)]
pub(in crate::kernel) struct Groups {
    pub(in crate::kernel) tree: FairTree,
    pub(in crate::kernel) groups: Vec<TaskGroup>,
    pub(in crate::kernel) cpus: usize,
}

impl Groups {
    /// The root group alone.
    pub(in crate::kernel) fn new(tree: FairTree, cpus: usize) -> Groups {
        let mut groups = Groups {
            tree,
            groups: Vec::new(),
            cpus,
        };
        groups.tree.queues.resize(cpus, CfsRq::default());
        groups.groups.push(TaskGroup {
            parent: GroupId::ROOT,
            children: Vec::new(),
            shares: NICE_0_WEIGHT,
            load_sum: 0,
            bandwidth: None,
        });
        groups
    }

    /// A new group within `parent`.
    pub(in crate::kernel) fn add(
        &mut self,
        parent: GroupId,
        shares: u64,
        bandwidth: Option<Bandwidth>,
    ) -> GroupId {
        let group = GroupId(self.groups.len() as u32);
        for cpu in 0..self.cpus {
            let cfs = CfsId(self.tree.queues.len() as u32);
            let above = self.queue(parent, cpu);
            let parent_se = self.tree.q(above).se;
            let entity = Entity::new(Owner::Group(cfs), above, parent_se, shares);
            let se = self.tree.add(entity);
            let mut queue = CfsRq {
                se: Some(se),
                ..CfsRq::default()
            };
            queue.runtime.is_enabled = bandwidth.is_some();
            queue.runtime.throttle_count = self.tree.q(above).runtime.throttle_count;
            self.tree.queues.push(queue);
        }
        self.groups[parent.index()].children.push(group);
        self.groups.push(TaskGroup {
            parent,
            children: Vec::new(),
            shares,
            load_sum: 0,
            bandwidth,
        });
        group
    }

    /// Of a group and those above it the one with the tightest quota, and that in thousandths of a CPU.
    pub(in crate::kernel) fn tightest_quota(&self, group: GroupId) -> Option<(GroupId, u64)> {
        let parent = |group: &GroupId| {
            let parent = self.groups[group.index()].parent;
            (parent != *group).then_some(parent)
        };
        let quotas = std::iter::successors(Some(group), parent).filter_map(|group| {
            let bandwidth = self.groups[group.index()].bandwidth.as_ref()?;
            let thousandths = u128::from(bandwidth.quota) * 1000 / u128::from(bandwidth.period);
            Some((group, thousandths as u64))
        });
        quotas.min_by_key(|(_, thousandths)| *thousandths)
    }

    /// The queue of a group on a CPU.
    pub(in crate::kernel) fn queue(&self, group: GroupId, cpu: usize) -> CfsId {
        CfsId((group.index() * self.cpus + cpu) as u32)
    }

    /// The group of a queue.
    pub(in crate::kernel) fn group_of(&self, cfs: CfsId) -> GroupId {
        GroupId((cfs.index() / self.cpus) as u32)
    }

    /// Puts a task's entity, which is on no queue, under the queue of its group on a CPU.
    pub(in crate::kernel) fn set_task_rq(&mut self, se: EntityId, group: GroupId, cpu: usize) {
        let cfs = self.queue(group, cpu);
        let parent = self.tree.q(cfs).se;
        let entity = self.tree.se_mut(se);
        entity.cfs = cfs;
        entity.parent = parent;
    }

    /// Returns true if a queue or one above it is throttled.
    pub(in crate::kernel) fn is_throttled_hierarchy(&self, cfs: CfsId) -> bool {
        self.tree.q(cfs).runtime.throttle_count > 0
    }

    /// Reports the load of a queue to its group, unless it did so less than `interval` ago or has
    /// little new to say; true when it did (`update_tg_load_avg`).
    pub(in crate::kernel) fn report_load(&mut self, cfs: CfsId, now: u64, interval: u64) -> bool {
        let group = self.group_of(cfs);
        if group == GroupId::ROOT {
            return false;
        }
        let queue = self.tree.q_mut(cfs);
        let is_new = queue.tg_contrib == 0 && queue.tg_contrib_at == 0;
        if !is_new && now < queue.tg_contrib_at + interval {
            return false;
        }
        let delta = queue.load.abs_diff(queue.tg_contrib);
        if delta <= queue.tg_contrib / 64 {
            return false;
        }
        let sum = &mut self.groups[group.index()].load_sum;
        *sum = *sum - queue.tg_contrib + queue.load;
        queue.tg_contrib = queue.load;
        queue.tg_contrib_at = now.max(1);
        true
    }

    /// The weight that the entity of a queue should have (`calc_group_shares`).
    pub(in crate::kernel) fn shares_of(&self, cfs: CfsId) -> u64 {
        let group = &self.groups[self.group_of(cfs).index()];
        let queue = self.tree.q(cfs);
        let load = queue.load;
        let all = group.load_sum - queue.tg_contrib + load;
        if all == 0 {
            return group.shares;
        }
        let share = u128::from(group.shares) * u128::from(load) / u128::from(all);
        (share as u64).clamp(MIN_SHARES, group.shares.max(MIN_SHARES))
    }

    /// A group and all below it, each before its children (`walk_tg_tree_from`, down).
    pub(in crate::kernel) fn subtree(&self, from: GroupId) -> Vec<GroupId> {
        let mut found = Vec::new();
        let mut open = vec![from];
        while let Some(group) = open.pop() {
            found.push(group);
            open.extend(self.groups[group.index()].children.iter().rev());
        }
        found
    }

    /// As above, each after its children (up).
    pub(in crate::kernel) fn subtree_up(&self, from: GroupId) -> Vec<GroupId> {
        fn visit(groups: &[TaskGroup], group: GroupId, found: &mut Vec<GroupId>) {
            for child in &groups[group.index()].children {
                visit(groups, *child, found);
            }
            found.push(group);
        }
        let mut found = Vec::new();
        visit(&self.groups, from, &mut found);
        found
    }
}
