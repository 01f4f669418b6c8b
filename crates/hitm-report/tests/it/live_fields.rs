//! docs/formats/live.md describes what is declared beside its measurement.

use hitm_fields::Field;
use hitm_live::throttle::{group_row, task_row};
use hitm_live::wakeups::{run_delay, task_latencies};

const LIVE: &str = include_str!("../../../../docs/formats/live.md");

#[track_caller]
fn check<T>(heading: &str, fields: &[Field<T>]) {
    let start = LIVE.find(&format!("\n## {heading}\n")).unwrap();
    let section = LIVE[start + 4..].split("\n## ").next().unwrap();
    let described = section.lines().filter(|line| line.starts_with("| `"));
    let declared = fields.iter().map(|field| {
        let (id, unit) = (field.id, field.unit.label());
        format!("| `{id}` | {unit} | {} |", field.description())
    });
    assert!(described.eq(declared), "{heading}");
}

#[test]
fn every_quantity_of_scheduling_is_described() {
    check("throttled groups", group_row::ALL);
    check("throttled tasks", task_row::ALL);
    check("wake-ups", task_latencies::ALL);
    check("run delays", run_delay::ALL);
}
