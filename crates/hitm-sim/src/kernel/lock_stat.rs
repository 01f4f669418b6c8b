//! Statistics of sleeping locks: how long they are held and waited for, and by whom.
//!
//! Linux has the counters of lock events (kernel/locking/lock_events.h) and `/proc/lock_stat`; this is
//! what they add up to, and what [`super::lock_affinity`] goes by. Counting costs nothing here.

use std::cell::Cell;

use hitm_base::{CpuId, Cycles, Distance};

use super::Kernel;
use super::task::Task;
use crate::engine::{Place, TracedLock};

/// A lock, in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(pub(super) usize);

impl LockId {
    /// Its number, from 0.
    pub fn number(self) -> usize {
        self.0
    }
}

/// Sums over the uses of one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockTotals {
    /// Times that it was taken for writing.
    pub writes: u64,
    /// Of these, times that somebody else had it first.
    pub contended: u64,
    /// Time from the wish to have it to having it, of writers.
    pub wait: Cycles,
    /// CPU time of it that went into spinning.
    pub spin: Cycles,
    /// Time for which writers had it.
    pub hold: Cycles,
    /// Time from the end of one writer's use to the start of the next, where that one waited.
    pub hand_over: Cycles,
    /// Of the hand-overs, those to each distance.
    pub hand_overs: [u64; Distance::COUNT],
}

/// The statistics of one lock.
#[derive(Debug)]
pub struct LockStat {
    pub(super) id: LockId,
    name: String,
    totals: Cell<LockTotals>,
    /// Time and CPU at which a writer gave it back last.
    released: Cell<Option<(Cycles, CpuId)>>,
    taken: Cell<Taken>,
}

/// The use of a lock by the writer that has it.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    at: Cycles,
    /// CPU time of the writer then.
    cpu_time: Cycles,
    /// From the writer before.
    distance: Option<Distance>,
    is_contended: bool,
}

/// A writer's wish to have a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    at: Cycles,
    releases: Option<(Cycles, CpuId)>,
    is_taken: bool,
}

/// A use of a lock that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// CPU time of the writer.
    pub(super) hold: Cycles,
    /// From the writer before.
    pub(super) distance: Option<Distance>,
    /// Somebody else had it first.
    pub(super) is_contended: bool,
}

impl LockStat {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sums so far.
    pub fn totals(&self) -> LockTotals {
        self.totals.get()
    }

    fn count(&self, change: impl FnOnce(&mut LockTotals)) {
        let mut totals = self.totals.get();
        change(&mut totals);
        self.totals.set(totals);
    }

    pub(super) fn add_spin(&self, span: Cycles) {
        self.count(|totals| totals.spin += span);
    }
}

impl Kernel {
    pub(super) fn lock_stat(&self, name: &str) -> LockStat {
        let number = self.lock_count.get();
        self.lock_count.set(number + 1);
        LockStat {
            id: LockId(number),
            name: name.to_owned(),
            totals: Cell::default(),
            released: Cell::new(None),
            taken: Cell::default(),
        }
    }

    /// CPU time of the running task so far.
    pub(super) fn cpu_time(&self, task: &Task) -> Cycles {
        let now = self.engine.now();
        task.on_cpu_sum.get() + now.saturating_sub(task.on_cpu_since.get())
    }

    /// A writer wants a lock, which somebody has or not.
    pub(super) fn lock_wanted(&self, task: &Task, stat: &LockStat, is_taken: bool) -> Wanted {
        let cpu_time = self.cpu_time(task);
        self.placement.lock_wanted(task, stat.id, cpu_time);
        Wanted {
            at: self.engine.now(),
            releases: stat.released.get(),
            is_taken,
        }
    }

    /// It has it; `owner` is the word that others spin on meanwhile.
    pub(super) fn lock_taken(&self, task: &Task, stat: &LockStat, wanted: Wanted, owner: Place) {
        let (now, cpu) = (self.engine.now(), self.engine.cpu());
        let wait = now.saturating_sub(wanted.at);
        let released = stat.released.get();
        let is_contended = wanted.is_taken || released != wanted.releases;
        let topology = &self.engine.machine().topology;
        let distance = released.map(|(_, before)| topology.distance(before, cpu));
        self.engine.trace(|tracer, _, (cpu, now)| {
            let lock = TracedLock::Sleeping(stat.id.0, &stat.name);
            tracer.lock_taken(lock, cpu, wanted.at..now, is_contended);
        });
        stat.count(|totals| {
            totals.writes += 1;
            totals.contended += u64::from(is_contended);
            totals.wait += wait;
            if let (true, Some((at, _)), Some(distance)) = (is_contended, released, distance) {
                totals.hand_over += now.saturating_sub(at.max(wanted.at));
                totals.hand_overs[distance.index()] += 1;
            }
        });
        stat.taken.set(Taken {
            at: now,
            cpu_time: self.cpu_time(task),
            distance,
            is_contended,
        });
        task.spun_on.set(Some(owner));
        let placement = &self.placement;
        placement.lock_taken(task, stat.id, wait, is_contended);
    }

    /// The writer has given it back.
    pub(super) fn lock_released(&self, task: &Task, stat: &LockStat) {
        let (now, cpu, taken) = (self.engine.now(), self.engine.cpu(), stat.taken.get());
        stat.released.set(Some((now, cpu)));
        self.engine.trace(|tracer, _, (_, now)| {
            let lock = TracedLock::Sleeping(stat.id.0, &stat.name);
            tracer.lock_released(lock, now);
        });
        stat.count(|totals| totals.hold += now.saturating_sub(taken.at));
        task.spun_on.set(None);
        let used = Use {
            hold: self.cpu_time(task).saturating_sub(taken.cpu_time),
            distance: taken.distance,
            is_contended: taken.is_contended,
        };
        self.placement.lock_released(self, task, stat.id, used);
    }
}
