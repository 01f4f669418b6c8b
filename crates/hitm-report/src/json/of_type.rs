//! One type of a recording as JSON; docs/formats/type.md describes the form.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::{type_line, type_report, type_row};
use crate::of_type::{TYPE_SCHEMA, TypeLine, TypeReport};

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &TypeReport) -> String {
    let mut text = serde_json::to_string_pretty(&TypeJson(report))
        .expect("a report is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

struct TypeJson<'a>(&'a TypeReport);

impl Serialize for TypeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines: Vec<LineJson<'_>> = self.0.lines.iter().map(LineJson).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &TYPE_SCHEMA)?;
        map.serialize_entry("command", &self.0.command)?;
        map.serialize_entry("machine", &self.0.machine)?;
        Fields::new(type_report::ALL, self.0).write(&mut map)?;
        map.serialize_entry("lines", &lines)?;
        map.end()
    }
}

struct LineJson<'a>(&'a TypeLine);

impl Serialize for LineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(type_line::ALL, self.0).write(&mut map)?;
        map.serialize_entry("rows", &list(type_row::ALL, &self.0.rows))?;
        map.end()
    }
}
