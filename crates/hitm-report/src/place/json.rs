//! Plans, placements and proofs as JSON: docs/place.md has the fields.

use hitm_live::place::prove::{measurement, proof, spread};
use hitm_live::place::{
    Plan, Status, domain_of_cpus, left_out, obstacle, placeable, placed, planned, status,
    status_task, undone,
};

use super::{Applied, Change, Event, Proven};
use crate::object::{Node, Object, list};

/// Rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// A plan as one JSON object.
pub fn plan_json(plan: &Plan) -> String {
    of_plan(plan).sorted_text()
}

fn of_plan(plan: &Plan) -> Object {
    let domain = plan.decision.domain();
    let domain = domain.map(|domain| Object::of(domain_of_cpus::ALL, domain));
    let obstacles = plan.obstacles.iter();
    let obstacles = obstacles
        .map(|(backend, why)| Object::of(obstacle::ALL, why).with("backend", backend.id()));
    Object::of(planned::ALL, plan)
        .with("schema", SCHEMA)
        .with_or_null("domain", domain)
        .with("tasks", list(placeable::ALL, &plan.tasks))
        .with("left_out", list(left_out::ALL, &plan.left_out))
        .with("obstacles", obstacles.collect::<Node>())
}

/// A placement that was applied as one JSON object.
pub fn applied_json(applied: &Applied) -> String {
    let placed = applied.placed.as_ref();
    let changes = applied.changes.as_ref();
    let undone = applied.undone.as_ref();
    Object::default()
        .with("schema", SCHEMA)
        .with_some("plan", applied.plan.as_ref().map(of_plan))
        .with_some("proof", applied.proof.as_ref().map(of_proof))
        .with_some("placed", placed.map(|all| Object::of(placed::ALL, all)))
        .with_some("guard", applied.guard)
        .with_some(
            "changes",
            changes.map(|all| all.iter().map(of_change).collect::<Node>()),
        )
        .with_some("undone", undone.map(|all| Object::of(undone::ALL, all)))
        .sorted_text()
}

fn of_proof(proven: &Proven) -> Object {
    let own = &proven.proof;
    Object::of(proof::ALL, own)
        .with("unit", proven.unit.as_str())
        .with("min_gain", proven.min_gain)
        .with("measurements", list(measurement::ALL, &own.measurements))
        .with("without", Object::of(spread::ALL, &own.without))
        .with("placed", Object::of(spread::ALL, &own.placed))
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
        .sorted_text()
}

/// Placements that are there, as one JSON object.
pub fn status_json(all: &[Status]) -> String {
    let one = |own: &Status| {
        let tasks = list(status_task::ALL, &own.tasks);
        Object::of(status::ALL, own).with("tasks", tasks)
    };
    Object::default()
        .with("schema", SCHEMA)
        .with("placements", all.iter().map(one).collect::<Node>())
        .sorted_text()
}
