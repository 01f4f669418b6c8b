//! Futexes: kernel/futex/waitwake.c, v6.12.
//!
//! **What Linux does:** waiters queue in a hash bucket, ordered by priority, then first come, first
//! served. A waker takes them out under the bucket's lock and wakes them after it has let go.
//!
//! **What we do:** the same, with a bucket of its own for each futex.
//!
//! **What a test could notice:** no collisions in the hash table; private futexes only.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::CpuId;

use super::Kernel;
use super::core::Wake;
use super::functions as f;
use super::process::Thread;
use super::task::{MAX_RT_PRIO, TASK_INTERRUPTIBLE, Task, TaskId};
use crate::engine::{Extent, HostSpan, MemberKey, Opaque, Place, Rmw, SimError};

/// Waiters that a futex has room for before it has to ask the host for memory.
const USUAL_WAITERS: usize = 4;

/// A futex: a word of user memory, and the waiters for it to change.
#[derive(Debug)]
pub struct Futex {
    pub(super) word: Place,
    waiter_count: Place,
    pub(super) lock: Place,
    chain: Opaque,
    waiters: Waiters,
    /// The simulated memory of all that.
    extent: Extent,
}

/// Tasks that wait, by priority, then in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Waiters(RefCell<Vec<(u32, TaskId)>>);

impl Waiters {
    pub(super) fn first(&self) -> Option<(u32, TaskId)> {
        self.0.borrow().first().copied()
    }

    pub(super) fn has(&self, task: TaskId) -> bool {
        self.0.borrow().iter().any(|(_, id)| *id == task)
    }

    pub(super) fn add(&self, prio: u32, task: TaskId) {
        let mut waiters = self.0.borrow_mut();
        let at = waiters.partition_point(|(other, _)| *other <= prio);
        waiters.insert(at, (prio, task));
    }

    pub(super) fn remove(&self, task: TaskId) {
        self.0.borrow_mut().retain(|(_, id)| *id != task);
    }

    /// Takes out the first `count`.
    fn take(&self, count: usize) -> Vec<TaskId> {
        let mut waiters = self.0.borrow_mut();
        let count = count.min(waiters.len());
        waiters.drain(..count).map(|(_, id)| id).collect()
    }
}

impl Futex {
    pub(super) fn new(kernel: &Kernel, name: &str) -> Result<Futex, SimError> {
        let make = || Futex::with_extent(kernel, name, Extent::EMPTY);
        let (futex, extent) = kernel.engine.extent_of(make);
        Ok(Futex { extent, ..futex? })
    }

    fn with_extent(kernel: &Kernel, name: &str, extent: Extent) -> Result<Futex, SimError> {
        let mut arena = kernel.arena.borrow_mut();
        let home = CpuId(0);
        let bucket = arena.allocate("futex_hash_bucket", home)?;
        let addr = kernel.user_line();
        let key = MemberKey::new("[user]", name, 0);
        Ok(Futex {
            word: kernel.engine.place(addr, home, key),
            waiter_count: arena.place(&bucket, "waiters")?,
            lock: arena.place(&bucket, "lock")?,
            chain: arena.opaque(&bucket, "chain")?,
            waiters: Waiters(RefCell::new(Vec::with_capacity(USUAL_WAITERS))),
            extent,
        })
    }

    /// Its place in the host's memory and in the simulated one, for [`Kernel::add_footprint`].
    pub fn footprint(self: &Rc<Self>) -> ([HostSpan; 2], Extent) {
        let waiters = HostSpan::of_buffer(&self.waiters.0.borrow());
        ([HostSpan::of(&**self), waiters], self.extent)
    }

    /// Place of the word in simulated memory.
    pub fn word(&self) -> Place {
        self.word
    }
}

impl Thread {
    /// Sleeps until woken, if the word is still `expected`.
    pub async fn futex_wait(&self, futex: &Futex, expected: u64) {
        self.enter();
        self.kernel.futex_wait(&self.task, futex, expected).await;
        self.leave().await;
    }

    /// Wakes up to `count` waiters.
    pub async fn futex_wake(&self, futex: &Futex, count: usize) {
        self.enter();
        self.kernel.futex_wake(futex, count).await;
        self.leave().await;
    }

    /// Reads the word of a futex in user mode.
    pub async fn read_word(&self, futex: &Futex) -> u64 {
        self.kernel.engine.load(f::USER, futex.word).await
    }

    /// Changes the word of a futex in user mode; returns the one before.
    pub async fn change_word(&self, futex: &Futex, change: Rmw) -> u64 {
        self.kernel.engine.rmw(f::USER, futex.word, change).await
    }

    /// Waits until `count` threads have come to the barrier (glibc's `pthread_barrier_wait`: a
    /// counter and a futex).
    pub async fn barrier_wait(&self, barrier: &Barrier) {
        let engine = &self.kernel.engine;
        let round = barrier.round.get();
        let before = engine.fetch_add(f::USER, barrier.arrived.word, 1).await;
        if before + 1 == barrier.count {
            barrier.round.set(round + 1);
            // Reset before the gate opens: threads of the next round may come at once.
            engine.store(f::USER, barrier.arrived.word, 0).await;
            self.change_word(&barrier.gate, Rmw::Add(1)).await;
            self.futex_wake(&barrier.gate, usize::MAX).await;
            return;
        }
        while self.read_word(&barrier.gate).await == round {
            self.futex_wait(&barrier.gate, round).await;
        }
    }
}

/// A barrier of threads.
#[derive(Debug)]
pub struct Barrier {
    arrived: Futex,
    gate: Futex,
    count: u64,
    round: Cell<u64>,
}

impl Kernel {
    /// A new futex, its word 0.
    pub fn futex(&self, name: &str) -> Result<Rc<Futex>, SimError> {
        Ok(Rc::new(Futex::new(self, name)?))
    }

    /// A new barrier of `count` threads.
    pub fn barrier(&self, name: &str, count: usize) -> Result<Rc<Barrier>, SimError> {
        Ok(Rc::new(Barrier {
            arrived: Futex::new(self, &format!("{name}.in"))?,
            gate: Futex::new(self, &format!("{name}.round"))?,
            count: count as u64,
            round: Cell::new(0),
        }))
    }

    async fn futex_wait(&self, task: &Rc<Task>, futex: &Futex, expected: u64) {
        let (engine, site) = (&self.engine, f::FUTEX_WAIT);
        engine.call(site, self.costs.function);
        // Counted before the word is read: either a waker sees the count, or this thread sees its
        // new word.
        engine.fetch_add(site, futex.waiter_count, 1).await;
        self.spin_lock(futex.lock).await;
        if engine.load(site, futex.word).await != expected {
            self.spin_unlock(futex.lock).await;
            engine.fetch_add(site, futex.waiter_count, -1).await;
            return;
        }
        self.set_current_state(task, TASK_INTERRUPTIBLE).await;
        let prio = task.normal_prio.get().min(MAX_RT_PRIO);
        futex.waiters.add(prio, task.id);
        engine.touch(site, futex.chain).await;
        engine.dirty(site, futex.chain).await;
        self.spin_unlock(futex.lock).await;
        let waits = || futex.waiters.has(task.id);
        self.sleep_while(task, site, waits).await;
    }

    async fn futex_wake(&self, futex: &Futex, count: usize) {
        let (engine, site) = (&self.engine, f::FUTEX_WAKE);
        engine.call(site, self.costs.function);
        if let Some((_, id)) = futex.waiters.first() {
            self.foresee(&self.tasks.borrow()[id.index()]);
        }
        if engine.load(site, futex.waiter_count).await == 0 {
            return;
        }
        self.spin_lock(futex.lock).await;
        engine.touch(site, futex.chain).await;
        let woken = futex.waiters.take(count);
        if !woken.is_empty() {
            engine.dirty(site, futex.chain).await;
            engine
                .fetch_add(site, futex.waiter_count, -(woken.len() as i64))
                .await;
        }
        self.spin_unlock(futex.lock).await;
        for task in woken {
            self.try_to_wake_up(&self.task(task), Wake::Plain).await;
        }
    }
}
