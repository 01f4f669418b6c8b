//! Calls of core.rs to the fair class: kernel/sched/fair.c, v6.12.
//!
//! Each call walks from a task's entity up to the root, or down; level.rs has what it does at each
//! level.

use std::rc::Rc;

use hitm_base::CpuId;

use super::FairClass;
use super::cfs_rq::CfsId;
use super::entity::{EntityId, Owner};
use super::places::{CfsMember, CfsWord, SeMember};
use super::tree::{Dequeue, Enqueue};
use crate::kernel::Kernel;
use crate::kernel::class::{self, Class, SchedClass};
use crate::kernel::core::Wake;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::task::{Policy, Task};

impl SchedClass for FairClass {
    fn has(p: &Task) -> bool {
        !p.is_idle && !matches!(p.policy.get(), Policy::Own(_))
    }

    async fn enqueue_task(kernel: &Kernel, rq: &Rq, p: &Task, why: class::Enqueue) {
        kernel.enqueue_task_fair(rq, p).await;
        if why == class::Enqueue::Wakeup {
            return;
        }
        // `switched_to_fair`: priorities do not tell that the running task is of a class below.
        let curr = kernel.task(rq.curr.get());
        if curr.class() > Class::Fair && !curr.is_idle {
            kernel.resched_curr(rq).await;
        }
    }

    fn dequeue_task(
        kernel: &Kernel,
        rq: &Rq,
        p: &Task,
        how: Dequeue,
    ) -> impl Future<Output = bool> {
        kernel.dequeue_task_fair(rq, p, how)
    }

    fn pick_task(kernel: &Kernel, rq: &Rq) -> impl Future<Output = Option<Rc<Task>>> {
        kernel.pick_task_fair(rq)
    }

    fn put_prev_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.put_prev_task_fair(rq, p)
    }

    fn set_next_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.set_next_task_fair(rq, p)
    }

    fn newidle(kernel: &Kernel, rq: &Rq) -> impl Future<Output = bool> {
        kernel.sched_balance_newidle(rq)
    }

    fn task_tick(kernel: &Kernel, rq: &Rq, curr: &Task) -> impl Future<Output = ()> {
        kernel.task_tick_fair(rq, curr)
    }

    fn yield_task(kernel: &Kernel, rq: &Rq, p: &Task) -> impl Future<Output = ()> {
        kernel.yield_task_fair(rq, p)
    }

    fn wakeup_preempt(kernel: &Kernel, rq: &Rq, p: &Task, curr: &Task) -> impl Future<Output = ()> {
        kernel.wakeup_preempt_fair(rq, p, curr)
    }

    /// `wakeup_preempt_fair` has the case within itself.
    fn preempt_lower(kernel: &Kernel, rq: &Rq) -> impl Future<Output = ()> {
        kernel
            .engine
            .call(f::WAKEUP_PREEMPT_FAIR, kernel.costs.function);
        kernel.resched_curr(rq)
    }

    fn select_task_rq(
        kernel: &Kernel,
        p: &Task,
        cpu: CpuId,
        wake: Wake,
    ) -> impl Future<Output = CpuId> {
        kernel.select_task_rq_fair(p, cpu, wake)
    }
}

impl Kernel {
    /// Puts a task on a run queue, which is locked; a sleeper that never left just continues.
    pub(in crate::kernel) async fn enqueue_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_FAIR);
        engine.call(site, self.costs.function);
        self.update_averages(rq, Some(p));
        if p.is_throttled.get() {
            let cfs = self.queue_of(p.se);
            p.is_throttled.set(false);
            if self.fair.groups.borrow().is_throttled_hierarchy(cfs) {
                self.enter_limbo(cfs, p).await;
                return;
            }
        }
        if self.is_delayed(p.se) {
            self.requeue_delayed_entity(rq, p.se).await;
            return;
        }
        self.fair.cpu_tasks.borrow_mut()[rq.cpu.index()].push(p.id);
        let is_initial = !p.is_placed.replace(true);
        let mut how = Enqueue { is_initial };
        let mut is_new = true;
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            // From here up entities are queued already: their loads and weights change.
            if is_new && self.fair.groups.borrow().tree.se(se).on_rq {
                if self.is_delayed(se) {
                    self.requeue_delayed_entity(rq, se).await;
                }
                is_new = false;
            }
            if is_new {
                self.enqueue_entity(rq, se, how).await;
                how = Enqueue::default();
            } else {
                self.update_load(cfs, se, site).await;
                self.update_cfs_group(rq, se).await;
            }
            self.change_h_nr(cfs, 1, site).await;
            if self.is_queue_stopped(cfs) {
                return;
            }
        }
        self.add_nr_running(site, rq, 1).await;
    }

    /// Takes a task off a run queue, which is locked; false when it has to stay for what it owes.
    pub(in crate::kernel) async fn dequeue_task_fair(
        &self,
        rq: &Rq,
        p: &Task,
        how: Dequeue,
    ) -> bool {
        self.update_averages(rq, Some(p));
        if p.is_throttled.get() {
            self.dequeue_throttled_task(p);
            p.is_throttled.set(true);
            return true;
        }
        let is_off = self.dequeue_entities(rq, p.se, how).await;
        if is_off {
            self.fair.cpu_tasks.borrow_mut()[rq.cpu.index()].retain(|id| *id != p.id);
        }
        is_off
    }

    /// Takes an entity off, and those above it that have nothing queued any more.
    pub(in crate::kernel) async fn dequeue_entities(
        &self,
        rq: &Rq,
        first: EntityId,
        mut how: Dequeue,
    ) -> bool {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_FAIR);
        engine.call(site, self.costs.function);
        let tasks = self.tasks_under(first);
        let is_task = self.task_of_entity(first).is_some();
        let mut is_emptied = true;
        for se in self.entities_up(first) {
            let cfs = self.queue_of(se);
            if is_emptied {
                if !self.dequeue_entity(rq, se, how).await {
                    if se == first && is_task {
                        return false;
                    }
                    is_emptied = false;
                }
                // A group's entity sleeps when its queue is empty, even if the task only moves.
                how = Dequeue {
                    sleeps: true,
                    ..Dequeue::default()
                };
            } else {
                self.update_load(cfs, se, site).await;
                self.update_cfs_group(rq, se).await;
            }
            // A group's entity that left late took its tasks along when they left.
            self.change_h_nr(cfs, -tasks, site).await;
            if self.is_queue_stopped(cfs) {
                return true;
            }
            is_emptied &= self.fair.groups.borrow().tree.q(cfs).load == 0;
        }
        if tasks > 0 {
            self.sub_nr_running(site, rq, tasks as u64).await;
        }
        true
    }

    /// Tasks that leave with an entity.
    fn tasks_under(&self, se: EntityId) -> i64 {
        let groups = self.fair.groups.borrow();
        match groups.tree.se(se).owner {
            Owner::Task(_) => 1,
            Owner::Group(cfs) => i64::from(groups.tree.q(cfs).h_nr_queued),
        }
    }

    /// The task to run, the running one included.
    pub(in crate::kernel) async fn pick_task_fair(&self, rq: &Rq) -> Option<Rc<Task>> {
        let site = f::PICK_NEXT_TASK_FAIR;
        let root = CfsId(u32::from(rq.cpu.0));
        'again: loop {
            let h_nr_queued = self.fair.groups.borrow().tree.q(root).h_nr_queued;
            let place = self.cfs_word(root, CfsWord::NrQueued);
            self.engine
                .load_known(site, place, u64::from(h_nr_queued))
                .await;
            if self.fair.groups.borrow().tree.q(root).nr_queued == 0 {
                return None;
            }
            let mut cfs = root;
            loop {
                self.update_curr_fair(rq, cfs).await;
                if self.check_cfs_rq_runtime(rq, cfs).await {
                    continue 'again;
                }
                let se = self.fair.groups.borrow().tree.pick_eevdf(cfs);
                let Some(se) = se else {
                    continue 'again;
                };
                self.touch_cfs(site, cfs, CfsMember::Timeline).await;
                self.touch_se(site, se, SeMember::Deadline).await;
                if self.is_delayed(se) {
                    self.leave_late(rq, se).await;
                    continue 'again;
                }
                let owner = self.fair.groups.borrow().tree.se(se).owner;
                match owner {
                    Owner::Task(task) => {
                        let task = self.task(task);
                        self.setup_throttle_work(&task).await;
                        return Some(task);
                    }
                    Owner::Group(below) => cfs = below,
                }
            }
        }
    }

    /// A delayed entity owes nothing any more.
    async fn leave_late(&self, rq: &Rq, se: EntityId) {
        let how = Dequeue {
            sleeps: true,
            is_delayed: true,
            ..Dequeue::default()
        };
        match self.task_of_entity(se) {
            Some(task) => self.finish_delayed(rq, &task).await,
            None => {
                self.dequeue_entities(rq, se, how).await;
            }
        }
    }

    /// A task that sleeps and is still queued leaves its run queue, which is locked.
    pub(in crate::kernel) async fn finish_delayed(&self, rq: &Rq, task: &Task) {
        if !self.is_delayed(task.se) {
            return;
        }
        let how = Dequeue {
            sleeps: true,
            is_delayed: true,
            ..Dequeue::default()
        };
        self.dequeue_task_fair(rq, task, how).await;
        task.on_rq.set(false);
        self.engine.store(f::SCHEDULE, task.p.on_rq, 0).await;
    }

    pub(in crate::kernel) async fn set_next_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PICK_NEXT_TASK_FAIR);
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            self.touch_se(site, se, SeMember::RunNode).await;
            self.dirty_cfs(site, cfs, CfsMember::Timeline).await;
            self.update_load(cfs, se, site).await;
            self.dirty_se(site, se, SeMember::ExecStart).await;
            self.dirty_cfs(site, cfs, CfsMember::Curr).await;
            let now = engine.now().0;
            self.fair.groups.borrow_mut().tree.set_next(se, now);
        }
        p.exec_start.set(engine.now());
    }

    pub(in crate::kernel) async fn put_prev_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PUT_PREV_TASK_FAIR);
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            let now = engine.now().0;
            if self.fair.groups.borrow().tree.se(se).on_rq {
                self.update_curr_fair(rq, cfs).await;
                self.dirty_se(site, se, SeMember::RunNode).await;
                self.dirty_cfs(site, cfs, CfsMember::Timeline).await;
                self.update_load(cfs, se, site).await;
            }
            self.fair.groups.borrow_mut().tree.put_prev(se, now);
            self.dirty_cfs(site, cfs, CfsMember::Curr).await;
        }
    }

    pub(in crate::kernel) async fn task_tick_fair(&self, rq: &Rq, p: &Task) {
        let site = f::TASK_TICK_FAIR;
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            self.update_curr_fair(rq, cfs).await;
            self.update_load(cfs, se, site).await;
            self.update_cfs_group(rq, se).await;
        }
    }

    pub(in crate::kernel) async fn yield_task_fair(&self, rq: &Rq, p: &Task) {
        let cfs = self.queue_of(p.se);
        self.update_curr_fair(rq, cfs).await;
        let now = self.engine.now().0;
        self.fair.groups.borrow_mut().tree.yield_curr(cfs, now);
        let place = self.se_member(p.se, SeMember::Deadline);
        self.engine.dirty(f::TASK_TICK_FAIR, place).await;
    }

    /// Reschedules the CPU if a woken task should take it from the running one.
    pub(in crate::kernel) async fn wakeup_preempt_fair(&self, rq: &Rq, p: &Task, curr: &Task) {
        let (engine, site) = (&self.engine, f::WAKEUP_PREEMPT_FAIR);
        engine.call(site, self.costs.function);
        // An idle task goes for any other at once; the others of these policies wait for the tick.
        let idles = |task: &Task| task.policy.get() == Policy::Idle;
        if idles(curr) && !idles(p) && !self.is_hierarchy_stopped(self.queue_of(p.se)) {
            self.resched_curr(rq).await;
            return;
        }
        if matches!(p.policy.get(), Policy::Batch(_) | Policy::Idle) {
            return;
        }
        let Some((se, cfs)) = self.matching_se(p.se, curr.se) else {
            return;
        };
        if self.is_hierarchy_stopped(cfs) {
            return;
        }
        self.update_curr_fair(rq, cfs).await;
        self.touch_cfs(site, cfs, CfsMember::Timeline).await;
        let picked = self.fair.groups.borrow().tree.pick_eevdf(cfs);
        if picked == Some(se) {
            self.resched_curr_lazy(rq).await;
        }
    }

    /// The entity above `se` on the lowest queue that has one of `curr`, too: `find_matching_se`.
    fn matching_se(&self, se: EntityId, curr: EntityId) -> Option<(EntityId, CfsId)> {
        let of_curr = self.entities_up(curr);
        let queues: Vec<CfsId> = of_curr.iter().map(|se| self.queue_of(*se)).collect();
        let mut up = self.entities_up(se).into_iter();
        up.find_map(|se| {
            let cfs = self.queue_of(se);
            queues.contains(&cfs).then_some((se, cfs))
        })
    }
}
