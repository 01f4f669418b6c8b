//! Mutexes with priority inheritance: kernel/locking/rtmutex.c and kernel/futex/pi.c, v6.12.
//!
//! **What Linux does:** an uncontended mutex is a compare-and-swap of the owner's tid in user
//! memory. A waiter enters the kernel, queues by priority, and lends its priority to the owner,
//! which may itself wait for another mutex. The loan goes along the chain. The owner gives it back
//! when it unlocks.
//!
//! **What we do:** the same, with the locks of Linux: the futex bucket, the mutex's `wait_lock`, each
//! task's `pi_lock`, the run queue of the task whose priority changes.
//!
//! **What a test could notice:** the unlocker makes the first waiter the owner. In Linux that
//! waiter takes the mutex when it runs, and until then a task of higher priority may take it
//! instead. No deadlock detection: a chain longer than [`CHAIN_MAX`] is not followed to its end.

use std::cell::Cell;
use std::rc::Rc;

use super::Kernel;
use super::class::{Class, Enqueue};
use super::core::Wake;
use super::fair::Dequeue;
use super::functions as f;
use super::futex::{Futex, Waiters};
use super::process::Thread;
use super::rq::Rq;
use super::task::{TASK_INTERRUPTIBLE, Task, TaskId};
use crate::engine::{Opaque, Place, SimError};

/// Links of a chain that are followed (`max_lock_depth`).
const CHAIN_MAX: usize = 1024;
/// `FUTEX_WAITERS`.
const WAITERS: u64 = 1 << 31;

/// A `PTHREAD_PRIO_INHERIT` mutex.
#[derive(Debug)]
pub struct PiMutex {
    number: u64,
    futex: Futex,
    wait_lock: Place,
    waiters_place: Opaque,
    owner_place: Place,
    waiters: Waiters,
    owner: Cell<Option<TaskId>>,
}

/// State of a task as owner of mutexes and as waiter.
#[derive(Debug, Default)]
pub(super) struct PiState {
    /// Priority of the first waiter of each contended mutex that the task owns.
    waiters: Vec<(u32, u64)>,
    blocked_on: Option<Rc<PiMutex>>,
}

/// The better of a priority of its own and that of its first waiter.
pub(super) fn effective_prio(task: &Task, own: u32) -> u32 {
    let pi = task.pi.borrow();
    let top = pi.waiters.iter().map(|(prio, _)| *prio).min();
    own.min(top.unwrap_or(u32::MAX))
}

impl Kernel {
    /// A new mutex that nobody has.
    pub fn pi_mutex(&self, name: &str) -> Result<Rc<PiMutex>, SimError> {
        let futex = Futex::new(self, name)?;
        let mut arena = self.arena.borrow_mut();
        let object = arena.allocate("rt_mutex_base", hitm_base::CpuId(0))?;
        let number = self.mutex_count.get();
        self.mutex_count.set(number + 1);
        Ok(Rc::new(PiMutex {
            number,
            futex,
            wait_lock: arena.place(&object, "wait_lock")?,
            waiters_place: arena.opaque(&object, "waiters")?,
            owner_place: arena.place(&object, "owner")?,
            waiters: Waiters::default(),
            owner: Cell::new(None),
        }))
    }
}

impl Thread {
    /// Locks a mutex.
    pub async fn pi_lock(&self, mutex: &Rc<PiMutex>) {
        let (engine, word) = (&self.kernel.engine, mutex.futex.word);
        let tid = u64::from(self.task.id.0);
        if engine.compare_swap(f::USER, word, 0, tid).await == 0 {
            mutex.owner.set(Some(self.task.id));
            return;
        }
        self.enter();
        self.kernel.futex_lock_pi(&self.task, mutex).await;
        self.leave().await;
    }

    /// Unlocks it.
    pub async fn pi_unlock(&self, mutex: &Rc<PiMutex>) {
        let (engine, word) = (&self.kernel.engine, mutex.futex.word);
        let tid = u64::from(self.task.id.0);
        if engine.compare_swap(f::USER, word, tid, 0).await == tid {
            return;
        }
        self.enter();
        self.kernel.futex_unlock_pi(&self.task, mutex).await;
        self.leave().await;
    }
}

impl Kernel {
    async fn futex_lock_pi(&self, task: &Rc<Task>, mutex: &Rc<PiMutex>) {
        let (engine, site) = (&self.engine, f::FUTEX_LOCK_PI);
        engine.call(site, self.costs.function);
        let tid = u64::from(task.id.0);
        self.spin_lock(mutex.futex.lock).await;
        let mut seen = engine.load(site, mutex.futex.word).await;
        loop {
            let new = if seen == 0 { tid } else { seen | WAITERS };
            let old = engine.compare_swap(site, mutex.futex.word, seen, new).await;
            if old == seen {
                break;
            }
            seen = old;
        }
        if seen == 0 {
            mutex.owner.set(Some(task.id));
            self.spin_unlock(mutex.futex.lock).await;
            return;
        }
        // From here on the word says who owns it: nobody can take or leave it in user mode.
        mutex.owner.set(Some(TaskId((seen & !WAITERS) as u32)));
        self.rt_mutex_slowlock(task, mutex).await;
    }

    /// Waits for a mutex. The futex bucket is locked.
    async fn rt_mutex_slowlock(&self, task: &Rc<Task>, mutex: &Rc<PiMutex>) {
        let (engine, site) = (&self.engine, f::RT_MUTEX_SLOWLOCK);
        engine.set_irqs(false);
        self.spin_lock(mutex.wait_lock).await;
        self.spin_lock(task.p.pi_lock).await;
        mutex.waiters.add(task.prio.get(), task.id);
        task.pi.borrow_mut().blocked_on = Some(Rc::clone(mutex));
        engine.touch(site, mutex.waiters_place).await;
        engine.dirty(site, mutex.waiters_place).await;
        self.spin_unlock(task.p.pi_lock).await;
        let owner = engine.load(site, mutex.owner_place).await;
        engine.store(site, mutex.owner_place, owner | 1).await;
        let owner = self.lend(mutex).await;
        // The state before the locks are given up: a wake-up that comes then is not lost.
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        self.spin_unlock(mutex.wait_lock).await;
        self.spin_unlock(mutex.futex.lock).await;
        if let Some(owner) = owner {
            self.rt_mutex_adjust_prio_chain(owner).await;
        }
        engine.set_irqs(true);
        let waits = || mutex.owner.get() != Some(task.id);
        self.sleep_while(task, site, waits).await;
    }

    /// Tells the owner of a mutex, whose `wait_lock` is held, who waits first; returns the owner.
    async fn lend(&self, mutex: &PiMutex) -> Option<Rc<Task>> {
        let owner = self.task(mutex.owner.get()?);
        self.spin_lock(owner.p.pi_lock).await;
        {
            let mut pi = owner.pi.borrow_mut();
            pi.waiters.retain(|(_, number)| *number != mutex.number);
            let top = mutex.waiters.first().map(|(prio, _)| (prio, mutex.number));
            pi.waiters.extend(top);
        }
        self.spin_unlock(owner.p.pi_lock).await;
        Some(owner)
    }

    /// Gives a task the priority of its first waiter, and whom it waits for, and so on. No lock is
    /// held but those taken here.
    async fn rt_mutex_adjust_prio_chain(&self, mut task: Rc<Task>) {
        for _ in 0..CHAIN_MAX {
            self.spin_lock(task.p.pi_lock).await;
            let changed = self.rt_mutex_adjust_prio(&task).await;
            let next = task.pi.borrow().blocked_on.clone();
            self.spin_unlock(task.p.pi_lock).await;
            let Some(mutex) = next.filter(|_| changed) else {
                return;
            };
            match self.requeue_waiter(&task, &mutex).await {
                Some(owner) => task = owner,
                None => return,
            }
        }
    }

    /// A task has another priority of its own: whom it waits for gets to know.
    pub(super) async fn rt_mutex_adjust_pi(&self, task: &Rc<Task>) {
        self.spin_lock(task.p.pi_lock).await;
        let next = task.pi.borrow().blocked_on.clone();
        self.spin_unlock(task.p.pi_lock).await;
        let Some(mutex) = next else {
            return;
        };
        if let Some(owner) = self.requeue_waiter(task, &mutex).await {
            self.rt_mutex_adjust_prio_chain(owner).await;
        }
    }

    /// Moves a waiter to the place of its present priority; tells the owner and returns it.
    async fn requeue_waiter(&self, task: &Task, mutex: &PiMutex) -> Option<Rc<Task>> {
        self.spin_lock(mutex.wait_lock).await;
        let is_waiting = mutex.owner.get() != Some(task.id) && mutex.waiters.has(task.id);
        if is_waiting {
            mutex.waiters.remove(task.id);
            mutex.waiters.add(task.prio.get(), task.id);
        }
        let owner = if is_waiting {
            self.lend(mutex).await
        } else {
            None
        };
        self.spin_unlock(mutex.wait_lock).await;
        owner
    }

    /// Sets the priority of a task, whose `pi_lock` is held, to its own or its first waiter's; true
    /// when that is another one.
    async fn rt_mutex_adjust_prio(&self, task: &Task) -> bool {
        let prio = effective_prio(task, task.normal_prio.get());
        if prio == task.prio.get() {
            return false;
        }
        self.rt_mutex_setprio(task, prio).await;
        true
    }

    async fn rt_mutex_setprio(&self, task: &Task, prio: u32) {
        let (engine, site) = (&self.engine, f::RT_MUTEX_SETPRIO);
        engine.call(site, self.costs.function);
        let irqs = engine.set_irqs(false);
        let rq = self.task_rq_lock(task).await;
        self.update_rq_clock(rq).await;
        self.change_prio(rq, task, prio, || {}).await;
        self.balance_callbacks(rq).await;
        self.rq_unlock(rq).await;
        if irqs {
            engine.set_irqs(true);
        }
    }

    /// Gives a task another effective priority, and with it maybe another class. Its run queue is
    /// locked; `also` is done while the task is on no queue.
    pub(super) async fn change_prio(&self, rq: &Rq, task: &Task, prio: u32, also: impl FnOnce()) {
        let (engine, site) = (&self.engine, f::RT_MUTEX_SETPRIO);
        let before = task.prio.get();
        let was = task.class();
        // One that sleeps does not take what it owes into another class.
        self.finish_delayed(rq, task).await;
        let is_queued = task.on_rq.get();
        // Also one that is on its way to sleep, while its CPU looks for another one without the lock.
        let is_running = rq.curr.get() == task.id;
        if is_running && was == Class::Fair {
            self.put_prev_task_fair(rq, task).await;
        }
        if is_queued {
            was.dequeue_task(self, rq, task, Dequeue::default()).await;
        }
        task.prio.set(prio);
        also();
        engine.store(site, task.p.prio, u64::from(prio)).await;
        let class = task.class();
        if is_queued {
            let at_head = before < prio;
            let why = Enqueue::Changed { at_head };
            class.enqueue_task(self, rq, task, why).await;
        }
        if is_running && class == Class::Fair {
            self.set_next_task_fair(rq, task).await;
        } else if is_running && class != was {
            // Its time as a real-time task begins now.
            let now = engine.now();
            task.exec_start.set(now);
            engine.store(site, task.p.exec_start, now.0).await;
        }
        if is_queued {
            if class != was {
                was.switched_from(rq);
                class.switched_to(rq, task, is_running);
            }
            self.prio_changed(rq, task, before, is_running).await;
        }
    }

    async fn prio_changed(&self, rq: &Rq, task: &Task, before: u32, is_running: bool) {
        let prio = task.prio.get();
        if is_running {
            // When it becomes worse, a better task may wait elsewhere.
            if before < prio {
                rq.inner.borrow_mut().pull_wanted = true;
            }
            let highest = rq.inner.borrow().rt.highest_curr;
            if prio > highest {
                self.resched_curr(rq).await;
            }
            return;
        }
        let curr = self.task(rq.curr.get());
        if prio < curr.prio.get() {
            self.resched_curr(rq).await;
        }
    }

    async fn futex_unlock_pi(&self, task: &Rc<Task>, mutex: &Rc<PiMutex>) {
        let (engine, site) = (&self.engine, f::FUTEX_UNLOCK_PI);
        engine.call(site, self.costs.function);
        engine.set_irqs(false);
        self.spin_lock(mutex.futex.lock).await;
        self.spin_lock(mutex.wait_lock).await;
        let next = self.mark_wakeup_next_waiter(task, mutex).await;
        let word = match &next {
            Some(next) if mutex.waiters.first().is_some() => u64::from(next.id.0) | WAITERS,
            Some(next) => u64::from(next.id.0),
            None => 0,
        };
        engine
            .rmw(site, mutex.futex.word, crate::engine::Rmw::exchange(word))
            .await;
        self.spin_unlock(mutex.wait_lock).await;
        self.spin_unlock(mutex.futex.lock).await;
        if let Some(next) = next {
            self.try_to_wake_up(&next, Wake::Plain).await;
        }
        engine.set_irqs(true);
    }

    /// Makes the first waiter the owner and gives its loan back.
    async fn mark_wakeup_next_waiter(
        &self,
        task: &Rc<Task>,
        mutex: &Rc<PiMutex>,
    ) -> Option<Rc<Task>> {
        let (engine, site) = (&self.engine, f::RT_MUTEX_SLOWUNLOCK);
        let next = mutex.waiters.first().map(|(_, id)| self.task(id));
        self.spin_lock(task.p.pi_lock).await;
        let number = mutex.number;
        task.pi
            .borrow_mut()
            .waiters
            .retain(|(_, other)| *other != number);
        if let Some(next) = &next {
            mutex.waiters.remove(next.id);
            next.pi.borrow_mut().blocked_on = None;
            engine.dirty(site, mutex.waiters_place).await;
        }
        mutex.owner.set(next.as_ref().map(|next| next.id));
        engine.store(site, mutex.owner_place, 0).await;
        // The loan goes back before the waiter is woken: no two tasks run with its priority.
        self.rt_mutex_adjust_prio(task).await;
        self.spin_unlock(task.p.pi_lock).await;
        if next.is_some() {
            self.lend(mutex).await;
        }
        next
    }
}
