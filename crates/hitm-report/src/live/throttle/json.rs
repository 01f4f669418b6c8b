//! The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.

use hitm_fields::Field;
use hitm_live::spread::Spread;
use hitm_live::throttle::{
    Causes, GroupRow, ThrottleReport, causes, episode, group_row, held_lock, task_row,
    throttle_counts, throttle_report, work_times,
};
use serde_json::Value;

use crate::live::fixed::slots;
use crate::object::{Node, Object, list};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as one JSON object, with what was simulated besides.
pub fn json(report: &ThrottleReport, what_if: Option<Value>) -> String {
    let tasks = report.tasks.iter();
    let tasks = tasks.map(|task| with_causes(task_row::ALL, task, &task.causes));
    let all = Object::of(throttle_report::ALL, report)
        .with("schema", SCHEMA)
        .with("period_timer", work(&report.period_timer))
        .with("slack_timer", work(&report.slack_timer))
        .with("handlers", work(&report.handlers))
        .with("groups", report.groups.iter().map(group).collect::<Node>())
        .with("tasks", tasks.collect::<Node>())
        .with("counts", Object::of(throttle_counts::ALL, &report.counts))
        .with_some("what_if", what_if);
    all.sorted_text()
}

fn work(times: &Spread) -> Object {
    Object::of(work_times::ALL, times).with("histogram", slots(times.histogram().rows()))
}

fn group(group: &GroupRow) -> Object {
    let longest = group.longest.as_ref();
    let longest = longest.map(|one| with_causes(episode::ALL, one, &Causes::of(one)));
    with_causes(group_row::ALL, group, &group.causes)
        .with_or_null("longest", longest)
        .with("locks", list(held_lock::ALL, &group.locks))
}

/// The quantities of an item, those by cause in an object of their own.
fn with_causes<T>(fields: &'static [Field<T>], item: &T, own: &Causes) -> Object {
    let is_cause = |field: &&Field<T>| causes::ALL.iter().any(|cause| cause.id == field.id);
    let fields = fields.iter().filter(|field| !is_cause(field));
    Object::of(fields, item).with("causes", Object::of(causes::ALL, own))
}
