//! Preemption models: kernel/Kconfig.preempt, kernel/sched/core.c and include/linux/entry-common.h,
//! v6.13.
//!
//! **What Linux does:** a task that shall go has a flag. A CPU looks at it when it returns to user
//! mode, under every model. The models differ in two things. First, in what else looks at the flag:
//! `cond_resched` (none, voluntary), `might_sleep` (voluntary), or every place where the kernel holds
//! no spinlock (full, lazy). Second, in which flag the fair class sets: under lazy it is one of its
//! own. A CPU that runs kernel code does not go by that flag, and nobody sends an interrupt for it. The
//! next tick that finds it sets the other. Real-time tasks and CPUs that are idle do not wait for that.
//!
//! **What we do:** the same. Work of a system call under a lock that may sleep, and that of a page
//! fault, can be preempted in the middle under full and lazy. So it ends early for an interrupt.
//!
//! **What a test could notice:** under full and lazy the kernel is preempted in such work alone, not
//! between two accesses to shared lines. A task whose wake-up preempts its own waker gets the CPU when
//! the waker's system call ends.

use std::rc::Rc;

use hitm_base::Cycles;

use super::Kernel;
use super::functions as f;
use super::rq::Rq;
use super::task::{TASK_RUNNING, TIF_NEED_RESCHED, TIF_NEED_RESCHED_LAZY, Task};
use crate::engine::Site;

hitm_base::words! {
    /// A preemption model.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Preemption {
        /// Kernel code is preempted at `cond_resched`.
        None = "none",
        /// Also where it might sleep.
        Voluntary = "voluntary",
        /// Wherever it holds no spinlock.
        Full = "full",
        /// As full, but for the fair class no earlier than a tick after it has asked.
        Lazy = "lazy",
    }
}

impl Preemption {
    /// The flag that the fair class sets: `get_lazy_tif_bit`.
    pub(super) fn fair_flag(self) -> u64 {
        match self {
            Preemption::Lazy => TIF_NEED_RESCHED_LAZY,
            Preemption::None | Preemption::Voluntary | Preemption::Full => TIF_NEED_RESCHED,
        }
    }

    /// Returns true if an interrupt may take the CPU from kernel code.
    fn preempts_kernel(self) -> bool {
        matches!(self, Preemption::Full | Preemption::Lazy)
    }
}

/// Flags with which a task passes through the scheduler before it returns to user mode.
pub(super) const EXIT_RESCHED: u64 = TIF_NEED_RESCHED | TIF_NEED_RESCHED_LAZY;

impl Kernel {
    /// The running task of a run queue, which is locked, shall call the scheduler, by the wish of the
    /// fair class.
    pub(super) async fn resched_curr_lazy(&self, rq: &Rq) {
        let flag = self.config.preemption.fair_flag();
        self.resched_curr_by(rq, flag).await;
    }

    /// The tick of a run queue, which is locked, finds that the running task was asked to go.
    pub(super) async fn promote_lazy(&self, rq: &Rq, curr: &Task) {
        if self.config.preemption != Preemption::Lazy {
            return;
        }
        let flags = self.engine.load(f::SCHED_TICK, curr.p.flags).await;
        if flags & TIF_NEED_RESCHED_LAZY != 0 {
            self.resched_curr(rq).await;
        }
    }

    /// Kernel code that holds no spinlock says that it has run for long: `cond_resched`.
    pub(super) async fn cond_resched(&self, task: &Rc<Task>) {
        let model = self.config.preemption;
        if matches!(model, Preemption::None | Preemption::Voluntary) {
            self.preempt_schedule(task).await;
        }
    }

    /// Kernel code says that it may sleep: `might_sleep`.
    pub(super) async fn might_sleep(&self, task: &Rc<Task>) {
        if self.config.preemption == Preemption::Voluntary {
            self.preempt_schedule(task).await;
        }
    }

    /// Kernel code of `span` that holds no spinlock.
    pub(super) async fn run_in_kernel(&self, task: &Rc<Task>, site: Site, span: Cycles) {
        if !self.config.preemption.preempts_kernel() {
            self.engine.work(site, span);
            return;
        }
        let mut left = span;
        while left > Cycles::ZERO {
            left = self.engine.run(left).await;
            self.preempt_schedule(task).await;
        }
    }

    /// Passes through the scheduler if the running task was asked to.
    async fn preempt_schedule(&self, task: &Rc<Task>) {
        let (engine, site) = (&self.engine, f::PREEMPT_SCHEDULE);
        if engine.load(site, task.p.flags).await & TIF_NEED_RESCHED != 0 {
            let state = engine.value(task.p.state);
            assert_eq!(state, TASK_RUNNING, "a task that runs kernel code");
            self.schedule().await;
        }
    }
}
