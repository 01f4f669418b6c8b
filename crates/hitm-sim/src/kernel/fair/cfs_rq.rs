//! A queue of entities of one group on one CPU: `struct cfs_rq`, kernel/sched/sched.h, v6.12.
//!
//! The waiting entities are in no order: to pick, all are looked at. Linux keeps a tree by deadline;
//! what is picked is the same, and what the tree's lines cost is priced by the class.

use super::entity::EntityId;
use crate::kernel::TaskId;

/// A queue: (group, CPU).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CfsId(pub(super) u32);

impl CfsId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// State of bandwidth control in a queue. Times are cycles.
#[derive(Debug, Clone, Default)]
pub(crate) struct CfsRuntime {
    /// True if its group has a quota.
    pub(crate) is_enabled: bool,
    /// Rest of the last slice; negative when it ran over.
    pub(crate) remaining: i64,
    pub(crate) is_throttled: bool,
    /// Number of throttled queues above it, itself included.
    pub(crate) throttle_count: u32,
    /// True if it waits on its CPU's list to be unthrottled there.
    pub(crate) is_csd_queued: bool,
    /// Tasks that were taken off on their way to user mode.
    pub(crate) limbo: Vec<TaskId>,
    /// Time since which it or a queue above it has been throttled.
    pub(crate) stopped_at: u64,
    /// Time at which the timer was due that lets it run, and at which that asked its CPU to.
    pub(crate) due_at: u64,
    pub(crate) asked_at: Option<u64>,
    /// `throttled_clock`: time since which it has been throttled with something to run.
    pub(crate) throttled_clock: Option<u64>,
    /// Before 5.4: time at which `remaining` expires, and the refill that it is of.
    pub(crate) expires_at: u64,
    pub(crate) expires_seq: u64,
}

/// One queue. The running entity is not among `waiting`, but counted in `load` and `nr_queued`.
#[derive(Debug, Clone, Default)]
pub(crate) struct CfsRq {
    /// The entity that stands for it in its parent; `None` at the root.
    pub(crate) se: Option<EntityId>,
    pub(crate) waiting: Vec<EntityId>,
    pub(crate) curr: Option<EntityId>,
    /// Sum of the weights of all queued ones.
    pub(crate) load: u64,
    pub(crate) nr_queued: u32,
    /// Tasks queued here and below.
    pub(crate) h_nr_queued: u32,
    /// Sum over `waiting` of (virtual run time - `zero_vruntime`) x weight.
    pub(crate) sum_w_vruntime: i128,
    /// Sum of their weights.
    pub(crate) sum_weight: u64,
    /// Origin of virtual run times; moves with the average.
    pub(crate) zero_vruntime: i64,
    /// Part of its group's sum that is of its load, and since when.
    pub(crate) tg_contrib: u64,
    pub(crate) tg_contrib_at: u64,
    /// True if it is on its CPU's list of leaves.
    pub(crate) is_on_list: bool,
    pub(crate) runtime: CfsRuntime,
}
