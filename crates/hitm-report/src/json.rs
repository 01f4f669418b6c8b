//! The report as JSON: the fields of the tables under their ids, in the order of the tables.
//!
//! docs/formats/report.md describes the form; [`SCHEMA`] is its version.

pub mod of_type;
pub mod review;
pub mod side_by_side;
pub mod whatif;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::by::TotalsBy;
use crate::fields::{
    Field, Unit, Value, call_frame, call_path, fight, filtered, handed, handed_row, line, machine,
    member_runs, object, one_run, process, quiet, row, run, runs, source, thread, total_row,
    totals, unnamed, wait_row, waiting,
};
use crate::handed::HandedOver;
use crate::machine::MachineSummary;
use crate::model::{AccessCounts, CallPath, LineReport, Report, RowReport, SCHEMA, SampledEvent};
use crate::runs::Runs;
use crate::waiting::Waiting;

/// Decimals of a number: a millionth of a share, a millionth of a cycle. More would be noise.
const DECIMALS_SCALE: f64 = 1e6;

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&ReportJson(report))
        .expect("a report is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

/// The fields of one table; of samples without those that need every access.
pub(crate) struct Fields<'a, T: 'static> {
    fields: &'static [Field<T>],
    item: &'a T,
    is_sampled: bool,
}

impl<'a, T> Fields<'a, T> {
    pub(crate) fn new(fields: &'static [Field<T>], item: &'a T) -> Fields<'a, T> {
        Fields::of_run(fields, item, false)
    }

    pub(crate) fn of_run(
        fields: &'static [Field<T>],
        item: &'a T,
        is_sampled: bool,
    ) -> Fields<'a, T> {
        Fields {
            fields,
            item,
            is_sampled,
        }
    }

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in hitm_fields::of_run(self.fields, self.is_sampled) {
            let value = (field.value)(self.item);
            map.serialize_entry(field.id, &ValueJson(field.unit, value))?;
        }
        Ok(())
    }
}

impl<T> Serialize for Fields<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write(&mut map)?;
        map.end()
    }
}

/// A value in the manner of its unit.
pub(crate) struct ValueJson(pub(crate) Unit, pub(crate) Value);

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

pub(crate) fn list<'a, T>(fields: &'static [Field<T>], items: &'a [T]) -> Vec<Fields<'a, T>> {
    list_of_run(fields, items, false)
}

fn list_of_run<'a, T>(
    fields: &'static [Field<T>],
    items: &'a [T],
    is_sampled: bool,
) -> Vec<Fields<'a, T>> {
    let items = items.iter();
    items
        .map(|item| Fields::of_run(fields, item, is_sampled))
        .collect()
}

struct ReportJson<'a>(&'a Report);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let is_sampled = report.is_sampled();
        let lines: Vec<LineJson<'_>> = report
            .lines
            .iter()
            .map(|line| LineJson(report, line))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("run", &Fields::of_run(run::ALL, &report.run, is_sampled))?;
        if let Some(runs) = &report.runs {
            map.serialize_entry("runs", &RunsJson(runs))?;
        }
        if let Some(events) = &report.run.sampled {
            map.serialize_entry("sampled_events", &EventsJson(events))?;
        }
        map.serialize_entry("totals", &TotalsJson(report))?;
        if let Some(machine) = &report.of_machine {
            map.serialize_entry("of_machine", &MachineJson(machine))?;
        }
        if let Some(filtered) = &report.filtered {
            let filtered = Fields::of_run(filtered::ALL, filtered, is_sampled);
            map.serialize_entry("filtered", &filtered)?;
        }
        if !report.totals_by.is_empty() {
            let totals = report.totals_by.iter();
            let totals: Vec<_> = totals.map(|totals| TotalsByJson(report, totals)).collect();
            map.serialize_entry("totals_by", &totals)?;
        }
        map.serialize_entry("lines", &lines)?;
        let quiet = Fields::of_run(quiet::ALL, &report.quiet, is_sampled);
        map.serialize_entry("quiet", &quiet)?;
        if !is_sampled {
            map.serialize_entry("handed_over", &HandedJson(&report.handed))?;
            map.serialize_entry("waiting", &WaitingJson(&report.waiting))?;
        }
        let threads = list_of_run(thread::ALL, &report.threads, is_sampled);
        map.serialize_entry("threads", &threads)?;
        if !report.processes.is_empty() {
            map.serialize_entry("processes", &list(process::ALL, &report.processes))?;
        }
        map.serialize_entry("diagnostics", &report.diagnostics)?;
        map.end()
    }
}

struct RunsJson<'a>(&'a Runs);

impl Serialize for RunsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let runs = self.0;
        let mut map = serializer.serialize_map(None)?;
        Fields::new(runs::ALL, runs).write(&mut map)?;
        map.serialize_entry("runs", &list(one_run::ALL, &runs.runs))?;
        if !runs.members.is_empty() {
            let members = list(member_runs::ALL, &runs.members);
            map.serialize_entry("members", &members)?;
        }
        map.end()
    }
}

struct HandedJson<'a>(&'a HandedOver);

impl Serialize for HandedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(handed::ALL, self.0).write(&mut map)?;
        for (key, rows) in [("objects", &self.0.objects), ("takers", &self.0.takers)] {
            map.serialize_entry(key, &list(handed_row::ALL, rows))?;
        }
        map.end()
    }
}

struct WaitingJson<'a>(&'a Waiting);

impl Serialize for WaitingJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(waiting::ALL, self.0).write(&mut map)?;
        map.serialize_entry("rows", &list(wait_row::ALL, &self.0.rows))?;
        map.end()
    }
}

struct TotalsByJson<'a>(&'a Report, &'a TotalsBy);

impl Serialize for TotalsByJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TotalsByJson(report, totals) = self;
        let rows = list_of_run(total_row::ALL, &totals.rows, report.is_sampled());
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("by", totals.by.id())?;
        map.serialize_entry("rows", &rows)?;
        map.end()
    }
}

struct MachineJson<'a>(&'a MachineSummary);

impl Serialize for MachineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(machine::ALL, self.0).write(&mut map)?;
        let unnamed = list(unnamed::ALL, &self.0.unnamed);
        map.serialize_entry("unnamed", &unnamed)?;
        map.end()
    }
}

struct EventsJson<'a>(&'a [SampledEvent]);

impl Serialize for EventsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|event| {
            serde_json::json!({
                "name": event.name,
                "sample_count": event.sample_count,
                "event_count": event.event_count,
            })
        }))
    }
}

struct TotalsJson<'a>(&'a Report);

impl Serialize for TotalsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let totals = &self.0.totals;
        Fields::of_run(totals::ALL, totals, self.0.is_sampled()).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&totals.counts))?;
        map.end()
    }
}

struct LineJson<'a>(&'a Report, &'a LineReport);

impl Serialize for LineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LineJson(report, line) = self;
        let mut map = serializer.serialize_map(None)?;
        Fields::of_run(line::ALL, line, report.is_sampled()).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&line.counts))?;
        let fights = list_of_run(fight::ALL, &line.fights, report.is_sampled());
        map.serialize_entry("fights", &fights)?;
        map.serialize_entry("objects", &list(object::ALL, &line.objects))?;
        let rows = line.rows.iter().map(|row| RowJson(report, row));
        map.serialize_entry("rows", &rows.collect::<Vec<_>>())?;
        map.end()
    }
}

struct RowJson<'a>(&'a Report, &'a RowReport);

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RowJson(report, row) = self;
        let mut map = serializer.serialize_map(None)?;
        Fields::of_run(row::ALL, row, report.is_sampled()).write(&mut map)?;
        if report.has_call_chains {
            map.serialize_entry("call_path_count", &row.call_path_count)?;
            let paths = row.call_paths.iter().map(CallPathJson);
            map.serialize_entry("call_paths", &paths.collect::<Vec<_>>())?;
        }
        map.end()
    }
}

struct CallPathJson<'a>(&'a CallPath);

impl Serialize for CallPathJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(call_path::ALL, self.0).write(&mut map)?;
        let frames = list(call_frame::ALL, &self.0.frames);
        map.serialize_entry("frames", &frames)?;
        map.end()
    }
}

struct CountsJson<'a>(&'a AccessCounts);

impl Serialize for CountsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("loads", &Fields::new(source::ALL, &self.0.loads))?;
        map.serialize_entry("stores", &Fields::new(source::ALL, &self.0.stores))?;
        map.serialize_entry("locked", &Fields::new(source::ALL, &self.0.locked))?;
        map.end()
    }
}
