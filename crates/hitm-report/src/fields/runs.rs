//! Several runs of one program.

use super::{Field, Unit, Value};
use crate::runs::{MemberRuns, OneRun, Runs};

/// All runs together.
pub const RUNS_FIELDS: &[Field<Runs>] = &[
    Field {
        id: "count",
        title: "runs",
        unit: Unit::Count,
        description: "Runs",
        value: |runs| Value::Whole(runs.runs.len() as u64),
    },
    Field {
        id: "shown",
        title: "shown",
        unit: Unit::None,
        description: "File of the run that the report shows: the one whose lost cycles are the median",
        value: |runs| Value::Text(runs.shown_file().to_owned()),
    },
    Field {
        id: "lost_cycles_median",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Median of the cycles that runs lost to contention, of an even number of runs the lower middle",
        value: |runs| Value::Whole(runs.spread().median),
    },
    Field {
        id: "spread_cycles",
        title: "spread",
        unit: Unit::Cycles,
        description: "The largest less the least of the cycles that runs lost",
        value: |runs| Value::Whole(runs.spread().cycles()),
    },
    Field {
        id: "spread_share",
        title: "spread",
        unit: Unit::Share,
        description: "spread_cycles as a part of lost_cycles_median, null when that is nothing",
        value: |runs| Value::number_or_missing(runs.spread().share()),
    },
];

/// One of several runs.
pub const ONE_RUN_FIELDS: &[Field<OneRun>] = &[
    Field {
        id: "file",
        title: "file",
        unit: Unit::None,
        description: "File of the recording",
        value: |run| Value::Text(run.file.clone()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Cycles that its threads lost to contention",
        value: |run| Value::Whole(run.lost_cycles),
    },
    Field {
        id: "run_share",
        title: "run",
        unit: Unit::Share,
        description: "lost_cycles as a part of all threads' time",
        value: |run| Value::Number(run.run_share),
    },
    Field {
        id: "complete",
        title: "complete",
        unit: Unit::None,
        description: "Whether the recording was closed properly",
        value: |run| Value::Flag(run.complete),
    },
];

/// A member in several runs.
pub const MEMBER_RUNS_FIELDS: &[Field<MemberRuns>] = &[
    Field {
        id: "name",
        title: "member",
        unit: Unit::None,
        description: "Object and member, by the name that a baseline has for it",
        value: |member| Value::Text(member.name.clone()),
    },
    Field {
        id: "lost_cycles",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "List of the cycles lost in each run, in the order of the runs",
        value: |member| Value::Wholes(member.lost_cycles.clone()),
    },
    Field {
        id: "lost_cycles_median",
        title: "lost cycles",
        unit: Unit::Cycles,
        description: "Median of lost_cycles",
        value: |member| Value::Whole(member.spread().median),
    },
    Field {
        id: "spread_cycles",
        title: "spread",
        unit: Unit::Cycles,
        description: "The largest less the least of lost_cycles",
        value: |member| Value::Whole(member.spread().cycles()),
    },
];
