//! Time that threads waited for one another.

use hitm_trace::WaitKind;

use super::{Field, Unit, Value};
use crate::waiting::{WaitRow, Waiting};

/// Sums of all waits.
pub const WAITING_FIELDS: &[Field<Waiting>] = &[
    Field {
        id: "whole_cycles",
        title: "whole",
        unit: Unit::Cycles,
        description: "thread_cycles, and asleep_cycles beside them: what the shares here are parts of",
        value: |waiting| Value::Whole(waiting.whole_cycles),
    },
    Field {
        id: "spinning_cycles",
        title: "spinning",
        unit: Unit::Cycles,
        description: "Cycles in which threads looked again and again at what others were to change; waits for the line are not among them",
        value: |waiting| Value::Whole(waiting.spinning_cycles),
    },
    Field {
        id: "asleep_cycles",
        title: "asleep",
        unit: Unit::Cycles,
        description: "Cycles in which threads slept for locks",
        value: |waiting| Value::Whole(waiting.asleep_cycles),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "spinning_cycles and asleep_cycles as a part of whole_cycles",
        value: |waiting| Value::Number(waiting.run_share()),
    },
    Field {
        id: "busy_threads_mean",
        title: "busy",
        unit: Unit::Decimal,
        description: "Threads that got on with their work at a time: those that ran and did not spin, on average over the run",
        value: |waiting| Value::Number(waiting.busy_threads_mean),
    },
];

/// Waits for one thing.
pub const WAIT_ROW_FIELDS: &[Field<WaitRow>] = &[
    Field {
        id: "kind",
        title: "wait",
        unit: Unit::None,
        description: "spinning or asleep; none for several things together",
        value: |row| match row.kind {
            Some(kind) => Value::Text(kind_text(kind).to_owned()),
            None => Value::Missing,
        },
    },
    Field {
        id: "name",
        title: "for",
        unit: Unit::None,
        description: "Lock or other object that threads waited for; none for several together",
        value: |row| Value::text_or_missing(&row.name),
    },
    Field {
        id: "address",
        title: "address",
        unit: Unit::Address,
        description: "Address of its word, or of the first of several with one name",
        value: |row| Value::Whole(row.addr),
    },
    Field {
        id: "wait_count",
        title: "waits",
        unit: Unit::Count,
        description: "Waits",
        value: |row| Value::Whole(row.wait_count),
    },
    Field {
        id: "cycles",
        title: "cycles",
        unit: Unit::Cycles,
        description: "Their cycles",
        value: |row| Value::Whole(row.cycles),
    },
    Field {
        id: "cycles_mean",
        title: "each",
        unit: Unit::Cycles,
        description: "Cycles of one wait",
        value: |row| Value::number_or_missing(row.cycles_mean()),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "cycles as a part of whole_cycles",
        value: |row| Value::Number(row.run_share),
    },
    Field {
        id: "thread_count",
        title: "threads",
        unit: Unit::Count,
        description: "Threads that waited",
        value: |row| Value::Whole(row.thread_count),
    },
    Field {
        id: "waiters",
        title: "in",
        unit: Unit::None,
        description: "Functions in which they waited, the longest first; at most three",
        value: |row| Value::Texts(row.waiters.clone()),
    },
    Field {
        id: "releasers",
        title: "changed in",
        unit: Unit::None,
        description: "Functions that changed the word, the most frequent first; at most three",
        value: |row| Value::Texts(row.releasers.clone()),
    },
];

/// A way to wait, as text says it.
pub(crate) fn kind_text(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Spinning => "spinning",
        WaitKind::Asleep => "asleep",
    }
}
