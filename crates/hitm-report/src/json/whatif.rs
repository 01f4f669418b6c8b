//! The answer of `hitm whatif` as JSON; docs/formats/whatif.md describes the form.

use hitm_whatif::Change;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::{
    whatif_line, whatif_member, whatif_move, whatif_object, whatif_run, whatif_thread,
};
use crate::whatif::{RunView, WHATIF_SCHEMA, WhatifView};

/// The answer as one JSON object, indented, with a line feed at the end.
pub fn render(view: &WhatifView) -> String {
    let mut text = serde_json::to_string_pretty(&ViewJson(view))
        .expect("an answer is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

struct ViewJson<'a>(&'a WhatifView);

impl Serialize for ViewJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let report = &view.report;
        let (lines_left_out, objects_left_out) = view.left_out;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &WHATIF_SCHEMA)?;
        map.serialize_entry("command", &report.command)?;
        map.serialize_entry("layouts", &report.layouts)?;
        map.serialize_entry("run", &RunsJson(&view.run))?;
        map.serialize_entry("threads", &list(whatif_thread::ALL, &view.threads))?;
        map.serialize_entry("lines", &list(whatif_line::ALL, &report.lines))?;
        map.serialize_entry("lines_left_out_count", &lines_left_out)?;
        map.serialize_entry("members", &list(whatif_member::ALL, &report.members))?;
        map.serialize_entry("objects", &list(whatif_object::ALL, &report.objects))?;
        map.serialize_entry("objects_left_out_count", &objects_left_out)?;
        map.serialize_entry("moves", &Fields::new(whatif_move::ALL, &report.moves))?;
        map.serialize_entry("notes", &report.notes)?;
        map.end()
    }
}

struct RunsJson<'a>(&'a Change<RunView>);

impl Serialize for RunsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("before", &Fields::new(whatif_run::ALL, &self.0.before))?;
        map.serialize_entry("after", &Fields::new(whatif_run::ALL, &self.0.after))?;
        map.end()
    }
}
