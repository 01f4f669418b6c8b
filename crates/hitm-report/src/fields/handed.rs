//! Lines that change hands, and are not contended.

use super::{Field, Unit, Value};
use crate::handed::{HandedOver, HandedRow};

/// Sums over all of them.
pub const HANDED_FIELDS: &[Field<HandedOver>] = &[
    Field {
        id: "line_count",
        title: "lines",
        unit: Unit::Count,
        description: "Lines that came from another CPU, and are not contended",
        value: |handed| Value::Whole(handed.line_count),
    },
    Field {
        id: "handover_count",
        title: "hand-overs",
        unit: Unit::Count,
        description: "Accesses that took one of them, or the right to write it, from another CPU",
        value: |handed| Value::Whole(handed.all.count),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "Those that found the line modified",
        value: |handed| Value::Whole(handed.all.hitm_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that threads lost by them",
        value: |handed| Value::Whole(handed.all.lost.0),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "lost_cycles as a part of thread_cycles",
        value: |handed| Value::Number(handed.run_share),
    },
];

/// One object, or one function.
pub const HANDED_ROW_FIELDS: &[Field<HandedRow>] = &[
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "Kind of object, or function; none for several together",
        value: |row| Value::text_or_missing(&row.name),
    },
    Field {
        id: "name_count",
        title: "names",
        unit: Unit::Count,
        description: "Names that the row stands for: 1, or how many others; 0 for what has none",
        value: |row| Value::Whole(row.name_count),
    },
    Field {
        id: "line_count",
        title: "lines",
        unit: Unit::Count,
        description: "Lines of objects of this kind; none for a function",
        value: |row| Value::whole_or_missing(row.line_count),
    },
    Field {
        id: "handover_count",
        title: "hand-overs",
        unit: Unit::Count,
        description: "Accesses that took such a line, or by the function, from another CPU",
        value: |row| Value::Whole(row.sums.count),
    },
    Field {
        id: "hitm_count",
        title: "HITM",
        unit: Unit::Count,
        description: "Those that found the line modified",
        value: |row| Value::Whole(row.sums.hitm_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that threads lost by them",
        value: |row| Value::Whole(row.sums.lost.0),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "lost_cycles as a part of those of all lines that are handed over",
        value: |row| Value::Number(row.lost_share),
    },
];
