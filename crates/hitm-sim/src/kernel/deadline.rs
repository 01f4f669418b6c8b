//! The deadline class, kernel/sched/deadline.c, v6.12: earliest deadline first, with a budget for each task.
//!
//! **What Linux does:** a task has a runtime in each period. It runs before all other classes, the
//! earliest deadline first, until its runtime is used up; a timer gives it a new one when its next
//! period begins (a constant bandwidth server). A task that is woken keeps deadline and runtime only
//! as far as its bandwidth allows. Each root domain has a heap of its CPUs by their earliest deadline
//! (`cpudl`, kernel/sched/cpudeadline.c). By it tasks are pushed to the CPU with the latest deadline;
//! a CPU that loses its deadline tasks pulls. Together that is global scheduling by deadline.
//! Admission keeps the sum of a root domain's bandwidths below 95 % of its CPUs.
//!
//! **What we do:** the same, with accesses to the members that CPUs share, under the same locks. The
//! tree of a run queue is kept by value, with an access for the root and the nodes that an insertion
//! touches. Its memory is made with the first task of the class: without one nothing changes.
//!
//! **What a test could notice:** budgets are looked at by ticks (`HRTICK` off, as is usual). Runtime is
//! not reclaimed (`SCHED_FLAG_RECLAIM`), and bandwidth does not come back when a task ends. No deadline
//! is inherited through a mutex: the holder gets the priority of `SCHED_FIFO` 99. Of equal deadlines
//! the running task keeps its CPU. There is no fair server. A task is of the class from its start on
//! or never.

mod admission;
mod balance;
mod cpudl;
mod queue;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use self::cpudl::Cpudl;
use self::queue::EnqueueDl;
use super::class::{Enqueue, SchedClass};
use super::core::Wake;
use super::fair::Dequeue;
use super::mask::{SharedCounter, SharedMask};
use super::places::places;
use super::rq::Rq;
use super::task::{Policy, Task, TaskId};
use super::{CpuMask, Kernel, TaskSpec};
use crate::engine::{Arena, Object, Opaque, SimError, Site};

/// Parameters of a task: its runtime in each period, which is to be had until the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlParams {
    /// CPU time in a period.
    pub runtime: Cycles,
    /// From the start of a period.
    pub deadline: Cycles,
    /// The period.
    pub period: Cycles,
}

places! {
    /// Places of the class in a task.
    #[derive(Debug)]
    DlPlaces {
        rb_node: Opaque = "dl.rb_node",
        runtime: Opaque = "dl.runtime",
        deadline = "dl.deadline",
        pushable: Opaque = "pushable_dl_tasks",
    }
    with {}
}

/// `struct sched_dl_entity`.
#[derive(Debug)]
pub(super) struct DlTask {
    p: DlPlaces,
    params: DlParams,
    /// Runtime left; below 0 after an overrun, which the next periods pay.
    left: Cell<i64>,
    /// The present deadline.
    deadline: Cell<u64>,
    /// True if its runtime is used up: a timer gives it a new one.
    is_throttled: Cell<bool>,
    /// True if it gave the rest of its runtime away.
    is_yielded: Cell<bool>,
    is_queued: Cell<bool>,
}

impl DlTask {
    pub(super) fn new(
        arena: &mut Arena,
        task: &Object,
        params: DlParams,
    ) -> Result<DlTask, SimError> {
        Ok(DlTask {
            p: DlPlaces::within(arena, task)?,
            params,
            left: Cell::new(0),
            deadline: Cell::new(0),
            is_throttled: Cell::new(false),
            is_yielded: Cell::new(false),
            is_queued: Cell::new(false),
        })
    }

    /// Returns true if its deadline is before another one's.
    fn is_before(&self, other: &DlTask) -> bool {
        self.deadline.get() < other.deadline.get()
    }
}

places! {
    /// Places of `struct dl_rq`.
    #[derive(Debug)]
    DlRqPlaces {
        root: Opaque = "dl.root",
        nr_running = "dl.dl_nr_running",
        earliest_curr = "dl.earliest_dl.curr",
        earliest_next = "dl.earliest_dl.next",
        overloaded = "dl.overloaded",
        pushable: Opaque = "dl.pushable_dl_tasks_root",
    }
    with {}
}

/// State of a run queue's class that the lock holder alone reads.
#[derive(Debug, Default)]
struct DlInner {
    /// By deadline; equals as they came.
    queue: Vec<(u64, TaskId)>,
    /// Tasks that may move, likewise.
    pushable: Vec<(u64, TaskId)>,
    is_overloaded: bool,
    push_wanted: bool,
}

#[derive(Debug)]
struct DlRq {
    p: DlRqPlaces,
    inner: RefCell<DlInner>,
}

/// The class in a root domain.
#[derive(Debug)]
struct DlDomain {
    cpudl: Cpudl,
    overloaded_cpus: SharedMask,
    overloaded_count: SharedCounter,
    /// `dl_bw.total_bw`, in millionths of a CPU.
    admitted: Cell<u64>,
}

/// The class of a kernel.
#[derive(Debug)]
pub(super) struct DlClass {
    rqs: Vec<DlRq>,
    domains: Vec<DlDomain>,
}

impl DlClass {
    fn new(kernel: &Kernel) -> Result<DlClass, SimError> {
        let (arena, topology) = (&kernel.arena, &kernel.engine.machine().topology);
        let rqs = kernel.rqs.iter().map(|rq| {
            Ok(DlRq {
                p: DlRqPlaces::within(&mut arena.borrow_mut(), &rq.object)?,
                inner: RefCell::default(),
            })
        });
        let domains = kernel.root_domains.iter().map(|domain| {
            let (arena, object) = (&mut arena.borrow_mut(), &domain.object);
            let cpudl = Cpudl::new(arena, object, topology)?;
            for cpu in domain.span.iter() {
                cpudl.boot(&kernel.engine, cpu);
            }
            Ok(DlDomain {
                cpudl,
                overloaded_cpus: SharedMask::new(arena, object, "dlo_mask", topology)?,
                overloaded_count: SharedCounter::new(arena, object, "dlo_count", topology)?,
                admitted: Cell::new(0),
            })
        });
        Ok(DlClass {
            rqs: rqs.collect::<Result<_, SimError>>()?,
            domains: domains.collect::<Result<_, SimError>>()?,
        })
    }
}

impl SchedClass for DlClass {
    fn has(p: &Task) -> bool {
        p.is_dl()
    }

    fn admit(kernel: &Kernel, spec: &TaskSpec, allowed: &CpuMask) -> Result<(), SimError> {
        match spec.policy {
            Policy::Deadline(params) => kernel.admit_dl(&spec.name, params, spec.cpu, allowed),
            _ => Ok(()),
        }
    }

    fn enqueue_task(kernel: &Kernel, rq: &Rq, p: &Task, why: Enqueue) -> impl Future<Output = ()> {
        let why = match why {
            Enqueue::Wakeup => EnqueueDl::Wakeup,
            Enqueue::Changed { .. } => EnqueueDl::Move,
        };
        kernel.enqueue_task_dl(rq, p, why)
    }

    async fn dequeue_task(kernel: &Kernel, rq: &Rq, p: &Task, _how: Dequeue) -> bool {
        kernel.dequeue_task_dl(rq, p).await;
        true
    }

    fn pick_task(kernel: &Kernel, rq: &Rq) -> impl Future<Output = Option<Rc<Task>>> {
        kernel.pick_task_dl(rq)
    }

    fn put_prev_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.put_prev_task_dl(rq, p)
    }

    fn set_next_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.set_next_task_dl(rq, p)
    }

    fn balance(kernel: &Kernel, rq: &Rq, prev: &Task) -> impl Future<Output = ()> {
        kernel.balance_dl(rq, prev)
    }

    fn task_tick(kernel: &Kernel, rq: &Rq, _curr: &Task) -> impl Future<Output = ()> {
        kernel.update_curr_dl(rq)
    }

    fn yield_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.yield_task_dl(rq, p)
    }

    fn wakeup_preempt(kernel: &Kernel, rq: &Rq, p: &Task, curr: &Task) -> impl Future<Output = ()> {
        kernel.wakeup_preempt_dl(rq, p, curr)
    }

    fn select_task_rq(
        kernel: &Kernel,
        p: &Task,
        cpu: CpuId,
        _wake: Wake,
    ) -> impl Future<Output = CpuId> {
        kernel.select_task_rq_dl(p, cpu)
    }

    fn task_woken(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.task_woken_dl(rq, p)
    }
}

/// The entity of a task of the class.
fn entity(p: &Task) -> &DlTask {
    p.dl.as_ref().expect("a task of the deadline class")
}

impl Kernel {
    /// The class, once it has a task.
    fn dl(&self) -> &DlClass {
        self.deadline.get().expect("a task of the class made it")
    }

    fn dl_rq(&self, cpu: CpuId) -> &DlRq {
        &self.dl().rqs[cpu.index()]
    }

    fn dl_domain(&self, cpu: CpuId) -> &DlDomain {
        &self.dl().domains[self.rq(cpu).root_domain]
    }

    /// Touches the node of a tree of deadlines.
    /// Reads and writes a member without a value.
    async fn rewrite(&self, site: Site, member: Opaque) {
        self.engine.touch(site, member).await;
        self.engine.dirty(site, member).await;
    }
}
