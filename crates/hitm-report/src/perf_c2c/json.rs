//! The same tables as JSON: each column under its id.

use hitm_perf::c2c::{Counts, Display};
use hitm_recording::perf_data::C2cReport;
use serde_json::{Map, Value, json};

use super::columns::{Column, Item, line_columns, row_columns};
use super::totals::{EVENT_TOTALS, SHARED_TOTALS, Total};
use super::{Cell, line_items, row_items};
use crate::object::pretty;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn json(report: &C2cReport) -> String {
    let tables = &report.tables;
    let sums = |totals: &[Total], of: &Counts| -> Map<String, Value> {
        let values = totals.iter().map(|total| {
            let count = total.count(tables, of).map(Value::from);
            let value = count.unwrap_or_else(|| total.percent(of).map(rounded).into());
            (total.id.to_owned(), value)
        });
        values.collect()
    };
    let lines = line_items(report).into_iter().map(|item| {
        let mut line = object(&line_columns(tables.display), &item);
        let rows = row_items(report, item.line).into_iter();
        let rows = rows.map(|row| Value::Object(object(&row_columns(tables.display), &row)));
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
        "totals": sums(EVENT_TOTALS, &tables.all),
        "shared": sums(SHARED_TOTALS, &tables.shared),
        "lines": lines.collect::<Vec<_>>(),
    });
    pretty(&document)
}

fn object<I: Item>(columns: &[Column<I>], item: &I) -> Map<String, Value> {
    let named = columns.iter().filter(|column| !column.head.id.is_empty());
    named
        .map(|column| (column.head.id.to_owned(), value(column.cell(item))))
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
