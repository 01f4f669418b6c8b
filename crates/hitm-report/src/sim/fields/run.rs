//! The quantities of one run.

use hitm::sim::Outcome;

use super::field;
use crate::fields::{Field, Unit, Value};

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

fn quantile(outcome: &Outcome, quantile: f64) -> Value {
    let most = outcome.latencies.max_ns;
    let value = outcome.latencies.histogram.value_at_quantile(quantile);
    Value::whole_or_missing(value.map(|value| value.min(most)))
}
