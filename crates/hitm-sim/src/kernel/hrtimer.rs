//! Timers and the tick: kernel/time/hrtimer.c and tick-sched.c, v6.12.
//!
//! **What Linux does:** each CPU has a base with a lock and a tree of timers; the hardware is
//! programmed to the earliest. The tick is one of them, on all CPUs at the same moment
//! (`skew_tick=0`), and is stopped while a CPU is idle.
//!
//! **What we do:** the same, with a timer kept on the CPU that started it.
//!
//! **What a test could notice:** timers are not moved to a busy CPU; timers do not slip by their slack.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hitm_base::machine::MachineCost;
use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::arrivals::ArrivalsId;
use super::core::Wake;
use super::fair::GroupId;
use super::functions as f;
use super::rq::Rq;
use super::smp::TIMER_VECTOR;
use super::task::{Task, TaskId};
use crate::engine::{Arena, Opaque, Place, SimError};

/// Action of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expiry {
    /// Wakes a task.
    Wake(TaskId),
    /// A new period of a group's quota.
    CfsPeriod(GroupId),
    /// Gives out what came back of a group's quota.
    CfsSlack(GroupId),
    /// A new period of a task of the deadline class.
    DlPeriod(TaskId),
    /// Work comes from outside.
    Arrival(ArrivalsId),
    /// The time that a task was granted is up: the number of the grant.
    SliceEnd(TaskId, u64),
}

/// `struct hrtimer_cpu_base`.
#[derive(Debug)]
pub(super) struct TimerBase {
    lock: Place,
    expires_next: Place,
    clock_base: Opaque,
    /// By time, then in order of starting.
    timers: RefCell<BinaryHeap<Reverse<(Cycles, u64, Expiry)>>>,
    started: Cell<u64>,
    tick_at: Cell<Cycles>,
}

impl TimerBase {
    pub(super) fn new(arena: &mut Arena, cpu: CpuId) -> Result<TimerBase, SimError> {
        let object = arena.allocate("hrtimer_cpu_base", cpu)?;
        Ok(TimerBase {
            lock: arena.place(&object, "lock")?,
            expires_next: arena.place(&object, "expires_next")?,
            clock_base: arena.opaque(&object, "clock_base")?,
            timers: RefCell::new(BinaryHeap::new()),
            started: Cell::new(0),
            tick_at: Cell::new(Cycles::MAX),
        })
    }

    /// Before the run: what happens first at `at`.
    pub(super) fn add_first(&self, at: Cycles, expiry: Expiry) {
        self.push(at, expiry);
    }

    fn push(&self, at: Cycles, expiry: Expiry) {
        let number = self.started.get();
        self.started.set(number + 1);
        self.timers.borrow_mut().push(Reverse((at, number, expiry)));
    }

    fn earliest(&self) -> Cycles {
        let first = self.timers.borrow().peek().map(|Reverse((at, ..))| *at);
        first.unwrap_or(Cycles::MAX).min(self.tick_at.get())
    }
}

impl Kernel {
    /// Wakes `task` at `at` by a timer of this CPU.
    pub(super) async fn hrtimer_start(&self, task: &Task, at: Cycles) {
        self.hrtimer_start_for(Expiry::Wake(task.id), at).await;
    }

    /// Does something at `at` by a timer of this CPU.
    pub(super) async fn hrtimer_start_for(&self, expiry: Expiry, at: Cycles) {
        let (engine, site) = (&self.engine, f::HRTIMER_START);
        let irqs = engine.set_irqs(false);
        engine.call(site, self.costs.function);
        let base = &self.timers[engine.cpu().index()];
        self.spin_lock(base.lock).await;
        engine.touch(site, base.clock_base).await;
        base.push(at, expiry);
        engine.dirty(site, base.clock_base).await;
        engine.store(site, base.expires_next, at.0).await;
        self.arm(base);
        self.spin_unlock(base.lock).await;
        if irqs {
            engine.set_irqs(true);
        }
    }

    /// The timer of this CPU has fired. Interrupts are off.
    pub(super) async fn hrtimer_interrupt(&self) {
        let (engine, site) = (&self.engine, f::HRTIMER_INTERRUPT);
        engine.call(site, self.costs.function);
        let base = &self.timers[engine.cpu().index()];
        self.spin_lock(base.lock).await;
        loop {
            engine.touch(site, base.clock_base).await;
            let now = engine.now();
            if base.tick_at.get() <= now {
                base.tick_at.set(self.next_tick(now));
                self.spin_unlock(base.lock).await;
                self.sched_tick().await;
                self.spin_lock(base.lock).await;
                continue;
            }
            let due = {
                let mut timers = base.timers.borrow_mut();
                match timers.peek() {
                    Some(Reverse((at, ..))) if *at <= now => timers.pop(),
                    _ => None,
                }
            };
            let Some(Reverse((_, _, expiry))) = due else {
                break;
            };
            // The lock is dropped for the action, which may start timers of this base.
            engine.dirty(site, base.clock_base).await;
            self.spin_unlock(base.lock).await;
            match expiry {
                Expiry::Wake(task) => {
                    self.try_to_wake_up(&self.task(task), Wake::Plain).await;
                }
                Expiry::CfsPeriod(group) => self.sched_cfs_period_timer(group).await,
                Expiry::CfsSlack(group) => self.sched_cfs_slack_timer(group).await,
                Expiry::DlPeriod(task) => self.dl_task_timer(task).await,
                Expiry::Arrival(source) => self.deliver(source).await,
                Expiry::SliceEnd(task, number) => {
                    let task = self.task(task);
                    self.slice_extension_expired(&task, number).await;
                }
            }
            self.spin_lock(base.lock).await;
        }
        engine.store(site, base.expires_next, 0).await;
        self.arm(base);
        self.spin_unlock(base.lock).await;
    }

    /// Sets this CPU's timer to the earliest time.
    fn arm(&self, base: &TimerBase) {
        let delivery = self.costs.machine.get(MachineCost::TimerDelivery);
        let at = base.earliest().0.saturating_add(delivery.0);
        self.engine.set_timer(TIMER_VECTOR, Cycles(at));
    }

    /// The time at which the earliest timer of a CPU fires.
    pub(super) fn next_timer(&self, rq: &Rq) -> Cycles {
        self.timers[rq.cpu.index()].earliest()
    }

    fn next_tick(&self, now: Cycles) -> Cycles {
        let period = self.tick_period.0;
        Cycles((now.0 / period + 1) * period)
    }

    /// The CPU becomes idle: no tick any more, unless throttled RT tasks wait for it.
    pub(super) fn tick_stop(&self, rq: &Rq) {
        let base = &self.timers[rq.cpu.index()];
        if rq.inner.borrow().rt.throttled {
            return;
        }
        base.tick_at.set(Cycles::MAX);
        self.arm(base);
    }

    /// The CPU has something to do.
    pub(super) fn tick_restart(&self, rq: &Rq) {
        let base = &self.timers[rq.cpu.index()];
        base.tick_at.set(self.next_tick(self.engine.now()));
        self.arm(base);
    }
}
