//! The report as JSON: the fields of the tables under their ids, in the order of the tables.
//!
//! docs/formats/report.md describes the form; [`SCHEMA`] is its version.

pub mod whatif;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::fields::{
    Field, LINE_FIELDS, OBJECT_FIELDS, QUIET_FIELDS, ROW_FIELDS, RUN_FIELDS, SOURCE_FIELDS,
    THREAD_FIELDS, TOTALS_FIELDS, Unit, Value,
};
use crate::model::{AccessCounts, LineReport, Report, SCHEMA, Totals};

/// Decimals of a number: a millionth of a share, a millionth of a cycle. More would be noise.
const DECIMALS_SCALE: f64 = 1e6;

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&ReportJson(report))
        .expect("a report is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

/// The fields of one table.
struct Fields<'a, T: 'static>(&'static [Field<T>], &'a T);

impl<T> Fields<'_, T> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in self.0 {
            let value = (field.value)(self.1);
            map.serialize_entry(field.id, &ValueJson(field.unit, value))?;
        }
        Ok(())
    }
}

impl<T> Serialize for Fields<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.write(&mut map)?;
        map.end()
    }
}

struct ValueJson(Unit, Value);

impl Serialize for ValueJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.1 {
            Value::Missing => serializer.serialize_none(),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            // As text: many readers of JSON keep 53 bits of a number only.
            Value::Whole(address) if self.0 == Unit::Address => {
                serializer.collect_str(&format_args!("{address:#x}"))
            }
            Value::Whole(number) => serializer.serialize_u64(*number),
            Value::Number(number) => {
                serializer.serialize_f64((number * DECIMALS_SCALE).round() / DECIMALS_SCALE)
            }
            Value::Text(text) => serializer.serialize_str(text),
            Value::Texts(texts) => texts.serialize(serializer),
            Value::Wholes(numbers) => numbers.serialize(serializer),
        }
    }
}

fn list<'a, T>(fields: &'static [Field<T>], items: &'a [T]) -> Vec<Fields<'a, T>> {
    items.iter().map(|item| Fields(fields, item)).collect()
}

struct ReportJson<'a>(&'a Report);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let lines: Vec<LineJson<'_>> = report.lines.iter().map(LineJson).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("run", &Fields(RUN_FIELDS, &report.run))?;
        map.serialize_entry("totals", &TotalsJson(&report.totals))?;
        map.serialize_entry("lines", &lines)?;
        map.serialize_entry("quiet", &Fields(QUIET_FIELDS, &report.quiet))?;
        map.serialize_entry("threads", &list(THREAD_FIELDS, &report.threads))?;
        map.serialize_entry("diagnostics", &report.diagnostics)?;
        map.end()
    }
}

struct TotalsJson<'a>(&'a Totals);

impl Serialize for TotalsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields(TOTALS_FIELDS, self.0).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&self.0.counts))?;
        map.end()
    }
}

struct LineJson<'a>(&'a LineReport);

impl Serialize for LineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = self.0;
        let mut map = serializer.serialize_map(None)?;
        Fields(LINE_FIELDS, line).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&line.counts))?;
        map.serialize_entry("objects", &list(OBJECT_FIELDS, &line.objects))?;
        map.serialize_entry("rows", &list(ROW_FIELDS, &line.rows))?;
        map.end()
    }
}

struct CountsJson<'a>(&'a AccessCounts);

impl Serialize for CountsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("loads", &Fields(SOURCE_FIELDS, &self.0.loads))?;
        map.serialize_entry("stores", &Fields(SOURCE_FIELDS, &self.0.stores))?;
        map.serialize_entry("locked", &Fields(SOURCE_FIELDS, &self.0.locked))?;
        map.end()
    }
}
