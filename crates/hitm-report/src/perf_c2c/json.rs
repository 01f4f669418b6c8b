//! The same tables as JSON: each column under its id.

use hitm_perf::c2c::Display;
use hitm_recording::perf_data::C2cReport;
use serde_json::{Map, Value, json};

use super::columns::{Head, line_columns, row_columns};
use super::totals::{EVENT_TOTALS, SHARED_TOTALS, Total, Value as TotalValue};
use super::{Cell, line_items, row_items};
use crate::object::pretty;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn json(report: &C2cReport) -> String {
    let tables = &report.tables;
    let sum = |total: &Total| {
        let value = match total.value {
            TotalValue::Count(count) => Value::from(count(tables)),
            TotalValue::OfLlcMisses(_) => Value::from(total.percent(tables).map(rounded)),
        };
        (total.id.to_owned(), value)
    };
    let lines = line_items(report).into_iter().map(|item| {
        let mut line = object(
            line_columns(tables.display)
                .iter()
                .map(|(head, cell)| (head, cell(&item))),
        );
        let rows = row_items(report, item.line).into_iter().map(|row| {
            let columns = row_columns(tables.display);
            Value::Object(object(
                columns.iter().map(|(head, cell)| (head, cell(&row))),
            ))
        });
        line.insert("rows".to_owned(), rows.collect());
        Value::Object(line)
    });
    let document = json!({
        "schema": SCHEMA,
        "events": report.events,
        "sorted_by": match tables.display {
            Display::TotalHitm => "hitm_count",
            Display::RemoteHitm => "remote_hitm_count",
            Display::LocalHitm => "local_hitm_count",
            Display::Peer => "peer_count",
        },
        "notes": report.notes,
        "totals": EVENT_TOTALS.iter().map(sum).collect::<Map<_, _>>(),
        "shared": SHARED_TOTALS.iter().map(sum).collect::<Map<_, _>>(),
        "lines": lines.collect::<Vec<_>>(),
    });
    pretty(&document)
}

fn object<'a>(cells: impl Iterator<Item = (&'a Head, Cell)>) -> Map<String, Value> {
    let named = cells.filter(|(head, _)| !head.id.is_empty());
    named
        .map(|(head, cell)| (head.id.to_owned(), value(cell)))
        .collect()
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Count(count) => count.into(),
        // As text: many readers of JSON keep 53 bits of a number only.
        Cell::Address(address) => format!("{address:#x}").into(),
        Cell::Percent(number) | Cell::Mean(number) => rounded(number).into(),
        Cell::Name(name) => name.into(),
        Cell::Numbers(numbers) | Cell::Nodes(numbers) => numbers.into(),
        Cell::Nothing => Value::Null,
    }
}

/// A millionth is more than a sample can say.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
