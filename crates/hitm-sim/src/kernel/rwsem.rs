//! Reader-writer semaphores: kernel/locking/rwsem.c, v6.12.
//!
//! **What Linux does:** one word counts readers and says whether a writer has it and whether somebody
//! waits. Who cannot have it queues under the wait lock, in order, and sleeps; who gives it back hands
//! it to the first in the queue, or to all readers when the first is one. New readers do not pass a
//! queue. A per-CPU reader-writer semaphore behaves likewise once a writer waits.
//!
//! **What we do:** the same lines and the same order.
//!
//! **What a test could notice:** no optimistic spinning and no stealing: the lock is handed over to a
//! waiter that sleeps.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::functions as f;
use super::process::Thread;
use super::task::{TASK_INTERRUPTIBLE, TASK_RUNNING, Task, TaskId};
use crate::engine::{Place, Rmw, SimError, Site};

/// How a semaphore is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// With other readers.
    Read,
    /// Alone.
    Write,
}

/// A reader-writer semaphore of the kernel.
#[derive(Debug)]
pub struct RwSem {
    count: Place,
    wait_lock: Place,
    wait_list: Place,
    readers: Cell<usize>,
    has_writer: Cell<bool>,
    waiters: RefCell<VecDeque<(TaskId, Hold)>>,
}

impl RwSem {
    /// Whether it may be had now, with nobody waiting or by the first waiter.
    fn is_free_for(&self, hold: Hold) -> bool {
        !self.has_writer.get() && (hold == Hold::Read || self.readers.get() == 0)
    }

    fn take(&self, hold: Hold) {
        match hold {
            Hold::Read => self.readers.set(self.readers.get() + 1),
            Hold::Write => self.has_writer.set(true),
        }
    }

    fn is_waiting(&self, task: &Task) -> bool {
        self.waiters.borrow().iter().any(|(id, _)| *id == task.id)
    }

    /// Hands it to the first waiters that may have it together.
    fn grant(&self) -> Vec<TaskId> {
        let mut granted = Vec::new();
        let mut waiters = self.waiters.borrow_mut();
        while let Some((id, hold)) = waiters.front().copied() {
            if !self.is_free_for(hold) {
                break;
            }
            self.take(hold);
            granted.push(id);
            waiters.pop_front();
        }
        granted
    }
}

impl Kernel {
    /// A semaphore that nobody holds.
    ///
    /// # Errors
    /// A layout without `rw_semaphore`.
    pub fn rw_sem(&self) -> Result<Rc<RwSem>, SimError> {
        let mut arena = self.arena.borrow_mut();
        let object = arena.allocate("rw_semaphore", CpuId(0))?;
        Ok(Rc::new(RwSem {
            count: arena.place(&object, "count")?,
            wait_lock: arena.place(&object, "wait_lock")?,
            wait_list: arena.place(&object, "wait_list")?,
            readers: Cell::new(0),
            has_writer: Cell::new(false),
            waiters: RefCell::new(VecDeque::new()),
        }))
    }

    async fn down(&self, task: &Rc<Task>, sem: &RwSem, hold: Hold) {
        let (engine, site) = (&self.engine, site_of(hold));
        engine.work(site, self.costs.function);
        engine.rmw(site, sem.count, Rmw::Add(0)).await;
        if sem.waiters.borrow().is_empty() && sem.is_free_for(hold) {
            sem.take(hold);
            return;
        }
        self.spin_lock(sem.wait_lock).await;
        engine
            .store(site, sem.wait_list, u64::from(task.id.0))
            .await;
        if sem.waiters.borrow().is_empty() && sem.is_free_for(hold) {
            sem.take(hold);
            self.spin_unlock(sem.wait_lock).await;
            return;
        }
        sem.waiters.borrow_mut().push_back((task.id, hold));
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        self.spin_unlock(sem.wait_lock).await;
        while sem.is_waiting(task) {
            self.schedule().await;
            self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        }
        engine.store(site, task.p.state, TASK_RUNNING).await;
    }

    async fn up(&self, sem: &RwSem, hold: Hold) {
        let (engine, site) = (&self.engine, f::UP_RWSEM);
        engine.rmw(site, sem.count, Rmw::Add(0)).await;
        match hold {
            Hold::Read => sem.readers.set(sem.readers.get() - 1),
            Hold::Write => sem.has_writer.set(false),
        }
        if sem.waiters.borrow().is_empty() {
            return;
        }
        self.spin_lock(sem.wait_lock).await;
        engine.load(site, sem.wait_list).await;
        let granted = sem.grant();
        self.spin_unlock(sem.wait_lock).await;
        for task in granted {
            self.try_to_wake_up(&self.task(task)).await;
        }
    }

    /// Sleeps in the kernel until `at`, whatever is held.
    async fn sleep_in_kernel(&self, task: &Rc<Task>, at: Cycles) {
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        self.hrtimer_start(task, at).await;
        while self.engine.now() < at {
            self.schedule().await;
            self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        }
        self.engine
            .store(f::HRTIMER_START, task.p.state, TASK_RUNNING)
            .await;
    }
}

fn site_of(hold: Hold) -> Site {
    match hold {
        Hold::Read => f::DOWN_READ,
        Hold::Write => f::DOWN_WRITE,
    }
}

impl Thread {
    /// One system call that takes a semaphore, works and sleeps while it holds it, as for a page that
    /// must be read, and gives it back; returns how long it waited for the semaphore.
    pub async fn hold_sem(
        &self,
        sem: &RwSem,
        hold: Hold,
        (work, sleep): (Cycles, Cycles),
    ) -> Cycles {
        self.enter();
        let (kernel, begin) = (&self.kernel, self.now());
        kernel.down(&self.task, sem, hold).await;
        let waited = self.now().saturating_sub(begin);
        kernel.engine.work(site_of(hold), work);
        if sleep > Cycles::ZERO {
            kernel.sleep_in_kernel(&self.task, self.now() + sleep).await;
        }
        kernel.up(sem, hold).await;
        self.leave().await;
        waited
    }
}
