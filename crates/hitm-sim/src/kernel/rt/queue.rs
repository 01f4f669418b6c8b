//! Queueing, picking and preempting.

use hitm_base::{CpuId, Cycles};

use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::rt::Balancing;
use crate::kernel::task::{MAX_RT_PRIO, NO_TASK, Policy, TIF_NEED_RESCHED, Task};

/// Ticks of a `SCHED_RR` time slice: 100 ms, `RR_TIMESLICE` of include/linux/sched/rt.h.
const RR_TIMESLICE_MS: u64 = 100;

impl Kernel {
    /// A task becomes runnable on this run queue.
    pub(in crate::kernel) async fn enqueue_task_rt(&self, rq: &Rq, p: &Task, at_head: bool) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_RT);
        engine.call(site, self.costs.function);
        self.dequeue_rt_stack(site, rq).await;
        self.list_add(site, rq, p, at_head).await;
        self.inc_rt_tasks(site, rq, p).await;
        self.enqueue_top_rt_rq(site, rq).await;
        let is_current = rq.curr.get() == p.id;
        self.load_nr_cpus_allowed(site, p).await;
        if !is_current && p.allowed_count.get() > 1 {
            self.enqueue_pushable_task(rq, p).await;
        }
    }

    /// A task stops being runnable on this run queue.
    pub(in crate::kernel) async fn dequeue_task_rt(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_RT);
        engine.call(site, self.costs.function);
        self.update_curr_rt(rq).await;
        self.dequeue_rt_stack(site, rq).await;
        self.list_del(site, rq, p).await;
        self.dec_rt_tasks(site, rq, p).await;
        self.enqueue_top_rt_rq(site, rq).await;
        self.dequeue_pushable_task(rq, p).await;
    }

    /// The whole class leaves the run queue's count, to be counted anew.
    async fn dequeue_rt_stack(&self, site: Site, rq: &Rq) {
        let (queued, count) = {
            let inner = rq.inner.borrow();
            (inner.rt.queued, inner.rt.nr_running)
        };
        if queued {
            rq.inner.borrow_mut().rt.queued = false;
            self.sub_nr_running(site, rq, count).await;
        }
    }

    async fn enqueue_top_rt_rq(&self, site: Site, rq: &Rq) {
        let (count, throttled) = {
            let inner = rq.inner.borrow();
            (inner.rt.nr_running, inner.rt.throttled)
        };
        if count > 0 && !throttled {
            rq.inner.borrow_mut().rt.queued = true;
            self.add_nr_running(site, rq, count).await;
        }
    }

    async fn list_add(&self, site: Site, rq: &Rq, p: &Task, at_head: bool) {
        let engine = &self.engine;
        let prio = p.prio.get() as usize;
        let neighbour = {
            let queue = &mut rq.inner.borrow_mut().rt.queue;
            queue.push(p.prio.get(), p.id, at_head)
        };
        engine.touch(site, rq.p.rt_queue[prio]).await;
        if let Some(neighbour) = neighbour {
            let neighbour = self.task(neighbour);
            engine.dirty(site, neighbour.p.run_list).await;
        }
        engine.dirty(site, p.p.run_list).await;
        engine.dirty(site, rq.p.rt_queue[prio]).await;
        engine.dirty(site, rq.p.rt_bitmap).await;
    }

    async fn list_del(&self, site: Site, rq: &Rq, p: &Task) {
        let engine = &self.engine;
        let prio = p.prio.get() as usize;
        rq.inner.borrow_mut().rt.queue.remove(p.prio.get(), p.id);
        engine.touch(site, p.p.run_list).await;
        engine.dirty(site, p.p.run_list).await;
        engine.dirty(site, rq.p.rt_queue[prio]).await;
        engine.dirty(site, rq.p.rt_bitmap).await;
    }

    async fn inc_rt_tasks(&self, site: Site, rq: &Rq, p: &Task) {
        let engine = &self.engine;
        let (count, before) = {
            let mut inner = rq.inner.borrow_mut();
            inner.rt.nr_running += 1;
            (inner.rt.nr_running, inner.rt.highest_curr)
        };
        engine.store(site, rq.p.rt_nr_running, count).await;
        let prio = p.prio.get();
        self.load_highest_prio(site, rq, before).await;
        if prio < before {
            self.set_highest_prio(site, rq, prio).await;
        }
    }

    async fn dec_rt_tasks(&self, site: Site, rq: &Rq, p: &Task) {
        let engine = &self.engine;
        let (count, before, first) = {
            let mut inner = rq.inner.borrow_mut();
            inner.rt.nr_running -= 1;
            let first = inner.rt.queue.first().map(|(prio, _)| prio);
            let first = first.unwrap_or(MAX_RT_PRIO - 1);
            (inner.rt.nr_running, inner.rt.highest_curr, first)
        };
        engine.store(site, rq.p.rt_nr_running, count).await;
        self.load_highest_prio(site, rq, before).await;
        if (count == 0 || p.prio.get() == before) && first != before {
            self.set_highest_prio(site, rq, first).await;
        }
    }

    async fn load_highest_prio(&self, site: Site, rq: &Rq, known: u32) {
        let place = rq.p.rt_highest_curr;
        self.engine.load_known(site, place, u64::from(known)).await;
    }

    async fn set_highest_prio(&self, site: Site, rq: &Rq, prio: u32) {
        rq.inner.borrow_mut().rt.highest_curr = prio;
        self.engine
            .store(site, rq.p.rt_highest_curr, u64::from(prio))
            .await;
        let has_cpupri = !self.config.has_overlapping_cpusets();
        if self.balancing.get() != Balancing::Passive && has_cpupri {
            self.engine.touch(site, rq.p.rd).await;
            let domain = &self.root_domains[rq.root_domain];
            self.cpupri_set(&domain.cpupri, rq.cpu, prio).await;
        }
    }

    /// The task to run, if the class has one; its accounting is not touched.
    pub(in crate::kernel) async fn pick_task_rt(&self, rq: &Rq) -> Option<std::rc::Rc<Task>> {
        let (engine, site) = (&self.engine, f::PICK_TASK_RT);
        let (prio, id) = {
            let inner = rq.inner.borrow();
            inner.rt.queue.first().filter(|_| !inner.rt.throttled)?
        };
        engine.touch(site, rq.p.rt_bitmap).await;
        engine.touch(site, rq.p.rt_queue[prio as usize]).await;
        Some(self.task(id))
    }

    /// A task of the class gets the CPU.
    pub(in crate::kernel) async fn set_next_task_rt(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::SET_NEXT_TASK_RT);
        let now = engine.now();
        p.exec_start.set(now);
        engine.store(site, p.p.exec_start, now.0).await;
        self.dequeue_pushable_task(rq, p).await;
        let first = rq.inner.borrow().rt.first_pushable();
        engine.load_known(site, rq.p.rt_pushable, first).await;
        if first != NO_TASK && self.balancing.get() != Balancing::Passive {
            rq.inner.borrow_mut().push_wanted = true;
            engine.dirty(site, rq.p.balance_callback).await;
        }
    }

    /// A task of the class loses the CPU; it is still runnable when it is on the queue.
    pub(in crate::kernel) async fn put_prev_task_rt(&self, rq: &Rq, p: &Task) {
        let site = f::PUT_PREV_TASK_RT;
        self.update_curr_rt(rq).await;
        self.load_nr_cpus_allowed(site, p).await;
        if p.on_rq.get() && p.allowed_count.get() > 1 {
            self.enqueue_pushable_task(rq, p).await;
        }
    }

    /// Charges the running task for its time.
    pub(in crate::kernel) async fn update_curr_rt(&self, rq: &Rq) {
        let site = f::UPDATE_CURR_RT;
        let curr = self.task(rq.curr.get());
        if !curr.is_rt() {
            return;
        }
        let span = self.update_curr_common(&curr, site).await;
        let Some(runtime) = self.config.rt_runtime else {
            return;
        };
        let exceeded = {
            let mut inner = rq.inner.borrow_mut();
            inner.rt.time += span;
            inner.rt.time > self.cycles(runtime) && !inner.rt.throttled
        };
        if exceeded {
            rq.inner.borrow_mut().rt.throttled = true;
            self.dequeue_rt_stack(site, rq).await;
            self.resched_curr(rq).await;
        }
    }

    /// A new period of RT throttling begins on this run queue, which is locked.
    pub(in crate::kernel) async fn rt_period_begins(&self, rq: &Rq) {
        let (throttled, count) = {
            let mut inner = rq.inner.borrow_mut();
            inner.rt.time = Cycles::ZERO;
            let before = std::mem::replace(&mut inner.rt.throttled, false);
            (before, inner.rt.nr_running)
        };
        if throttled && count > 0 {
            self.enqueue_top_rt_rq(f::UPDATE_CURR_RT, rq).await;
            self.resched_curr(rq).await;
        }
    }

    /// The tick finds a task of the class running.
    pub(in crate::kernel) async fn task_tick_rt(&self, rq: &Rq, p: &Task) {
        let site = f::TASK_TICK_RT;
        self.update_curr_rt(rq).await;
        if !matches!(p.policy.get(), Policy::Rr(_)) {
            return;
        }
        let left = p.time_slice.get().saturating_sub(1);
        p.time_slice.set(left);
        if left > 0 {
            return;
        }
        p.time_slice.set(self.rr_timeslice());
        let has_others = rq.inner.borrow().rt.queue.count(p.prio.get()) > 1;
        if has_others {
            self.requeue(site, rq, p, false).await;
            self.resched_curr(rq).await;
        }
    }

    /// Ticks of a `SCHED_RR` time slice.
    pub(in crate::kernel) fn rr_timeslice(&self) -> u32 {
        (RR_TIMESLICE_MS * u64::from(self.config.hz) / 1000).max(1) as u32
    }

    async fn requeue(&self, site: Site, rq: &Rq, p: &Task, at_head: bool) {
        self.list_del(site, rq, p).await;
        self.list_add(site, rq, p, at_head).await;
    }

    /// The running task lets others of its priority go first.
    pub(in crate::kernel) async fn yield_task_rt(&self, rq: &Rq, p: &Task) {
        self.requeue(f::PUT_PREV_TASK_RT, rq, p, false).await;
    }

    /// A task was woken on a run queue whose running task is of the class too.
    pub(in crate::kernel) async fn wakeup_preempt_rt(&self, rq: &Rq, p: &Task, curr: &Task) {
        let (engine, site) = (&self.engine, f::WAKEUP_PREEMPT_RT);
        self.load_prio(site, curr).await;
        if p.prio.get() < curr.prio.get() {
            self.resched_curr(rq).await;
            return;
        }
        if p.prio.get() != curr.prio.get() || self.balancing.get() == Balancing::Passive {
            return;
        }
        let flags = engine.load(site, curr.p.flags).await;
        if flags & TIF_NEED_RESCHED != 0 || curr.allowed_count.get() == 1 {
            return;
        }
        // Equals did not make room for each other before there was cpupri.
        if self.config.has_overlapping_cpusets() {
            return;
        }
        let cp = &self.root_domains[rq.root_domain].cpupri;
        if !self.cpupri_find(cp, curr, None).await {
            return;
        }
        if p.allowed_count.get() != 1 && self.cpupri_find(cp, p, None).await {
            return;
        }
        // The running task can go elsewhere and the woken one cannot: it takes the CPU.
        self.requeue(site, rq, p, true).await;
        self.resched_curr(rq).await;
    }

    /// Chooses the CPU for a woken task.
    pub(in crate::kernel) async fn select_task_rq_rt(&self, p: &Task, cpu: CpuId) -> CpuId {
        let (engine, site) = (&self.engine, f::SELECT_TASK_RQ_RT);
        engine.call(site, self.costs.function);
        let rq = self.rq(cpu);
        let curr = engine.load(site, rq.p.curr).await;
        let curr = self.task_of(curr);
        let curr_prio = engine.load(site, curr.p.prio).await;
        let is_stuck = curr.allowed_count.get() < 2 || curr_prio <= u64::from(p.prio.get());
        if curr_prio >= u64::from(MAX_RT_PRIO) || !is_stuck {
            return cpu;
        }
        if let Some(target) = self.find_lowest_rq(p).await {
            let highest = engine.load(site, self.rq(target).p.rt_highest_curr).await;
            if u64::from(p.prio.get()) < highest {
                return target;
            }
        }
        cpu
    }
}
