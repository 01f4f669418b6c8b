//! Mutexes: kernel/locking/mutex.c, v6.12.
//!
//! **What Linux does:** one word names the owner and has three flags. A task that cannot have it
//! spins while the owner runs, one spinner at a time ([`super::osq`]); one that may not spin queues
//! under the wait lock and sleeps. A first waiter that was woken and found it taken again asks for
//! a hand-over. The owner then gives it to that one and to nobody else.
//!
//! **What we do:** the same, on the same words.
//!
//! **What a test could notice:** a first waiter does not spin between two sleeps; no wound/wait, no
//! `vcpu_is_preempted`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::core::Wake;
use super::functions as f;
use super::lock_stat::LockStat;
use super::osq::Osq;
use super::process::Thread;
use super::task::{TASK_RUNNING, TASK_UNINTERRUPTIBLE, Task, TaskId};
use crate::engine::{Arena, Mode, Object, Opaque, Place, Rmw, SimError};

/// Somebody waits.
const WAITERS: u64 = 1;
/// The first waiter wants it handed over.
const HANDOFF: u64 = 2;
/// It has been handed over, and waits to be picked up.
const PICKUP: u64 = 4;
const FLAGS: u64 = WAITERS | HANDOFF | PICKUP;

/// A mutex of the kernel.
#[derive(Debug)]
pub struct Mutex {
    owner: Place,
    osq: Osq,
    wait_lock: Place,
    wait_list: Opaque,
    waiters: RefCell<VecDeque<TaskId>>,
    stat: LockStat,
}

impl Mutex {
    /// The mutex at `path` in an object.
    pub(super) fn within(
        arena: &mut Arena,
        object: &Object,
        path: &str,
        stat: LockStat,
    ) -> Result<Mutex, SimError> {
        let global = arena.place(object, &format!("{path}osq"))?;
        let osq = Osq::new(arena, global)?;
        let wait_list = arena.opaque(object, &format!("{path}wait_list"))?;
        let mut place = |member: &str| arena.place(object, &format!("{path}{member}"));
        Ok(Mutex {
            owner: place("owner")?,
            osq,
            wait_lock: place("wait_lock")?,
            wait_list,
            waiters: RefCell::new(VecDeque::new()),
            stat,
        })
    }

    /// Returns its statistics so far.
    pub fn stat(&self) -> &LockStat {
        &self.stat
    }

    fn is_first(&self, task: &Task) -> bool {
        self.waiters.borrow().front() == Some(&task.id)
    }
}

/// A task in the owner's word.
fn word_of(task: TaskId) -> u64 {
    (u64::from(task.0) + 1) << 3
}

impl Kernel {
    /// A mutex that nobody holds.
    ///
    /// # Errors
    /// A layout without `mutex`.
    pub fn mutex(&self, name: &str) -> Result<Rc<Mutex>, SimError> {
        let stat = self.lock_stat(name);
        let arena = &mut *self.arena.borrow_mut();
        let object = arena.allocate("mutex", CpuId(0))?;
        Ok(Rc::new(Mutex::within(arena, &object, "", stat)?))
    }

    /// Takes a mutex.
    pub(super) async fn mutex_lock(&self, task: &Rc<Task>, mutex: &Mutex) {
        let (engine, site) = (&self.engine, f::MUTEX_LOCK);
        engine.call(site, self.costs.function);
        self.might_sleep(task).await;
        let is_taken = engine.value(mutex.owner) & !FLAGS != 0;
        let wanted = self.lock_wanted(task, &mutex.stat, is_taken);
        let own = word_of(task.id);
        if engine.compare_swap(site, mutex.owner, 0, own).await != 0
            && !self.mutex_optimistic_spin(task, mutex).await
        {
            self.mutex_lock_slowpath(task, mutex).await;
        }
        self.lock_taken(task, &mutex.stat, wanted, mutex.owner);
    }

    /// Gives a mutex back.
    pub(super) async fn mutex_unlock(&self, task: &Rc<Task>, mutex: &Mutex) {
        let (engine, site) = (&self.engine, f::MUTEX_UNLOCK);
        let own = word_of(task.id);
        let mut seen = engine.compare_swap(site, mutex.owner, own, 0).await;
        // Drops the owner and keeps the flags, so that others can go ahead before the wait lock is
        // taken. With a hand-over wanted, only the first waiter may get it.
        while seen != own && seen & HANDOFF == 0 {
            let old = engine
                .compare_swap(site, mutex.owner, seen, seen & FLAGS)
                .await;
            if old == seen {
                break;
            }
            seen = old;
        }
        self.lock_released(task, &mutex.stat);
        if seen & (WAITERS | HANDOFF) != 0 {
            self.mutex_wake_first(mutex, seen & HANDOFF != 0).await;
        }
    }

    async fn mutex_wake_first(&self, mutex: &Mutex, hands_over: bool) {
        let (engine, site) = (&self.engine, f::MUTEX_UNLOCK);
        self.spin_lock(mutex.wait_lock).await;
        engine.touch(site, mutex.wait_list).await;
        let first = mutex.waiters.borrow().front().copied();
        if hands_over {
            let swap = match first {
                Some(first) => Rmw::exchange(word_of(first) | WAITERS | PICKUP),
                None => Rmw::And(FLAGS & !HANDOFF),
            };
            engine.rmw(site, mutex.owner, swap).await;
        }
        self.spin_unlock(mutex.wait_lock).await;
        if let Some(first) = first {
            self.try_to_wake_up(&self.task(first), Wake::Plain).await;
        }
    }

    /// Takes it if it is free or was handed to this task; a first waiter that fails asks for that.
    async fn mutex_trylock(&self, task: &Task, mutex: &Mutex, asks: bool) -> bool {
        let (engine, site) = (&self.engine, f::MUTEX_LOCK);
        let own = word_of(task.id);
        let mut seen = engine.load(site, mutex.owner).await;
        loop {
            let owner = seen & !FLAGS;
            let is_free = owner == 0 || (owner == own && seen & PICKUP != 0);
            let new = if is_free {
                own | (seen & FLAGS & !PICKUP & !(if asks { HANDOFF } else { 0 }))
            } else if asks && seen & HANDOFF == 0 {
                seen | HANDOFF
            } else {
                return false;
            };
            let old = engine.compare_swap(site, mutex.owner, seen, new).await;
            if old == seen {
                return is_free;
            }
            seen = old;
        }
    }

    /// Spins for a mutex; false when the task should sleep.
    async fn mutex_optimistic_spin(&self, task: &Rc<Task>, mutex: &Mutex) -> bool {
        if !self.placement.may_spin(task, self.engine.cpu())
            || !self.mutex_owner_runs(task, mutex).await
        {
            return false;
        }
        let begin = self.engine.now();
        let mode = self.engine.set_mode(Mode::Spin);
        let mut is_taken = false;
        if self.osq_lock(task, &mutex.osq).await {
            loop {
                is_taken = self.mutex_trylock(task, mutex, false).await;
                if is_taken || !self.mutex_spin_on_owner(task, mutex).await {
                    break;
                }
            }
            self.osq_unlock(&mutex.osq).await;
        }
        self.engine.set_mode(mode);
        let spun = self.engine.now().saturating_sub(begin);
        mutex.stat.add_spin(spun);
        is_taken
    }

    /// Returns true if it makes sense to spin: the owner runs, and nobody else wants this CPU.
    async fn mutex_owner_runs(&self, task: &Task, mutex: &Mutex) -> bool {
        let (engine, site) = (&self.engine, f::MUTEX_SPIN_ON_OWNER);
        if self.need_resched(task).await {
            return false;
        }
        let owner = engine.load(site, mutex.owner).await >> 3;
        // If it is free just now, the spinner tries to take it.
        let Some(number) = owner.checked_sub(1) else {
            return true;
        };
        let owner = self.task_of(number);
        engine.load(site, owner.p.on_cpu).await != 0
    }

    /// Spins while the same task owns it and runs; false when it makes no sense to continue.
    async fn mutex_spin_on_owner(&self, task: &Task, mutex: &Mutex) -> bool {
        let (engine, site) = (&self.engine, f::MUTEX_SPIN_ON_OWNER);
        let owner = engine.load(site, mutex.owner).await >> 3;
        loop {
            let seen = engine.load(site, mutex.owner).await;
            if seen >> 3 != owner || owner == 0 {
                return !self.need_resched(task).await;
            }
            if !self.mutex_owner_runs(task, mutex).await {
                return false;
            }
            engine.wait_for_write(mutex.owner, seen).await;
        }
    }

    async fn mutex_lock_slowpath(&self, task: &Rc<Task>, mutex: &Mutex) {
        let (engine, site) = (&self.engine, f::MUTEX_LOCK);
        self.spin_lock(mutex.wait_lock).await;
        // It may have become free while the wait lock was waited for.
        if self.mutex_trylock(task, mutex, false).await {
            self.spin_unlock(mutex.wait_lock).await;
            return;
        }
        mutex.waiters.borrow_mut().push_back(task.id);
        engine.dirty(site, mutex.wait_list).await;
        if mutex.is_first(task) {
            engine.rmw(site, mutex.owner, Rmw::Or(WAITERS)).await;
        }
        let mut asks = false;
        loop {
            // The state before the test: a wake-up between the two is not lost.
            self.set_current_state(task, TASK_UNINTERRUPTIBLE).await;
            if self.mutex_trylock(task, mutex, asks).await {
                break;
            }
            self.spin_unlock(mutex.wait_lock).await;
            self.schedule().await;
            asks = mutex.is_first(task);
            self.spin_lock(mutex.wait_lock).await;
        }
        engine.store(site, task.p.state, TASK_RUNNING).await;
        mutex.waiters.borrow_mut().retain(|id| *id != task.id);
        if mutex.waiters.borrow().is_empty() {
            engine.rmw(site, mutex.owner, Rmw::And(!FLAGS)).await;
        }
        self.spin_unlock(mutex.wait_lock).await;
    }
}

impl Thread {
    /// One system call that takes a mutex, works while it holds it and gives it back; `taken` and
    /// `given_back` are called in between.
    pub async fn with_mutex(
        &self,
        mutex: &Mutex,
        work: Cycles,
        taken: impl FnOnce(),
        given_back: impl FnOnce(),
    ) {
        self.enter();
        let kernel = &self.kernel;
        kernel.mutex_lock(&self.task, mutex).await;
        taken();
        kernel.run_in_kernel(&self.task, f::MUTEX_LOCK, work).await;
        given_back();
        kernel.mutex_unlock(&self.task, mutex).await;
        self.leave().await;
    }
}
