//! One type of a recording as JSON; docs/formats/type.md describes the form.

use crate::fields::{type_line, type_report, type_row};
use crate::object::{Node, Object, list};
use crate::of_type::{TYPE_SCHEMA, TypeLine, TypeReport};

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &TypeReport) -> String {
    let line = |line: &TypeLine| {
        Object::of(type_line::ALL, line).with("rows", list(type_row::ALL, &line.rows))
    };
    let all = Object::default()
        .with("schema", TYPE_SCHEMA)
        .with("command", report.command.as_slice())
        .with("machine", report.machine.as_str())
        .and(Object::of(type_report::ALL, report))
        .with("lines", report.lines.iter().map(line).collect::<Node>());
    all.text()
}
