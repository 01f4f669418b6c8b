//! A program's own locks, and their quantities. docs/formats/live.md is checked against them.

use std::cmp::Reverse;

use hitm_live::shim::{CallSite, LockKind, LockUse, Observation, Process};

use crate::fields::{Field, Unit, Value};

/// A program as a preloaded library saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramLocks {
    /// Without its locks.
    seen: Observation,
    /// Those that were waited for longest first, conditions last.
    pub locks: Vec<ProgramLock>,
}

/// A lock of a program, or a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramLock {
    /// Everything that was seen of it.
    pub used: LockUse,
    /// The process that it is in.
    pub process: Process,
}

impl ProgramLock {
    /// Returns true for a condition: a wait for it is no contention.
    pub(super) fn is_condition(&self) -> bool {
        self.used.kind == LockKind::Condition
    }
}

impl ProgramLocks {
    /// Puts the locks in order.
    pub(super) fn of(seen: &Observation) -> ProgramLocks {
        let locks = seen.locks.iter().map(|used| ProgramLock {
            used: used.clone(),
            process: seen.processes[used.process].clone(),
        });
        let mut locks: Vec<ProgramLock> = locks.collect();
        // Equal ones stay in the order of process, address and kind.
        locks.sort_by_key(|lock| {
            let used = &lock.used;
            let waits = (used.wait_ns, used.contended, used.acquisitions);
            (lock.is_condition(), Reverse(waits))
        });
        let seen = Observation {
            locks: Vec::new(),
            ..seen.clone()
        };
        ProgramLocks { seen, locks }
    }

    fn sum(&self, of: impl Fn(&ProgramLock) -> u64) -> u64 {
        self.locks.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Of the program.
pub const LIVE_PROGRAM_FIELDS: &[Field<ProgramLocks>] = &[
    Field {
        id: "program_count",
        title: "programs",
        unit: Unit::Count,
        description: "Programs that loaded the library: the one that was started, and those that it ran",
        value: |program| Value::Whole(program.seen.losses.loaded),
    },
    Field {
        id: "process_count",
        title: "processes",
        unit: Unit::Count,
        description: "Processes that used a lock",
        value: |program| Value::Whole(program.seen.processes.len() as u64),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads that used a lock",
        value: |program| {
            let users = program.seen.threads.iter().map(|thread| thread.users);
            Value::Whole(users.fold(0, u64::saturating_add))
        },
    },
    Field {
        id: "acquisition_count",
        title: "acquired",
        unit: Unit::Count,
        description: "Acquisitions of all locks, and waits for conditions",
        value: |program| Value::Whole(program.sum(|lock| lock.used.acquisitions)),
    },
    Field {
        id: "lost_count",
        title: "lost",
        unit: Unit::Count,
        description: "Acquisitions and other operations that found no room in the library's tables",
        value: |program| {
            let losses = program.seen.losses;
            Value::Whole(losses.acquisitions.saturating_add(losses.operations))
        },
    },
    Field {
        id: "stale_count",
        title: "stale",
        unit: Unit::Count,
        description: "Holds that another thread than the holder ended: their times are not known",
        value: |program| Value::Whole(program.seen.losses.stale_holds),
    },
    Field {
        id: "left_out_count",
        title: "left out",
        unit: Unit::Count,
        description: "Processes, threads and files of code that found no room",
        value: |program| {
            let losses = program.seen.losses;
            let threads = losses.processes.saturating_add(losses.threads);
            Value::Whole(threads.saturating_add(losses.modules))
        },
    },
];

/// Of a lock of the program.
pub const LIVE_PROGRAM_LOCK_FIELDS: &[Field<ProgramLock>] = &[
    Field {
        id: "kind",
        title: "kind",
        unit: Unit::None,
        description: "Kind of lock: mutex, rwlock by its readers or its writers, spinlock; or condition",
        value: |lock| Value::Text(lock.used.kind.name().to_owned()),
    },
    Field {
        id: "address",
        title: "address",
        unit: Unit::Address,
        description: "Its address in the process",
        value: |lock| Value::Text(format!("{:#x}", lock.used.address)),
    },
    Field {
        id: "variable",
        title: "variable",
        unit: Unit::None,
        description: "The variable that it is or lies in, where it is one of the file whose code takes it",
        value: |lock| {
            let variable = lock.used.variable.as_deref();
            Value::text_or_missing(variable.unwrap_or_default())
        },
    },
    Field {
        id: "pid",
        title: "pid",
        unit: Unit::None,
        description: "The process",
        value: |lock| Value::Whole(lock.process.pid.into()),
    },
    Field {
        id: "comm",
        title: "process",
        unit: Unit::None,
        description: "The process's name",
        value: |lock| Value::Text(lock.process.comm.clone()),
    },
    Field {
        id: "call_site",
        title: "lock of",
        unit: Unit::None,
        description: "The call by which it was taken first: function and line, file and address, or address",
        value: |lock| Value::Text(site(&lock.used.call_site)),
    },
    Field {
        id: "wait_site",
        title: "waited at",
        unit: Unit::None,
        description: "The call that waited longest",
        value: |lock| {
            let waited = lock.used.wait_site.as_ref();
            waited.map_or(Value::Missing, |waited| Value::Text(site(waited)))
        },
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads that took it",
        value: |lock| Value::Whole(lock.used.thread_count),
    },
    Field {
        id: "acquisition_count",
        title: "acquired",
        unit: Unit::Count,
        description: "Acquisitions; of a condition, waits",
        value: |lock| Value::Whole(lock.used.acquisitions),
    },
    Field {
        id: "contended_count",
        title: "contended",
        unit: Unit::Count,
        description: "Acquisitions that had to wait",
        value: |lock| Value::Whole(lock.used.contended),
    },
    Field {
        id: "contended_share",
        title: "contended",
        unit: Unit::Share,
        description: "contended_count as a part of acquisition_count",
        value: |lock| {
            let used = &lock.used;
            Value::Number(used.contended as f64 / used.acquisitions.max(1) as f64)
        },
    },
    Field {
        id: "refused_count",
        title: "refused",
        unit: Unit::Count,
        description: "Attempts that gave up: of trylock, and by timeout",
        value: |lock| Value::Whole(lock.used.refused),
    },
    Field {
        id: "signal_count",
        title: "signals",
        unit: Unit::Count,
        description: "Signals and broadcasts of a condition",
        value: |lock| Value::Whole(lock.used.signals),
    },
    Field {
        id: "handover_count",
        title: "handed over",
        unit: Unit::Count,
        description: "Acquisitions by another thread than the one before",
        value: |lock| Value::Whole(lock.used.handovers),
    },
    Field {
        id: "wait_ns",
        title: "waited",
        unit: Unit::Nanos,
        description: "Time that its threads waited for it",
        value: |lock| Value::Whole(lock.used.wait_ns),
    },
    Field {
        id: "wait_longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest wait",
        value: |lock| Value::Whole(lock.used.wait_max_ns),
    },
    Field {
        id: "held_ns",
        title: "held",
        unit: Unit::Nanos,
        description: "Time for which it was held, sleep and preemption included",
        value: |lock| Value::Whole(lock.used.held_ns),
    },
    Field {
        id: "held_longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest hold",
        value: |lock| Value::Whole(lock.used.held_max_ns),
    },
    Field {
        id: "hold_share",
        title: "u",
        unit: Unit::Share,
        description: "Share of its running time for which a thread holds it while it is contended; none when it never was",
        value: |lock| Value::number_or_missing(lock.used.hold_share()),
    },
    Field {
        id: "hold_share_all",
        title: "u of all",
        unit: Unit::Share,
        description: "The same share over all time, contended or not",
        value: |lock| Value::number_or_missing(lock.used.hold_share_all()),
    },
    Field {
        id: "needed_cpus",
        title: "CPUs of use",
        unit: Unit::Count,
        description: "CPUs of use to its threads: 1/u - 0.05, rounded up",
        value: |lock| Value::whole_or_missing(lock.used.needed_cpus().map(|count| count as u64)),
    },
    Field {
        id: "bound",
        title: "bound",
        unit: Unit::Decimal,
        description: "How many times as fast as one thread all of them can be: 1/u",
        value: |lock| Value::number_or_missing(lock.used.bound()),
    },
];

fn site(site: &CallSite) -> String {
    match (&site.name, &site.module) {
        (Some(name), _) => name.clone(),
        (None, Some(module)) => format!("{}+{:#x}", module.path, module.offset),
        (None, None) => format!("{:#x}", site.address),
    }
}
