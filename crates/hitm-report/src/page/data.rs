//! The data of a page: tables of fields with their columns written once.
//!
//! A table is `{"fields": [{id, title, unit, description}], "rows": [[values]]}`; lists within the rows of
//! another table stand without their fields, which `fields` of the page has by name.

use std::borrow::Cow;

use hitm_base::printable;
use hitm_fields::{Field, of_run};
use serde_json::{Map, Value, json};

use super::SourcePart;
use crate::SourceLine;
use crate::fields::{
    cell, fight, filtered, finding, finding_place, frame, handed, handed_row, line, line_box,
    machine, object, quiet, row, run, seat, source, source_line, stack, summary, thread, time,
    total_row, totals, transfer, unknown, wait_row, waiting,
};
use crate::model::{Finding, LineReport, Report};
use crate::object::quantity;
use crate::pictures::{Level, LineMap, Pictures, Stacks, TransferTable};
use crate::runs::Runs;

/// Significant digits of a value of a plot: more than a picture shows.
const DIGITS: usize = 6;

/// Findings of a page, the costliest.
const FINDINGS_MAX: usize = 200;

/// Texts of a page as all may read them: none acts on whoever copies it to a terminal, none says where the home of
/// whoever recorded is.
pub(super) fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(homeless(&printable(&text)).into_owned()),
        Value::Array(values) => values.into_iter().map(shown).collect(),
        Value::Object(map) => {
            let entries = map.into_iter();
            let entries = entries.map(|(key, value)| (key, shown(value)));
            Value::Object(entries.collect())
        }
        other => other,
    }
}

/// Folder of the users' homes. In parts, as the next one: no source names a path of one machine.
const HOMES: &str = concat!("/", "home/");
/// Home of the administrator.
const ROOT: &str = concat!("/", "root/");

/// The text with `~/` for a user's home anywhere, and for that of the administrator where a path begins.
fn homeless(text: &str) -> Cow<'_, str> {
    if !text.contains(HOMES) && !text.contains(ROOT) {
        return text.into();
    }
    let is_part = |c: char| c.is_alphanumeric() || "._-~".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let of_user = rest.strip_prefix(HOMES);
        let of_user = of_user.and_then(|after| after.split_once('/'));
        let is_name = |name: &str| !name.is_empty() && !name.contains([' ', ':', '"', '\'']);
        if let Some((name, after)) = of_user
            && is_name(name)
        {
            (out, rest) = (out + "~/", after);
        } else if let Some(after) = rest.strip_prefix(ROOT)
            && !out.ends_with(is_part)
        {
            (out, rest) = (out + "~/", after);
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.into()
}

/// Makes data of one kind of run.
#[derive(Clone, Copy)]
struct Maker {
    is_sampled: bool,
}

impl Maker {
    /// Describes the columns of a table: id, title, unit, description.
    fn columns<T>(self, fields: &[Field<T>]) -> Value {
        let columns = of_run(fields, self.is_sampled).map(|field| {
            json!({
                "id": field.id,
                "title": field.title,
                "unit": field.unit.id(),
                "description": field.description(),
            })
        });
        columns.collect()
    }

    /// One row of a table.
    fn row<T>(self, fields: &[Field<T>], item: &T) -> Value {
        let values =
            of_run(fields, self.is_sampled).map(|field| quantity(field.unit, (field.value)(item)));
        values.collect()
    }

    fn rows<T>(self, fields: &[Field<T>], items: &[T]) -> Value {
        items.iter().map(|item| self.row(fields, item)).collect()
    }

    fn table<T>(self, fields: &[Field<T>], items: &[T]) -> Value {
        json!({ "fields": self.columns(fields), "rows": self.rows(fields, items) })
    }

    /// One item with its fields.
    fn item<T>(self, fields: &[Field<T>], one: &T) -> Value {
        self.table(fields, std::slice::from_ref(one))
    }
}

/// Makes data of what recordings and samples have alike, and of other things than runs.
const ANY: Maker = Maker { is_sampled: false };

pub(super) fn table<T>(fields: &[Field<T>], items: &[T]) -> Value {
    ANY.table(fields, items)
}

/// One item with its fields.
pub(super) fn item<T>(fields: &[Field<T>], one: &T) -> Value {
    ANY.item(fields, one)
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
    let is_sampled = report.is_sampled();
    let of = Maker { is_sampled };
    let counts = &report.totals.counts;
    let counts = [counts.loads, counts.stores, counts.locked];
    let mut data = json!({
        "run": of.item(run::ALL, &report.run),
        "totals": of.item(totals::ALL, &report.totals),
        "counts": table(source::ALL, &counts),
        "findings": findings(report, of),
        "lines": lines(report, of),
        "quiet": of.item(quiet::ALL, &report.quiet),
        "threads": of.table(thread::ALL, &report.threads),
        "diagnostics": notes(report),
        "is_sampled": is_sampled,
    });
    if !is_sampled {
        let handed = &report.handed;
        data["handed_over"] = item(handed::ALL, handed);
        data["handed_objects"] = table(handed_row::ALL, &handed.objects);
        data["handed_takers"] = table(handed_row::ALL, &handed.takers);
        data["waiting"] = item(waiting::ALL, &report.waiting);
        data["waits"] = table(wait_row::ALL, &report.waiting.rows);
    }
    if let Some(filtered) = &report.filtered {
        data["filtered"] = of.item(filtered::ALL, filtered);
    }
    if let Some(machine) = &report.of_machine {
        data["of_machine"] = item(machine::ALL, machine);
    }
    let totals_by = report.totals_by.iter().map(|totals| {
        let mut by = of.table(total_row::ALL, &totals.rows);
        by["by"] = json!(totals.by.id());
        by
    });
    data["totals_by"] = totals_by.collect();
    data
}

/// The findings, each with its kind in words, its places and the ranks of its lines.
fn findings(report: &Report, of: Maker) -> Value {
    let (told, left_out) = report
        .findings
        .split_at(report.findings.len().min(FINDINGS_MAX));
    let mut data = of.table(finding::ALL, told);
    data["place_fields"] = ANY.columns(finding_place::ALL);
    let ranks = report.ranks();
    let details = |finding: &Finding| {
        let lines = finding.lines.iter();
        let shown = lines.filter_map(|line| ranks.get(line));
        let [_, meaning, _] = finding.kind.help();
        json!({
            "meaning": meaning,
            "places": ANY.rows(finding_place::ALL, &finding.places),
            "ranks": shown.collect::<Vec<_>>(),
        })
    };
    data["details"] = told.iter().map(details).collect();
    data["left_out_count"] = json!(left_out.len());
    data
}

/// The lines, each with its fights, objects and rows; their fields stand beside them.
fn lines(report: &Report, of: Maker) -> Value {
    let mut data = of.table(line::ALL, &report.lines);
    data["fight_fields"] = of.columns(fight::ALL);
    data["object_fields"] = ANY.columns(object::ALL);
    data["row_fields"] = of.columns(row::ALL);
    let details = |line: &LineReport| {
        json!({
            "fights": of.rows(fight::ALL, &line.fights),
            "objects": ANY.rows(object::ALL, &line.objects),
            "rows": of.rows(row::ALL, &line.rows),
        })
    };
    data["details"] = report.lines.iter().map(details).collect();
    data
}

/// The source lines that lose most, with the texts around them; null where a text cannot be read.
pub(super) fn sources(report: &Report, parts: &[SourcePart]) -> Value {
    let of = Maker {
        is_sampled: report.is_sampled(),
    };
    let lines: Vec<SourceLine> = parts.iter().map(|part| part.line.clone()).collect();
    let texts = parts.iter().map(|part| {
        let text = part.text.as_ref();
        text.map(|text| json!({ "first": text.first, "lines": text.lines }))
    });
    let mut data = of.table(source_line::ALL, &lines);
    data["texts"] = json!(texts.collect::<Vec<_>>());
    data
}

/// The data of the pictures.
pub(super) fn pictures(pictures: &Pictures) -> Value {
    let maps = pictures.maps.iter().map(|map: &LineMap| {
        json!({
            "boxes": ANY.rows(line_box::ALL, &map.boxes),
            "seats": ANY.rows(seat::ALL, &map.seats),
            "cells": ANY.rows(cell::ALL, &map.cells),
        })
    });
    let mut data = json!({
        "summary": table(summary::ALL, &pictures.summary),
        "topology": topology(pictures),
        "box_fields": ANY.columns(line_box::ALL),
        "seat_fields": ANY.columns(seat::ALL),
        "cell_fields": ANY.columns(cell::ALL),
        "maps": maps.collect::<Vec<_>>(),
        "stacks": stacks(&pictures.stacks),
    });
    if let Some(run) = &pictures.run_transfers {
        let lines = pictures.line_transfers.iter().map(transfers);
        data["transfers"] = json!({
            "fields": ANY.columns(transfer::ALL),
            "unknown_fields": ANY.columns(unknown::ALL),
            "run": transfers(run),
            "lines": lines.collect::<Vec<_>>(),
        });
    }
    data
}

fn transfers(table: &TransferTable) -> Value {
    json!({
        "level": table.level.id(),
        "rows": ANY.rows(transfer::ALL, &table.pairs),
        "unknown": ANY.row(unknown::ALL, &table.unknown),
    })
}

/// Numbers of the parts that hold each CPU, by level.
fn topology(pictures: &Pictures) -> Value {
    let topology = &pictures.topology;
    let levels = Level::ALL.iter().map(|level| {
        let parts = topology.cpus().map(|cpu| level.of(topology, cpu));
        (level.id().to_owned(), parts.collect())
    });
    Value::Object(levels.collect::<Map<String, Value>>())
}

fn stacks(stacks: &Stacks) -> Value {
    let mut data = table(stack::ALL, &stacks.stacks);
    data["frame_fields"] = ANY.columns(frame::ALL);
    data["frames"] = ANY.rows(frame::ALL, &stacks.frames);
    if let Some(bucket) = stacks.bucket_cycles {
        let times = stacks.stacks.iter();
        let times = times.map(|stack| ANY.rows(time::ALL, &stack.times));
        data["time_fields"] = ANY.columns(time::ALL);
        data["times"] = times.collect();
        data["bucket_cycles"] = json!(bucket);
        data["bucket_count"] = json!(stacks.bucket_count);
    }
    data
}
