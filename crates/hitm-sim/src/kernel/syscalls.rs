//! Changing how a task is scheduled: kernel/sched/syscalls.c, v6.12.
//!
//! **What Linux does:** `__sched_setscheduler` takes the task off its queue and gives it the
//! policy, the priority and the weight. It puts the task back behind the others of its priority, or
//! before them when it has come down. Then the classes push, pull or preempt, and the holder of a
//! mutex that the task waits for gets the new loan.
//!
//! **What we do:** the same, under the task's `pi_lock` and its run queue's lock.
//!
//! **What a test could notice:** there are no permissions, no `SCHED_RESET_ON_FORK` and no
//! utilisation clamps. As in Linux, a waiting task whose priority rises within the real-time class
//! is not pushed. It waits for the next reason to push on its CPU.

use std::rc::Rc;

use super::Kernel;
use super::functions as f;
use super::process::Thread;
use super::rtmutex::effective_prio;
use super::task::{Policy, Task};

impl Thread {
    /// `sched_setscheduler`: gives a task, this one or another, a policy.
    pub async fn sched_setscheduler(&self, task: &Rc<Task>, policy: Policy) {
        self.enter();
        self.kernel.sched_setscheduler(task, policy).await;
        self.leave().await;
    }
}

impl Kernel {
    async fn sched_setscheduler(&self, task: &Rc<Task>, policy: Policy) {
        let (engine, site) = (&self.engine, f::SCHED_SETSCHEDULER);
        engine.call(site, self.costs.function);
        engine.set_irqs(false);
        self.spin_lock(task.p.pi_lock).await;
        let rq = self.task_rq_lock(task).await;
        self.update_rq_clock(rq).await;
        let prio = effective_prio(task, policy.prio());
        let adopt = || {
            task.policy.set(policy);
            task.normal_prio.set(policy.prio());
            self.fair.set_policy(task.se, policy, engine.now().0);
        };
        self.change_prio(rq, task, prio, adopt).await;
        self.balance_callbacks(rq).await;
        self.rq_unlock(rq).await;
        self.spin_unlock(task.p.pi_lock).await;
        self.rt_mutex_adjust_pi(task).await;
        engine.set_irqs(true);
    }
}
