//! The data of a page: tables of fields with their columns written once.
//!
//! A table is `{"fields": [{id, title, unit, description}], "rows": [[values]]}`; lists within the rows of
//! another table stand without their fields, which `fields` of the page has by name.

use hitm_base::printable;
use serde_json::{Map, Value, json};

use crate::fields::{
    BOX_FIELDS, CELL_FIELDS, FIGHT_FIELDS, FILTERED_FIELDS, FRAME_FIELDS, Field, HANDED_FIELDS,
    HANDED_ROW_FIELDS, LINE_FIELDS, MACHINE_FIELDS, OBJECT_FIELDS, QUIET_FIELDS, ROW_FIELDS,
    RUN_FIELDS, SEAT_FIELDS, SOURCE_FIELDS, STACK_FIELDS, SUMMARY_FIELDS, THREAD_FIELDS,
    TIME_FIELDS, TOTAL_ROW_FIELDS, TOTALS_FIELDS, TRANSFER_FIELDS, UNKNOWN_FIELDS, WAIT_ROW_FIELDS,
    WAITING_FIELDS, exact_only, sampled_only,
};
use crate::json::{LeftOut, ValueJson};
use crate::model::{LineReport, Report};
use crate::pictures::{Level, LineMap, Pictures, Stacks, TransferTable};
use crate::runs::Runs;

/// Significant digits of a value of a plot: more than a picture shows.
const DIGITS: usize = 6;

/// Makes all texts of a value printable: none acts on whoever copies it to a terminal.
pub(super) fn printable_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(printable_value).collect(),
        Value::Object(map) => {
            let entries = map.into_iter();
            let entries = entries.map(|(key, value)| (key, printable_value(value)));
            Value::Object(entries.collect())
        }
        other => other,
    }
}

/// Describes the columns of a table: id, title, unit, description.
fn columns<T>(fields: &'static [Field<T>], left_out: LeftOut) -> Value {
    let fields = fields.iter().filter(|field| !left_out.contains(&field.id));
    let columns = fields.map(|field| {
        json!({
            "id": field.id,
            "title": field.title,
            "unit": field.unit.id(),
            "description": field.description,
        })
    });
    columns.collect()
}

/// One row of a table.
fn row<T>(fields: &'static [Field<T>], item: &T, left_out: LeftOut) -> Value {
    let fields = fields.iter().filter(|field| !left_out.contains(&field.id));
    let values = fields.map(|field| {
        let value = ValueJson(field.unit, (field.value)(item));
        let value = serde_json::to_value(value).expect("a value is a string, a number or a list");
        printable_value(value)
    });
    values.collect()
}

fn rows<T>(fields: &'static [Field<T>], items: &[T], left_out: LeftOut) -> Value {
    let items = items.iter();
    items.map(|item| row(fields, item, left_out)).collect()
}

pub(super) fn table<T>(fields: &'static [Field<T>], items: &[T], left_out: LeftOut) -> Value {
    json!({ "fields": columns(fields, left_out), "rows": rows(fields, items, left_out) })
}

/// One item with its fields.
pub(super) fn item<T>(fields: &'static [Field<T>], one: &T, left_out: LeftOut) -> Value {
    json!({ "fields": columns(fields, left_out), "rows": [row(fields, one, left_out)] })
}

/// Values of a metric by point.
pub(super) fn rounded(points: &[Vec<f64>]) -> Value {
    let round = |number: &f64| -> f64 {
        let text = format!("{number:.*e}", DIGITS - 1);
        text.parse().expect("a number in scientific notation")
    };
    let points = points.iter();
    let points = points.map(|values| values.iter().map(round).collect::<Vec<f64>>());
    json!(points.collect::<Vec<_>>())
}

/// Notes on the runs that the report is of, and all diagnostics.
fn notes(report: &Report) -> Vec<String> {
    let runs = report.runs.iter().map(Runs::shown_text);
    runs.chain(report.diagnostics.iter().cloned()).collect()
}

/// A report's tables.
pub(super) fn report(report: &Report) -> Value {
    let is_sampled = report.run.sampled.is_some();
    let exact = |left_out: LeftOut| if is_sampled { left_out } else { &[] };
    let totals_left_out = match is_sampled {
        true => exact_only::TOTALS,
        false => sampled_only::TOTALS,
    };
    let counts = &report.totals.counts;
    let counts = [counts.loads, counts.stores, counts.locked];
    let mut data = json!({
        "run": item(RUN_FIELDS, &report.run, exact(exact_only::RUN)),
        "totals": item(TOTALS_FIELDS, &report.totals, totals_left_out),
        "counts": table(SOURCE_FIELDS, &counts, &[]),
        "lines": lines(report, is_sampled),
        "quiet": item(QUIET_FIELDS, &report.quiet, exact(exact_only::QUIET)),
        "threads": table(THREAD_FIELDS, &report.threads, exact(exact_only::THREAD)),
        "diagnostics": printable_value(json!(notes(report))),
        "is_sampled": is_sampled,
    });
    if !is_sampled {
        let handed = &report.handed;
        data["handed_over"] = item(HANDED_FIELDS, handed, &[]);
        data["handed_objects"] = table(HANDED_ROW_FIELDS, &handed.objects, &[]);
        data["handed_takers"] = table(HANDED_ROW_FIELDS, &handed.takers, &[]);
        data["waiting"] = item(WAITING_FIELDS, &report.waiting, &[]);
        data["waits"] = table(WAIT_ROW_FIELDS, &report.waiting.rows, &[]);
    }
    if let Some(filtered) = &report.filtered {
        data["filtered"] = item(FILTERED_FIELDS, filtered, exact(exact_only::FILTERED));
    }
    if let Some(machine) = &report.of_machine {
        data["of_machine"] = item(MACHINE_FIELDS, machine, &[]);
    }
    let totals_by = report.totals_by.iter().map(|totals| {
        let mut by = table(TOTAL_ROW_FIELDS, &totals.rows, exact(exact_only::TOTAL_ROW));
        by["by"] = json!(totals.by.id());
        by
    });
    data["totals_by"] = totals_by.collect();
    data
}

/// The lines, each with its fights, objects and rows; their fields stand beside them.
fn lines(report: &Report, is_sampled: bool) -> Value {
    let exact = |left_out: LeftOut| if is_sampled { left_out } else { &[] };
    let mut data = table(LINE_FIELDS, &report.lines, exact(exact_only::LINE));
    data["fight_fields"] = columns(FIGHT_FIELDS, exact(exact_only::FIGHT));
    data["object_fields"] = columns(OBJECT_FIELDS, &[]);
    data["row_fields"] = columns(ROW_FIELDS, exact(exact_only::ROW));
    let details = |line: &LineReport| {
        json!({
            "fights": rows(FIGHT_FIELDS, &line.fights, exact(exact_only::FIGHT)),
            "objects": rows(OBJECT_FIELDS, &line.objects, &[]),
            "rows": rows(ROW_FIELDS, &line.rows, exact(exact_only::ROW)),
        })
    };
    data["details"] = report.lines.iter().map(details).collect();
    data
}

/// The data of the pictures.
pub(super) fn pictures(pictures: &Pictures) -> Value {
    let maps = pictures.maps.iter().map(|map: &LineMap| {
        json!({
            "boxes": rows(BOX_FIELDS, &map.boxes, &[]),
            "seats": rows(SEAT_FIELDS, &map.seats, &[]),
            "cells": rows(CELL_FIELDS, &map.cells, &[]),
        })
    });
    let mut data = json!({
        "summary": table(SUMMARY_FIELDS, &pictures.summary, &[]),
        "topology": topology(pictures),
        "box_fields": columns(BOX_FIELDS, &[]),
        "seat_fields": columns(SEAT_FIELDS, &[]),
        "cell_fields": columns(CELL_FIELDS, &[]),
        "maps": maps.collect::<Vec<_>>(),
        "stacks": stacks(&pictures.stacks),
    });
    if let Some(run) = &pictures.run_transfers {
        let lines = pictures.line_transfers.iter().map(transfers);
        data["transfers"] = json!({
            "fields": columns(TRANSFER_FIELDS, &[]),
            "unknown_fields": columns(UNKNOWN_FIELDS, &[]),
            "run": transfers(run),
            "lines": lines.collect::<Vec<_>>(),
        });
    }
    data
}

fn transfers(table: &TransferTable) -> Value {
    json!({
        "level": table.level.id(),
        "rows": rows(TRANSFER_FIELDS, &table.pairs, &[]),
        "unknown": row(UNKNOWN_FIELDS, &table.unknown, &[]),
    })
}

/// Numbers of the parts that hold each CPU, by level.
fn topology(pictures: &Pictures) -> Value {
    let topology = &pictures.topology;
    let levels = Level::ALL.into_iter().map(|level| {
        let parts = topology.cpus().map(|cpu| level.of(topology, cpu));
        (level.id().to_owned(), parts.collect())
    });
    Value::Object(levels.collect::<Map<String, Value>>())
}

fn stacks(stacks: &Stacks) -> Value {
    let mut data = table(STACK_FIELDS, &stacks.stacks, &[]);
    data["frame_fields"] = columns(FRAME_FIELDS, &[]);
    data["frames"] = rows(FRAME_FIELDS, &stacks.frames, &[]);
    if let Some(bucket) = stacks.bucket_cycles {
        let times = stacks.stacks.iter();
        let times = times.map(|stack| rows(TIME_FIELDS, &stack.times, &[]));
        data["time_fields"] = columns(TIME_FIELDS, &[]);
        data["times"] = times.collect();
        data["bucket_cycles"] = json!(bucket);
        data["bucket_count"] = json!(stacks.bucket_count);
    }
    data
}
