//! Queueing by deadline, budgets and their timers.

use std::rc::Rc;

use super::{DlTask, entity};
use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::cpupri::CPUPRI_HIGHER;
use crate::kernel::functions as f;
use crate::kernel::hrtimer::Expiry;
use crate::kernel::rq::Rq;
use crate::kernel::task::{Task, TaskId};

/// Reason why a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) enum EnqueueDl {
    /// It was woken.
    Wakeup,
    /// Its runtime is new: `ENQUEUE_REPLENISH`.
    Replenish,
    /// It comes from another CPU.
    Move,
}

impl Kernel {
    /// A task becomes runnable on this run queue, which is locked. One without runtime waits for its timer.
    pub(in crate::kernel) async fn enqueue_task_dl(&self, rq: &Rq, p: &Task, why: EnqueueDl) {
        let site = f::ENQUEUE_TASK_DL;
        self.engine.call(site, self.costs.function);
        let dl = entity(p);
        match why {
            EnqueueDl::Wakeup if dl.is_throttled.get() => return,
            EnqueueDl::Wakeup => self.update_dl_entity(p).await,
            EnqueueDl::Replenish => self.replenish_dl_entity(dl).await,
            EnqueueDl::Move => {}
        }
        if dl.is_throttled.get() {
            return;
        }
        self.enqueue_dl_entity(rq, p).await;
        self.load_nr_cpus_allowed(site, p).await;
        if rq.curr.get() != p.id && p.allowed_count.get() > 1 {
            self.enqueue_pushable_dl_task(rq, p).await;
        }
    }

    /// A task stops being runnable on this run queue, which is locked.
    pub(in crate::kernel) async fn dequeue_task_dl(&self, rq: &Rq, p: &Task) {
        self.engine.call(f::DEQUEUE_TASK_DL, self.costs.function);
        self.update_curr_dl(rq).await;
        self.dequeue_dl_entity(rq, p).await;
        self.dequeue_pushable_dl_task(rq, p).await;
    }

    /// Leaves a woken task its runtime and deadline, if its bandwidth allows that; else it gets new ones.
    async fn update_dl_entity(&self, p: &Task) {
        let (dl, now) = (entity(p), self.engine.now().0);
        let params = dl.params;
        let (deadline, is_implicit) = (dl.deadline.get(), params.deadline == params.period);
        let next_period = deadline.saturating_sub(params.deadline.0) + params.period.0;
        // A task whose deadline is shorter than its period has nothing between the two.
        if !is_implicit && deadline <= now && now < next_period && deadline > 0 {
            dl.left.set(0);
            dl.is_throttled.set(true);
            self.hrtimer_start_for(Expiry::DlPeriod(p.id), hitm_base::Cycles(next_period))
                .await;
            return;
        }
        if deadline < now {
            self.start_period(dl, now).await;
        } else if self.overflows(dl, now) {
            if is_implicit {
                self.start_period(dl, now).await;
            } else {
                // As much as its density allows until the deadline.
                let laxity = u128::from(deadline - now) * u128::from(params.runtime.0);
                dl.left.set((laxity / u128::from(params.deadline.0)) as i64);
                self.store_dl(dl, deadline).await;
            }
        }
    }

    /// `dl_entity_overflow`: returns true if the runtime left, until the deadline, is more than its bandwidth.
    fn overflows(&self, dl: &DlTask, now: u64) -> bool {
        let left = i128::from(dl.left.get()) * i128::from(dl.params.deadline.0);
        let room = i128::from(dl.deadline.get() - now) * i128::from(dl.params.runtime.0);
        room < left
    }

    async fn start_period(&self, dl: &DlTask, now: u64) {
        dl.left.set(dl.params.runtime.0 as i64);
        self.store_dl(dl, now + dl.params.deadline.0).await;
    }

    /// Adds the runtime of as many periods as it takes to pay what was overrun.
    async fn replenish_dl_entity(&self, dl: &DlTask) {
        let now = self.engine.now().0;
        if dl.is_yielded.get() && dl.left.get() > 0 {
            dl.left.set(0);
        }
        let runtime = dl.params.runtime.0 as i64;
        let mut deadline = dl.deadline.get();
        if dl.left.get() <= 0 {
            let periods = dl.left.get().unsigned_abs() / dl.params.runtime.0 + 1;
            dl.left.set(dl.left.get() + periods as i64 * runtime);
            deadline += periods * dl.params.period.0;
        }
        if deadline < now {
            self.start_period(dl, now).await;
        } else {
            self.store_dl(dl, deadline).await;
        }
        dl.is_yielded.set(false);
        dl.is_throttled.set(false);
    }

    /// Writes its deadline, and the runtime that it has left.
    async fn store_dl(&self, dl: &DlTask, deadline: u64) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_DL);
        let before = dl.deadline.replace(deadline);
        engine.load_known(site, dl.p.deadline, before).await;
        engine.store(site, dl.p.deadline, deadline).await;
        self.rewrite(site, dl.p.runtime).await;
    }

    async fn enqueue_dl_entity(&self, rq: &Rq, p: &Task) {
        let (site, dl, of_rq) = (f::ENQUEUE_TASK_DL, entity(p), self.dl_rq(rq.cpu));
        let deadline = dl.deadline.get();
        let (parent, before, count) = {
            let queue = &mut of_rq.inner.borrow_mut().queue;
            let before = queue.first().map(|(earliest, _)| *earliest);
            let at = queue.partition_point(|(other, _)| *other <= deadline);
            let parent = at.checked_sub(1).map(|at| queue[at].1);
            queue.insert(at, (deadline, p.id));
            (parent, before, queue.len() as u64)
        };
        dl.is_queued.set(true);
        self.rewrite(site, of_rq.p.root).await;
        if let Some(parent) = parent {
            let parent = self.task(parent);
            self.rewrite(site, entity(&parent).p.rb_node).await;
        }
        self.engine.dirty(site, dl.p.rb_node).await;
        self.engine
            .load_known(site, of_rq.p.nr_running, count - 1)
            .await;
        self.engine.store(site, of_rq.p.nr_running, count).await;
        self.add_nr_running(site, rq, 1).await;
        let known = before.unwrap_or(0);
        self.engine
            .load_known(site, of_rq.p.earliest_curr, known)
            .await;
        if before.is_none() {
            let domain = &self.root_domains[rq.root_domain];
            self.cpupri_set_vector(&domain.cpupri, rq.cpu, CPUPRI_HIGHER)
                .await;
        }
        if before.is_none_or(|before| deadline < before) {
            self.set_earliest(rq, site, Some(deadline)).await;
        }
    }

    async fn dequeue_dl_entity(&self, rq: &Rq, p: &Task) {
        let (site, dl, of_rq) = (f::DEQUEUE_TASK_DL, entity(p), self.dl_rq(rq.cpu));
        if !dl.is_queued.replace(false) {
            return;
        }
        let (earliest, count) = {
            let queue = &mut of_rq.inner.borrow_mut().queue;
            queue.retain(|(_, id)| *id != p.id);
            let earliest = queue.first().map(|(earliest, _)| *earliest);
            (earliest, queue.len() as u64)
        };
        self.rewrite(site, of_rq.p.root).await;
        self.engine.dirty(site, dl.p.rb_node).await;
        self.engine
            .load_known(site, of_rq.p.nr_running, count + 1)
            .await;
        self.engine.store(site, of_rq.p.nr_running, count).await;
        self.sub_nr_running(site, rq, 1).await;
        self.set_earliest(rq, site, earliest).await;
        if earliest.is_none() {
            let domain = &self.root_domains[rq.root_domain];
            let highest = rq.inner.borrow().rt.highest_curr;
            self.cpupri_set(&domain.cpupri, rq.cpu, highest).await;
        }
    }

    async fn set_earliest(&self, rq: &Rq, site: Site, earliest: Option<u64>) {
        let (of_rq, domain) = (self.dl_rq(rq.cpu), self.dl_domain(rq.cpu));
        let value = earliest.unwrap_or(0);
        self.engine.store(site, of_rq.p.earliest_curr, value).await;
        self.engine.touch(site, rq.p.rd).await;
        match earliest {
            Some(earliest) => self.cpudl_set(&domain.cpudl, rq.cpu, earliest).await,
            None => self.cpudl_clear(&domain.cpudl, rq.cpu).await,
        }
    }

    /// The task to run, if the class has one.
    pub(in crate::kernel) async fn pick_task_dl(&self, rq: &Rq) -> Option<Rc<Task>> {
        let of_rq = &self.deadline.get()?.rqs[rq.cpu.index()];
        let site = f::PICK_TASK_DL;
        let count = of_rq.inner.borrow().queue.len() as u64;
        self.engine
            .load_known(site, of_rq.p.nr_running, count)
            .await;
        let (_, first) = of_rq.inner.borrow().queue.first().copied()?;
        self.engine.touch(site, of_rq.p.root).await;
        Some(self.task(first))
    }

    /// A task of the class gets the CPU.
    pub(in crate::kernel) async fn set_next_task_dl(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::SET_NEXT_TASK_DL);
        let now = engine.now();
        p.exec_start.set(now);
        engine.store(site, p.p.exec_start, now.0).await;
        self.dequeue_pushable_dl_task(rq, p).await;
        let of_rq = self.dl_rq(rq.cpu);
        engine.touch(site, of_rq.p.pushable).await;
        let has_pushable = !of_rq.inner.borrow().pushable.is_empty();
        if has_pushable {
            of_rq.inner.borrow_mut().push_wanted = true;
            engine.dirty(site, rq.p.balance_callback).await;
        }
    }

    /// A task of the class loses the CPU; it is still runnable when it is on the queue.
    pub(in crate::kernel) async fn put_prev_task_dl(&self, rq: &Rq, p: &Task) {
        self.update_curr_dl(rq).await;
        self.load_nr_cpus_allowed(f::SET_NEXT_TASK_DL, p).await;
        if entity(p).is_queued.get() && p.allowed_count.get() > 1 {
            self.enqueue_pushable_dl_task(rq, p).await;
        }
    }

    /// Charges the running task for its time; when its runtime is used up, it waits for its next period.
    pub(in crate::kernel) async fn update_curr_dl(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::UPDATE_CURR_DL);
        let curr = self.task(rq.curr.get());
        let Some(dl) = &curr.dl else {
            return;
        };
        let span = self.update_curr_common(&curr, site).await;
        dl.left.set(dl.left.get().saturating_sub_unsigned(span.0));
        engine.dirty(site, dl.p.runtime).await;
        let is_over = dl.left.get() <= 0 || dl.is_yielded.get();
        if !is_over || !dl.is_queued.get() {
            return;
        }
        self.dequeue_dl_entity(rq, &curr).await;
        dl.is_throttled.set(true);
        let period = dl.deadline.get() - dl.params.deadline.0 + dl.params.period.0;
        if period <= curr.exec_start.get().0 {
            // The next period is there already.
            self.replenish_dl_entity(dl).await;
            self.enqueue_dl_entity(rq, &curr).await;
        } else {
            self.hrtimer_start_for(Expiry::DlPeriod(curr.id), hitm_base::Cycles(period))
                .await;
        }
        let first = self.dl_rq(rq.cpu).inner.borrow().queue.first().copied();
        if first.map(|(_, id)| id) != Some(curr.id) {
            self.resched_curr(rq).await;
        }
    }

    /// A task's next period begins: `dl_task_timer`. Interrupts are off.
    pub(in crate::kernel) async fn dl_task_timer(&self, task: TaskId) {
        let p = self.task(task);
        self.engine.call(f::DL_TASK_TIMER, self.costs.function);
        let rq = self.task_rq_lock(&p).await;
        self.update_rq_clock(rq).await;
        let dl = entity(&p);
        if dl.is_throttled.get() && !p.on_rq.get() {
            self.replenish_dl_entity(dl).await;
        } else if dl.is_throttled.get() {
            self.enqueue_task_dl(rq, &p, EnqueueDl::Replenish).await;
            self.wakeup_preempt(rq, &p).await;
            let has_pushable = !self.dl_rq(rq.cpu).inner.borrow().pushable.is_empty();
            if has_pushable {
                self.push_dl_tasks(rq).await;
            }
        }
        self.rq_unlock(rq).await;
    }

    /// The running task gives the rest of its runtime away.
    pub(in crate::kernel) async fn yield_task_dl(&self, rq: &Rq, p: &Task) {
        entity(p).is_yielded.set(true);
        self.update_rq_clock(rq).await;
        self.update_curr_dl(rq).await;
    }

    /// A task was woken on a run queue whose running task is of the class, too.
    pub(in crate::kernel) async fn wakeup_preempt_dl(&self, rq: &Rq, p: &Task, curr: &Task) {
        let (site, of_curr) = (f::WAKEUP_PREEMPT_DL, entity(curr));
        let deadline = of_curr.deadline.get();
        self.engine
            .load_known(site, of_curr.p.deadline, deadline)
            .await;
        let is_queued = entity(p).is_queued.get();
        if is_queued && entity(p).is_before(of_curr) {
            self.resched_curr(rq).await;
        }
    }
}
