//! Waking, scheduling, switching: kernel/sched/core.c, v6.12.
//!
//! **What Linux does:** a waker takes the task's `pi_lock` and chooses a CPU. It puts the task on
//! its run queue under that queue's lock. When the CPU shares no cache with it or is idle, the task
//! goes on its wake list instead, with an interrupt. `__schedule` picks under the run queue's lock
//! and switches stacks; the next task finishes the switch for the previous one and runs the balance
//! callbacks.
//!
//! **What we do:** the same steps and lines. [`super::class`] has the classes and their order.
//!
//! **What a test could notice:** kernel code is preempted where [`super::preempt`] says. No core
//! scheduling; no stop class; `wake_cpu` and freezer states do not exist.

use std::rc::Rc;

use hitm_base::machine::MachineCost;
use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::class::{Class, Enqueue};
use super::fair::Dequeue;
use super::functions as f;
use super::preempt::EXIT_RESCHED;
use super::process::Exit;
use super::rq::Rq;
use super::rt::Balancing;
use super::smp::Call;
use super::task::{
    TASK_DEAD, TASK_RUNNING, TASK_WAKING, TIF_NEED_RESCHED, TIF_POLLING_NRFLAG, Task,
};
use crate::engine::{Rmw, Site, StackId, TracedTask};

/// A waker's hint about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// Nothing.
    Plain,
    /// It is about to sleep: `WF_SYNC`.
    Sync,
}

impl<'a> From<&'a Task> for TracedTask<'a> {
    fn from(task: &'a Task) -> TracedTask<'a> {
        TracedTask {
            number: task.id.index(),
            name: &task.name,
            is_idle: task.is_idle,
        }
    }
}

impl Kernel {
    /// Wakes a task; false when it was not asleep.
    pub(super) async fn try_to_wake_up(&self, p: &Rc<Task>, wake: Wake) -> bool {
        let (engine, site) = (&self.engine, f::TRY_TO_WAKE_UP);
        let irqs = engine.set_irqs(false);
        engine.call(site, self.costs.function);
        engine.foresee_cpu(p.cpu.get());
        self.foresee(p);
        self.spin_lock(p.p.pi_lock).await;
        let woken = self.try_to_wake_up_locked(p, wake).await;
        self.spin_unlock(p.p.pi_lock).await;
        if irqs {
            engine.set_irqs(true);
        }
        woken
    }

    /// A task is going to be woken.
    pub(super) fn foresee(&self, p: &Task) {
        if let Some(stack) = p.stack.get() {
            self.engine.foresee_stack(stack);
        }
    }

    async fn try_to_wake_up_locked(&self, p: &Rc<Task>, wake: Wake) -> bool {
        let (engine, site) = (&self.engine, f::TRY_TO_WAKE_UP);
        let state = engine.load(site, p.p.state).await;
        if [TASK_RUNNING, TASK_WAKING, TASK_DEAD].contains(&state) {
            return false;
        }
        if engine.load(site, p.p.on_rq).await != 0 && self.ttwu_runnable(p).await {
            return true;
        }
        engine.store(site, p.p.state, TASK_WAKING).await;
        self.note_wakeup(p);
        let cpu = p.cpu.get();
        if engine.load(site, p.p.on_cpu).await != 0 {
            // It is still switching away on its CPU, which may as well wake it itself.
            if self.ttwu_queue_wakelist(p, cpu).await {
                return true;
            }
            // Its stack is in use until that CPU has switched: no other CPU may run it before.
            self.spin_while(p.p.on_cpu, |on_cpu| on_cpu != 0).await;
        }
        let target = self.select_task_rq(p, cpu, wake).await;
        engine.foresee_cpu(target);
        if target != cpu {
            self.set_task_cpu(p, target).await;
        }
        self.ttwu_queue(p, target).await;
        true
    }

    fn note_wakeup(&self, p: &Task) {
        self.count(|counts| counts.wakeups += 1);
        p.count(|totals| totals.wakeups += 1);
        p.woken_at.set(Some(self.engine.now()));
        self.note_ready(p);
    }

    /// Wakes a task that has not left its run queue yet: it just continues.
    async fn ttwu_runnable(&self, p: &Rc<Task>) -> bool {
        let site = f::TRY_TO_WAKE_UP;
        let rq = self.task_rq_lock(p).await;
        let is_queued = p.on_rq.get();
        if is_queued {
            let was_delayed = self.is_delayed(p.se);
            if was_delayed {
                self.enqueue_task_fair(rq, p).await;
                self.note_wakeup(p);
            }
            // Queued, but not running: it was preempted, and may preempt now.
            if self.engine.load(site, p.p.on_cpu).await == 0 {
                self.update_rq_clock(rq).await;
                self.wakeup_preempt(rq, p).await;
            }
            self.engine.store(site, p.p.state, TASK_RUNNING).await;
        }
        self.rq_unlock(rq).await;
        is_queued
    }

    /// Locks the run queue that a task is on.
    pub(super) async fn task_rq_lock(&self, p: &Task) -> &Rq {
        loop {
            let rq = self.rq(p.cpu.get());
            self.rq_lock(rq).await;
            // The task may have moved while the lock was waited for.
            if rq.cpu == p.cpu.get() {
                return rq;
            }
            self.rq_unlock(rq).await;
        }
    }

    /// `nr_cpus_allowed`, which does not change in a run.
    pub(super) async fn load_nr_cpus_allowed(&self, site: Site, p: &Task) {
        let known = p.allowed_count.get() as u64;
        self.engine
            .load_known(site, p.p.nr_cpus_allowed, known)
            .await;
    }

    /// The priority of a task whose run queue is locked.
    pub(super) async fn load_prio(&self, site: Site, p: &Task) {
        let known = u64::from(p.prio.get());
        self.engine.load_known(site, p.p.prio, known).await;
    }

    async fn select_task_rq(&self, p: &Task, cpu: CpuId, wake: Wake) -> CpuId {
        self.load_nr_cpus_allowed(f::TRY_TO_WAKE_UP, p).await;
        let first = || {
            let first = p.allowed.borrow().iter().next();
            first.expect("a task may run somewhere")
        };
        if p.allowed_count.get() == 1 {
            return first();
        }
        let cpu = if p.may_run_on(cpu) { cpu } else { first() };
        if self.balancing.get() == Balancing::Passive {
            self.wake_idle(p, cpu).await
        } else {
            p.class().select_task_rq(self, p, cpu, wake).await
        }
    }

    async fn ttwu_queue(&self, p: &Rc<Task>, cpu: CpuId) {
        if self.ttwu_queue_wakelist(p, cpu).await {
            return;
        }
        let rq = self.rq(cpu);
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        self.ttwu_do_activate(rq, p).await;
        self.rq_unlock(rq).await;
    }

    /// Returns true if the CPU shall put a woken task on its run queue itself.
    async fn ttwu_queue_cond(&self, cpu: CpuId) -> bool {
        let this = self.engine.cpu();
        if !self.config.wake_lists || cpu == this {
            return false;
        }
        let topology = &self.engine.machine().topology;
        // The lines of a run queue under another cache are nearer to its own CPU.
        if topology.llc_of(this) != topology.llc_of(cpu) {
            return true;
        }
        // An idle CPU has time to put the task on its queue itself.
        let place = self.rq(cpu).p.nr_running;
        self.engine.load(f::TTWU_QUEUE_WAKELIST, place).await == 0
    }

    /// Leaves a wake-up to the CPU that the task shall run on; false where this one has to do it.
    async fn ttwu_queue_wakelist(&self, p: &Rc<Task>, cpu: CpuId) -> bool {
        if !self.ttwu_queue_cond(cpu).await {
            return false;
        }
        let (engine, site) = (&self.engine, f::TTWU_QUEUE_WAKELIST);
        engine.store(site, self.rq(cpu).p.ttwu_pending, 1).await;
        engine.dirty(site, p.p.wake_entry).await;
        self.queue_call(cpu, Call::Wake(p.id), site).await;
        true
    }

    /// Puts a woken task on a run queue, which is locked.
    pub(super) async fn ttwu_do_activate(&self, rq: &Rq, p: &Rc<Task>) {
        let (engine, site) = (&self.engine, f::TTWU_DO_ACTIVATE);
        self.activate_task(rq, p).await;
        self.wakeup_preempt(rq, p).await;
        engine.store(site, p.p.state, TASK_RUNNING).await;
        p.class().task_woken(self, rq, p).await;
    }

    /// A task becomes runnable on a run queue, which is locked.
    pub(super) async fn activate_task(&self, rq: &Rq, p: &Task) {
        let why = Enqueue::Wakeup;
        p.class().enqueue_task(self, rq, p, why).await;
        p.on_rq.set(true);
        self.engine.store(f::TTWU_DO_ACTIVATE, p.p.on_rq, 1).await;
    }

    /// A task leaves a run queue, which is locked, to sleep or to move. A fair one that sleeps may
    /// have to stay on it until it owes no time.
    pub(super) async fn deactivate_task(&self, rq: &Rq, p: &Task, sleeps: bool) {
        let how = Dequeue {
            sleeps,
            is_special: self.engine.value(p.p.state) == TASK_DEAD,
            is_delayed: false,
        };
        if !p.class().dequeue_task(self, rq, p, how).await {
            return;
        }
        p.on_rq.set(false);
        // 2 is `TASK_ON_RQ_MIGRATING`.
        let value = if sleeps { 0 } else { 2 };
        self.engine.store(f::SCHEDULE, p.p.on_rq, value).await;
    }

    /// Moves a task, which is on no run queue, to a CPU.
    pub(super) async fn set_task_cpu(&self, p: &Task, cpu: CpuId) {
        let site = f::SET_TASK_CPU;
        if p.cpu.get() != cpu {
            p.count(|totals| totals.migrations += 1);
            self.count(|counts| counts.migrations += 1);
            self.move_averages(p, self.rq(p.cpu.get()), self.rq(cpu));
        }
        p.cpu.set(cpu);
        self.fair.set_task_rq(p.se, p.group, cpu.index());
        self.engine.store(site, p.p.cpu, u64::from(cpu.0)).await;
    }

    /// A task was put on a run queue, which is locked: the running one may have to go.
    pub(super) async fn wakeup_preempt(&self, rq: &Rq, p: &Task) {
        let curr = self.task(rq.curr.get());
        Class::wakeup_preempt(self, rq, p, &curr).await;
    }

    /// The running task of a run queue, which is locked, must call the scheduler.
    pub(super) async fn resched_curr(&self, rq: &Rq) {
        self.resched_curr_by(rq, TIF_NEED_RESCHED).await;
    }

    /// Tells it so by `flag`: `__resched_curr`.
    pub(super) async fn resched_curr_by(&self, rq: &Rq, flag: u64) {
        let (engine, site) = (&self.engine, f::RESCHED_CURR);
        let curr = self.task(rq.curr.get());
        // There is nothing to wait for on an idle CPU.
        let flag = if curr.is_idle { TIF_NEED_RESCHED } else { flag };
        let has = engine.load(site, curr.p.flags).await;
        if has & (flag | TIF_NEED_RESCHED) != 0 {
            return;
        }
        let old = engine.rmw(site, curr.p.flags, Rmw::Or(flag)).await;
        // An idle CPU that polls its flags sees the write.
        let needs_ipi = flag == TIF_NEED_RESCHED && old & TIF_POLLING_NRFLAG == 0;
        if rq.cpu != engine.cpu() && needs_ipi {
            self.smp_send_reschedule(rq.cpu);
        }
    }

    /// The running task gives its CPU to the scheduler. Interrupts are on before and after.
    pub(super) async fn schedule(&self) {
        let (engine, site) = (&self.engine, f::SCHEDULE);
        engine.set_irqs(false);
        engine.call(site, self.costs.function);
        let rq = self.rq(engine.cpu());
        let prev = self.task(rq.curr.get());
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        if engine.load(site, prev.p.state).await != TASK_RUNNING && !prev.is_idle {
            self.deactivate_task(rq, &prev, true).await;
        }
        let next = self.pick_next_task(rq, &prev).await;
        engine
            .rmw(site, prev.p.flags, Rmw::And(!EXIT_RESCHED))
            .await;
        if next.id == prev.id {
            self.balance_callbacks(rq).await;
            self.rq_unlock(rq).await;
            engine.set_irqs(true);
            return;
        }
        self.context_switch(rq, &prev, &next).await;
    }

    async fn context_switch(&self, rq: &Rq, prev: &Task, next: &Task) {
        let (engine, site) = (&self.engine, f::CONTEXT_SWITCH);
        let switches = {
            let mut inner = rq.inner.borrow_mut();
            inner.nr_switches += 1;
            inner.nr_switches
        };
        engine.store(f::SCHEDULE, rq.p.nr_switches, switches).await;
        engine
            .store(f::SCHEDULE, rq.p.curr, u64::from(next.id.0))
            .await;
        rq.curr.set(next.id);
        rq.prev.set(prev.id);
        engine.store(site, next.p.on_cpu, 1).await;
        engine.work(site, self.costs.machine.get(MachineCost::ContextSwitch));
        self.count(|counts| counts.switches += 1);
        self.note_switch(prev, next);
        let stack = next.stack.get();
        engine
            .switch_to(stack.expect("a task that runs has a stack"))
            .await;
        self.finish_task_switch().await;
    }

    fn note_switch(&self, prev: &Task, next: &Task) {
        let now = self.engine.now();
        self.engine.trace(|tracer, _, (cpu, now)| {
            tracer.switch(cpu, TracedTask::from(next), now);
        });
        prev.on_cpu_sum.set(self.cpu_time(prev));
        self.note_off_cpu(prev);
        next.on_cpu_since.set(now);
        self.note_on_cpu(next);
        let latency = next.woken_at.take().map(|at| now.saturating_sub(at));
        next.count(|totals| {
            totals.switches_in += 1;
            if let Some(latency) = latency {
                totals.wake_latency_sum += latency;
                totals.wake_latency_max = totals.wake_latency_max.max(latency);
            }
        });
        if let Some(latency) = latency {
            self.wake_latency.borrow_mut().push(latency);
        }
    }

    /// The task that runs now finishes the switch of the one before it.
    pub(super) async fn finish_task_switch(&self) {
        let (engine, site) = (&self.engine, f::FINISH_TASK_SWITCH);
        let rq = self.rq(engine.cpu());
        let prev = self.task(rq.prev.get());
        match prev.spun_on.get() {
            Some(word) => {
                // Not a store, which would be posted: spinners for its lock poll this as well, and
                // it must be there when they look.
                let away = Rmw::exchange(0);
                engine.rmw(site, prev.p.on_cpu, away).await;
                engine.look_again(word);
            }
            None => engine.store(site, prev.p.on_cpu, 0).await,
        }
        self.balance_callbacks(rq).await;
        self.rq_unlock(rq).await;
        engine.set_irqs(true);
        self.take_own_lines(&self.task(rq.curr.get()));
    }

    /// Lines that only the running task uses (registers, stacks) are still where it ran last. Nobody else asks
    /// for them, so their price is that of the way alone.
    fn take_own_lines(&self, curr: &Task) {
        let cpu = self.engine.cpu();
        let Some(from) = curr.ran_on.replace(Some(cpu)).filter(|from| *from != cpu) else {
            return;
        };
        let machine = self.engine.machine();
        let distance = machine.topology.distance(cpu, from);
        let line = machine.transfers[distance.index()].dirty;
        self.engine.work(
            f::FINISH_TASK_SWITCH,
            Cycles(line.0 * self.costs.task_lines),
        );
    }

    pub(super) async fn balance_callbacks(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::FINISH_TASK_SWITCH);
        engine.touch(site, rq.p.balance_callback).await;
        let (push, pull) = {
            let mut inner = rq.inner.borrow_mut();
            let push = std::mem::take(&mut inner.push_wanted);
            (push, std::mem::take(&mut inner.pull_wanted))
        };
        if push || pull {
            engine.dirty(site, rq.p.balance_callback).await;
        }
        self.balance_callbacks_dl(rq).await;
        if push {
            self.push_rt_tasks(rq).await;
        }
        if pull {
            let curr = self.task(rq.curr.get());
            self.pull_rt_task(rq, &curr).await;
        }
    }

    /// Chooses the next task of a run queue, which is locked, and does what the classes do for the
    /// old and the new one.
    async fn pick_next_task(&self, rq: &Rq, prev: &Rc<Task>) -> Rc<Task> {
        Class::balance(self, rq, prev).await;
        let picked = Class::pick_next_task(self, rq).await;
        let next = picked.unwrap_or_else(|| self.task(rq.idle));
        if next.id == prev.id {
            return next;
        }
        prev.class().put_prev_task(self, rq, prev).await;
        next.class().set_next_task(self, rq, &next).await;
        next
    }

    /// The stack of a new task runs `body` and ends.
    pub(super) fn task_stack<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        task: &Rc<Task>,
        body: impl FnOnce() -> F + 'static,
    ) -> StackId {
        let (kernel, task) = (Rc::clone(self), Rc::clone(task));
        self.engine.spawn(async move {
            kernel.finish_task_switch().await;
            // A new task returns to user mode like any other (ret_from_fork).
            kernel.exit_to_user(&task, Exit::Syscall).await;
            // Made here: a future that is handed in would be kept twice.
            body().await;
            kernel.do_exit(&task).await;
        })
    }

    async fn do_exit(&self, task: &Task) {
        self.engine
            .store(f::SCHEDULE, task.p.state, TASK_DEAD)
            .await;
        self.schedule().await;
        unreachable!("a task that has ended does not run again");
    }

    /// The time that the running task had since it was last charged: `update_curr_common` of Linux 6.12.
    pub(super) async fn update_curr_common(&self, curr: &Task, site: Site) -> Cycles {
        let engine = &self.engine;
        engine
            .load_known(site, curr.p.exec_start, curr.exec_start.get().0)
            .await;
        let now = engine.now();
        let span = now.saturating_sub(curr.exec_start.get());
        curr.exec_start.set(now);
        curr.count(|totals| totals.run_time += span);
        engine.store(site, curr.p.exec_start, now.0).await;
        span
    }

    /// The tick of this CPU. Interrupts are off.
    pub(super) async fn sched_tick(&self) {
        let (engine, site) = (&self.engine, f::SCHED_TICK);
        engine.call(site, self.costs.function);
        let rq = self.rq(engine.cpu());
        self.note_tick(rq).await;
        self.rq_lock(rq).await;
        self.update_rq_clock(rq).await;
        self.rt_period(rq).await;
        let curr = self.task(rq.curr.get());
        self.promote_lazy(rq, &curr).await;
        curr.class().task_tick(self, rq, &curr).await;
        self.periodic_balance(rq).await;
        self.rq_unlock(rq).await;
        self.placement.task_tick(self, site);
        self.sched_balance_trigger(rq).await;
    }
}
