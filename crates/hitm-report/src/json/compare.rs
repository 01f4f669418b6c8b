//! Two programs compared, as JSON; docs/formats/compare.md describes the form.

use crate::compare::{COMPARE_SCHEMA, Measured, ProgramComparison};
use crate::fields::{compared_row, run_cost};
use crate::object::{Object, list};

/// The comparison as one JSON object, indented, with a line feed at the end.
pub fn render(compared: &ProgramComparison) -> String {
    let programs = compared.programs.iter().map(of_program);
    let all = Object::default()
        .with("schema", COMPARE_SCHEMA)
        .with("machine", compared.machine.as_str())
        .with("sentence", compared.sentence())
        .with("programs", programs.collect::<crate::object::Node>())
        .with("totals", list(compared_row::ALL, &compared.totals))
        .with("findings", list(compared_row::ALL, &compared.findings))
        .with("small_count", compared.small_count as u64);
    all.text()
}

fn of_program(program: &Measured) -> Object {
    Object::default()
        .with("label", program.label.as_str())
        .with("command", program.command.as_slice())
        .with("runs", list(run_cost::ALL, &program.runs))
}
