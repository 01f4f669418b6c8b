//! Reader-writer semaphores: kernel/locking/rwsem.c, v6.12.
//!
//! **What Linux does:** one word counts readers and says whether a writer has it and whether
//! somebody waits. A writer that cannot have it spins while the owner runs, one spinner at a time
//! ([`super::osq`]). It takes it when it is free, before sleeping waiters. A task that may not spin
//! queues under the wait lock and sleeps. The task that gives the semaphore back wakes the first in
//! the queue, and hands it to all readers at the head. A writer that has waited for 4 ms keeps
//! others from stealing. New readers do not pass a queue. A per-CPU reader-writer semaphore behaves
//! likewise once a writer waits.
//!
//! **What we do:** the same lines and the same order.
//!
//! **What a test could notice:** writers do not spin while readers have it, and readers do not spin
//! or steal. All readers at the head of the queue are woken, not those behind a writer too.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::Kernel;
use super::core::Wake;
use super::functions as f;
use super::lock_stat::LockStat;
use super::osq::Osq;
use super::process::Thread;
use super::task::{TASK_INTERRUPTIBLE, TASK_RUNNING, Task, TaskId};
use crate::engine::{Arena, Mode, Object, Opaque, Place, Rmw, SimError, Site};

hitm_base::words! {
    /// Mode in which a semaphore is held.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Hold {
        /// With other readers.
        Read = "read",
        /// Alone.
        Write = "write",
    }
}

/// Mode in which a thread has a semaphore, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The mode.
    pub hold: Hold,
    /// Kernel code under it.
    pub work: Cycles,
    /// Sleep under it, as for a page that must be read.
    pub sleep: Cycles,
}

/// Time for which the first writer in the queue lets others steal: `RWSEM_WAIT_TIMEOUT`.
const WAIT_TIMEOUT: Nanos = Nanos(4e6);

/// A reader-writer semaphore of the kernel.
#[derive(Debug)]
pub struct RwSem {
    count: Place,
    owner: Place,
    osq: Osq,
    wait_lock: Place,
    wait_list: Opaque,
    readers: Cell<usize>,
    writer: Cell<Option<TaskId>>,
    /// The first waiter will not be passed any more.
    has_handoff: Cell<bool>,
    waiters: RefCell<VecDeque<(TaskId, Hold)>>,
    /// Its statistics.
    pub(super) stat: LockStat,
}

impl RwSem {
    /// The semaphore at `path` in an object.
    pub(super) fn within(
        arena: &mut Arena,
        object: &Object,
        path: &str,
        stat: LockStat,
    ) -> Result<RwSem, SimError> {
        let global = arena.place(object, &format!("{path}osq"))?;
        let osq = Osq::new(arena, global)?;
        let wait_list = arena.opaque(object, &format!("{path}wait_list"))?;
        let mut place = |member: &str| arena.place(object, &format!("{path}{member}"));
        Ok(RwSem {
            count: place("count")?,
            owner: place("owner")?,
            osq,
            wait_lock: place("wait_lock")?,
            wait_list,
            readers: Cell::new(0),
            writer: Cell::new(None),
            has_handoff: Cell::new(false),
            waiters: RefCell::new(VecDeque::new()),
            stat,
        })
    }

    /// Returns its statistics so far.
    pub fn stat(&self) -> &LockStat {
        &self.stat
    }

    /// Returns true if it may be had now, by a task that nothing else keeps from it.
    fn is_free_for(&self, hold: Hold) -> bool {
        self.writer.get().is_none() && (hold == Hold::Read || self.readers.get() == 0)
    }

    fn take(&self, task: TaskId, hold: Hold) {
        match hold {
            Hold::Read => self.readers.set(self.readers.get() + 1),
            Hold::Write => self.writer.set(Some(task)),
        }
    }

    /// Takes it if it is free and nobody waits.
    fn try_take(&self, task: TaskId, hold: Hold) -> bool {
        let may = self.waiters.borrow().is_empty() && self.is_free_for(hold);
        if may {
            self.take(task, hold);
        }
        may
    }

    /// Takes it for writing if it is free, before all waiters.
    fn try_steal(&self, task: TaskId) -> bool {
        let may = self.is_free_for(Hold::Write) && !self.has_handoff.get();
        if may {
            self.take(task, Hold::Write);
        }
        may
    }

    /// Takes it for writing for a waiter, and takes that out of the queue.
    fn try_take_waiting(&self, task: TaskId) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        let is_first = waiters.front().is_some_and(|(id, _)| *id == task);
        if !self.is_free_for(Hold::Write) || (self.has_handoff.get() && !is_first) {
            return false;
        }
        if is_first {
            self.has_handoff.set(false);
        }
        waiters.retain(|(id, _)| *id != task);
        self.take(task, Hold::Write);
        true
    }

    fn is_waiting(&self, task: TaskId) -> bool {
        self.waiters.borrow().iter().any(|(id, _)| *id == task)
    }

    fn is_first(&self, task: TaskId) -> bool {
        let waiters = self.waiters.borrow();
        waiters.front().is_some_and(|(id, _)| *id == task)
    }

    /// Hands it to the readers at the head of the queue, or names the writer there.
    fn mark_wake(&self) -> Vec<TaskId> {
        let mut woken = Vec::new();
        let mut waiters = self.waiters.borrow_mut();
        if let Some((id, Hold::Write)) = waiters.front().copied() {
            return vec![id];
        }
        while let Some((id, Hold::Read)) = waiters.front().copied() {
            if !self.is_free_for(Hold::Read) {
                break;
            }
            self.take(id, Hold::Read);
            woken.push(id);
            waiters.pop_front();
        }
        woken
    }
}

impl Kernel {
    /// A semaphore that nobody holds.
    ///
    /// # Errors
    /// A layout without `rw_semaphore`.
    pub fn rw_sem(&self, name: &str) -> Result<Rc<RwSem>, SimError> {
        let stat = self.lock_stat(name);
        let mut arena = self.arena.borrow_mut();
        let object = arena.allocate("rw_semaphore", CpuId(0))?;
        Ok(Rc::new(RwSem::within(&mut arena, &object, "", stat)?))
    }

    /// Takes a semaphore.
    pub(super) async fn down(&self, task: &Rc<Task>, sem: &RwSem, hold: Hold) {
        self.might_sleep(task).await;
        if hold == Hold::Read {
            self.down_read(task, sem).await;
            return;
        }
        let is_taken = !sem.is_free_for(Hold::Write);
        let wanted = self.lock_wanted(task, &sem.stat, is_taken);
        self.down_write(task, sem).await;
        self.lock_taken(task, &sem.stat, wanted, sem.owner);
    }

    async fn down_read(&self, task: &Rc<Task>, sem: &RwSem) {
        let (engine, site) = (&self.engine, f::DOWN_READ);
        engine.call(site, self.costs.function);
        // Who holds it is kept by value: the locked operation is there for its price.
        engine.rmw(site, sem.count, Rmw::Add(0)).await;
        if sem.try_take(task.id, Hold::Read) {
            return;
        }
        self.spin_lock(sem.wait_lock).await;
        self.note_waiter(sem, site).await;
        // A holder that gave it back before this one is in the queue would wake nobody.
        if sem.try_take(task.id, Hold::Read) {
            self.spin_unlock(sem.wait_lock).await;
            return;
        }
        sem.waiters.borrow_mut().push_back((task.id, Hold::Read));
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        self.spin_unlock(sem.wait_lock).await;
        let waits = || sem.is_waiting(task.id);
        self.sleep_while(task, site, waits).await;
    }

    async fn down_write(&self, task: &Rc<Task>, sem: &RwSem) {
        let (engine, site) = (&self.engine, f::DOWN_WRITE);
        engine.call(site, self.costs.function);
        engine.rmw(site, sem.count, Rmw::Add(0)).await;
        if !sem.try_take(task.id, Hold::Write) && !self.rwsem_optimistic_spin(task, sem).await {
            self.down_write_slowpath(task, sem).await;
        }
        let owner = u64::from(task.id.0) + 1;
        engine.store(site, sem.owner, owner).await;
    }

    async fn note_waiter(&self, sem: &RwSem, site: Site) {
        self.engine.dirty(site, sem.wait_list).await;
    }

    /// Spins for a semaphore; false when the task should sleep.
    async fn rwsem_optimistic_spin(&self, task: &Rc<Task>, sem: &RwSem) -> bool {
        if !self.placement.may_spin(task, self.engine.cpu())
            || !self.can_spin_on_owner(task, sem).await
        {
            return false;
        }
        let begin = self.engine.now();
        let mode = self.engine.set_mode(Mode::Spin);
        let mut is_taken = false;
        if self.osq_lock(task, &sem.osq).await {
            is_taken = self.spin_at_head(task, sem).await;
            self.osq_unlock(&sem.osq).await;
        }
        self.engine.set_mode(mode);
        sem.stat.add_spin(self.engine.now().saturating_sub(begin));
        is_taken
    }

    async fn can_spin_on_owner(&self, task: &Task, sem: &RwSem) -> bool {
        if self.need_resched(task).await || sem.readers.get() > 0 {
            return false;
        }
        let site = f::RWSEM_OPTIMISTIC_SPIN;
        match self.engine.load(site, sem.owner).await.checked_sub(1) {
            Some(owner) => {
                let owner = self.task_of(owner);
                self.engine.load(site, owner.p.on_cpu).await != 0
            }
            None => true,
        }
    }

    /// The one spinner that looks at the semaphore.
    async fn spin_at_head(&self, task: &Task, sem: &RwSem) -> bool {
        let (engine, site) = (&self.engine, f::RWSEM_OPTIMISTIC_SPIN);
        loop {
            if !self.spin_on_owner(task, sem).await || sem.readers.get() > 0 {
                return false;
            }
            let count = engine.load(site, sem.count).await;
            if sem.is_free_for(Hold::Write) {
                engine.rmw(site, sem.count, Rmw::Add(0)).await;
                if sem.try_steal(task.id) {
                    return true;
                }
            }
            if sem.has_handoff.get() || self.need_resched(task).await {
                return false;
            }
            if !sem.is_free_for(Hold::Write) && engine.value(sem.owner) == 0 {
                // Between an owner's last store and the count.
                engine.wait_for_write(sem.count, count).await;
            }
        }
    }

    /// Spins while the same writer owns the semaphore and runs; false when it makes no sense to
    /// continue.
    async fn spin_on_owner(&self, task: &Task, sem: &RwSem) -> bool {
        let (engine, site) = (&self.engine, f::RWSEM_SPIN_ON_OWNER);
        let owner = engine.load(site, sem.owner).await;
        let Some(number) = owner.checked_sub(1) else {
            return true;
        };
        let running = self.task_of(number);
        loop {
            let seen = engine.load(site, sem.owner).await;
            if seen != owner {
                return true;
            }
            if engine.load(site, running.p.on_cpu).await == 0 || self.need_resched(task).await {
                return false;
            }
            engine.wait_for_write(sem.owner, seen).await;
        }
    }

    async fn down_write_slowpath(&self, task: &Rc<Task>, sem: &RwSem) {
        let (engine, site) = (&self.engine, f::DOWN_WRITE);
        let give_up_at = engine.now() + self.cycles(WAIT_TIMEOUT);
        self.spin_lock(sem.wait_lock).await;
        self.note_waiter(sem, site).await;
        sem.waiters.borrow_mut().push_back((task.id, Hold::Write));
        engine.rmw(site, sem.count, Rmw::Add(0)).await;
        loop {
            self.set_current_state(task, TASK_INTERRUPTIBLE).await;
            engine.rmw(site, sem.count, Rmw::Add(0)).await;
            if sem.try_take_waiting(task.id) {
                break;
            }
            let is_first = sem.is_first(task.id);
            if is_first && engine.now() >= give_up_at {
                sem.has_handoff.set(true);
            }
            self.spin_unlock(sem.wait_lock).await;
            // Nobody can steal it now: when its owner is about to give it back, a spin is shorter
            // than sleep.
            if is_first && sem.has_handoff.get() {
                let mode = engine.set_mode(Mode::Spin);
                let is_free = self.spin_on_owner(task, sem).await;
                engine.set_mode(mode);
                if !is_free {
                    self.schedule().await;
                }
            } else {
                self.schedule().await;
            }
            self.spin_lock(sem.wait_lock).await;
        }
        self.spin_unlock(sem.wait_lock).await;
        engine.store(site, task.p.state, TASK_RUNNING).await;
    }

    /// Gives a semaphore back.
    pub(super) async fn up(&self, task: &Rc<Task>, sem: &RwSem, hold: Hold) {
        let engine = &self.engine;
        if hold == Hold::Write {
            engine.store(f::UP_WRITE, sem.owner, 0).await;
        }
        engine.rmw(f::UP_WRITE, sem.count, Rmw::Add(0)).await;
        match hold {
            Hold::Read => sem.readers.set(sem.readers.get() - 1),
            Hold::Write => sem.writer.set(None),
        }
        if hold == Hold::Write {
            self.lock_released(task, &sem.stat);
        }
        // Of several readers only the last one wakes waiters.
        if sem.waiters.borrow().is_empty() || !sem.is_free_for(Hold::Write) {
            return;
        }
        let site = f::UP_RWSEM;
        self.spin_lock(sem.wait_lock).await;
        engine.touch(site, sem.wait_list).await;
        let woken = sem.mark_wake();
        self.spin_unlock(sem.wait_lock).await;
        for id in woken {
            self.try_to_wake_up(&self.task(id), Wake::Plain).await;
        }
    }
}

fn site_of(hold: Hold) -> Site {
    match hold {
        Hold::Read => f::DOWN_READ,
        Hold::Write => f::DOWN_WRITE,
    }
}

impl Thread {
    /// One system call that takes a semaphore, works and sleeps while it holds it, as for a page
    /// that must be read, and gives it back. Returns how long it waited for the semaphore.
    pub async fn hold_sem(&self, sem: &RwSem, held: Held) -> Cycles {
        self.with_sem(sem, held, || (), || ()).await
    }

    /// Like [`Thread::hold_sem`], with callbacks for when the semaphore has been taken and before
    /// it is given back.
    pub async fn with_sem(
        &self,
        sem: &RwSem,
        held: Held,
        taken: impl FnOnce(),
        given_back: impl FnOnce(),
    ) -> Cycles {
        self.enter();
        let (kernel, begin) = (&self.kernel, self.now());
        kernel.down(&self.task, sem, held.hold).await;
        let waited = self.now().saturating_sub(begin);
        taken();
        let site = site_of(held.hold);
        kernel.run_in_kernel(&self.task, site, held.work).await;
        if held.sleep > Cycles::ZERO {
            let until = self.now() + held.sleep;
            kernel.sleep_in_kernel(&self.task, until).await;
        }
        given_back();
        kernel.up(&self.task, sem, held.hold).await;
        self.leave().await;
        waited
    }
}
