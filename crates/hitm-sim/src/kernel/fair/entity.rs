//! Entities that are scheduled: tasks, and each group once per CPU. `struct sched_entity`,
//! include/linux/sched.h, v6.12.

use super::cfs_rq::CfsId;
use crate::kernel::TaskId;

/// An entity, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntityId(pub(super) u32);

impl EntityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The task or queue that an entity stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A task.
    Task(TaskId),
    /// The entities on the queue of a group on one CPU.
    Group(CfsId),
}

/// One entity. Times are cycles; virtual ones are of weight 1024.
#[derive(Debug, Clone)]
pub(crate) struct Entity {
    pub(crate) owner: Owner,
    /// The queue that it is or was on.
    pub(crate) cfs: CfsId,
    /// The entity of the group that this queue belongs to; `None` at the root.
    pub(crate) parent: Option<EntityId>,
    pub(crate) weight: u64,
    pub(crate) vruntime: i64,
    pub(crate) deadline: i64,
    /// Off the queue: what it is owed. While it runs: its deadline when it got the CPU
    /// (`RUN_TO_PARITY`).
    pub(crate) vlag: i64,
    pub(crate) exec_start: u64,
    pub(crate) sum_exec: u64,
    pub(crate) on_rq: bool,
    /// Asleep, but still queued until it is owed nothing (`sched_delayed`).
    pub(crate) delayed: bool,
    /// `deadline` counts from the present average (`rel_deadline`).
    pub(crate) rel_deadline: bool,
}

impl Entity {
    pub(crate) fn new(owner: Owner, cfs: CfsId, parent: Option<EntityId>, weight: u64) -> Entity {
        Entity {
            owner,
            cfs,
            parent,
            weight,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            exec_start: 0,
            sum_exec: 0,
            on_rq: false,
            delayed: false,
            rel_deadline: false,
        }
    }

    /// The queue of the group that it stands for.
    pub(crate) fn my_q(&self) -> Option<CfsId> {
        match self.owner {
            Owner::Group(cfs) => Some(cfs),
            Owner::Task(_) => None,
        }
    }
}
