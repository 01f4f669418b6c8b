//! A member beside its baseline.

use super::{Field, Unit, Value};
use crate::baseline::Compared;

/// One member of both runs.
pub const COMPARED_FIELDS: &[Field<Compared>] = &[
    Field {
        id: "name",
        title: "member",
        unit: Unit::None,
        description: "Object and member, without numbers of elements and lines in the source",
        value: |row| Value::Text(row.name.clone()),
    },
    Field {
        id: "change",
        title: "change",
        unit: Unit::None,
        description: "`within`: as dear as it may be; `dearer`: by more than allowed; `new`: lost nothing in the baseline",
        value: |row| Value::Text(row.change.id().to_owned()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that threads lost to other CPUs' use of the lines, of several runs the median",
        value: |row| Value::Whole(row.lost_cycles),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "lost_cycles as a part of all threads' time",
        value: |row| Value::Number(row.run_share),
    },
    Field {
        id: "baseline_lost_cycles",
        title: "before",
        unit: Unit::Cycles,
        description: "The same of the baseline, null when it has no such member",
        value: |row| Value::whole_or_missing(row.baseline_lost_cycles),
    },
    Field {
        id: "baseline_spread_cycles",
        title: "spread",
        unit: Unit::Cycles,
        description: "The largest less the least of the baseline's runs, null when it has no such member",
        value: |row| Value::whole_or_missing(row.baseline_spread_cycles),
    },
    Field {
        id: "allowed_cycles",
        title: "allowed",
        unit: Unit::Cycles,
        description: "The most that the member may lose: by the tolerance, or by the spread of the baseline's runs",
        value: |row| Value::Whole(row.allowed_cycles),
    },
    Field {
        id: "added_cycles",
        title: "added",
        unit: Unit::Cycles,
        description: "lost_cycles beyond those of the baseline",
        value: |row| Value::Whole(row.added_cycles),
    },
    Field {
        id: "added_share",
        title: "added",
        unit: Unit::Share,
        description: "added_cycles as a part of baseline_lost_cycles, null when that is nothing",
        value: |row| Value::number_or_missing(row.added_share()),
    },
];
