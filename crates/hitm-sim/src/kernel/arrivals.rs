//! Work that comes from outside of the machine, as packets that a network card delivers.
//!
//! **What Linux does:** the card interrupts a CPU, whose softirq brings the packet to its socket and
//! wakes the thread that waits for it.
//!
//! **What we do:** a timer of that CPU fires instead, and wakes the thread. What protocols and sockets
//! take is part of the work that a workload states.

use std::fmt::Debug;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::core::Wake;
use super::functions as f;
use super::hrtimer::Expiry;
use super::process::Thread;
use super::task::{TASK_INTERRUPTIBLE, TaskId};

/// A source of work, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrivalsId(usize);

/// A source of work.
pub trait Arrivals: Debug {
    /// Time of the next arrival; `None` when there are no more.
    fn next_at(&self) -> Option<Cycles>;

    /// Takes that arrival; returns the task to be woken for it, if one waits.
    fn take(&self) -> Option<TaskId>;
}

impl Kernel {
    /// Has a CPU take the interrupts of a source, before the run.
    pub fn add_arrivals(&self, cpu: CpuId, source: Rc<dyn Arrivals>) {
        let mut all = self.arrivals.borrow_mut();
        let id = ArrivalsId(all.len());
        if let Some(at) = source.next_at() {
            self.timers[cpu.index()].add_first(at, Expiry::Arrival(id));
        }
        all.push(source);
    }

    /// All that is due of a source has arrived on this CPU. Interrupts are off.
    pub(super) async fn deliver(&self, id: ArrivalsId) {
        let source = Rc::clone(&self.arrivals.borrow()[id.0]);
        while let Some(at) = source.next_at() {
            if at > self.engine.now() {
                self.hrtimer_start_for(Expiry::Arrival(id), at).await;
                return;
            }
            if let Some(task) = source.take() {
                self.try_to_wake_up(&self.task(task), Wake::Plain).await;
            }
        }
    }
}

impl Thread {
    /// Sleeps in a system call until `has_work` says that somebody gave it work and woke it.
    pub async fn wait_for_work(&self, has_work: impl Fn() -> bool) {
        self.enter();
        let (kernel, task) = (&self.kernel, &self.task);
        kernel.set_current_state(task, TASK_INTERRUPTIBLE).await;
        let site = f::ENTRY_SYSCALL;
        kernel.sleep_while(task, site, || !has_work()).await;
        self.leave().await;
    }
}
