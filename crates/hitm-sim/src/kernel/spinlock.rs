//! The spinlock of the kernel: which of four protocols every `raw_spinlock_t` has.
//!
//! **What Linux does:** x86 has had queued spinlocks since 4.2 ([`super::qspinlock`]), ticket locks
//! from 2.6.25 to 4.1, and a patch set has offered compact NUMA-aware ones since 2019.
//!
//! **What we do:** a scenario chooses. MCS locks without the queued form's single word are there for
//! comparison: Linux has no such spinlock.
//!
//! **What a test could notice:** functions keep the names of the queued form.

mod cna;
mod mcs;
mod ticket;

use hitm_base::{CpuId, Cycles};

use super::functions as f;
use super::{Kernel, Thread};
use crate::engine::{MemberKey, Mode, Place, TracedLock};

pub(super) use cna::SecondaryQueues;
pub(super) use mcs::McsNodes;

hitm_base::words! {
    /// A protocol.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpinlockKind {
        /// Queued: a word, a pending bit, a queue of MCS nodes.
        Queued = "queued",
        /// Ticket: all waiters spin on the lock's word.
        Ticket = "ticket",
        /// MCS: a queue of nodes, which the holder is part of.
        Mcs = "mcs",
        /// Compact NUMA-aware: queued, and waiters of the holder's node go first for a time.
        Cna = "cna",
    }
}

impl Kernel {
    /// Takes a lock; true when somebody had it.
    pub(super) async fn spin_lock(&self, lock: Place) -> bool {
        let wanted = self.engine.now();
        let is_contended = match self.config.spinlock {
            SpinlockKind::Queued | SpinlockKind::Cna => self.queued_spin_lock(lock).await,
            SpinlockKind::Ticket => self.ticket_spin_lock(lock).await,
            SpinlockKind::Mcs => self.mcs_spin_lock(lock).await,
        };
        self.trace_taken(lock, wanted, is_contended);
        is_contended
    }

    /// Takes a lock if nobody has it and nobody waits.
    pub(super) async fn spin_trylock(&self, lock: Place) -> bool {
        let wanted = self.engine.now();
        let is_taken = match self.config.spinlock {
            SpinlockKind::Queued | SpinlockKind::Cna => self.queued_spin_trylock(lock).await,
            SpinlockKind::Ticket => self.ticket_spin_trylock(lock).await,
            SpinlockKind::Mcs => self.mcs_spin_trylock(lock).await,
        };
        if is_taken {
            self.trace_taken(lock, wanted, false);
        }
        is_taken
    }

    /// Gives a lock back.
    pub(super) async fn spin_unlock(&self, lock: Place) {
        self.engine.trace(|tracer, profile, (_, now)| {
            tracer.lock_released(TracedLock::Spinning(lock, profile), now);
        });
        match self.config.spinlock {
            SpinlockKind::Queued | SpinlockKind::Cna => self.queued_spin_unlock(lock).await,
            SpinlockKind::Ticket => self.ticket_spin_unlock(lock).await,
            SpinlockKind::Mcs => self.mcs_spin_unlock(lock).await,
        }
    }

    fn trace_taken(&self, lock: Place, wanted: Cycles, is_contended: bool) {
        self.engine.trace(|tracer, profile, (cpu, now)| {
            let lock = TracedLock::Spinning(lock, profile);
            tracer.lock_taken(lock, cpu, wanted..now, is_contended);
        });
    }
}

/// A spinlock on a line of its own.
#[derive(Debug)]
pub struct RawSpinlock {
    word: Place,
}

impl Kernel {
    /// A spinlock that nobody holds.
    pub fn raw_spinlock(&self, name: &str) -> RawSpinlock {
        let key = MemberKey::new(name, "lock", 0);
        RawSpinlock {
            word: self.engine.place(self.user_line(), CpuId(0), key),
        }
    }
}

impl Thread {
    /// Takes a spinlock of the kernel, works under it and gives it back. A kernel thread's way: no
    /// system call.
    pub async fn with_spinlock(&self, lock: &RawSpinlock, work: Cycles) {
        let engine = self.engine();
        self.under_spinlock(lock, async || engine.work(f::SPIN_LOCK, work))
            .await;
    }

    /// Runs `body` under a spinlock of the kernel.
    pub async fn under_spinlock(&self, lock: &RawSpinlock, body: impl AsyncFnOnce()) {
        let kernel = self.kernel();
        kernel.engine().set_mode(Mode::Kernel);
        kernel.spin_lock(lock.word).await;
        body().await;
        kernel.spin_unlock(lock.word).await;
        // `cond_resched`.
        self.leave().await;
    }
}
