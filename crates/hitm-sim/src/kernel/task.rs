//! Tasks: `struct task_struct`, include/linux/sched.h, v6.12.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use super::class::OwnPolicy;
use super::cpumask::CpuMask;
use super::deadline::{DlParams, DlTask};
use super::fair::{Averages, EntityId, GroupId, SeMember, Wakees, opaque_in};
use super::holder::HolderWatch;
use super::places::places;
use super::rtmutex::PiState;
use super::slice_extension::SliceExtension;
use super::waits::{Ready, WaitCauses};
use crate::engine::{Arena, Extent, Object, Place, SimError, StackId};

/// A task, in order of creation; the idle tasks of all CPUs come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// The word of a pointer to no task: the idle task of CPU 0 stands in no list.
pub(super) const NO_TASK: u64 = 0;

impl TaskId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Scheduling policy of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_FIFO` with a priority of 1 to 99, 99 the highest.
    Fifo(u8),
    /// `SCHED_RR`, likewise.
    Rr(u8),
    /// `SCHED_NORMAL` with a nice value of -20 to 19.
    Normal(i8),
    /// `SCHED_BATCH`, likewise: its wake-ups preempt nothing.
    Batch(i8),
    /// `SCHED_IDLE`: its weight is the least, its wake-ups preempt nothing, and those of others preempt it.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline(DlParams),
    /// One without parameters, such as `SCHED_EXT`.
    Own(OwnPolicy),
}

/// Priorities below are real-time; 0 is the highest of all.
pub const MAX_RT_PRIO: u32 = 100;
/// Priority of the idle tasks.
pub const MAX_PRIO: u32 = 140;

impl Policy {
    /// The kernel's priority for it.
    pub fn prio(self) -> u32 {
        match self {
            Policy::Fifo(priority) | Policy::Rr(priority) => MAX_RT_PRIO - 1 - u32::from(priority),
            Policy::Normal(nice) | Policy::Batch(nice) => (120 + i32::from(nice)) as u32,
            Policy::Idle | Policy::Own(_) => 120,
            // Above all real-time tasks, which its class is picked before.
            Policy::Deadline(_) => 0,
        }
    }
}

/// `__state`: runnable or running.
pub(super) const TASK_RUNNING: u64 = 0;
/// `__state`: asleep.
pub(super) const TASK_INTERRUPTIBLE: u64 = 1;
/// `__state`: asleep, and no signal wakes it.
pub(super) const TASK_UNINTERRUPTIBLE: u64 = 2;
/// `__state`: being woken.
pub(super) const TASK_WAKING: u64 = 0x200;
/// `__state`: gone.
pub(super) const TASK_DEAD: u64 = 0x80;

/// `thread_info.flags`: the task has work to do before it returns to user mode.
pub(super) const TIF_NOTIFY_RESUME: u64 = 1 << 1;
/// `thread_info.flags`: the task must call the scheduler.
pub(super) const TIF_NEED_RESCHED: u64 = 1 << 3;
/// `thread_info.flags`: the fair class asks the task to call the scheduler, within a tick.
pub(super) const TIF_NEED_RESCHED_LAZY: u64 = 1 << 4;
/// `thread_info.flags`: an idle task that watches its flags.
pub(super) const TIF_POLLING_NRFLAG: u64 = 1 << 21;

places! {
    /// Places of the shared members of a task.
    #[derive(Debug, Clone)]
    TaskPlaces {
        flags = "thread_info.flags",
        cpu = "thread_info.cpu",
        state = "__state",
        on_cpu = "on_cpu",
        on_rq = "on_rq",
        prio = "prio",
        wake_entry: Opaque = "wake_entry",
        run_list: Opaque = "rt.run_list",
        exec_start = "se.exec_start",
        cpus_mask: Opaque = "cpus_mask",
        nr_cpus_allowed = "nr_cpus_allowed",
        pushable_tasks: Opaque = "pushable_tasks",
        pi_lock = "pi_lock",
    }
    with {
        /// By [`SeMember`].
        se: Opaque,
    }
}

impl TaskPlaces {
    /// A task whose memory lies on the node of `home`.
    pub(super) fn new(arena: &mut Arena, home: CpuId) -> Result<(TaskPlaces, Object), SimError> {
        let object = arena.allocate("task_struct", home)?;
        let se = opaque_in(arena, &object, "se", SeMember::PATHS)?;
        Ok((TaskPlaces::within(arena, &object, se)?, object))
    }
}

/// Statistics of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskTotals {
    /// Wake-ups.
    pub wakeups: u64,
    /// Times that it was put on another CPU.
    pub migrations: u64,
    /// Times that it got a CPU.
    pub switches_in: u64,
    /// Time on a CPU.
    pub run_time: Cycles,
    /// Sum over wake-ups of the time from wake-up to CPU.
    pub wake_latency_sum: Cycles,
    /// The longest of them.
    pub wake_latency_max: Cycles,
    /// Time for which it was ready and did not run, in waits that have ended.
    pub waits: WaitCauses,
}

/// One task. What its lock holders alone read and write is kept by value; what others look at
/// without a lock has a place in simulated memory.
#[derive(Debug)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// Its name.
    pub name: String,
    pub(super) p: TaskPlaces,
    /// The memory of its places.
    pub(super) extent: Extent,
    pub(super) stack: Cell<Option<StackId>>,
    pub(super) policy: Cell<Policy>,
    /// Effective priority: `normal_prio`, or better while it is boosted.
    pub(super) prio: Cell<u32>,
    pub(super) normal_prio: Cell<u32>,
    pub(super) cpu: Cell<CpuId>,
    /// The CPU on which it ran last, where the lines of its own are.
    pub(super) ran_on: Cell<Option<CpuId>>,
    /// Its cpuset, as the number of a root domain: that of its CPUs unless cpusets overlap.
    pub(super) cpuset: usize,
    pub(super) on_rq: Cell<bool>,
    pub(super) allowed: RefCell<Rc<CpuMask>>,
    pub(super) allowed_count: Cell<usize>,
    /// `SCHED_RR`: ticks left.
    pub(super) time_slice: Cell<u32>,
    pub(super) exec_start: Cell<Cycles>,
    /// The fair class's entity of it.
    pub(super) se: EntityId,
    /// Its task group.
    pub(super) group: GroupId,
    /// Averages of its load.
    pub(super) averages: Cell<Averages>,
    pub(super) wakees: Cell<Wakees>,
    /// `recent_used_cpu`.
    pub(super) recent_cpu: Cell<CpuId>,
    /// True if it has been on a fair queue.
    pub(super) is_placed: Cell<bool>,
    /// True if it waits in the limbo of its throttled queue.
    pub(super) is_throttled: Cell<bool>,
    /// True if it has to look at that before it returns to user mode.
    pub(super) has_throttle_work: Cell<bool>,
    pub(super) woken_at: Cell<Option<Cycles>>,
    /// Its wait for a CPU, while it has none and wants one.
    pub(super) ready: Cell<Option<Ready>>,
    /// Time at which it got its CPU, and the time that it had one before.
    pub(super) on_cpu_since: Cell<Cycles>,
    pub(super) on_cpu_sum: Cell<Cycles>,
    /// The word on which others spin for a lock that it has.
    pub(super) spun_on: Cell<Option<Place>>,
    /// The CPUs of the group that fights for a lock with it.
    pub(super) domain: RefCell<Option<Rc<CpuMask>>>,
    pub(super) totals: Cell<TaskTotals>,
    pub(super) pi: RefCell<PiState>,
    /// The deadline class's entity of it.
    pub(super) dl: Option<DlTask>,
    pub(super) slice: SliceExtension,
    /// The lock of a program that it has, for those that wait for it.
    pub(super) holds: RefCell<Option<Rc<HolderWatch>>>,
    pub(super) is_idle: bool,
}

impl Task {
    /// Returns true if the real-time class has it.
    pub fn is_rt(&self) -> bool {
        self.prio.get() < MAX_RT_PRIO && !self.is_dl()
    }

    /// Returns true if the deadline class has it.
    pub fn is_dl(&self) -> bool {
        self.dl.is_some()
    }

    /// Its own priority, without loans.
    pub fn normal_prio(&self) -> u32 {
        self.normal_prio.get()
    }

    /// Its effective priority; lower numbers go first.
    pub fn prio(&self) -> u32 {
        self.prio.get()
    }

    /// The CPU that it is on or was on last.
    pub fn cpu(&self) -> CpuId {
        self.cpu.get()
    }

    /// Returns its statistics so far.
    pub fn totals(&self) -> TaskTotals {
        self.totals.get()
    }

    /// Returns true if it may run on a CPU.
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        self.allowed.borrow().contains(cpu)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut TaskTotals)) {
        let mut totals = self.totals.get();
        change(&mut totals);
        self.totals.set(totals);
    }
}
