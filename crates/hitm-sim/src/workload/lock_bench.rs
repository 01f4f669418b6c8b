//! A benchmark of one lock, as kernel/locking/locktorture.c (v6.12) has it for each kind: threads take
//! it, hold it, give it back, and pause.
//!
//! **What the program does:** writers and readers of one lock in kernel threads, bound to nothing;
//! delays at random, most of them none. It counts acquisitions of each thread.
//!
//! **What we do:** the same with a fixed hold and pause, so that two kinds of a lock are compared under
//! one load. Sleeping locks are taken by a system call each.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::deck::CpuDeck;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use super::placed::{CpuChoice, Placed};
use crate::engine::SimError;
use crate::kernel::{
    CpuMask, Held, Hold, Kernel, Mutex, PiMutex, Policy, RawSpinlock, RwSem, TaskSpec, Thread,
};
use crate::scenario::ScenarioError;
use crate::scenario::start::Start;

hitm_base::words! {
    /// A kind of lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LockKind {
        /// A spinlock of the scenario's protocol.
        Spinlock = "spinlock",
        /// A mutex of the kernel.
        Mutex = "mutex",
        /// A reader-writer semaphore, by writers.
        RwsemWrite = "rwsem-write",
        /// A reader-writer semaphore, by readers.
        RwsemRead = "rwsem-read",
        /// A user-space mutex with priority inheritance.
        PiMutex = "pi-mutex",
    }
}

/// Configuration of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockBenchConfig {
    /// Kind of the lock.
    pub lock: LockKind,
    /// Their policy.
    pub policy: Policy,
    /// Work under the lock.
    pub hold: Nanos,
    /// Work without it.
    pub pause: Nanos,
}

#[derive(Debug)]
enum Lock {
    Spinlock(RawSpinlock),
    Mutex(Rc<Mutex>),
    Rwsem(Rc<RwSem>, Hold),
    PiMutex(Rc<PiMutex>),
}

/// A run.
#[derive(Debug)]
pub struct LockBench {
    lock: Lock,
    acquisitions: Vec<Cell<u64>>,
}

impl LockBench {
    /// Makes the lock, and a thread for each mask, which may run there.
    ///
    /// # Errors
    /// Layouts without what the lock needs.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        threads: &[CpuMask],
        config: LockBenchConfig,
    ) -> Result<Rc<LockBench>, SimError> {
        const NAME: &str = "lock_bench";
        let lock = match config.lock {
            LockKind::Spinlock => Lock::Spinlock(kernel.raw_spinlock(NAME)),
            LockKind::Mutex => Lock::Mutex(kernel.mutex(NAME)?),
            LockKind::RwsemWrite => Lock::Rwsem(kernel.rw_sem(NAME)?, Hold::Write),
            LockKind::RwsemRead => Lock::Rwsem(kernel.rw_sem(NAME)?, Hold::Read),
            LockKind::PiMutex => Lock::PiMutex(kernel.pi_mutex(NAME)?),
        };
        let bench = Rc::new(LockBench {
            lock,
            acquisitions: threads.iter().map(|_| Cell::new(0)).collect(),
        });
        let mut random = kernel.engine().random(NAME);
        let mut cpus = CpuDeck::default();
        let (hold, pause) = (kernel.cycles(config.hold), kernel.cycles(config.pause));
        for (number, mask) in threads.iter().enumerate() {
            let drawn = cpus.draw(kernel.cpu_count(), &mut random);
            let first = mask.iter().next().unwrap_or(CpuId(0));
            let spec = TaskSpec {
                name: format!("{NAME}/{number}"),
                policy: config.policy,
                cpu: if mask.contains(drawn) { drawn } else { first },
                allowed: Some(mask.clone()),
                start: Cycles(random.below(kernel.cycles(Nanos(1e5)).0)),
            };
            let bench = Rc::clone(&bench);
            kernel.spawn(&spec, move |thread| async move {
                loop {
                    bench.take(&thread, hold).await;
                    let count = &bench.acquisitions[number];
                    count.set(count.get() + 1);
                    thread.run(pause).await;
                }
            })?;
        }
        Ok(bench)
    }

    async fn take(&self, thread: &Thread, hold: Cycles) {
        match &self.lock {
            Lock::Spinlock(lock) => thread.with_spinlock(lock, hold).await,
            Lock::Mutex(mutex) => thread.with_mutex(mutex, hold, || (), || ()).await,
            Lock::Rwsem(sem, mode) => {
                let held = Held {
                    hold: *mode,
                    work: hold,
                    sleep: Cycles::ZERO,
                };
                thread.hold_sem(sem, held).await;
            }
            Lock::PiMutex(mutex) => {
                thread.pi_lock(mutex).await;
                thread.run(hold).await;
                thread.pi_unlock(mutex).await;
            }
        }
    }

    /// Acquisitions so far, by thread.
    pub fn acquisitions(&self) -> Vec<u64> {
        self.acquisitions.iter().map(Cell::get).collect()
    }
}

figures! {
    FIGURES {
        ACQUISITIONS_PER_SECOND: "acquisitions_per_second", "1/s", "Acquisitions of all threads a second";
        LEAST_OF_MOST: "least_of_most", "ratio", "Acquisitions of the thread with the fewest over those of the one with the most, in the whole run";
    }
}

impl Figures for LockBench {
    fn operations(&self) -> u64 {
        self.acquisitions().iter().sum()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        add(ACQUISITIONS_PER_SECOND, window.per_second);
        let counts = self.acquisitions();
        let ends = counts.iter().min().zip(counts.iter().max());
        if let Some((least, most)) = ends.filter(|(_, most)| **most > 0) {
            add(LEAST_OF_MOST, *least as f64 / *most as f64);
        }
        WorkloadResult::default()
    }
}

pub(super) const KIND: Kind = Kind {
    name: "lock-bench",
    default_name: "lock_bench",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
lock = "spinlock" | "mutex" | "rwsem-write" | "rwsem-read" | "pi-mutex"
"#,
    optional: r#"
hold = "0s" | "200ns"
pause = "0s" | "1us"
threads = 2 | 9
cpus = "0-3" | "3"
pinned = true | false
policy = "normal" | "fifo"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let lock = table.one_of("lock", &LockKind::WORDS)?;
    let lock = keys::needed(
        table,
        "lock",
        "the kind of lock, such as \"spinlock\"",
        lock,
    )?;
    Ok(WorkloadKind::LockBench(Placed {
        cpus: keys::cpu_choice(table)?,
        config: LockBenchConfig {
            lock,
            policy: keys::policy(table, Policy::Normal(0))?,
            hold: keys::span(table, "hold", keys::ANY, Nanos(0.0))?,
            pause: keys::span(table, "pause", keys::ANY, Nanos(0.0))?,
        },
    }))
}

impl Program for Placed<LockBenchConfig> {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let masks = start.masks(&self.cpus);
        Ok(LockBench::spawn(start.kernel, &masks, self.config)?)
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }
}
