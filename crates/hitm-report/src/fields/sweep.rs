//! The quantities of a sweep's report.

use super::{Field, Unit, Value};
use crate::sweep::{SweepEffect, SweepFailure, SweepKey, SweepMetric, SweepRun, cell_text};

/// Sums of the table.
pub const SWEEP_RUN_FIELDS: &[Field<SweepRun>] = &[
    Field {
        id: "file",
        title: "table",
        unit: Unit::None,
        description: "File of the table",
        value: |item| Value::text_or_missing(&item.file),
    },
    Field {
        id: "row_count",
        title: "rows",
        unit: Unit::Count,
        description: "Rows of the table",
        value: |item| Value::Whole(item.row_count),
    },
    Field {
        id: "run_count",
        title: "runs",
        unit: Unit::Count,
        description: "Runs with figures",
        value: |item| Value::Whole(item.run_count),
    },
    Field {
        id: "failed_count",
        title: "failed",
        unit: Unit::Count,
        description: "Runs that failed, and points that cannot be run",
        value: |item| Value::Whole(item.failed_count),
    },
    Field {
        id: "point_count",
        title: "points",
        unit: Unit::Count,
        description: "Combinations of the keys' values; each has a run for every seed",
        value: |item| Value::Whole(item.point_count),
    },
    Field {
        id: "left_out_count",
        title: "left out",
        unit: Unit::Count,
        description: "Values beyond the first 1,048,576, which effects and pictures leave out",
        value: |item| Value::Whole(item.left_out_count),
    },
];

/// A key.
pub const SWEEP_KEY_FIELDS: &[Field<SweepKey>] = &[
    Field {
        id: "key",
        title: "key",
        unit: Unit::None,
        description: "The key",
        value: |item| Value::text_or_missing(&item.name),
    },
    Field {
        id: "unit",
        title: "unit",
        unit: Unit::None,
        description: "Unit of its values",
        value: |item| {
            let unit = item.unit.as_deref();
            unit.map_or(Value::Missing, Value::text_or_missing)
        },
    },
    Field {
        id: "value_count",
        title: "values",
        unit: Unit::Count,
        description: "Values that it takes",
        value: |item| Value::Whole(item.stated().count() as u64),
    },
    Field {
        id: "first",
        title: "from",
        unit: Unit::None,
        description: "The first of them, the least of numbers",
        value: |item| end(item.stated().next()),
    },
    Field {
        id: "last",
        title: "to",
        unit: Unit::None,
        description: "The last of them, the largest of numbers",
        value: |item| end(item.stated().next_back()),
    },
];

fn end(cell: Option<&hitm::sweep::Cell>) -> Value {
    match cell {
        None => Value::Missing,
        Some(cell) => Value::Text(cell_text(cell)),
    }
}

/// A metric.
pub const SWEEP_METRIC_FIELDS: &[Field<SweepMetric>] = &[
    Field {
        id: "metric",
        title: "metric",
        unit: Unit::None,
        description: "The metric",
        value: |item| Value::text_or_missing(&item.id),
    },
    Field {
        id: "unit",
        title: "unit",
        unit: Unit::None,
        description: "Its unit",
        value: |item| Value::text_or_missing(&item.unit),
    },
    Field {
        id: "run_count",
        title: "runs",
        unit: Unit::Count,
        description: "Runs that have it",
        value: |item| Value::Whole(item.run_count),
    },
    Field {
        id: "mean",
        title: "mean",
        unit: Unit::Decimal,
        description: "Mean over these runs",
        value: |item| Value::Number(item.mean),
    },
    Field {
        id: "least",
        title: "least",
        unit: Unit::Decimal,
        description: "Smallest value",
        value: |item| Value::Number(item.least),
    },
    Field {
        id: "most",
        title: "most",
        unit: Unit::Decimal,
        description: "Largest value",
        value: |item| Value::Number(item.most),
    },
];

/// The part of a metric's spread that a key explains.
pub const SWEEP_EFFECT_FIELDS: &[Field<SweepEffect>] = &[
    Field {
        id: "metric",
        title: "metric",
        unit: Unit::None,
        description: "The metric",
        value: |item| Value::text_or_missing(&item.metric),
    },
    Field {
        id: "key",
        title: "key",
        unit: Unit::None,
        description: "The key",
        value: |item| Value::text_or_missing(&item.key),
    },
    Field {
        id: "share",
        title: "explains",
        unit: Unit::Share,
        description: "Share of the metric's variance between the values of the key, less what chance gives as many groups",
        value: |item| Value::Number(item.share),
    },
    Field {
        id: "least_at",
        title: "least at",
        unit: Unit::None,
        description: "Value of the key with the smallest mean; a range where the key has more than 16 values",
        value: |item| Value::text_or_missing(&item.least_at),
    },
    Field {
        id: "least_mean",
        title: "mean",
        unit: Unit::Decimal,
        description: "Mean there",
        value: |item| Value::Number(item.least_mean),
    },
    Field {
        id: "most_at",
        title: "most at",
        unit: Unit::None,
        description: "Value of the key with the largest mean",
        value: |item| Value::text_or_missing(&item.most_at),
    },
    Field {
        id: "most_mean",
        title: "mean",
        unit: Unit::Decimal,
        description: "Mean at that value",
        value: |item| Value::Number(item.most_mean),
    },
];

/// A message of failed runs.
pub const SWEEP_FAILURE_FIELDS: &[Field<SweepFailure>] = &[
    Field {
        id: "count",
        title: "runs",
        unit: Unit::Count,
        description: "Runs with the message",
        value: |item| Value::Whole(item.count),
    },
    Field {
        id: "message",
        title: "message",
        unit: Unit::None,
        description: "The message",
        value: |item| Value::text_or_missing(&item.message),
    },
];
