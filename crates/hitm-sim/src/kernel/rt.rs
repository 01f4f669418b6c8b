//! The real-time class, kernel/sched/rt.c, v6.12.
//!
//! **What Linux does:** a list for each priority; tasks that may run elsewhere are also in a
//! priority list of pushable ones. A run queue with such tasks is overloaded: it stands in the root
//! domain's `rto_mask`. Tasks are pushed to CPUs of lower priority when they are woken or
//! preempted, best first until one does not fit. A CPU that is about to run something worse pulls
//! from overloaded ones, itself or by asking them through a chain of interrupts (`RT_PUSH_IPI`).
//!
//! **What we do:** the same functions with the same accesses to the members that CPUs share, under
//! the same locks. Lists are kept by value, with an access for each list head and node that the
//! kernel would touch.
//!
//! **What a test could notice:** no RT groups; no `migrate_disable`, so no stop task pushes a
//! running one away; no capacity or uclamp fitness; `SCHED_DEADLINE` does not exist. Throttling is
//! that of a run queue on its own, without lending among CPUs. Since v6.12 Linux has it for groups
//! only, and the fair server in its place ([`super::KernelConfig::rt_runtime`]). The source is
//! Debian's 6.12.117. What later stable releases changed in it and the model has as an option is in
//! [`super::Mechanism`]. Forms before 4.15 are those of 2.6.32 (push and pull) and 2.6.24
//! (passive).

mod balance;
mod cpusets;
mod prio_array;
mod queue;

use std::rc::Rc;

use hitm_base::CpuId;

pub use self::balance::Balancing;
pub(in crate::kernel) use self::prio_array::{PrioArray, USUAL_ROOM};
use super::Kernel;
use super::class::{Enqueue, SchedClass};
use super::core::Wake;
use super::fair::Dequeue;
use super::rq::Rq;
use super::task::Task;

/// The class. Its queues are [`super::rq::RtRq`], on the lines of their run queues.
pub(super) enum RtClass {}

impl SchedClass for RtClass {
    fn has(p: &Task) -> bool {
        p.is_rt()
    }

    fn enqueue_task(kernel: &Kernel, rq: &Rq, p: &Task, why: Enqueue) -> impl Future<Output = ()> {
        let at_head = why == Enqueue::Changed { at_head: true };
        kernel.enqueue_task_rt(rq, p, at_head)
    }

    async fn dequeue_task(kernel: &Kernel, rq: &Rq, p: &Task, _how: Dequeue) -> bool {
        kernel.dequeue_task_rt(rq, p).await;
        true
    }

    fn pick_task(kernel: &Kernel, rq: &Rq) -> impl Future<Output = Option<Rc<Task>>> {
        kernel.pick_task_rt(rq)
    }

    fn put_prev_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.put_prev_task_rt(rq, p)
    }

    fn set_next_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.set_next_task_rt(rq, p)
    }

    fn balance(kernel: &Kernel, rq: &Rq, prev: &Task) -> impl Future<Output = ()> {
        kernel.balance_rt(rq, prev)
    }

    fn task_tick(kernel: &Kernel, rq: &Rq, curr: &Task) -> impl Future<Output = ()> {
        kernel.task_tick_rt(rq, curr)
    }

    fn yield_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.yield_task_rt(rq, p)
    }

    fn wakeup_preempt(kernel: &Kernel, rq: &Rq, p: &Task, curr: &Task) -> impl Future<Output = ()> {
        kernel.wakeup_preempt_rt(rq, p, curr)
    }

    fn select_task_rq(
        kernel: &Kernel,
        p: &Task,
        cpu: CpuId,
        _wake: Wake,
    ) -> impl Future<Output = CpuId> {
        kernel.select_task_rq_rt(p, cpu)
    }

    fn task_woken(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.task_woken_rt(rq, p)
    }

    fn switched_from(rq: &Rq) {
        let mut inner = rq.inner.borrow_mut();
        inner.pull_wanted |= inner.rt.nr_running == 0;
    }

    fn switched_to(rq: &Rq, p: &Task, is_running: bool) {
        let mut inner = rq.inner.borrow_mut();
        let may_move = p.allowed_count.get() > 1 && inner.rt.overloaded;
        inner.push_wanted |= !is_running && may_move;
    }
}
