//! Tasks that are taken off one by one: kernel/sched/fair.c, v6.18.
//!
//! **What Linux does:** the task that is picked from a throttled queue gets work to do before it
//! returns to user mode, where it holds no lock of the kernel. That work takes it off its queue and
//! puts it in the queue's limbo, from where unthrottling puts it back. A task in the kernel runs on.
//!
//! **What we do:** the same; the pending work is `TIF_NOTIFY_RESUME`.
//!
//! **What a test could notice:** nothing but costs of `task_work_add`, which is the flag's.

use std::rc::Rc;

use super::cfs_rq::CfsId;
use super::places::{CfsMember, SeMember};
use super::tree::Dequeue;
use crate::engine::Rmw;
use crate::kernel::Kernel;
use crate::kernel::class::Class;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::task::{TIF_NOTIFY_RESUME, Task, TaskId};

impl Kernel {
    /// A task was picked: `task_throttle_setup_work` if its queue is throttled.
    pub(in crate::kernel) async fn setup_throttle_work(&self, p: &Task) {
        let cfs = self.queue_of(p.se);
        let is_throttled = self.fair.groups.borrow().is_throttled_hierarchy(cfs);
        if is_throttled && self.fair.throttling.is_by_task() && !p.has_throttle_work.replace(true) {
            let set = Rmw::Or(TIF_NOTIFY_RESUME);
            self.engine
                .rmw(f::PICK_NEXT_TASK_FAIR, p.p.flags, set)
                .await;
        }
    }

    /// The running task is about to return to user mode: `throttle_cfs_rq_work`.
    pub(in crate::kernel) async fn throttle_cfs_rq_work(&self, p: &Rc<Task>) {
        let (engine, site) = (&self.engine, f::THROTTLE_CFS_RQ_WORK);
        p.has_throttle_work.set(false);
        engine
            .rmw(site, p.p.flags, Rmw::And(!TIF_NOTIFY_RESUME))
            .await;
        engine.set_irqs(false);
        let rq = self.rq(engine.cpu());
        self.rq_lock(rq).await;
        let cfs = self.queue_of(p.se);
        let place = self.cfs_member(cfs, CfsMember::ThrottleCount);
        engine.touch(site, place).await;
        let is_throttled = self.fair.groups.borrow().is_throttled_hierarchy(cfs);
        if is_throttled && p.class() == Class::Fair {
            self.update_rq_clock(rq).await;
            let how = Dequeue {
                sleeps: true,
                is_special: true,
                is_delayed: false,
            };
            self.dequeue_task_fair(rq, p, how).await;
            self.enter_limbo(cfs, p).await;
            self.resched_curr(rq).await;
        }
        self.rq_unlock(rq).await;
        engine.set_irqs(true);
    }

    pub(in crate::kernel) async fn enter_limbo(&self, cfs: CfsId, p: &Task) {
        let site = f::THROTTLE_CFS_RQ_WORK;
        p.is_throttled.set(true);
        self.fair
            .groups
            .borrow_mut()
            .tree
            .q_mut(cfs)
            .runtime
            .limbo
            .push(p.id);
        let now = self.engine.now().0;
        for se in self.entities_up(p.se) {
            self.fair.note_taken_off(self.queue_of(se), now);
        }
        let list = self.cfs_member(cfs, CfsMember::Limbo);
        self.engine.touch(site, list).await;
        self.engine.dirty(site, list).await;
        let node = self.se_member(p.se, SeMember::RunNode);
        self.engine.dirty(site, node).await;
    }

    /// Somebody else takes a task out of its limbo, because it changes its class or its CPU. It stays
    /// marked: where it comes back, it may have to wait again.
    pub(in crate::kernel) fn dequeue_throttled_task(&self, p: &Task) {
        let cfs = self.queue_of(p.se);
        let mut groups = self.fair.groups.borrow_mut();
        groups
            .tree
            .q_mut(cfs)
            .runtime
            .limbo
            .retain(|id| *id != p.id);
    }

    /// Puts the tasks of a limbo, whose head was read, back on their queue; the run queue is locked.
    pub(in crate::kernel) async fn leave_limbo(&self, rq: &Rq, cfs: CfsId, tasks: &[TaskId]) {
        let (engine, site) = (&self.engine, f::TG_UNTHROTTLE_UP);
        let list = self.cfs_member(cfs, CfsMember::Limbo);
        for id in tasks {
            let p = self.task(*id);
            p.is_throttled.set(false);
            engine
                .dirty(site, self.se_member(p.se, SeMember::RunNode))
                .await;
            engine.dirty(site, list).await;
            self.enqueue_task_fair(rq, &p).await;
        }
    }
}
