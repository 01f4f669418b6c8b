//! Plans, placements and proofs as JSON: docs/place.md has the fields.

use hitm_live::place::prove::{measurement, proof, spread};
use hitm_live::place::{
    Plan, Status, domain_of_cpus, left_out, obstacle, placeable, placed, planned, status,
    status_task, undone,
};
use serde_json::Value;

use super::{Applied, Change, Event, Proven};
use crate::object::{Object, objects};

/// Rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// A plan as one JSON object.
pub fn plan_json(plan: &Plan) -> String {
    of_plan(plan).text()
}

fn of_plan(plan: &Plan) -> Object {
    let domain = plan.decision.domain();
    let obstacles = plan.obstacles.iter();
    let obstacles = obstacles
        .map(|(backend, why)| Object::of(obstacle::ALL, why).with("backend", backend.name()));
    Object::of(planned::ALL, plan)
        .with("schema", SCHEMA)
        .with(
            "domain",
            domain.map(|domain| Object::of(domain_of_cpus::ALL, domain)),
        )
        .with("tasks", objects(placeable::ALL, &plan.tasks))
        .with("left_out", objects(left_out::ALL, &plan.left_out))
        .with("obstacles", obstacles.collect::<Value>())
}

/// What was applied as one JSON object.
pub fn applied_json(applied: &Applied) -> String {
    let mut all = Object::default().with("schema", SCHEMA);
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.set(key, value);
        }
    };
    let undone = applied.undone.as_ref();
    let placed = applied.placed.as_ref();
    let changes = applied.changes.as_ref();
    set(
        "plan",
        applied.plan.as_ref().map(|plan| of_plan(plan).into()),
    );
    set("proof", applied.proof.as_ref().map(of_proof));
    set(
        "placed",
        placed.map(|all| Object::of(placed::ALL, all).into()),
    );
    set("guard", applied.guard.map(Value::from));
    set(
        "changes",
        changes.map(|all| all.iter().map(of_change).collect()),
    );
    set(
        "undone",
        undone.map(|all| Object::of(undone::ALL, all).into()),
    );
    all.text()
}

fn of_proof(proven: &Proven) -> Value {
    let own = &proven.proof;
    Object::of(proof::ALL, own)
        .with("unit", proven.unit.as_str())
        .with("min_gain", proven.min_gain)
        .with("measurements", objects(measurement::ALL, &own.measurements))
        .with("without", Object::of(spread::ALL, &own.without))
        .with("placed", Object::of(spread::ALL, &own.placed))
        .into()
}

fn of_change(change: &Change) -> Object {
    let object = Object::default().with("at_ms", change.at.as_millis() as u64);
    match &change.event {
        Event::Undone => object.with("change", "undone"),
        Event::Stayed(reason) => object
            .with("change", "stayed")
            .with("reason", reason.as_str()),
        Event::Placed { waiting, plan } => object
            .with("change", "placed")
            .with("waiting", *waiting)
            .with("plan", of_plan(plan)),
        Event::Released { undone, .. } => object
            .with("change", "released")
            .with("undone", Object::of(undone::ALL, undone)),
    }
}

/// Names of placements that were undone, as one JSON object.
pub fn undone_json(names: &[String]) -> String {
    Object::default()
        .with("schema", SCHEMA)
        .with("undone", names)
        .text()
}

/// Placements that are there, as one JSON object.
pub fn status_json(all: &[Status]) -> String {
    let one = |own: &Status| {
        let tasks = objects(status_task::ALL, &own.tasks);
        Object::of(status::ALL, own).with("tasks", tasks)
    };
    Object::default()
        .with("schema", SCHEMA)
        .with("placements", all.iter().map(one).collect::<Value>())
        .text()
}
