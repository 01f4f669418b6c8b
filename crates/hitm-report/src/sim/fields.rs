//! The quantities of a simulation.

use hitm::sim::{
    C2cLine, C2cRow, Comparison, Crossing, Outcome, SimReport, Summary, VariantReport,
};

use crate::fields::{Field, Unit, Value};

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

/// Of one run.
pub const RUN_FIELDS: &[Field<Outcome>] = &[
    field("seed", "Seed", Unit::None, "Seed of the run", |o| {
        Value::Whole(o.header.seed)
    }),
    field(
        "virtual_ns",
        "Virtual",
        Unit::Count,
        "Simulated nanoseconds",
        |o| Value::Whole(o.virtual_ns),
    ),
    field(
        "warm_up_ns",
        "Warm-up",
        Unit::Count,
        "Nanoseconds before counting began",
        |o| Value::Whole(o.warm_up_ns),
    ),
    field(
        "work_cycles_mean",
        "Work",
        Unit::Cycles,
        "Cycles after the warm-up that a CPU did not stand still for lines, idle ones among them; mean over the CPUs",
        |o| Value::Number(o.work_cycles_mean),
    ),
    field(
        "user_share",
        "User",
        Unit::Share,
        "User code's part of all CPU time",
        |o| Value::Number(o.modes.user),
    ),
    field(
        "kernel_share",
        "Kernel",
        Unit::Share,
        "The part of kernel code of tasks, lock waits apart",
        |o| Value::Number(o.modes.kernel),
    ),
    field(
        "spin_share",
        "Spin",
        Unit::Share,
        "The part of lock waits",
        |o| Value::Number(o.modes.spin),
    ),
    field(
        "irq_share",
        "Irq",
        Unit::Share,
        "The part of interrupt handlers",
        |o| Value::Number(o.modes.irq),
    ),
    field(
        "idle_share",
        "Idle",
        Unit::Share,
        "The part without anything to do",
        |o| Value::Number(o.modes.idle),
    ),
    field(
        "wakeup_count",
        "Wakeups",
        Unit::Count,
        "Tasks woken after the warm-up",
        |o| Value::Whole(o.counts.wakeups),
    ),
    field(
        "switch_count",
        "Switches",
        Unit::Count,
        "Context switches after the warm-up",
        |o| Value::Whole(o.counts.switches),
    ),
    field(
        "migration_count",
        "Migrations",
        Unit::Count,
        "Tasks put on another CPU",
        |o| Value::Whole(o.counts.migrations),
    ),
    field(
        "push_count",
        "Pushes",
        Unit::Count,
        "RT tasks pushed",
        |o| Value::Whole(o.counts.pushes),
    ),
    field("pull_count", "Pulls", Unit::Count, "RT tasks pulled", |o| {
        Value::Whole(o.counts.pulls)
    }),
    field(
        "ipi_count",
        "IPIs",
        Unit::Count,
        "Interrupts sent to other CPUs",
        |o| Value::Whole(o.counts.ipis),
    ),
    field(
        "access_count",
        "Accesses",
        Unit::Count,
        "Accesses priced in the whole run",
        |o| Value::Whole(o.accesses),
    ),
    field(
        "event_count",
        "Events",
        Unit::Count,
        "Accesses and suspensions in the whole run",
        |o| Value::Whole(o.events),
    ),
    field(
        "event_hash",
        "Event hash",
        Unit::None,
        "Hash over every access with its time, CPU, price and value: equal runs have equal hashes",
        |o| Value::Text(format!("{:016x}", o.event_hash)),
    ),
    field(
        "wakeup_ns_mean",
        "Mean",
        Unit::Count,
        "Mean nanoseconds from wake-up to CPU",
        |o| Value::Number(o.latencies.mean_ns),
    ),
    field(
        "wakeup_ns_p50",
        "p50",
        Unit::Count,
        "Half of the wake-ups took at most this long",
        |o| quantile(o, 0.5),
    ),
    field(
        "wakeup_ns_p90",
        "p90",
        Unit::Count,
        "90 % of them took at most this long",
        |o| quantile(o, 0.9),
    ),
    field(
        "wakeup_ns_p99",
        "p99",
        Unit::Count,
        "99 % of them took at most this long",
        |o| quantile(o, 0.99),
    ),
    field(
        "wakeup_ns_p999",
        "p99.9",
        Unit::Count,
        "99.9 % of them took at most this long",
        |o| quantile(o, 0.999),
    ),
    field(
        "wakeup_ns_max",
        "Max",
        Unit::Count,
        "The longest of them",
        |o| Value::Whole(o.latencies.max_ns),
    ),
];

/// Of a line of the kernel's memory.
pub const LINE_FIELDS: &[Field<C2cLine>] = &[
    field(
        "object",
        "Object",
        Unit::None,
        "Type of the object, all objects of a type together; with `->` what the member points to",
        |l| text(&l.object),
    ),
    field(
        "object_count",
        "Objects",
        Unit::Count,
        "Objects of the type that were in use",
        |l| Value::Whole(l.object_count),
    ),
    field(
        "offset_bytes",
        "Offset",
        Unit::Offset,
        "Where the line begins in the object",
        |l| Value::Whole(l.offset_bytes),
    ),
    field(
        "remote_hitm_count",
        "Rmt HITM",
        Unit::Count,
        "Loads that found the line modified in another package",
        |l| Value::Whole(l.remote_hitm),
    ),
    field(
        "local_hitm_count",
        "Lcl HITM",
        Unit::Count,
        "Loads that found it modified in another core of the package",
        |l| Value::Whole(l.local_hitm),
    ),
    field(
        "load_count",
        "Loads",
        Unit::Count,
        "Loads and locked operations",
        |l| Value::Whole(l.loads),
    ),
    field(
        "store_count",
        "Stores",
        Unit::Count,
        "Stores and locked operations",
        |l| Value::Whole(l.stores),
    ),
    field(
        "load_cycles",
        "Load cycles",
        Unit::Cycles,
        "Cycles that its loads took",
        |l| Value::Whole(l.load_cycles.0),
    ),
    field(
        "load_cycles_mean",
        "Cycles/load",
        Unit::Cycles,
        "Mean cycles of a load",
        |l| Value::Number(l.load_cycles_mean()),
    ),
    field(
        "load_cycles_row_min",
        "Least",
        Unit::Cycles,
        "The least mean of a row with 1 % of the loads",
        |l| Value::number_or_missing(l.load_cycles_range().map(|range| range.0)),
    ),
    field(
        "load_cycles_row_max",
        "Largest",
        Unit::Cycles,
        "The largest mean of such a row",
        |l| Value::number_or_missing(l.load_cycles_range().map(|range| range.1)),
    ),
];

/// A row with its parts of the line.
#[derive(Debug, Clone)]
pub struct RowView {
    row: C2cRow,
    remote_hitm_share: f64,
    local_hitm_share: f64,
    store_share: f64,
}

impl RowView {
    /// The rows of a line.
    pub fn of_line(line: &C2cLine) -> Vec<RowView> {
        let share = |part: u64, all: u64| {
            if all == 0 {
                0.0
            } else {
                part as f64 / all as f64
            }
        };
        let view = |row: &C2cRow| RowView {
            row: row.clone(),
            remote_hitm_share: share(row.remote_hitm, line.remote_hitm),
            local_hitm_share: share(row.local_hitm, line.local_hitm),
            store_share: share(row.stores, line.stores),
        };
        line.rows.iter().map(view).collect()
    }
}

/// Of a member and a function in a line.
pub const ROW_FIELDS: &[Field<RowView>] = &[
    field(
        "offset_bytes",
        "Offset",
        Unit::Offset,
        "Where the member begins in the line",
        |r| Value::Whole(r.row.offset_bytes),
    ),
    field(
        "member",
        "Member",
        Unit::None,
        "The member's path in the object",
        |r| text(&r.row.member),
    ),
    field(
        "function",
        "Function",
        Unit::None,
        "The kernel's function",
        |r| Value::Text(r.row.function.to_owned()),
    ),
    field(
        "remote_hitm_share",
        "Rmt",
        Unit::Share,
        "Its part of the line's remote HITMs",
        |r| Value::Number(r.remote_hitm_share),
    ),
    field(
        "local_hitm_share",
        "Lcl",
        Unit::Share,
        "Its part of the line's local HITMs",
        |r| Value::Number(r.local_hitm_share),
    ),
    field(
        "store_share",
        "Store",
        Unit::Share,
        "Its part of the line's stores",
        |r| Value::Number(r.store_share),
    ),
    field(
        "load_cycles_mean",
        "Cycles/load",
        Unit::Cycles,
        "Mean cycles of its loads",
        |r| {
            let some = r.row.loads > 0;
            Value::number_or_missing(some.then(|| r.row.load_cycles_mean()))
        },
    ),
    field(
        "load_cycles_max",
        "Max",
        Unit::Cycles,
        "The longest of its loads, warm-up included",
        |r| Value::Whole(r.row.load_cycles_max.0),
    ),
    field(
        "load_count",
        "Loads",
        Unit::Count,
        "Loads and locked operations",
        |r| Value::Whole(r.row.loads),
    ),
    field(
        "store_count",
        "Stores",
        Unit::Count,
        "Stores and locked operations",
        |r| Value::Whole(r.row.stores),
    ),
    field(
        "locked_count",
        "Locked",
        Unit::Count,
        "Locked operations, which are among the loads and the stores",
        |r| Value::Whole(r.row.locked),
    ),
    field(
        "cpus",
        "CPUs",
        Unit::None,
        "CPUs that did it, warm-up included: numbers and ranges with spaces between",
        |r| Value::Text(r.row.cpus.to_string()),
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

fn quantile(outcome: &Outcome, quantile: f64) -> Value {
    let most = outcome.latencies.max_ns;
    let value = outcome.latencies.histogram.value_at_quantile(quantile);
    Value::whole_or_missing(value.map(|value| value.min(most)))
}
