//! Mutexes, conditions and the like of a run, over the kernel's futexes.
//!
//! Source: the algorithms of glibc's low-level lock (three states: free, taken, taken with waiters),
//! a condition as a sequence number that waiters compare, and a semaphore as a count that waiters take from.
//! Not modelled: the order of glibc's two groups of waiters; that it wakes for a semaphore only if some wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::Cycles;

use super::{Event, RtApp};
use crate::engine::{Rmw, SimError};
use crate::kernel::{Barrier, Futex, Kernel, PiMutex, TaskId, Thread, functions};

const FREE: u64 = 0;
const TAKEN: u64 = 1;
const TAKEN_WITH_WAITERS: u64 = 2;

/// A mutex, with priority inheritance or without.
#[derive(Debug)]
enum Mutex {
    Plain(Rc<Futex>),
    /// With its owner: the kernel refuses to unlock for another thread, and to lock twice.
    Inheriting(Rc<PiMutex>, Cell<Option<TaskId>>),
}

/// Threads that may be forked, and the place where they wait for it.
#[derive(Debug)]
pub(super) struct Nursery {
    gate: Rc<Futex>,
    born: Cell<u64>,
}

/// Everything that threads share, by name.
#[derive(Debug)]
pub(super) struct Resources {
    mutexes: BTreeMap<String, Mutex>,
    has_inheritance: bool,
    conditions: BTreeMap<String, Rc<Futex>>,
    barriers: BTreeMap<String, Rc<Barrier>>,
    /// By task: what its suspended threads wait on.
    suspended: BTreeMap<String, Rc<Futex>>,
    semaphores: BTreeMap<String, Rc<Futex>>,
    nurseries: BTreeMap<String, Nursery>,
    /// Next time of timers that threads share.
    pub(super) timers: RefCell<BTreeMap<String, Cycles>>,
}

impl Resources {
    /// `thread_counts` are the threads that each task will ever have.
    pub(super) fn new(
        kernel: &Kernel,
        app: &RtApp,
        thread_counts: &BTreeMap<&str, u64>,
    ) -> Result<Resources, SimError> {
        let mut resources = Resources {
            mutexes: BTreeMap::new(),
            has_inheritance: app.global.pi_enabled,
            conditions: BTreeMap::new(),
            barriers: BTreeMap::new(),
            suspended: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            nurseries: BTreeMap::new(),
            timers: RefCell::new(BTreeMap::new()),
        };
        let mut barrier_users: BTreeMap<&str, u64> = BTreeMap::new();
        for task in &app.tasks {
            let name = task.name.as_str();
            for event in task.phases.iter().flat_map(|phase| &phase.events) {
                if let Event::Barrier(barrier) = event {
                    *barrier_users.entry(barrier).or_default() += thread_counts[name];
                }
                resources.add(kernel, name, event)?;
            }
        }
        for (name, users) in barrier_users {
            let barrier = kernel.barrier("rt-app.barrier", users as usize)?;
            resources.barriers.insert(name.to_owned(), barrier);
        }
        Ok(resources)
    }

    fn add(&mut self, kernel: &Kernel, task: &str, event: &Event) -> Result<(), SimError> {
        match event {
            Event::Lock(mutex) | Event::Unlock(mutex) => self.add_mutex(kernel, mutex),
            Event::Wait(condition) | Event::Sync(condition) => {
                self.add_mutex(kernel, &condition.mutex)?;
                add(&mut self.conditions, kernel, &condition.name)
            }
            Event::Signal(condition) | Event::Broadcast(condition) => {
                add(&mut self.conditions, kernel, condition)
            }
            Event::Suspend => add(&mut self.suspended, kernel, task),
            Event::Resume(other) => add(&mut self.suspended, kernel, other),
            Event::SemWait(name) | Event::SemPost(name) => add(&mut self.semaphores, kernel, name),
            Event::Fork(child) if !self.nurseries.contains_key(child) => {
                let nursery = Nursery {
                    gate: kernel.futex("rt-app.fork")?,
                    born: Cell::new(0),
                };
                self.nurseries.insert(child.clone(), nursery);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_mutex(&mut self, kernel: &Kernel, name: &str) -> Result<(), SimError> {
        if self.mutexes.contains_key(name) {
            return Ok(());
        }
        let mutex = if self.has_inheritance {
            Mutex::Inheriting(kernel.pi_mutex("rt-app.mutex")?, Cell::new(None))
        } else {
            Mutex::Plain(kernel.futex("rt-app.mutex")?)
        };
        self.mutexes.insert(name.to_owned(), mutex);
        Ok(())
    }

    pub(super) async fn lock(&self, thread: &Thread, name: &str) {
        match &self.mutexes[name] {
            Mutex::Plain(futex) => lock(thread, futex).await,
            Mutex::Inheriting(mutex, owner) => {
                let own = Some(thread.task().id);
                if owner.get() != own {
                    thread.pi_lock(mutex).await;
                    owner.set(own);
                }
            }
        }
    }

    pub(super) async fn unlock(&self, thread: &Thread, name: &str) {
        match &self.mutexes[name] {
            Mutex::Plain(futex) => unlock(thread, futex).await,
            Mutex::Inheriting(mutex, owner) => {
                if owner.get() == Some(thread.task().id) {
                    owner.set(None);
                    thread.pi_unlock(mutex).await;
                }
            }
        }
    }

    pub(super) async fn wait(&self, thread: &Thread, name: &str, mutex: &str) {
        let condition = &self.conditions[name];
        let seen = thread.read_word(condition).await;
        self.unlock(thread, mutex).await;
        thread.futex_wait(condition, seen).await;
        self.lock(thread, mutex).await;
    }

    pub(super) async fn signal(&self, thread: &Thread, name: &str, waiters: usize) {
        let condition = &self.conditions[name];
        announce(thread, condition, waiters).await;
    }

    pub(super) async fn barrier(&self, thread: &Thread, name: &str) {
        thread.barrier_wait(&self.barriers[name]).await;
    }

    pub(super) async fn suspend(&self, thread: &Thread, task: &str) {
        let gate = &self.suspended[task];
        let seen = thread.read_word(gate).await;
        thread.futex_wait(gate, seen).await;
    }

    pub(super) async fn resume(&self, thread: &Thread, task: &str) {
        announce(thread, &self.suspended[task], usize::MAX).await;
    }

    pub(super) async fn sem_wait(&self, thread: &Thread, name: &str) {
        let (engine, count) = (thread.engine(), &self.semaphores[name]);
        loop {
            let seen = thread.read_word(count).await;
            if seen == 0 {
                thread.futex_wait(count, 0).await;
                continue;
            }
            let site = functions::USER;
            if engine
                .compare_swap(site, count.word(), seen, seen - 1)
                .await
                == seen
            {
                return;
            }
        }
    }

    pub(super) async fn sem_post(&self, thread: &Thread, name: &str) {
        announce(thread, &self.semaphores[name], 1).await;
    }

    /// Lets one waiting thread of the task begin.
    pub(super) async fn fork(&self, thread: &Thread, task: &str) {
        let nursery = &self.nurseries[task];
        nursery.born.set(nursery.born.get() + 1);
        announce(thread, &nursery.gate, 1).await;
    }

    /// For a thread that will be forked: waits until it is.
    pub(super) async fn be_forked(&self, thread: &Thread, task: &str) {
        let nursery = &self.nurseries[task];
        loop {
            let seen = thread.read_word(&nursery.gate).await;
            if let Some(left) = nursery.born.get().checked_sub(1) {
                nursery.born.set(left);
                return;
            }
            thread.futex_wait(&nursery.gate, seen).await;
        }
    }
}

async fn lock(thread: &Thread, mutex: &Futex) {
    let (engine, site) = (thread.engine(), functions::USER);
    if engine.compare_swap(site, mutex.word(), FREE, TAKEN).await == FREE {
        return;
    }
    let contend = Rmw::exchange(TAKEN_WITH_WAITERS);
    while thread.change_word(mutex, contend).await != FREE {
        thread.futex_wait(mutex, TAKEN_WITH_WAITERS).await;
    }
}

async fn unlock(thread: &Thread, mutex: &Futex) {
    let before = thread.change_word(mutex, Rmw::exchange(FREE)).await;
    if before == TAKEN_WITH_WAITERS {
        thread.futex_wake(mutex, 1).await;
    }
}

fn add(all: &mut BTreeMap<String, Rc<Futex>>, kernel: &Kernel, name: &str) -> Result<(), SimError> {
    if !all.contains_key(name) {
        all.insert(name.to_owned(), kernel.futex("rt-app.futex")?);
    }
    Ok(())
}

/// Changes the word of a futex and wakes the waiters for that.
async fn announce(thread: &Thread, futex: &Futex, waiters: usize) {
    thread.change_word(futex, Rmw::Add(1)).await;
    thread.futex_wake(futex, waiters).await;
}
