//! Push, pull, and the chain of interrupts.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::mechanisms::Mechanism;
use crate::kernel::rq::Rq;
use crate::kernel::smp::Call;
use crate::kernel::task::{MAX_RT_PRIO, NO_TASK, TIF_NEED_RESCHED, Task};
use crate::kernel::topology::RTO_NO_CPU;

hitm_base::words! {
    /// Balancing of real-time tasks, by version of the kernel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Balancing {
        /// Until 2.6.23: a woken task goes to an idle CPU if there is one near. Beyond that only the
        /// load balancer moves queued tasks, when a CPU becomes idle and once per interval.
        Passive = "passive",
        /// From 2.6.25: tasks are pushed and pulled. A puller takes the locks itself, and so does a
        /// pusher before it judges a target, so that it tries three of them.
        PushPull = "push-pull",
        /// From 4.15, and today: a puller asks overloaded CPUs to push by a chain of interrupts. A pusher
        /// whose target has something better already gives up without its lock.
        PushIpi = "push-ipi",
    }
}

/// Attempts to lock a run queue that is still the best (`RT_MAX_TRIES`).
const MAX_TRIES: usize = 3;

impl Kernel {
    /// A task joins the pushable ones; the run queue becomes overloaded.
    pub(super) async fn enqueue_pushable_task(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::ENQUEUE_PUSHABLE_TASK);
        engine.call(site, Cycles::ZERO);
        let prio = p.prio.get();
        let (first, best, is_best, was_overloaded) = {
            let mut inner = rq.inner.borrow_mut();
            let first = inner.rt.first_pushable();
            let pushable = &mut inner.rt.pushable;
            let best = pushable.first().map_or(MAX_RT_PRIO - 1, |(best, _)| *best);
            pushable.retain(|(_, id)| *id != p.id);
            let at = pushable.partition_point(|(other, _)| *other <= prio);
            let is_best = pushable.first().is_none_or(|(best, _)| prio < *best);
            pushable.insert(at, (prio, p.id));
            let was_overloaded = std::mem::replace(&mut inner.rt.overloaded, true);
            (first, best, is_best, was_overloaded)
        };
        engine.load_known(site, rq.p.rt_pushable, first).await;
        engine.dirty(site, p.p.pushable_tasks).await;
        self.set_first_pushable(site, rq).await;
        engine
            .load_known(site, rq.p.rt_highest_next, u64::from(best))
            .await;
        if is_best {
            engine
                .store(site, rq.p.rt_highest_next, u64::from(prio))
                .await;
        }
        let known = u64::from(was_overloaded);
        engine.load_known(site, rq.p.rt_overloaded, known).await;
        if !was_overloaded {
            self.rt_set_overload(site, rq, p).await;
            engine.store(site, rq.p.rt_overloaded, 1).await;
        }
    }

    /// Writes the task at the head of the pushable ones.
    async fn set_first_pushable(&self, site: Site, rq: &Rq) {
        let first = rq.inner.borrow().rt.first_pushable();
        self.engine.store(site, rq.p.rt_pushable, first).await;
    }

    /// A task leaves them.
    pub(super) async fn dequeue_pushable_task(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::DEQUEUE_PUSHABLE_TASK);
        engine.call(site, Cycles::ZERO);
        let (was_there, next, clears) = {
            let mut inner = rq.inner.borrow_mut();
            let before = inner.rt.pushable.len();
            inner.rt.pushable.retain(|(_, id)| *id != p.id);
            let was_there = inner.rt.pushable.len() < before;
            let next = inner.rt.pushable.first().map(|(prio, _)| *prio);
            let clears = next.is_none() && std::mem::take(&mut inner.rt.overloaded);
            (was_there, next, clears)
        };
        engine.touch(site, p.p.pushable_tasks).await;
        if was_there {
            engine.dirty(site, p.p.pushable_tasks).await;
            self.set_first_pushable(site, rq).await;
        }
        let first = rq.inner.borrow().rt.first_pushable();
        engine.load_known(site, rq.p.rt_pushable, first).await;
        let next = u64::from(next.unwrap_or(MAX_RT_PRIO - 1));
        engine.store(site, rq.p.rt_highest_next, next).await;
        if clears {
            self.rt_clear_overload(site, rq, p).await;
            engine.store(site, rq.p.rt_overloaded, 0).await;
        }
    }

    /// A CPU for a task, among those of lowest priority that may run it; near ones are preferred.
    pub(super) async fn find_lowest_rq(&self, p: &Task) -> Option<CpuId> {
        let (engine, site) = (&self.engine, f::FIND_LOWEST_RQ);
        engine.call(site, self.costs.function);
        if p.allowed_count.get() == 1 {
            return None;
        }
        let mut lowest = self.masks.take();
        let is_found = if self.config.has_overlapping_cpusets() {
            self.find_lowest_cpus(p, &mut lowest).await
        } else {
            let cp = &self.root_domains[self.rq(p.cpu.get()).root_domain].cpupri;
            self.cpupri_find(cp, p, Some(&mut lowest)).await
        };
        let found = if is_found {
            self.nearest_of(p, &lowest)
        } else {
            None
        };
        self.masks.give_back(lowest);
        found
    }

    /// The CPU of the mask that is best for a task: the one that it was on, this one, a near one.
    pub(in crate::kernel) fn nearest_of(&self, p: &Task, lowest: &CpuMask) -> Option<CpuId> {
        let cpu = p.cpu.get();
        // Its caches are the most likely to have the task's data.
        if lowest.contains(cpu) {
            return Some(cpu);
        }
        let this = self.engine.cpu();
        let this_fits = lowest.contains(this);
        for domain in &self.rq(cpu).domains {
            if this_fits && domain.contains(this) {
                return Some(this);
            }
            if let Some(best) = self.any_distributed(this, lowest, domain) {
                return Some(best);
            }
        }
        if this_fits {
            return Some(this);
        }
        self.any_distributed(this, lowest, lowest)
    }

    /// One of the CPUs of both masks, another one each time.
    fn any_distributed(&self, this: CpuId, a: &CpuMask, b: &CpuMask) -> Option<CpuId> {
        let previous = &self.rq(this).distribute_prev;
        let next = a.next_and_wrapping(b, previous.get());
        if next.is_some() {
            previous.set(next);
        }
        next
    }

    /// As [`Kernel::find_lowest_rq`], with its run queue locked beside `rq`; `None` when there is
    /// none or the situation has changed meanwhile.
    async fn find_lock_lowest_rq(&self, p: &Task, rq: &Rq) -> Option<CpuId> {
        let (engine, site) = (&self.engine, f::FIND_LOCK_LOWEST_RQ);
        for _ in 0..MAX_TRIES {
            let cpu = self.find_lowest_rq(p).await?;
            if cpu == rq.cpu {
                return None;
            }
            let lowest = self.rq(cpu);
            let prio = u64::from(p.prio.get());
            // The target has something as good already: another try, which drops no lock, would
            // find it again.
            if self.balancing.get() == Balancing::PushIpi
                && engine.load(site, lowest.p.rt_highest_curr).await <= prio
            {
                return None;
            }
            // With the lock of `rq` dropped, the task may have run, moved, or got worse than
            // another.
            if self.double_lock_balance(rq, lowest).await {
                let is_same = self.pick_next_pushable_task(rq).map(|task| task.id) == Some(p.id);
                if !is_same || !p.may_run_on(cpu) {
                    self.rq_unlock(lowest).await;
                    return None;
                }
            }
            if engine.load(site, lowest.p.rt_highest_curr).await > prio {
                return Some(cpu);
            }
            self.rq_unlock(lowest).await;
        }
        None
    }

    fn pick_next_pushable_task(&self, rq: &Rq) -> Option<Rc<Task>> {
        let inner = rq.inner.borrow();
        inner.rt.pushable.first().map(|(_, id)| self.task(*id))
    }

    /// Moves the best pushable task of `rq`, which is locked, to a CPU of lower priority. True when
    /// something was moved, or the next attempt may.
    pub(in crate::kernel) async fn push_rt_task(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::PUSH_RT_TASK);
        engine.call(site, self.costs.function);
        if engine.load(site, rq.p.rt_overloaded).await == 0 {
            return false;
        }
        let Some(mut next) = self.pick_next_pushable_task(rq) else {
            return false;
        };
        loop {
            let first = rq.inner.borrow().rt.first_pushable();
            engine.load_known(site, rq.p.rt_pushable, first).await;
            let curr = self.task(rq.curr.get());
            self.load_prio(site, &curr).await;
            // If a task better than the running one has slipped in, it shall run here.
            if next.prio.get() < curr.prio.get() {
                self.resched_curr(rq).await;
                return false;
            }
            if let Some(cpu) = self.find_lock_lowest_rq(&next, rq).await {
                let lowest = self.rq(cpu);
                self.move_queued_task_rt(rq, lowest, &next).await;
                self.resched_curr(lowest).await;
                self.rq_unlock(lowest).await;
                self.count(|counts| counts.pushes += 1);
                return true;
            }
            // The lock may have been dropped meanwhile. If another task is best now, it is tried;
            // if it is the same, no CPU has it and nothing worse will fit better.
            match self.pick_next_pushable_task(rq) {
                Some(task) if task.id != next.id => next = task,
                _ => return false,
            }
        }
    }

    /// Pushes until one does not fit.
    pub(in crate::kernel) async fn push_rt_tasks(&self, rq: &Rq) {
        while self.push_rt_task(rq).await {}
    }

    async fn move_queued_task_rt(&self, from: &Rq, to: &Rq, p: &Task) {
        self.deactivate_task(from, p, false).await;
        self.set_task_cpu(p, to.cpu).await;
        self.activate_task(to, p).await;
    }

    /// A task was woken but does not run at once: it may be pushed.
    pub(in crate::kernel) async fn task_woken_rt(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::TASK_WOKEN_RT);
        if self.balancing.get() == Balancing::Passive || p.allowed_count.get() < 2 {
            return;
        }
        let curr = self.task(rq.curr.get());
        let is_current = rq.curr.get() == p.id;
        let flags = engine.load(site, curr.p.flags).await;
        let is_stuck = curr.allowed_count.get() < 2 || curr.prio.get() <= p.prio.get();
        if !is_current && flags & TIF_NEED_RESCHED == 0 && curr.is_rt() && is_stuck {
            self.push_rt_tasks(rq).await;
        }
    }

    /// The run queue, locked, is about to run something worse than `prev`, which sleeps: looks for
    /// RT tasks to run instead. The lock may be dropped meanwhile.
    pub(in crate::kernel) async fn balance_rt(&self, rq: &Rq, prev: &Task) {
        let site = f::BALANCE_RT;
        if prev.on_rq.get() || self.balancing.get() == Balancing::Passive {
            return;
        }
        let highest = self.engine.load(site, rq.p.rt_highest_curr).await;
        if highest > u64::from(prev.prio.get()) {
            self.pull_rt_task(rq, prev).await;
        }
    }

    /// Pulls from overloaded run queues all tasks that are better than what is queued here; `last` is
    /// the task that ran.
    pub(in crate::kernel) async fn pull_rt_task(&self, this: &Rq, last: &Task) {
        let (engine, site) = (&*self.engine, f::PULL_RT_TASK);
        engine.call(site, self.costs.function);
        engine.touch(site, this.p.rd).await;
        let domain = &self.root_domains[last.cpuset];
        // More than two make no difference.
        let count = &domain.rto_count;
        let overloaded = count.read_until(engine, site, this.cpu, 2).await;
        if overloaded <= 0 {
            return;
        }
        // If this CPU is the only overloaded one, there is nothing to pull.
        if overloaded == 1 && domain.rto_mask.test(engine, site, this.cpu).await {
            return;
        }
        if self.balancing.get() == Balancing::PushIpi {
            self.tell_cpu_to_push(this).await;
            return;
        }
        let mut from = 0;
        let mut resched = false;
        while let Some(cpu) = domain.rto_mask.next(engine, site, from).await {
            from = cpu.index() + 1;
            if cpu == this.cpu {
                continue;
            }
            let source = self.rq(cpu);
            let has_stale = self.config.has_overlapping_cpusets();
            if !has_stale || !self.clean_overload(this, source, domain).await {
                resched |= self.pull_from(this, source).await;
            }
        }
        if resched {
            self.resched_curr(this).await;
        }
    }

    async fn pull_from(&self, this: &Rq, source: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::PULL_RT_TASK);
        let best = engine.load(site, source.p.rt_highest_next).await;
        let own = engine.load(site, this.p.rt_highest_curr).await;
        // Looked at without the lock: a better task that comes there later is pushed by that CPU.
        if best >= own {
            return false;
        }
        self.double_lock_balance(this, source).await;
        let found = self.pick_highest_pushable_task(source, this.cpu);
        let mut moved = false;
        if let Some(p) = found {
            let own = u64::from(this.inner.borrow().rt.highest_curr);
            let running = self.task(source.curr.get());
            self.load_prio(site, &running).await;
            // A task that is about to preempt the one that runs there stays.
            if u64::from(p.prio.get()) < own && p.prio.get() >= running.prio.get() {
                self.move_queued_task_rt(source, this, &p).await;
                self.count(|counts| counts.pulls += 1);
                moved = true;
            }
        }
        self.rq_unlock(source).await;
        moved
    }

    fn pick_highest_pushable_task(&self, rq: &Rq, cpu: CpuId) -> Option<Rc<Task>> {
        let inner = rq.inner.borrow();
        let mut tasks = inner.rt.pushable.iter().map(|(_, id)| self.task(*id));
        tasks.find(|task| task.may_run_on(cpu))
    }

    /// Starts the chain of interrupts through the overloaded CPUs, or makes the one under way go
    /// round once more.
    async fn tell_cpu_to_push(&self, this: &Rq) {
        let (engine, site) = (&*self.engine, f::PULL_RT_TASK);
        let domain = &self.root_domains[this.root_domain];
        // A chain under way sees the new number at its end, and goes round once more.
        engine.fetch_add(site, domain.rto_loop_next, 1).await;
        // One CPU at a time starts a chain.
        let started = engine.compare_swap(site, domain.rto_loop_start, 0, 1).await;
        if started != 0 {
            return;
        }
        self.spin_lock(domain.rto_lock).await;
        let mut target = None;
        if engine.load(site, domain.rto_cpu).await == RTO_NO_CPU {
            target = self.rto_next_cpu(site, this.root_domain).await;
        }
        self.spin_unlock(domain.rto_lock).await;
        engine.store(site, domain.rto_loop_start, 0).await;
        if let Some(cpu) = target {
            self.queue_call(cpu, Call::RtoPush, site).await;
        }
    }

    /// The next overloaded CPU of the chain, with `rto_lock` held.
    async fn rto_next_cpu(&self, site: Site, domain: usize) -> Option<CpuId> {
        let engine = &*self.engine;
        let domain = &self.root_domains[domain];
        loop {
            let at = engine.load(site, domain.rto_cpu).await;
            let cpu = domain
                .rto_mask
                .next(engine, site, at.wrapping_add(1) as usize)
                .await;
            if let Some(cpu) = cpu {
                engine.store(site, domain.rto_cpu, u64::from(cpu.0)).await;
                if cpu == engine.cpu() && self.has(Mechanism::ChainSkipsSelf) {
                    continue;
                }
                return Some(cpu);
            }
            engine.store(site, domain.rto_cpu, RTO_NO_CPU).await;
            let next = engine.load(site, domain.rto_loop_next).await;
            if engine.load(site, domain.rto_loop).await == next {
                return None;
            }
            engine.store(site, domain.rto_loop, next).await;
        }
    }

    /// The chain has reached this CPU: it pushes what it can and passes the chain on.
    pub(in crate::kernel) async fn rto_push_irq_work_func(&self) {
        let (engine, site) = (&self.engine, f::RTO_PUSH_IRQ_WORK_FUNC);
        engine.call(site, self.costs.function);
        let rq = self.rq(engine.cpu());
        let domain = &self.root_domains[rq.root_domain];
        // Looked at without the lock: a task that becomes pushable later is pushed by whatever
        // queues it.
        if engine.load(site, rq.p.rt_pushable).await != NO_TASK {
            self.rq_lock(rq).await;
            self.push_rt_tasks(rq).await;
            self.rq_unlock(rq).await;
        }
        self.spin_lock(domain.rto_lock).await;
        let next = self.rto_next_cpu(site, rq.root_domain).await;
        self.spin_unlock(domain.rto_lock).await;
        if let Some(cpu) = next {
            self.queue_call(cpu, Call::RtoPush, site).await;
        }
    }

    /// Passive balancing: where a woken task goes without looking at priorities.
    pub(in crate::kernel) async fn wake_idle(&self, p: &Task, cpu: CpuId) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_RT);
        if engine.load(site, self.rq(cpu).p.nr_running).await == 0 {
            return cpu;
        }
        for domain in &self.rq(cpu).domains {
            for other in domain.iter().filter(|other| p.may_run_on(*other)) {
                if engine.load(site, self.rq(other).p.nr_running).await == 0 {
                    return other;
                }
            }
        }
        cpu
    }

    /// Passive balancing: takes one queued RT task from the run queue that has most, for a CPU that
    /// is idle or whose interval is over. `this` is locked and may be unlocked meanwhile.
    pub(in crate::kernel) async fn load_balance_rt(&self, this: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_RQ);
        let mut busiest: Option<(u64, CpuId)> = None;
        // The largest scheduling domain has all CPUs that the tasks here may use.
        let span = this.domains.last();
        let near = span.into_iter().flat_map(|span| span.iter());
        for cpu in near.filter(|cpu| *cpu != this.cpu) {
            let count = engine.load(site, self.rq(cpu).p.rt_nr_running).await;
            if count > busiest.map_or(1, |(most, _)| most) {
                busiest = Some((count, cpu));
            }
        }
        let own = this.inner.borrow().rt.nr_running;
        let Some((count, cpu)) = busiest.filter(|(count, _)| *count > own + 1) else {
            return false;
        };
        let source = self.rq(cpu);
        self.double_lock_balance(this, source).await;
        let found = self.pick_highest_pushable_task(source, this.cpu);
        if let Some(p) = &found {
            self.move_queued_task_rt(source, this, p).await;
            self.count(|counts| counts.pulls += 1);
        }
        self.rq_unlock(source).await;
        engine.work(site, Cycles(count));
        found.is_some()
    }
}
