//! The quantities of `hitm reproduce --sensitivity`.

use hitm::sim::{Effect, Figure, Number, Sensitivity};

use super::{field, text};
use crate::fields::{Field, Unit, Value};

/// Of a scenario whose numbers were varied.
pub const VARIED_FIELDS: &[Field<Sensitivity>] = &[
    field(
        "scenario",
        "Scenario",
        Unit::None,
        "Name of the scenario",
        |s| text(&s.scenario),
    ),
    field(
        "machine",
        "Machine",
        Unit::None,
        "Name of the machine model",
        |s| text(&s.machine),
    ),
    field(
        "model_version",
        "Model",
        Unit::None,
        "Version of the simulator's model",
        |s| Value::Whole(u64::from(s.model_version)),
    ),
    field(
        "quick",
        "Quick",
        Unit::None,
        "Whether a tenth of the duration and of the iterations was run",
        |s| Value::Flag(s.quick),
    ),
    field(
        "seed_count",
        "Seeds",
        Unit::Count,
        "Seeds of each run",
        |s| Value::Whole(s.seed_count),
    ),
    field(
        "single_count",
        "Alone",
        Unit::Count,
        "Runs in which one number is at an end of its range",
        |s| Value::Whole(s.single_count as u64),
    ),
    field(
        "sample_count",
        "Together",
        Unit::Count,
        "Runs in which all numbers are varied, by a Latin hypercube",
        |s| Value::Whole(s.sample_count as u64),
    ),
];

/// Of an assumed number.
pub const NUMBER_FIELDS: &[Field<Number>] = &[
    field("key", "Number", Unit::None, "Key of the number", |n| {
        text(&n.key)
    }),
    field(
        "value",
        "Value",
        Unit::None,
        "Its value in the scenario",
        |n| Value::Text(n.value.to_string()),
    ),
    field(
        "low",
        "Low",
        Unit::None,
        "The least value of its range",
        |n| Value::Text(n.low.to_string()),
    ),
    field(
        "high",
        "High",
        Unit::None,
        "The largest value of its range",
        |n| Value::Text(n.high.to_string()),
    ),
];

/// Of a headline figure.
pub const FIGURE_FIELDS: &[Field<Figure>] = &[
    field("id", "Metric", Unit::None, "The metric", |f| text(&f.id)),
    field(
        "variant",
        "Variant",
        Unit::None,
        "What was simulated",
        |f| text(&f.label),
    ),
    field(
        "published_min",
        "Published",
        Unit::None,
        "The published value, or the least of its range; null of the load",
        |f| Value::number_or_missing(f.published.map(|ends| ends.0)),
    ),
    field(
        "published_max",
        "to",
        Unit::None,
        "The published value, or the largest of its range; null of the load",
        |f| Value::number_or_missing(f.published.map(|ends| ends.1)),
    ),
    field(
        "value",
        "Simulated",
        Unit::None,
        "The value with no number changed",
        |f| Value::number_or_missing(f.value),
    ),
    field(
        "interval_min",
        "From",
        Unit::None,
        "The least value of all runs",
        |f| Value::number_or_missing(f.interval.map(|ends| ends.0)),
    ),
    field(
        "interval_max",
        "To",
        Unit::None,
        "The largest value of all runs",
        |f| Value::number_or_missing(f.interval.map(|ends| ends.1)),
    ),
    field(
        "run_count",
        "n",
        Unit::Count,
        "Runs that have the figure",
        |f| Value::Whole(f.run_count.0 as u64),
    ),
    field("all_count", "of", Unit::Count, "All runs", |f| {
        Value::Whole(f.run_count.1 as u64)
    }),
    field(
        "chance",
        "Chance",
        Unit::None,
        "Largest less least value of four seeds with no number changed",
        |f| Value::Number(f.chance),
    ),
    field("unit", "Unit", Unit::None, "Its unit", |f| text(&f.unit)),
];

/// Of what a number does to a figure.
pub const EFFECT_FIELDS: &[Field<Effect>] = &[
    field("key", "Number", Unit::None, "Key of the number", |e| {
        text(&e.key)
    }),
    field(
        "at_low",
        "At low",
        Unit::None,
        "The figure with the number at the low end of its range",
        |e| Value::number_or_missing(e.at_low),
    ),
    field(
        "at_high",
        "At high",
        Unit::None,
        "The figure with the number at the high end of its range",
        |e| Value::number_or_missing(e.at_high),
    ),
    field(
        "size",
        "Size",
        Unit::None,
        "The largest distance between the figure there and with no number changed",
        |e| Value::Number(e.size),
    ),
    field(
        "share",
        "Share",
        Unit::Share,
        "Its part in the squares of the sizes of all numbers",
        |e| Value::Number(e.share),
    ),
];
