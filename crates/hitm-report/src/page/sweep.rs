//! The page of a sweep: figures over its keys.

use hitm::sweep::Cell;
use serde_json::{Value, json};

use super::data::{item, rounded, table};
use super::{PAGE_SCHEMA, html};
use crate::fields::{sweep_effect, sweep_failure, sweep_key, sweep_metric, sweep_run};
use crate::sweep::{SweepKey, SweepReport, cell_text};

/// Values in a page: some two megabytes of text.
const VALUES_MAX: usize = 250_000;

/// The page of a sweep.
pub fn sweep(report: &SweepReport) -> String {
    let varied = report.keys.iter().enumerate();
    let varied: Vec<(usize, &SweepKey)> = varied.filter(|(_, key)| key.values.len() > 1).collect();
    let shown = shown_metrics(report);
    let keys: Value = varied.iter().map(|(_, key)| key_json(key)).collect();
    let points: Value = report
        .points
        .iter()
        .map(|point| {
            varied
                .iter()
                .map(|(at, _)| point[*at])
                .collect::<Vec<u32>>()
        })
        .collect();
    let metrics = report.metrics.iter().take(shown);
    let metrics: Value = metrics
        .map(|metric| json!({ "id": metric.metric, "unit": metric.unit }))
        .collect();
    let values: Value = report
        .values
        .iter()
        .take(shown)
        .map(|one| rounded(one))
        .collect();
    html(json!({
        "schema": PAGE_SCHEMA,
        "kind": "sweep",
        "title": format!("hitm sweep: {}", report.run.file),
        "run": item(sweep_run::ALL, &report.run),
        "keys": keys,
        "metrics": metrics,
        "points": points,
        "values": values,
        "key_table": table(sweep_key::ALL, &report.keys),
        "metric_table": table(sweep_metric::ALL, &report.metrics),
        "effects": table(sweep_effect::ALL, &report.effects),
        "failures": table(sweep_failure::ALL, &report.failures),
        "notes": notes(report, shown),
    }))
}

/// Metrics that there is room for: at least one.
fn shown_metrics(report: &SweepReport) -> usize {
    let mut room = VALUES_MAX;
    let mut shown = 0;
    for values in &report.values {
        let count = values.iter().map(Vec::len).sum::<usize>();
        if shown > 0 && count > room {
            break;
        }
        room = room.saturating_sub(count);
        shown += 1;
    }
    shown
}

fn key_json(key: &SweepKey) -> Value {
    let is_number = key.is_number();
    let value = |cell: &Cell| match cell {
        Cell::Integer(number) if is_number => json!(number),
        Cell::Float(number) if is_number => json!(number),
        Cell::Missing if is_number => Value::Null,
        other => json!(cell_text(other)),
    };
    let values: Value = key.values.iter().map(value).collect();
    json!({ "name": key.key, "unit": key.unit, "is_number": is_number, "values": values })
}

fn notes(report: &SweepReport, shown: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let left = report.metrics.len() - shown;
    if left > 0 {
        notes.push(format!(
            "{left} metrics have no picture here: `metrics` of the plan chooses others"
        ));
    }
    if report.run.left_out_count > 0 {
        notes.push(format!(
            "{} values beyond the first million are in no picture",
            report.run.left_out_count
        ));
    }
    notes
}
