//! The answer of `hitm whatif` as JSON; docs/formats/whatif.md describes the form.

use crate::fields::{
    whatif_line, whatif_member, whatif_move, whatif_object, whatif_run, whatif_thread,
};
use crate::object::{Object, list};
use crate::whatif::{WHATIF_SCHEMA, WhatifView};

/// The answer as one JSON object, indented, with a line feed at the end.
pub fn render(view: &WhatifView) -> String {
    let report = &view.report;
    let (lines_left_out, objects_left_out) = view.left_out;
    let run = Object::default()
        .with("before", Object::of(whatif_run::ALL, &view.run.before))
        .with("after", Object::of(whatif_run::ALL, &view.run.after));
    let all = Object::default()
        .with("schema", WHATIF_SCHEMA)
        .with("command", report.command.as_slice())
        .with("layouts", report.layouts.as_slice())
        .with("run", run)
        .with("threads", list(whatif_thread::ALL, &view.threads))
        .with("lines", list(whatif_line::ALL, &report.lines))
        .with("lines_left_out_count", lines_left_out)
        .with("members", list(whatif_member::ALL, &report.members))
        .with("objects", list(whatif_object::ALL, &report.objects))
        .with("objects_left_out_count", objects_left_out)
        .with("moves", Object::of(whatif_move::ALL, &report.moves))
        .with("notes", report.notes.as_slice());
    all.text()
}
