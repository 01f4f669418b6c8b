//! The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.

use hitm_fields::Field;
use hitm_live::wakeups::{
    HasLatencies, Measured, WakeupReport, latencies, run_delay, slots, task_latencies,
    wakeup_report, wakeup_table,
};

use crate::live::fixed;
use crate::object::{Node, Object, list};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as one JSON object.
pub fn json(report: &WakeupReport) -> String {
    let all = Object::of(wakeup_report::ALL, report).with("schema", SCHEMA);
    let all = match &report.measured {
        Measured::Wakeups(table) => {
            let tasks = table.tasks.iter();
            let tasks = tasks.map(|task| row(task_latencies::ALL, task));
            let cpus = table.cpus.iter();
            let cpus = cpus.map(|(cpu, own)| row(latencies::ALL, own).with("cpu", *cpu));
            all.and(Object::of(wakeup_table::ALL, table))
                .with("tasks", tasks.collect::<Node>())
                .with("cpus", cpus.collect::<Node>())
        }
        Measured::RunDelays { reason, delays } => all
            .with("reason", reason.as_str())
            .with("tasks", list(run_delay::ALL, delays)),
    };
    all.sorted_text()
}

fn row<T: HasLatencies>(fields: &'static [Field<T>], item: &T) -> Object {
    Object::of(fields, item).with("histogram", fixed::slots(slots(item.latencies())))
}
