//! Push and pull: global scheduling by deadline.

use std::rc::Rc;

use hitm_base::CpuId;

use super::entity;
use super::queue::EnqueueDl;
use crate::kernel::Kernel;
use crate::kernel::functions as f;

use crate::kernel::rq::Rq;
use crate::kernel::task::{TIF_NEED_RESCHED, Task, TaskId};

/// Attempts to lock a run queue that is still the best (`DL_MAX_TRIES`).
const MAX_TRIES: usize = 3;

impl Kernel {
    /// A task joins those that may move; the run queue becomes overloaded.
    pub(super) async fn enqueue_pushable_dl_task(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_DL);
        let (of_rq, deadline) = (self.dl_rq(rq.cpu), entity(p).deadline.get());
        let (is_first, was_overloaded) = {
            let mut inner = of_rq.inner.borrow_mut();
            inner.pushable.retain(|(_, id)| *id != p.id);
            let at = inner
                .pushable
                .partition_point(|(other, _)| *other <= deadline);
            inner.pushable.insert(at, (deadline, p.id));
            (at == 0, std::mem::replace(&mut inner.is_overloaded, true))
        };
        self.rewrite(site, of_rq.p.pushable).await;
        engine.dirty(site, entity(p).p.pushable).await;
        if is_first {
            engine.store(site, of_rq.p.earliest_next, deadline).await;
        }
        let known = u64::from(was_overloaded);
        engine.load_known(site, of_rq.p.overloaded, known).await;
        if !was_overloaded {
            let domain = self.dl_domain(rq.cpu);
            engine.touch(site, rq.p.rd).await;
            domain.overloaded_cpus.set(engine, site, rq.cpu).await;
            // A CPU that sees the count sees the mask.
            domain.overloaded_count.add(engine, site, rq.cpu, 1).await;
            engine.store(site, of_rq.p.overloaded, 1).await;
        }
    }

    /// A task leaves them.
    pub(super) async fn dequeue_pushable_dl_task(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_DL);
        let of_rq = self.dl_rq(rq.cpu);
        engine.touch(site, entity(p).p.pushable).await;
        let (was_there, next, clears) = {
            let mut inner = of_rq.inner.borrow_mut();
            let before = inner.pushable.len();
            inner.pushable.retain(|(_, id)| *id != p.id);
            let was_there = inner.pushable.len() < before;
            let next = inner.pushable.first().map(|(deadline, _)| *deadline);
            let clears = next.is_none() && std::mem::take(&mut inner.is_overloaded);
            (was_there, next, clears)
        };
        if was_there {
            engine.dirty(site, entity(p).p.pushable).await;
            self.rewrite(site, of_rq.p.pushable).await;
            engine
                .store(site, of_rq.p.earliest_next, next.unwrap_or(0))
                .await;
        }
        if clears {
            let domain = self.dl_domain(rq.cpu);
            domain.overloaded_count.add(engine, site, rq.cpu, -1).await;
            domain.overloaded_cpus.clear(engine, site, rq.cpu).await;
            engine.store(site, of_rq.p.overloaded, 0).await;
        }
    }

    /// Chooses the CPU for a woken task.
    pub(in crate::kernel) async fn select_task_rq_dl(&self, p: &Task, cpu: CpuId) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_DL);
        engine.call(site, self.costs.function);
        let curr = engine.load(site, self.rq(cpu).p.curr).await;
        let curr = self.task_of(curr);
        let Some(of_curr) = &curr.dl else {
            return cpu;
        };
        let deadline = engine.load(site, of_curr.p.deadline).await;
        let is_stuck = curr.allowed_count.get() < 2 || entity(p).deadline.get() >= deadline;
        if !is_stuck || p.allowed_count.get() < 2 {
            return cpu;
        }
        match self.find_later_rq(p).await {
            Some(target) if self.is_earliest_on(p, target).await => target,
            _ => cpu,
        }
    }

    /// `dl_task_is_earliest_deadline`.
    async fn is_earliest_on(&self, p: &Task, cpu: CpuId) -> bool {
        let places = &self.dl_rq(cpu).p;
        let site = f::FIND_LATER_RQ;
        if self.engine.load(site, places.nr_running).await == 0 {
            return true;
        }
        let earliest = self.engine.load(site, places.earliest_curr).await;
        entity(p).deadline.get() < earliest
    }

    /// A CPU without tasks of the class, or the one with the latest deadline; near ones are preferred.
    async fn find_later_rq(&self, p: &Task) -> Option<CpuId> {
        self.engine.call(f::FIND_LATER_RQ, self.costs.function);
        if p.allowed_count.get() == 1 {
            return None;
        }
        let mut later = self.masks.take();
        let domain = self.dl_domain(p.cpu.get());
        let is_found = self.cpudl_find(&domain.cpudl, p, &mut later).await;
        let found = match is_found {
            true => self.nearest_of(p, &later),
            false => None,
        };
        self.masks.give_back(later);
        found
    }

    /// As [`Kernel::find_later_rq`], with its run queue locked beside `rq`.
    async fn find_lock_later_rq(&self, p: &Task, rq: &Rq) -> Option<CpuId> {
        for _ in 0..MAX_TRIES {
            let cpu = self.find_later_rq(p).await?;
            // A search that drops no lock would find it again.
            if cpu == rq.cpu || !self.is_earliest_on(p, cpu).await {
                return None;
            }
            let later = self.rq(cpu);
            if self.double_lock_balance(rq, later).await && self.first_pushable(rq) != Some(p.id) {
                self.rq_unlock(later).await;
                return None;
            }
            if self.is_earliest_on(p, cpu).await {
                return Some(cpu);
            }
            self.rq_unlock(later).await;
        }
        None
    }

    fn first_pushable(&self, rq: &Rq) -> Option<TaskId> {
        let inner = self.dl_rq(rq.cpu).inner.borrow();
        inner.pushable.first().map(|(_, id)| *id)
    }

    /// Moves the first pushable task of `rq`, which is locked, to a CPU where it runs at once. True when one was moved, or
    /// the next attempt may.
    async fn push_dl_task(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::PUSH_DL_TASK);
        engine.call(site, self.costs.function);
        if engine.load(site, self.dl_rq(rq.cpu).p.overloaded).await == 0 {
            return false;
        }
        let Some(mut next) = self.first_pushable(rq) else {
            return false;
        };
        loop {
            let p = self.task(next);
            let curr = self.task(rq.curr.get());
            // One that slipped in before the running one shall run here.
            if let Some(of_curr) = &curr.dl
                && entity(&p).is_before(of_curr)
                && curr.allowed_count.get() > 1
            {
                self.resched_curr(rq).await;
                return false;
            }
            if let Some(cpu) = self.find_lock_later_rq(&p, rq).await {
                let later = self.rq(cpu);
                self.move_queued_task_dl(rq, later, &p).await;
                self.resched_curr(later).await;
                self.rq_unlock(later).await;
                self.count(|counts| counts.pushes += 1);
                return true;
            }
            // The lock may have been dropped meanwhile.
            match self.first_pushable(rq) {
                Some(first) if first != next => next = first,
                _ => return false,
            }
        }
    }

    /// Pushes until one does not fit.
    pub(in crate::kernel) async fn push_dl_tasks(&self, rq: &Rq) {
        while self.push_dl_task(rq).await {}
    }

    async fn move_queued_task_dl(&self, from: &Rq, to: &Rq, p: &Task) {
        self.deactivate_task(from, p, false).await;
        self.set_task_cpu(p, to.cpu).await;
        self.enqueue_task_dl(to, p, EnqueueDl::Move).await;
        p.on_rq.set(true);
        self.engine.store(f::PUSH_DL_TASK, p.p.on_rq, 1).await;
    }

    /// A task was woken but does not run at once: it may be pushed.
    pub(in crate::kernel) async fn task_woken_dl(&self, rq: &Rq, p: &Task) {
        let curr = self.task(rq.curr.get());
        let Some(of_curr) = &curr.dl else {
            return;
        };
        let flags = self.engine.load(f::PUSH_DL_TASK, curr.p.flags).await;
        let is_stuck = curr.allowed_count.get() < 2 || !entity(p).is_before(of_curr);
        let may = p.allowed_count.get() > 1 && curr.id != p.id;
        if may && is_stuck && flags & TIF_NEED_RESCHED == 0 {
            self.push_dl_tasks(rq).await;
        }
    }

    /// Pushes, if that was wanted while the run queue, which is locked, chose its next task.
    pub(in crate::kernel) async fn balance_callbacks_dl(&self, rq: &Rq) {
        let Some(class) = self.deadline.get() else {
            return;
        };
        let wanted = {
            let mut inner = class.rqs[rq.cpu.index()].inner.borrow_mut();
            std::mem::take(&mut inner.push_wanted)
        };
        if wanted {
            self.push_dl_tasks(rq).await;
        }
    }

    /// The run queue, locked, loses its task of the class, which sleeps or waits for runtime: looks for others' tasks. The
    /// lock may be dropped meanwhile.
    pub(in crate::kernel) async fn balance_dl(&self, rq: &Rq, prev: &Task) {
        if !entity(prev).is_queued.get() {
            self.pull_dl_task(rq).await;
        }
    }

    async fn pull_dl_task(&self, this: &Rq) {
        let (engine, site) = (&*self.engine, f::PULL_DL_TASK);
        engine.call(site, self.costs.function);
        let domain = self.dl_domain(this.cpu);
        let count = &domain.overloaded_count;
        if count.read_until(engine, site, this.cpu, 1).await <= 0 {
            return;
        }
        let mut earliest = u64::MAX;
        let mut from = 0;
        let mut resched = false;
        while let Some(cpu) = domain.overloaded_cpus.next(engine, site, from).await {
            from = cpu.index() + 1;
            if cpu == this.cpu {
                continue;
            }
            let of_source = self.dl_rq(cpu);
            let next = engine.load(site, of_source.p.earliest_next).await;
            if self.own_earliest(this).is_some_and(|own| own <= next) {
                continue;
            }
            let source = self.rq(cpu);
            self.double_lock_balance(this, source).await;
            if let Some(p) = self.earliest_pushable(source, this.cpu) {
                let deadline = entity(&p).deadline.get();
                let own = self.own_earliest(this);
                let running = self.task(source.curr.get());
                let running = running.dl.as_ref().map(|dl| dl.deadline.get());
                // One that is about to preempt the task that runs there stays.
                let stays = running.is_some_and(|running| deadline < running);
                if deadline < earliest && own.is_none_or(|own| deadline < own) && !stays {
                    self.move_queued_task_dl(source, this, &p).await;
                    self.count(|counts| counts.pulls += 1);
                    (earliest, resched) = (deadline, true);
                }
            }
            self.rq_unlock(source).await;
        }
        if resched {
            self.resched_curr(this).await;
        }
    }

    fn own_earliest(&self, rq: &Rq) -> Option<u64> {
        let inner = self.dl_rq(rq.cpu).inner.borrow();
        inner.queue.first().map(|(deadline, _)| *deadline)
    }

    fn earliest_pushable(&self, rq: &Rq, cpu: CpuId) -> Option<Rc<Task>> {
        let inner = self.dl_rq(rq.cpu).inner.borrow();
        let mut tasks = inner.pushable.iter().map(|(_, id)| self.task(*id));
        tasks.find(|task| task.may_run_on(cpu))
    }
}
