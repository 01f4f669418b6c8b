//! A sweep as JSON; docs/formats/sweep.md describes the form.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{SWEEP_SCHEMA, SweepReport};
use crate::fields::{
    SWEEP_EFFECT_FIELDS, SWEEP_FAILURE_FIELDS, SWEEP_KEY_FIELDS, SWEEP_METRIC_FIELDS,
    SWEEP_RUN_FIELDS,
};
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
        map.serialize_entry("run", &Fields(SWEEP_RUN_FIELDS, &report.run, &[]))?;
        map.serialize_entry("keys", &list(SWEEP_KEY_FIELDS, &report.keys, &[]))?;
        map.serialize_entry("metrics", &list(SWEEP_METRIC_FIELDS, &report.metrics, &[]))?;
        map.serialize_entry("effects", &list(SWEEP_EFFECT_FIELDS, &report.effects, &[]))?;
        map.serialize_entry(
            "failures",
            &list(SWEEP_FAILURE_FIELDS, &report.failures, &[]),
        )?;
        map.end()
    }
}
