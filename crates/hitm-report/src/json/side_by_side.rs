//! Recordings side by side as JSON; docs/formats/side-by-side.md describes the form.

use crate::fields::{run_cost, side};
use crate::object::{Object, list};
use crate::side_by_side::{SIDE_BY_SIDE_SCHEMA, SideBySide};

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn render(sides: &SideBySide) -> String {
    let all = Object::default()
        .with("schema", SIDE_BY_SIDE_SCHEMA)
        .with("labels", sides.labels.as_slice())
        .with("sentences", sides.sentences())
        .with("runs", list(run_cost::ALL, &sides.runs))
        .with("all", Object::of(side::ALL, &sides.all))
        .with("places", list(side::ALL, &sides.places))
        .with("functions", list(side::ALL, &sides.functions))
        .with("uses", list(side::ALL, &sides.uses));
    all.text()
}
