//! A sweep as JSON; docs/formats/sweep.md describes the form.

use super::{SWEEP_SCHEMA, SweepReport};
use crate::fields::{sweep_effect, sweep_failure, sweep_key, sweep_metric, sweep_run};
use crate::object::{Object, list};

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &SweepReport) -> String {
    let all = Object::default()
        .with("schema", SWEEP_SCHEMA)
        .with("run", Object::of(sweep_run::ALL, &report.run))
        .with("keys", list(sweep_key::ALL, &report.keys))
        .with("metrics", list(sweep_metric::ALL, &report.metrics))
        .with("effects", list(sweep_effect::ALL, &report.effects))
        .with("failures", list(sweep_failure::ALL, &report.failures));
    all.text()
}
