//! The answer of `hitm whatif` as JSON; docs/formats/whatif.md describes the form.

use hitm::whatif::Change;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::{
    WHATIF_LINE_FIELDS, WHATIF_MEMBER_FIELDS, WHATIF_MOVE_FIELDS, WHATIF_OBJECT_FIELDS,
    WHATIF_RUN_FIELDS, WHATIF_THREAD_FIELDS,
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
        map.serialize_entry("threads", &list(WHATIF_THREAD_FIELDS, &view.threads, &[]))?;
        map.serialize_entry("lines", &list(WHATIF_LINE_FIELDS, &report.lines, &[]))?;
        map.serialize_entry("lines_left_out_count", &lines_left_out)?;
        map.serialize_entry("members", &list(WHATIF_MEMBER_FIELDS, &report.members, &[]))?;
        map.serialize_entry("objects", &list(WHATIF_OBJECT_FIELDS, &report.objects, &[]))?;
        map.serialize_entry("objects_left_out_count", &objects_left_out)?;
        map.serialize_entry("moves", &Fields(WHATIF_MOVE_FIELDS, &report.moves, &[]))?;
        map.serialize_entry("notes", &report.notes)?;
        map.end()
    }
}

struct RunsJson<'a>(&'a Change<RunView>);

impl Serialize for RunsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("before", &Fields(WHATIF_RUN_FIELDS, &self.0.before, &[]))?;
        map.serialize_entry("after", &Fields(WHATIF_RUN_FIELDS, &self.0.after, &[]))?;
        map.end()
    }
}
