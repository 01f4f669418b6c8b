//! Scheduling classes: `struct sched_class` of kernel/sched/sched.h, v6.12.
//!
//! **What Linux does:** each class is a table of functions. The linker puts the tables in order, and
//! whoever looks for a task asks one after the other.
//!
//! **What we do:** the same, with one operation a function and the classes as its cases, so that calls are
//! direct: boxed futures would cost each wake-up an allocation. [`Class::ORDER`] is the order.
//!
//! **What a test could notice:** there is no stop class and no class of BPF programs. The run queue of every
//! operation is locked.

use std::cmp::Ordering;
use std::rc::Rc;

use hitm_base::CpuId;

use super::Kernel;
use super::core::Wake;
use super::deadline::EnqueueDl;
use super::fair::Dequeue;
use super::rq::Rq;
use super::task::Task;

/// A scheduling class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Deadline,
    RealTime,
    Fair,
    Idle,
}

/// Reason why a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enqueue {
    /// It was woken, or comes from another CPU.
    Wakeup,
    /// Its priority or class has changed; before others of its priority if it has come down.
    Changed { at_head: bool },
}

impl Task {
    /// The class that has it.
    pub(super) fn class(&self) -> Class {
        match self {
            task if task.is_dl() => Class::Deadline,
            task if task.is_rt() => Class::RealTime,
            task if task.is_idle => Class::Idle,
            _ => Class::Fair,
        }
    }
}

impl Class {
    /// All classes in the order in which they are asked for a task.
    pub(super) const ORDER: [Class; 4] =
        [Class::Deadline, Class::RealTime, Class::Fair, Class::Idle];

    fn rank(self) -> usize {
        let place = Class::ORDER.iter().position(|class| *class == self);
        place.expect("every class has a place")
    }

    pub(super) async fn enqueue_task(self, kernel: &Kernel, rq: &Rq, p: &Task, why: Enqueue) {
        match self {
            Class::Deadline => {
                let why = match why {
                    Enqueue::Wakeup => EnqueueDl::Wakeup,
                    Enqueue::Changed { .. } => EnqueueDl::Move,
                };
                kernel.enqueue_task_dl(rq, p, why).await;
            }
            Class::RealTime => {
                let at_head = why == Enqueue::Changed { at_head: true };
                kernel.enqueue_task_rt(rq, p, at_head).await;
            }
            Class::Fair => kernel.enqueue_task_fair(rq, p).await,
            Class::Idle => {}
        }
    }

    /// Returns false if the task has to stay on its queue until it owes no time.
    pub(super) async fn dequeue_task(
        self,
        kernel: &Kernel,
        rq: &Rq,
        p: &Task,
        how: Dequeue,
    ) -> bool {
        match self {
            Class::Deadline => kernel.dequeue_task_dl(rq, p).await,
            Class::RealTime => kernel.dequeue_task_rt(rq, p).await,
            Class::Fair => return kernel.dequeue_task_fair(rq, p, how).await,
            Class::Idle => {}
        }
        true
    }

    /// The idle task is nobody's choice: it runs when no class has a task, after balancing.
    pub(super) async fn pick_task(self, kernel: &Kernel, rq: &Rq) -> Option<Rc<Task>> {
        match self {
            Class::Deadline => kernel.pick_task_dl(rq).await,
            Class::RealTime => kernel.pick_task_rt(rq).await,
            Class::Fair => kernel.pick_task_fair(rq).await,
            Class::Idle => None,
        }
    }

    pub(super) async fn put_prev_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
        match self {
            Class::Deadline => kernel.put_prev_task_dl(rq, p).await,
            Class::RealTime => kernel.put_prev_task_rt(rq, p).await,
            Class::Fair => kernel.put_prev_task_fair(rq, p).await,
            Class::Idle => {}
        }
    }

    pub(super) async fn set_next_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
        match self {
            Class::Deadline => kernel.set_next_task_dl(rq, p).await,
            Class::RealTime => kernel.set_next_task_rt(rq, p).await,
            Class::Fair => kernel.set_next_task_fair(rq, p).await,
            Class::Idle => {
                rq.idle_since.set(kernel.engine.now());
                kernel.update_idle_core(rq.cpu).await;
            }
        }
    }

    /// Gets tasks from other CPUs before the scheduler picks: `put_prev_task_balance` asks the class of
    /// `prev` and those below.
    pub(super) async fn balance(kernel: &Kernel, rq: &Rq, prev: &Task) {
        for class in &Class::ORDER[prev.class().rank()..] {
            match class {
                Class::Deadline => kernel.balance_dl(rq, prev).await,
                Class::RealTime => kernel.balance_rt(rq, prev).await,
                Class::Fair | Class::Idle => {}
            }
        }
    }

    pub(super) async fn task_tick(self, kernel: &Kernel, rq: &Rq, curr: &Task) {
        match self {
            Class::Deadline => kernel.update_curr_dl(rq).await,
            Class::RealTime => kernel.task_tick_rt(rq, curr).await,
            Class::Fair => kernel.task_tick_fair(rq, curr).await,
            Class::Idle => {}
        }
    }

    pub(super) async fn yield_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
        match self {
            Class::Deadline => kernel.yield_task_dl(rq, p).await,
            Class::RealTime => kernel.yield_task_rt(rq, p).await,
            Class::Fair => kernel.yield_task_fair(rq, p).await,
            Class::Idle => {}
        }
    }

    /// `p` was put on the queue: the running task may have to go.
    pub(super) async fn wakeup_preempt(kernel: &Kernel, rq: &Rq, p: &Task, curr: &Task) {
        let (class, running) = (p.class(), curr.class());
        match (class.rank().cmp(&running.rank()), class) {
            (Ordering::Equal, Class::Deadline) => kernel.wakeup_preempt_dl(rq, p, curr).await,
            (Ordering::Equal, Class::RealTime) => kernel.wakeup_preempt_rt(rq, p, curr).await,
            // The fair class looks itself if the CPU is idle.
            (Ordering::Equal | Ordering::Less, Class::Fair) => {
                kernel.wakeup_preempt_fair(rq, p, curr).await;
            }
            (Ordering::Less, _) => kernel.resched_curr(rq).await,
            (Ordering::Equal | Ordering::Greater, _) => {}
        }
    }

    pub(super) async fn select_task_rq(
        self,
        kernel: &Kernel,
        p: &Task,
        cpu: CpuId,
        wake: Wake,
    ) -> CpuId {
        match self {
            Class::Deadline => kernel.select_task_rq_dl(p, cpu).await,
            Class::RealTime => kernel.select_task_rq_rt(p, cpu).await,
            Class::Fair | Class::Idle => kernel.select_task_rq_fair(p, cpu, wake).await,
        }
    }

    pub(super) async fn task_woken(self, kernel: &Kernel, rq: &Rq, p: &Task) {
        match self {
            Class::Deadline => kernel.task_woken_dl(rq, p).await,
            Class::RealTime => kernel.task_woken_rt(rq, p).await,
            Class::Fair | Class::Idle => {}
        }
    }

    /// A queued task has left the class for another.
    pub(super) fn switched_from(self, rq: &Rq) {
        let mut inner = rq.inner.borrow_mut();
        if self == Class::RealTime && inner.rt.nr_running == 0 {
            inner.pull_wanted = true;
        }
    }

    /// A queued task of another class has come.
    pub(super) fn switched_to(self, rq: &Rq, p: &Task, is_running: bool) {
        let mut inner = rq.inner.borrow_mut();
        let may_move = p.allowed_count.get() > 1 && inner.rt.overloaded;
        if self == Class::RealTime && !is_running && may_move {
            inner.push_wanted = true;
        }
    }
}
