//! Recordings side by side as JSON; docs/formats/side-by-side.md describes the form.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Fields, list};
use crate::fields::side;
use crate::side_by_side::{SIDE_BY_SIDE_SCHEMA, SideBySide};

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn render(sides: &SideBySide) -> String {
    let mut text = serde_json::to_string_pretty(&SidesJson(sides))
        .expect("a table is strings, numbers and lists of them");
    text.push('\n');
    text
}

struct SidesJson<'a>(&'a SideBySide);

impl Serialize for SidesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SIDE_BY_SIDE_SCHEMA)?;
        map.serialize_entry("labels", &self.0.labels)?;
        map.serialize_entry("all", &Fields::new(side::ALL, &self.0.all))?;
        map.serialize_entry("places", &list(side::ALL, &self.0.places))?;
        map.serialize_entry("functions", &list(side::ALL, &self.0.functions))?;
        map.serialize_entry("uses", &list(side::ALL, &self.0.uses))?;
        map.end()
    }
}
