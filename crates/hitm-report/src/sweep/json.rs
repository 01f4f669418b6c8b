//! A sweep as JSON; docs/formats/sweep.md describes the form.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{SWEEP_SCHEMA, SweepReport};
use crate::fields::{sweep_effect, sweep_failure, sweep_key, sweep_metric, sweep_run};
use crate::json::{Fields, list};

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &SweepReport) -> String {
    let mut text = serde_json::to_string_pretty(&ReportJson(report))
        .expect("a report is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

struct ReportJson<'a>(&'a SweepReport);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SWEEP_SCHEMA)?;
        map.serialize_entry("run", &Fields::new(sweep_run::ALL, &report.run))?;
        map.serialize_entry("keys", &list(sweep_key::ALL, &report.keys))?;
        map.serialize_entry("metrics", &list(sweep_metric::ALL, &report.metrics))?;
        map.serialize_entry("effects", &list(sweep_effect::ALL, &report.effects))?;
        map.serialize_entry("failures", &list(sweep_failure::ALL, &report.failures))?;
        map.end()
    }
}
