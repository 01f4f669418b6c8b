//! The quantities of a simulation.

mod c2c;
mod run;
mod sensitivity;

use hitm::sim::{Comparison, Crossing, SimReport, Summary, VariantReport};

use crate::fields::{Field, Unit, Value};

pub use c2c::{LINE_FIELDS, ROW_FIELDS, RowView};
pub use run::RUN_FIELDS;
pub use sensitivity::{EFFECT_FIELDS, FIGURE_FIELDS, NUMBER_FIELDS, VARIED_FIELDS};

/// Of the scenario.
pub const SCENARIO_FIELDS: &[Field<SimReport>] = &[
    field(
        "scenario",
        "Scenario",
        Unit::None,
        "Name of the scenario",
        |r| text(&r.scenario),
    ),
    field(
        "description",
        "Description",
        Unit::None,
        "What it is",
        |r| text(&r.description),
    ),
    field("source", "Source", Unit::None, "Where it is from", |r| {
        text(&r.source)
    }),
    field(
        "machine",
        "Machine",
        Unit::None,
        "Name of the machine model",
        |r| text(&r.machine),
    ),
    field(
        "cpu_count",
        "CPUs",
        Unit::Count,
        "CPUs that were simulated",
        |r| Value::Whole(r.cpu_count as u64),
    ),
    field(
        "model_version",
        "Model",
        Unit::None,
        "Version of the simulator's model",
        |r| Value::Whole(u64::from(r.model_version)),
    ),
    field(
        "scenario_hash",
        "Hash",
        Unit::None,
        "Hash of the scenario and of every file that it names",
        |r| Value::Text(format!("{:016x}", r.scenario_hash)),
    ),
    field(
        "seeds",
        "Seeds",
        Unit::None,
        "Seeds: one run of each variant for each",
        |r| Value::Wholes(r.seeds.clone()),
    ),
    field(
        "passed",
        "Passed",
        Unit::None,
        "Whether every workload that checks itself passed",
        |r| Value::Flag(r.passed()),
    ),
];

/// Of a variant.
pub const VARIANT_FIELDS: &[Field<VariantReport>] = &[
    field(
        "variant",
        "Variant",
        Unit::None,
        "What tells the variant from the others",
        |v| text(&v.label),
    ),
    field(
        "balancing",
        "Balancing",
        Unit::None,
        "Who moves real-time tasks",
        |v| Value::Text(v.balancing_name().to_owned()),
    ),
    field(
        "layout",
        "Layout",
        Unit::None,
        "The layout, by name or file",
        |v| text(&v.variant.layout),
    ),
    field(
        "wakeups_per_cpu_second",
        "Load",
        Unit::Count,
        "The load that was asked of thread pools: wake-ups a second and CPU",
        |v| Value::whole_or_missing(v.variant.wakeups_per_second),
    ),
];

/// Of one figure of a variant.
pub const METRIC_FIELDS: &[Field<Summary>] = &[
    field("id", "Metric", Unit::None, "Its name", |m| text(&m.id)),
    field("unit", "Unit", Unit::None, "Its unit", |m| {
        Value::Text(m.unit.to_owned())
    }),
    field("mean", "Mean", Unit::None, "Mean over the seeds", |m| {
        Value::Number(m.mean)
    }),
    field(
        "confidence",
        "+-95%",
        Unit::None,
        "Half of the 95 % confidence interval of the mean, from two seeds on",
        |m| Value::number_or_missing(m.confidence),
    ),
    field("min", "Min", Unit::None, "The least over the seeds", |m| {
        Value::Number(m.min)
    }),
    field(
        "max",
        "Max",
        Unit::None,
        "The largest over the seeds",
        |m| Value::Number(m.max),
    ),
    field(
        "run_count",
        "Runs",
        Unit::Count,
        "Runs that have the figure",
        |m| Value::Whole(m.run_count as u64),
    ),
    field(
        "description",
        "Meaning",
        Unit::None,
        "What it counts",
        |m| Value::Text(m.description.to_owned()),
    ),
];

/// Of the load at which a published figure is met.
pub const CROSSING_FIELDS: &[Field<Crossing>] = &[
    field("id", "Figure", Unit::None, "The figure that is met", |c| {
        text(&c.id)
    }),
    field(
        "layout",
        "Layout",
        Unit::None,
        "The layout that it is of",
        |c| text(&c.layout),
    ),
    field(
        "published",
        "Published",
        Unit::None,
        "Its published value",
        |c| Value::Number(c.published),
    ),
    field("unit", "Unit", Unit::None, "Its unit", |c| text(&c.unit)),
    field(
        "load",
        "Load",
        Unit::None,
        "Wake-ups a second and CPU that were asked for, between two loads that were run; null when none has the value",
        |c| Value::number_or_missing(c.load),
    ),
];

/// Of a published figure beside a simulated one.
pub const COMPARISON_FIELDS: &[Field<Comparison>] = &[
    field("id", "Metric", Unit::None, "The metric", |c| text(&c.id)),
    field(
        "variant",
        "Variant",
        Unit::None,
        "What was simulated",
        |c| text(&c.label),
    ),
    field(
        "published_min",
        "Published",
        Unit::None,
        "The published value, or the least of its range",
        |c| Value::Number(c.published.0),
    ),
    field(
        "published_max",
        "to",
        Unit::None,
        "The published value, or the largest of its range",
        |c| Value::Number(c.published.1),
    ),
    field(
        "simulated",
        "Simulated",
        Unit::None,
        "The mean over the seeds",
        |c| Value::number_or_missing(c.simulated),
    ),
    field(
        "simulated_min",
        "Least",
        Unit::None,
        "The least of several seeds",
        |c| Value::number_or_missing(c.spread.map(|spread| spread.0)),
    ),
    field(
        "simulated_max",
        "Largest",
        Unit::None,
        "The largest of several seeds",
        |c| Value::number_or_missing(c.spread.map(|spread| spread.1)),
    ),
    field(
        "ratio",
        "Ratio",
        Unit::None,
        "Simulated over published; over the nearer end of a range, 1 within it",
        |c| Value::number_or_missing(c.ratio),
    ),
    field("unit", "Unit", Unit::None, "Unit of both", |c| {
        text(&c.unit)
    }),
    field(
        "source",
        "Source",
        Unit::None,
        "Where the published figure is from",
        |c| text(&c.source),
    ),
];

const fn field<T>(
    id: &'static str,
    title: &'static str,
    unit: Unit,
    description: &'static str,
    value: fn(&T) -> Value,
) -> Field<T> {
    Field {
        id,
        title,
        unit,
        description,
        value,
    }
}

fn text(text: &str) -> Value {
    Value::text_or_missing(text)
}
