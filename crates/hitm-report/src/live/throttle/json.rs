//! The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.

use hitm_fields::Field;
use hitm_live::throttle::{
    Causes, Episode, GroupRow, TaskRow, ThrottleReport, WorkTimes, causes, episode, group_row,
    held_lock, task_row, throttle_counts, throttle_report, work_times,
};
use serde_json::Value;

use crate::live::fixed::slots;
use crate::object::{Object, objects};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as one JSON object, with what was simulated besides.
pub fn json(report: &ThrottleReport, what_if: Option<Value>) -> String {
    let groups: Vec<Object> = report.groups.iter().map(group).collect();
    let tasks: Vec<Object> = report.tasks.iter().map(task).collect();
    let mut all = Object::of(throttle_report::ALL, report)
        .with("schema", SCHEMA)
        .with("period_timer", work(&report.period_timer))
        .with("slack_timer", work(&report.slack_timer))
        .with("handlers", work(&report.handlers))
        .with("groups", groups)
        .with("tasks", tasks)
        .with("counts", Object::of(throttle_counts::ALL, &report.counts));
    if let Some(what_if) = what_if {
        all.set("what_if", what_if);
    }
    all.text()
}

fn work(times: &WorkTimes) -> Object {
    Object::of(work_times::ALL, times).with("histogram", slots(times.histogram.rows()))
}

fn group(group: &GroupRow) -> Object {
    with_causes(group_row::ALL, group, &group.causes)
        .with("longest", group.longest.as_ref().map(longest))
        .with("locks", objects(held_lock::ALL, &group.locks))
}

fn task(task: &TaskRow) -> Object {
    with_causes(task_row::ALL, task, &task.causes)
}

fn longest(longest: &Episode) -> Object {
    with_causes(episode::ALL, longest, &Causes::of(longest))
}

/// The quantities of an item, those by cause in an object of their own.
fn with_causes<T>(fields: &'static [Field<T>], item: &T, own: &Causes) -> Object {
    let is_cause = |field: &&Field<T>| causes::ALL.iter().any(|cause| cause.id == field.id);
    let fields = fields.iter().filter(|field| !is_cause(field));
    Object::of(fields, item).with("causes", Object::of(causes::ALL, own))
}
