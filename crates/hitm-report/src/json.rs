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
    CALL_FRAME_FIELDS, CALL_PATH_FIELDS, FIGHT_FIELDS, FILTERED_FIELDS, Field, HANDED_FIELDS,
    HANDED_ROW_FIELDS, LINE_FIELDS, MACHINE_FIELDS, MEMBER_RUNS_FIELDS, OBJECT_FIELDS,
    ONE_RUN_FIELDS, PROCESS_FIELDS, QUIET_FIELDS, ROW_FIELDS, RUN_FIELDS, RUNS_FIELDS,
    SOURCE_FIELDS, THREAD_FIELDS, TOTAL_ROW_FIELDS, TOTALS_FIELDS, UNNAMED_FIELDS, Unit, Value,
    WAIT_ROW_FIELDS, WAITING_FIELDS, exact_only, sampled_only,
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

/// The fields of one table, some of which may be left out.
pub(crate) struct Fields<'a, T: 'static>(
    pub(crate) &'static [Field<T>],
    pub(crate) &'a T,
    pub(crate) LeftOut,
);

/// Ids of fields.
pub(crate) type LeftOut = &'static [&'static str];

/// The fields to leave out of a report.
pub(crate) fn left_out(report: &Report, exact_only: LeftOut) -> LeftOut {
    match report.run.sampled {
        Some(_) => exact_only,
        None => &[],
    }
}

impl<T> Fields<'_, T> {
    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in self.0 {
            if self.2.contains(&field.id) {
                continue;
            }
            let value = (field.value)(self.1);
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

pub(crate) fn list<'a, T>(
    fields: &'static [Field<T>],
    items: &'a [T],
    left_out: LeftOut,
) -> Vec<Fields<'a, T>> {
    let items = items.iter();
    items.map(|item| Fields(fields, item, left_out)).collect()
}

struct ReportJson<'a>(&'a Report);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let lines: Vec<LineJson<'_>> = report
            .lines
            .iter()
            .map(|line| LineJson(report, line))
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry(
            "run",
            &Fields(RUN_FIELDS, &report.run, left_out(report, exact_only::RUN)),
        )?;
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
            let left_out = left_out(report, exact_only::FILTERED);
            map.serialize_entry("filtered", &Fields(FILTERED_FIELDS, filtered, left_out))?;
        }
        if !report.totals_by.is_empty() {
            let totals = report.totals_by.iter();
            let totals: Vec<_> = totals.map(|totals| TotalsByJson(report, totals)).collect();
            map.serialize_entry("totals_by", &totals)?;
        }
        map.serialize_entry("lines", &lines)?;
        map.serialize_entry(
            "quiet",
            &Fields(
                QUIET_FIELDS,
                &report.quiet,
                left_out(report, exact_only::QUIET),
            ),
        )?;
        if report.run.sampled.is_none() {
            map.serialize_entry("handed_over", &HandedJson(&report.handed))?;
            map.serialize_entry("waiting", &WaitingJson(&report.waiting))?;
        }
        map.serialize_entry(
            "threads",
            &list(
                THREAD_FIELDS,
                &report.threads,
                left_out(report, exact_only::THREAD),
            ),
        )?;
        if !report.processes.is_empty() {
            map.serialize_entry("processes", &list(PROCESS_FIELDS, &report.processes, &[]))?;
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
        Fields(RUNS_FIELDS, runs, &[]).write(&mut map)?;
        map.serialize_entry("runs", &list(ONE_RUN_FIELDS, &runs.runs, &[]))?;
        if !runs.members.is_empty() {
            let members = list(MEMBER_RUNS_FIELDS, &runs.members, &[]);
            map.serialize_entry("members", &members)?;
        }
        map.end()
    }
}

struct HandedJson<'a>(&'a HandedOver);

impl Serialize for HandedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields(HANDED_FIELDS, self.0, &[]).write(&mut map)?;
        for (key, rows) in [("objects", &self.0.objects), ("takers", &self.0.takers)] {
            map.serialize_entry(key, &list(HANDED_ROW_FIELDS, rows, &[]))?;
        }
        map.end()
    }
}

struct WaitingJson<'a>(&'a Waiting);

impl Serialize for WaitingJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields(WAITING_FIELDS, self.0, &[]).write(&mut map)?;
        map.serialize_entry("rows", &list(WAIT_ROW_FIELDS, &self.0.rows, &[]))?;
        map.end()
    }
}

struct TotalsByJson<'a>(&'a Report, &'a TotalsBy);

impl Serialize for TotalsByJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TotalsByJson(report, totals) = self;
        let left_out = left_out(report, exact_only::TOTAL_ROW);
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("by", totals.by.id())?;
        map.serialize_entry("rows", &list(TOTAL_ROW_FIELDS, &totals.rows, left_out))?;
        map.end()
    }
}

struct MachineJson<'a>(&'a MachineSummary);

impl Serialize for MachineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields(MACHINE_FIELDS, self.0, &[]).write(&mut map)?;
        let unnamed = list(UNNAMED_FIELDS, &self.0.unnamed, &[]);
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
        let left_out = match self.0.run.sampled {
            Some(_) => exact_only::TOTALS,
            None => sampled_only::TOTALS,
        };
        Fields(TOTALS_FIELDS, totals, left_out).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&totals.counts))?;
        map.end()
    }
}

struct LineJson<'a>(&'a Report, &'a LineReport);

impl Serialize for LineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LineJson(report, line) = self;
        let mut map = serializer.serialize_map(None)?;
        Fields(LINE_FIELDS, line, left_out(report, exact_only::LINE)).write(&mut map)?;
        map.serialize_entry("counts", &CountsJson(&line.counts))?;
        let fights = list(
            FIGHT_FIELDS,
            &line.fights,
            left_out(report, exact_only::FIGHT),
        );
        map.serialize_entry("fights", &fights)?;
        map.serialize_entry("objects", &list(OBJECT_FIELDS, &line.objects, &[]))?;
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
        Fields(ROW_FIELDS, row, left_out(report, exact_only::ROW)).write(&mut map)?;
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
        Fields(CALL_PATH_FIELDS, self.0, &[]).write(&mut map)?;
        let frames = list(CALL_FRAME_FIELDS, &self.0.frames, &[]);
        map.serialize_entry("frames", &frames)?;
        map.end()
    }
}

struct CountsJson<'a>(&'a AccessCounts);

impl Serialize for CountsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("loads", &Fields(SOURCE_FIELDS, &self.0.loads, &[]))?;
        map.serialize_entry("stores", &Fields(SOURCE_FIELDS, &self.0.stores, &[]))?;
        map.serialize_entry("locked", &Fields(SOURCE_FIELDS, &self.0.locked, &[]))?;
        map.end()
    }
}
