//! The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.

use hitm_fields::Field;
use hitm_live::wakeups::{
    HasLatencies, Measured, WakeupReport, latencies, run_delay, slots, task_latencies,
    wakeup_report, wakeup_table,
};

use crate::live::fixed;
use crate::object::{Object, objects};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as one JSON object.
pub fn json(report: &WakeupReport) -> String {
    let mut all = Object::of(wakeup_report::ALL, report).with("schema", SCHEMA);
    match &report.measured {
        Measured::Wakeups(table) => {
            let tasks = table.tasks.iter();
            let tasks: Vec<Object> = tasks.map(|task| row(task_latencies::ALL, task)).collect();
            let cpus = table.cpus.iter();
            let cpus = cpus.map(|(cpu, own)| row(latencies::ALL, own).with("cpu", *cpu));
            let cpus: Vec<Object> = cpus.collect();
            all.extend(Object::of(wakeup_table::ALL, table));
            all.set("tasks", tasks);
            all.set("cpus", cpus);
        }
        Measured::RunDelays { reason, delays } => {
            all.set("reason", reason.as_str());
            all.set("tasks", objects(run_delay::ALL, delays));
        }
    }
    all.text()
}

fn row<T: HasLatencies>(fields: &'static [Field<T>], item: &T) -> Object {
    Object::of(fields, item).with("histogram", fixed::slots(slots(item.latencies())))
}
