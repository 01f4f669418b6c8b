//! Totals by name, and what filters leave.

use super::{Field, Unit, Value};
use crate::by::{Filtered, TotalRow};

/// The sums of one name.
pub const TOTAL_ROW_FIELDS: &[Field<TotalRow>] = &[
    Field {
        id: "name",
        title: "name",
        unit: Unit::None,
        description: "The name, or in parentheses what the row stands for",
        value: |row| Value::Text(row.name.clone()),
    },
    Field {
        id: "kind",
        title: "kind",
        unit: Unit::None,
        description: "`named`; `unnamed`: all accesses whose name is not known; `rest`: lines counted as a whole, because they changed hands too rarely",
        value: |row| Value::Text(row.kind.id().to_owned()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that threads lost to other CPUs' use of the lines",
        value: |row| Value::Whole(row.lost_cycles),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "lost_cycles as a part of those of all lines",
        value: |row| Value::Number(row.lost_share),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "lost_cycles as a part of all threads' time",
        value: |row| Value::Number(row.run_share),
    },
    Field {
        id: "remote_hitm_count",
        title: "rmt HITM",
        unit: Unit::Count,
        description: "Remote HITM of loads and locked operations",
        value: |row| Value::whole_or_missing(row.remote_hitm),
    },
    Field {
        id: "local_hitm_count",
        title: "lcl HITM",
        unit: Unit::Count,
        description: "Local HITM of loads and locked operations",
        value: |row| Value::whole_or_missing(row.local_hitm),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses",
        value: |row| Value::Whole(row.access_count),
    },
    Field {
        id: "line_count",
        title: "lines",
        unit: Unit::Count,
        description: "Lines with these accesses",
        value: |row| Value::whole_or_missing(row.line_count),
    },
];

/// The part that filters leave.
pub const FILTERED_FIELDS: &[Field<Filtered>] = &[
    Field {
        id: "filters",
        title: "filters",
        unit: Unit::None,
        description: "The filters in words",
        value: |filtered| Value::Texts(filtered.filters.clone()),
    },
    Field {
        id: "access_count",
        title: "accesses",
        unit: Unit::Count,
        description: "Accesses that match",
        value: |filtered| Value::Whole(filtered.access_count),
    },
    Field {
        id: "line_count",
        title: "lines",
        unit: Unit::Count,
        description: "Lines with such accesses",
        value: |filtered| Value::Whole(filtered.line_count),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles lost by them",
        value: |filtered| Value::Whole(filtered.lost_cycles),
    },
    Field {
        id: "lost_share",
        title: "lost",
        unit: Unit::Share,
        description: "lost_cycles as a part of those of all lines",
        value: |filtered| Value::Number(filtered.lost_share),
    },
    Field {
        id: "unfiltered_lost_cycles",
        title: "not looked at",
        unit: Unit::Cycles,
        description: "Cycles lost on lines counted as a whole, whose accesses no filter tells apart",
        value: |filtered| Value::Whole(filtered.unfiltered_lost_cycles),
    },
];
