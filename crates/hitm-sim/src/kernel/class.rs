//! Scheduling classes: `struct sched_class` of kernel/sched/sched.h, v6.12.
//!
//! **What Linux does:** each class is a table of functions. The linker puts the tables in order, and
//! whoever looks for a task asks one after the other.
//!
//! **What we do:** the same. A class is a type that is a [`SchedClass`], in a file of its own, and a line of the
//! list below, whose order is that of the classes. Functions that it leaves out are `NULL` in Linux. Calls are
//! direct: boxed futures would cost each wake-up an allocation. [`ext`] is the smallest with a state and a
//! policy of its own; `docs/guide/policies.md` takes it apart.
//!
//! **What a test could notice:** there is no stop class. The run queue of every operation that has one is
//! locked.

mod ext;

use std::cmp::Ordering;
use std::rc::Rc;

use hitm_base::CpuId;

use self::ext::ExtClass;
use super::core::Wake;
use super::deadline::DlClass;
use super::fair::{Dequeue, FairClass};
use super::idle::IdleClass;
use super::rq::Rq;
use super::rt::RtClass;
use super::task::Task;
use super::{CpuMask, Kernel, TaskSpec};
use crate::engine::SimError;

/// Reason why a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enqueue {
    /// It was woken, or comes from another CPU.
    Wakeup,
    /// Its priority or class has changed; before others of its priority if it has come down.
    Changed { at_head: bool },
}

/// The functions of a class.
pub(super) trait SchedClass {
    /// Returns true if the class has a task that none before it in the list has.
    fn has(p: &Task) -> bool;

    /// A task is about to be made, before the run.
    ///
    /// # Errors
    /// A policy of the class that the kernel refuses to the task.
    fn admit(_kernel: &Kernel, _spec: &TaskSpec, _allowed: &CpuMask) -> Result<(), SimError> {
        Ok(())
    }

    /// A task becomes runnable on a run queue, or has become one of the class while it runs there.
    fn enqueue_task(kernel: &Kernel, rq: &Rq, p: &Task, why: Enqueue) -> impl Future<Output = ()>;

    /// It stops being runnable there. Returns false if it has to stay on its queue until it owes no time.
    fn dequeue_task(kernel: &Kernel, rq: &Rq, p: &Task, how: Dequeue)
    -> impl Future<Output = bool>;

    /// The task to run, the running one included.
    fn pick_task(kernel: &Kernel, rq: &Rq) -> impl Future<Output = Option<Rc<Task>>>;

    /// A task of the class loses the CPU.
    async fn put_prev_task(_kernel: &Kernel, _rq: &Rq, _p: &Task) {}

    /// A task of the class gets the CPU.
    async fn set_next_task(_kernel: &Kernel, _rq: &Rq, _p: &Task) {}

    /// The scheduler is about to pick, with the class of `prev` at this one or above: gets tasks from other CPUs.
    async fn balance(_kernel: &Kernel, _rq: &Rq, _prev: &Task) {}

    /// No class has a task for a CPU: gets some from other CPUs. The lock may be dropped. Returns true if there may be
    /// one now.
    async fn newidle(_kernel: &Kernel, _rq: &Rq) -> bool {
        false
    }

    /// The CPU becomes idle, or is not any more.
    async fn update_idle(_kernel: &Kernel, _rq: &Rq, _is_idle: bool) {}

    /// The tick finds a task of the class running.
    async fn task_tick(_kernel: &Kernel, _rq: &Rq, _curr: &Task) {}

    /// The running task lets others go first.
    async fn yield_task(_kernel: &Kernel, _rq: &Rq, _p: &Task) {}

    /// A task was put on the queue; the running one, which is of the class too, may have to go.
    async fn wakeup_preempt(_kernel: &Kernel, _rq: &Rq, _p: &Task, _curr: &Task) {}

    /// A task was put on the queue; the running one is of a class below and has to go.
    fn preempt_lower(kernel: &Kernel, rq: &Rq) -> impl Future<Output = ()> {
        kernel.resched_curr(rq)
    }

    /// Chooses the CPU of a woken task, which was on `cpu` and may run there.
    async fn select_task_rq(_kernel: &Kernel, _p: &Task, cpu: CpuId, _wake: Wake) -> CpuId {
        cpu
    }

    /// A task was woken and may not run at once.
    async fn task_woken(_kernel: &Kernel, _rq: &Rq, _p: &Task) {}

    /// A queued task has left the class for another.
    fn switched_from(_rq: &Rq) {}

    /// A queued task of another class has come.
    fn switched_to(_rq: &Rq, _p: &Task, _is_running: bool) {}
}

/// Declares the classes, the highest first: the type of each, the name of the state of one that keeps a value of
/// that type in the kernel, and the word in scenarios of one that a policy without parameters chooses.
macro_rules! classes {
    ($($(#[$meta:meta])+ $item:ident($class:ident $(as $state:ident)?) $(= $word:literal)?,)+) => {
        /// State of classes beside that of run queues.
        #[derive(Debug, Default)]
        pub(super) struct ClassStates {
            $($(pub(super) $state: $class,)?)+
        }

        hitm_base::words! {
            /// Policies without parameters, which have a class to themselves.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum OwnPolicy {
                $($(
                    #[doc = concat!("That of class `", $word, "`.")]
                    $item = $word,
                )?)+
            }
        }

        /// A scheduling class; the highest is the least.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Class {
            $($(#[$meta])+ $item,)+
        }

        impl Task {
            /// The class that has it.
            pub(super) fn class(&self) -> Class {
                $(if $class::has(self) {
                    return Class::$item;
                })+
                unreachable!("task {} is of no class", self.name)
            }
        }

        impl Class {
            pub(super) async fn enqueue_task(self, kernel: &Kernel, rq: &Rq, p: &Task, why: Enqueue) {
                match self {
                    $(Class::$item => $class::enqueue_task(kernel, rq, p, why).await,)+
                }
            }

            pub(super) async fn dequeue_task(
                self,
                kernel: &Kernel,
                rq: &Rq,
                p: &Task,
                how: Dequeue,
            ) -> bool {
                match self {
                    $(Class::$item => $class::dequeue_task(kernel, rq, p, how).await,)+
                }
            }

            /// [`SchedClass::admit`] of all classes.
            pub(super) fn admit(
                kernel: &Kernel,
                spec: &TaskSpec,
                allowed: &CpuMask,
            ) -> Result<(), SimError> {
                $($class::admit(kernel, spec, allowed)?;)+
                Ok(())
            }

            /// The task that runs next; none if the CPU becomes idle.
            pub(super) async fn pick_next_task(kernel: &Kernel, rq: &Rq) -> Option<Rc<Task>> {
                let picked = Class::pick_task(kernel, rq).await;
                if picked.is_some() {
                    return picked;
                }
                $(if $class::newidle(kernel, rq).await {
                    // Others may have put something better here while the lock was dropped.
                    let picked = Class::pick_task(kernel, rq).await;
                    if picked.is_some() {
                        return picked;
                    }
                })+
                None
            }

            /// Asks one class after the other.
            async fn pick_task(kernel: &Kernel, rq: &Rq) -> Option<Rc<Task>> {
                $(
                    let picked = $class::pick_task(kernel, rq).await;
                    if picked.is_some() {
                        return picked;
                    }
                )+
                None
            }

            pub(super) async fn put_prev_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
                match self {
                    $(Class::$item => $class::put_prev_task(kernel, rq, p).await,)+
                }
            }

            pub(super) async fn set_next_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
                match self {
                    $(Class::$item => $class::set_next_task(kernel, rq, p).await,)+
                }
            }

            /// `put_prev_task_balance` asks the class of `prev` and those below.
            pub(super) async fn balance(kernel: &Kernel, rq: &Rq, prev: &Task) {
                let first = prev.class();
                $(if first <= Class::$item {
                    $class::balance(kernel, rq, prev).await;
                })+
            }

            /// [`SchedClass::update_idle`] of all classes.
            pub(super) async fn update_idle(kernel: &Kernel, rq: &Rq, is_idle: bool) {
                $($class::update_idle(kernel, rq, is_idle).await;)+
            }

            pub(super) async fn task_tick(self, kernel: &Kernel, rq: &Rq, curr: &Task) {
                match self {
                    $(Class::$item => $class::task_tick(kernel, rq, curr).await,)+
                }
            }

            pub(super) async fn yield_task(self, kernel: &Kernel, rq: &Rq, p: &Task) {
                match self {
                    $(Class::$item => $class::yield_task(kernel, rq, p).await,)+
                }
            }

            /// `p` was put on the queue: the running task may have to go.
            pub(super) async fn wakeup_preempt(kernel: &Kernel, rq: &Rq, p: &Task, curr: &Task) {
                let class = p.class();
                match (class.cmp(&curr.class()), class) {
                    $(
                        (Ordering::Equal, Class::$item) => {
                            $class::wakeup_preempt(kernel, rq, p, curr).await;
                        }
                        (Ordering::Less, Class::$item) => $class::preempt_lower(kernel, rq).await,
                    )+
                    (Ordering::Greater, _) => {}
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
                    $(Class::$item => $class::select_task_rq(kernel, p, cpu, wake).await,)+
                }
            }

            pub(super) async fn task_woken(self, kernel: &Kernel, rq: &Rq, p: &Task) {
                match self {
                    $(Class::$item => $class::task_woken(kernel, rq, p).await,)+
                }
            }

            pub(super) fn switched_from(self, rq: &Rq) {
                match self {
                    $(Class::$item => $class::switched_from(rq),)+
                }
            }

            pub(super) fn switched_to(self, rq: &Rq, p: &Task, is_running: bool) {
                match self {
                    $(Class::$item => $class::switched_to(rq, p, is_running),)+
                }
            }
        }
    };
}

classes! {
    /// The earliest deadline first, with a budget for each task.
    Deadline(DlClass),
    /// The best priority first.
    RealTime(RtClass),
    /// CPU time by weight.
    Fair(FairClass),
    /// First come, first served, on all CPUs.
    Ext(ExtClass as ext) = "ext",
    /// The tasks that run when nobody else does.
    Idle(IdleClass),
}
