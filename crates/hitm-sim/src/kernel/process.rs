//! Actions of a simulated thread: user code and system calls.
//!
//! **What Linux does:** kernel/entry/common.c (v6.12) passes through the scheduler before it returns
//! to user mode when `TIF_NEED_RESCHED` is set, after system calls and interrupts alike.
//!
//! **What we do:** the same. User code is a span of time, or accesses of its own.

use std::rc::Rc;

use hitm_base::machine::MachineCost;
use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::functions as f;
use super::preempt::EXIT_RESCHED;
use super::task::{TASK_INTERRUPTIBLE, TASK_RUNNING, TIF_NEED_RESCHED, TIF_NOTIFY_RESUME, Task};
use crate::engine::{Engine, Mode, Place, Rmw, Site};

/// A running thread, as its own program sees it.
#[derive(Debug, Clone)]
pub struct Thread {
    pub(super) kernel: Rc<Kernel>,
    pub(super) task: Rc<Task>,
}

/// The way on which a task came into the kernel that it leaves for user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// A system call.
    Syscall,
    /// An interrupt or a fault.
    Interrupt,
    /// None: user code goes on, and an interrupt for it is on its way at most.
    None,
}

impl Exit {
    /// Flags that are looked at.
    fn resched(self) -> u64 {
        match self {
            Exit::Syscall | Exit::Interrupt => EXIT_RESCHED,
            Exit::None => TIF_NEED_RESCHED,
        }
    }
}

impl Thread {
    /// The kernel that it runs under.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The engine, for user code with shared accesses of its own.
    pub fn engine(&self) -> &Engine {
        &self.kernel.engine
    }

    /// Returns the task that it runs as.
    pub fn task(&self) -> &Rc<Task> {
        &self.task
    }

    /// The time.
    pub fn now(&self) -> Cycles {
        self.kernel.engine.now()
    }

    /// The CPU that it is on.
    pub fn cpu(&self) -> CpuId {
        self.kernel.engine.cpu()
    }

    /// Runs user code for `span` of CPU time.
    pub async fn run(&self, span: Cycles) {
        let mut left = span;
        while left > Cycles::ZERO {
            left = self.run_to_interrupt(left).await;
        }
    }

    /// Runs user code for ever.
    pub async fn run_always(&self) {
        loop {
            self.run(Cycles(1 << 40)).await;
        }
    }

    /// Runs user code until the clock reads `until`; returns the CPU time that it got.
    pub async fn run_until(&self, until: Cycles) -> Cycles {
        let mut ran = Cycles::ZERO;
        loop {
            let left = until.saturating_sub(self.now());
            if left == Cycles::ZERO {
                return ran;
            }
            let after = self.run_to_interrupt(left).await;
            ran += left - after;
        }
    }

    /// User code looks at a word until somebody writes its line, until `until`, or to the next
    /// interrupt.
    pub async fn spin_on(&self, word: Place, seen: u64, until: Cycles) {
        let engine = &self.kernel.engine;
        self.until_interrupt(engine.wait_for_write_until(word, seen, until))
            .await;
    }

    /// Sleeps until `at`.
    pub async fn sleep_until(&self, at: Cycles) {
        self.enter();
        self.kernel.sleep_in_kernel(&self.task, at).await;
        self.leave().await;
    }

    /// Sleeps for `span`.
    pub async fn sleep(&self, span: Cycles) {
        self.sleep_until(self.now() + span).await;
    }

    /// `sched_yield` of a task that lets others of its priority go first.
    pub async fn sched_yield(&self) {
        self.enter();
        self.kernel.yield_task(&self.task).await;
        self.leave().await;
    }

    /// A `write` to /dev/null, which looks at none of its bytes: the system call alone.
    pub async fn null_write(&self) {
        self.enter();
        self.kernel
            .engine
            .work(f::WRITE_NULL, self.kernel.costs.function);
        self.leave().await;
    }

    /// Enters the kernel by a system call.
    pub(super) fn enter(&self) {
        let kernel = &self.kernel;
        kernel.engine.set_mode(Mode::Kernel);
        kernel.engine.work(
            f::ENTRY_SYSCALL,
            kernel.costs.machine.get(MachineCost::Syscall),
        );
    }

    /// Returns to user mode.
    pub(super) async fn leave(&self) {
        self.kernel.exit_to_user(&self.task, Exit::Syscall).await;
        self.kernel.engine.set_mode(Mode::User);
    }

    async fn run_to_interrupt(&self, span: Cycles) -> Cycles {
        let engine = &self.kernel.engine;
        engine.set_mode(Mode::User);
        self.until_interrupt(engine.run(span)).await
    }

    /// User code that may end early for an interrupt, and what the kernel does then.
    pub(super) async fn until_interrupt<T>(&self, code: impl Future<Output = T>) -> T {
        let kernel = &self.kernel;
        let result = code.await;
        kernel.engine.set_mode(Mode::Kernel);
        let rq = kernel.rq(self.cpu());
        // Without an interrupt there was no way into the kernel, where a lazy flag would be seen.
        let exit = match rq.interrupts.get() == rq.interrupts_seen.get() {
            true => Exit::None,
            false => Exit::Interrupt,
        };
        kernel.exit_to_user(&self.task, exit).await;
        kernel.engine.set_mode(Mode::User);
        result
    }
}

impl Kernel {
    /// The running task is about to sleep, or is not any more.
    pub(super) async fn set_current_state(&self, task: &Task, state: u64) {
        // An exchange, as on x86: the state must be seen before the condition for the sleep is
        // tested.
        let swap = Rmw::exchange(state);
        self.engine.rmw(f::SCHEDULE, task.p.state, swap).await;
    }

    /// A task whose state says so sleeps as long as it `waits`: a wake-up for something else may come late.
    pub(super) async fn sleep_while(&self, task: &Task, site: Site, waits: impl Fn() -> bool) {
        while waits() {
            self.schedule().await;
            self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        }
        self.engine.store(site, task.p.state, TASK_RUNNING).await;
    }

    /// Sleeps in the kernel until `at`, whatever is held.
    pub(super) async fn sleep_in_kernel(&self, task: &Rc<Task>, at: Cycles) {
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        self.hrtimer_start(task, at).await;
        let waits = || self.engine.now() < at;
        self.sleep_while(task, f::HRTIMER_START, waits).await;
    }

    /// Passes through the scheduler as long as it is asked to, and does what is to be done before
    /// user mode.
    pub(super) async fn exit_to_user(&self, task: &Rc<Task>, exit: Exit) {
        loop {
            let rq = self.rq(self.engine.cpu());
            rq.interrupts_seen.set(rq.interrupts.get());
            let flags = self.engine.load(f::EXIT_TO_USER, task.p.flags).await;
            if flags & exit.resched() != 0 {
                if exit != Exit::Interrupt || !self.grant_slice_extension(task).await {
                    self.schedule().await;
                }
            } else if flags & TIF_NOTIFY_RESUME != 0 {
                self.throttle_cfs_rq_work(task).await;
            } else if self.takes_balance_request() {
                self.sched_balance_softirq().await;
            } else {
                return;
            }
        }
    }

    async fn yield_task(&self, task: &Rc<Task>) {
        self.engine.set_irqs(false);
        let rq = self.rq(self.engine.cpu());
        self.rq_lock(rq).await;
        task.class().yield_task(self, rq, task).await;
        self.rq_unlock(rq).await;
        self.engine.set_irqs(true);
        debug_assert_eq!(self.engine.value(task.p.state), TASK_RUNNING);
        self.schedule().await;
    }
}
