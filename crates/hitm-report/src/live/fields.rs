//! Quantities of live locks. docs/formats/live.md is checked against them.

use std::collections::BTreeSet;

use hitm_live::locks::{LockCaller, LockThread, Traced};

use super::{LiveRun, LockView};
use crate::fields::{Field, Unit, Value};

/// Of the recording.
pub const LIVE_RUN_FIELDS: &[Field<LiveRun>] = &[
    Field {
        id: "target",
        title: "target",
        unit: Unit::None,
        description: "Whom was looked at",
        value: |run| Value::Text(run.target.clone()),
    },
    Field {
        id: "kernel",
        title: "kernel",
        unit: Unit::None,
        description: "The kernel's release",
        value: |run| Value::text_or_missing(&run.kernel),
    },
    Field {
        id: "layers",
        title: "layers",
        unit: Unit::None,
        description: "What the figures are from",
        value: |run| Value::Texts(run.layers.clone()),
    },
    Field {
        id: "missing",
        title: "missing",
        unit: Unit::None,
        description: "Layers that were not used, and why",
        value: |run| Value::Texts(run.missing.clone()),
    },
    Field {
        id: "cpu_count",
        title: "CPUs",
        unit: Unit::Count,
        description: "CPUs that were online",
        value: |run| Value::Whole(run.cpu_count.into()),
    },
    Field {
        id: "duration_ns",
        title: "time",
        unit: Unit::Nanos,
        description: "Time from the first sample to the last",
        value: |run| Value::Whole(run.duration_ns),
    },
    Field {
        id: "period_ns",
        title: "period",
        unit: Unit::Nanos,
        description: "CPU time for which a sample stands",
        value: |run| Value::Whole(run.period_ns),
    },
    Field {
        id: "sample_count",
        title: "samples",
        unit: Unit::Count,
        description: "Samples of running threads",
        value: |run| Value::Whole(run.sample_count),
    },
    Field {
        id: "lost_count",
        title: "lost",
        unit: Unit::Count,
        description: "Samples that found no room, and threads that were not followed",
        value: |run| Value::Whole(run.lost_count),
    },
    Field {
        id: "left_out_count",
        title: "left out",
        unit: Unit::Count,
        description: "Locks that are not shown, since at most 512 are: those that were waited for least",
        value: |run| Value::Whole(run.left_out_count as u64),
    },
];

/// Of a lock.
pub const LIVE_LOCK_FIELDS: &[Field<LockView>] = &[
    Field {
        id: "class",
        title: "class",
        unit: Unit::None,
        description: "Kind of lock: rwsem, mutex, spinlock, rwlock, rtmutex, percpu_rwsem, futex",
        value: |view| Value::Text(view.lock.class.name().to_owned()),
    },
    Field {
        id: "name",
        title: "lock",
        unit: Unit::None,
        description: "Whose member it is, or the function that takes it",
        value: |view| Value::Text(view.lock.name.clone()),
    },
    Field {
        id: "object",
        title: "of",
        unit: Unit::None,
        description: "The inode with a path, the process or the address that it belongs to",
        value: |view| Value::text_or_missing(&view.lock.object),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads that waited for it",
        value: |view| Value::Whole(view.lock.threads.len() as u64),
    },
    Field {
        id: "wasted_cpus",
        title: "CPUs lost",
        unit: Unit::Decimal,
        description: "CPUs that its waiters kept from other work: waited_ns over the run's time",
        value: |view| Value::Number(view.wasted_cpus()),
    },
    Field {
        id: "waited_ns",
        title: "waited",
        unit: Unit::Nanos,
        description: "CPU time that its threads spent waiting for it",
        value: |view| Value::Whole(view.lock.waited_ns),
    },
    Field {
        id: "waited_share",
        title: "waited",
        unit: Unit::Share,
        description: "waited_ns as a part of its threads' CPU time",
        value: |view| Value::Number(view.share(view.lock.waited_ns)),
    },
    Field {
        id: "held_share",
        title: "held",
        unit: Unit::Share,
        description: "Time for which its threads held it, as a part of their CPU time",
        value: |view| held(view, view.share(view.lock.held_ns)),
    },
    Field {
        id: "hold_share",
        title: "u",
        unit: Unit::Share,
        description: "Time for which its threads held it, as a part of their CPU time without waiting",
        value: |view| held(view, view.lock.hold_share()),
    },
    Field {
        id: "hold_share_error",
        title: "+-",
        unit: Unit::Share,
        description: "The standard error of hold_share, by the number of samples",
        value: |view| held(view, view.lock.hold_share_error()),
    },
    Field {
        id: "needed_cpus",
        title: "CPUs of use",
        unit: Unit::Count,
        description: "CPUs of use to its threads: 1/u - 0.05, rounded up",
        value: |view| Value::whole_or_missing(view.lock.needed_cpus().map(|count| count as u64)),
    },
    Field {
        id: "bound",
        title: "bound",
        unit: Unit::Decimal,
        description: "How many times as fast as one thread all of them can be: 1/u",
        value: |view| Value::number_or_missing(view.lock.bound()),
    },
    Field {
        id: "wait_count",
        title: "waits",
        unit: Unit::Count,
        description: "Waits that the kernel's tracepoints saw: all but those that only spun for a rwsem; of a futex, all of it",
        value: |view| traced(view, |traced| Value::Whole(traced.count)),
    },
    Field {
        id: "wait_ns",
        title: "waits",
        unit: Unit::Nanos,
        description: "Time of those waits in all, spinning and asleep",
        value: |view| traced(view, |traced| Value::Whole(traced.wait_ns)),
    },
    Field {
        id: "longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest of those waits",
        value: |view| traced(view, |traced| Value::Whole(traced.longest_ns)),
    },
    Field {
        id: "slept_ns",
        title: "slept",
        unit: Unit::Nanos,
        description: "Time for which its waiters slept: wait_ns, without waited_ns where waiters spin in it",
        value: |view| Value::whole_or_missing(view.lock.slept_ns()),
    },
    Field {
        id: "addresses",
        title: "at",
        unit: Unit::None,
        description: "Addresses that those waits were for: several where locks of one name cannot be told apart",
        value: |view| traced(view, |traced| Value::Texts(addresses(&traced.addresses))),
    },
];

/// A share of time for which a lock is held; missing where nobody outside the program can tell.
fn held(view: &LockView, share: f64) -> Value {
    Value::number_or_missing(view.lock.is_hold_known().then_some(share))
}

/// A quantity that only tracepoints give.
fn traced(view: &LockView, value: impl FnOnce(&Traced) -> Value) -> Value {
    view.lock.traced.as_ref().map_or(Value::Missing, value)
}

fn addresses(addresses: &BTreeSet<u64>) -> Vec<String> {
    let texts = addresses.iter().map(|address| format!("{address:#x}"));
    texts.collect()
}

/// Of a caller.
pub const LIVE_CALLER_FIELDS: &[Field<LockCaller>] = &[
    Field {
        id: "chain",
        title: "called by",
        unit: Unit::None,
        description: "Functions from the one that takes the lock outwards",
        value: |caller| Value::Text(caller.chain.clone()),
    },
    Field {
        id: "waiting_samples",
        title: "samples",
        unit: Unit::Count,
        description: "Samples that waited there",
        value: |caller| Value::Whole(caller.samples),
    },
    Field {
        id: "wait_ns",
        title: "waits",
        unit: Unit::Nanos,
        description: "Time of the waits there that the kernel's tracepoints saw",
        value: |caller| Value::Whole(caller.traced_ns),
    },
];

/// Of a thread of a lock.
pub const LIVE_THREAD_FIELDS: &[Field<LockThread>] = &[
    Field {
        id: "pid",
        title: "pid",
        unit: Unit::None,
        description: "Its process",
        value: |part| Value::Whole(part.thread.pid.into()),
    },
    Field {
        id: "tid",
        title: "tid",
        unit: Unit::None,
        description: "Its number",
        value: |part| Value::Whole(part.thread.tid.into()),
    },
    Field {
        id: "comm",
        title: "thread",
        unit: Unit::None,
        description: "Its name",
        value: |part| Value::Text(part.thread.comm.clone()),
    },
    Field {
        id: "held_ns",
        title: "held",
        unit: Unit::Nanos,
        description: "Time for which it held the lock while it ran",
        value: |part| Value::Whole(part.held_ns),
    },
    Field {
        id: "waited_ns",
        title: "waited",
        unit: Unit::Nanos,
        description: "CPU time that it spent waiting for the lock",
        value: |part| Value::Whole(part.waited_ns),
    },
];
