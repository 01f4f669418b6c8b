//! Plans, placements and proofs as JSON: docs/place.md has the fields.

use hitm_live::place::prove::{Proof, Spread};
use hitm_live::place::{Decision, Placed, Plan, Status, Task, Undone};
use serde_json::{Value, json};

/// Rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

pub(super) fn text(value: &Value) -> String {
    // A value of strings and numbers always has a text.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

pub(super) fn plan(plan: &Plan) -> Value {
    let task = |task: &Task| {
        json!({
            "tid": task.id.tid,
            "pid": task.pid,
            "name": task.name,
            "cpus": task.mask.cpus.to_string(),
            "last_cpu": task.cpu,
        })
    };
    let left_out = plan
        .left_out
        .iter()
        .map(|left| json!({ "tid": left.tid, "name": left.name, "reason": left.reason }));
    let obstacles = plan.obstacles.iter().map(|(backend, why)| {
        json!({ "backend": backend.name(), "reason": why.reason, "needed": why.needed })
    });
    let (domain, reason) = match &plan.decision {
        Decision::Place(domain) => {
            let (all, cpus) = (domain.all.to_string(), domain.cpus.to_string());
            let level = domain.level.name();
            (
                json!({ "level": level, "all_cpus": all, "cpus": cpus }),
                Value::Null,
            )
        }
        Decision::Stay(reason) => (Value::Null, json!(reason)),
    };
    json!({
        "schema": SCHEMA,
        "name": plan.name,
        "lock_share": plan.share,
        "needed_cpus": plan.needed,
        "allowed_cpus": plan.allowed.to_string(),
        "quota_cpus": plan.quota_cpus,
        "domain": domain,
        "reason": reason,
        "backend": plan.backend.map(|backend| backend.name()),
        "keeps_others_out": plan.keeps_others_out,
        "follows_new_threads": plan.is_whole,
        "tasks": plan.tasks.iter().map(task).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
        "obstacles": obstacles.collect::<Vec<_>>(),
    })
}

pub(super) fn placed(placed: Placed) -> Value {
    json!({ "placed": placed.placed, "ended": placed.ended })
}

pub(super) fn undone(undone: &Undone) -> Value {
    json!({
        "restored": undone.restored,
        "inherited": undone.inherited,
        "ended": undone.ended,
        "changed": undone.changed,
        "problems": undone.problems,
    })
}

pub(super) fn undone_all(names: &[String]) -> Value {
    json!({ "schema": SCHEMA, "undone": names })
}

pub(super) fn status(all: &[Status]) -> Value {
    let one = |status: &Status| {
        let head = &status.journal.head;
        let tasks = status.tasks.iter().map(|(task, name, cpus)| {
            let before = task.mask.cpus.to_string();
            json!({ "tid": task.id.tid, "name": name, "cpus_before": before, "cpus": cpus.to_string() })
        });
        let groups = status
            .journal
            .groups()
            .map(|path| path.to_string_lossy().into_owned());
        json!({
            "name": head.name,
            "cpus": head.cpus.to_string(),
            "backend": head.backend.name(),
            "since": head.since,
            "tool": head.tool.tid,
            "has_tool": status.has_tool,
            "guard": status.journal.guard().map(|guard| guard.tid),
            "has_guard": status.has_guard,
            "journal": status.path.to_string_lossy(),
            "cgroups": groups.collect::<Vec<_>>(),
            "tasks": tasks.collect::<Vec<_>>(),
            "ended": status.ended,
        })
    };
    json!({ "schema": SCHEMA, "placements": all.iter().map(one).collect::<Vec<_>>() })
}

pub(super) fn proof(proof: &Proof, unit: &str, min_gain: f64) -> Value {
    let spread =
        |spread: &Spread| json!({ "median": spread.median, "min": spread.min, "max": spread.max });
    let measurements = proof.measurements.iter();
    let measurements =
        measurements.map(|one| json!({ "is_placed": one.is_placed, "rate": one.rate }));
    json!({
        "unit": unit,
        "measurements": measurements.collect::<Vec<_>>(),
        "without": spread(&proof.without),
        "placed": spread(&proof.placed),
        "gain": proof.gain,
        "min_gain": min_gain,
        "is_better": proof.is_better,
    })
}
