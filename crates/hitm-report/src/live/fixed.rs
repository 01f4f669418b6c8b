//! Parts that the verbs of `hitm live` have in common: tables whose columns have the same widths in every run, times of three
//! digits, and histograms as JSON.

use hitm_base::{grouped, printable};
use hitm_fields::{Align, Field, Unit, Value};

use crate::Printout;
use crate::object::{Node, Object};

/// Rows of tasks and of locks that are shown.
pub(super) const ROWS_MAX: usize = 20;

/// A column.
pub(super) struct Fixed<T: 'static> {
    field: Field<T>,
    width: usize,
}

impl<T> Fixed<T> {
    pub(super) const fn new(field: Field<T>, width: usize) -> Fixed<T> {
        Fixed { field, width }
    }
}

/// The titles of columns.
pub(super) fn head<T>(columns: &[Fixed<T>]) -> String {
    line(columns, |field| field.title.to_owned())
}

/// The quantities of an item.
pub(super) fn row<T>(columns: &[Fixed<T>], item: &T) -> String {
    line(columns, |field| match (field.unit, (field.value)(item)) {
        (Unit::Nanos, Value::Whole(ns)) => span(ns),
        (_, Value::Whole(number)) => number.to_string(),
        _ => printable(&field.text(item)).into_owned(),
    })
}

/// A line for each of the first items, and the number of the others.
pub(super) fn first_rows<T>(out: &mut Printout, items: &[T], line: impl Fn(&T) -> String) {
    let shown = items.iter().take(ROWS_MAX);
    shown.for_each(|item| out.line(&line(item)));
    if let Some(more @ 1..) = items.len().checked_sub(ROWS_MAX) {
        out.line(&format!("and {} more", grouped(more as u64)));
    }
}

fn line<T>(columns: &[Fixed<T>], cell: impl Fn(&Field<T>) -> String) -> String {
    let cells = columns.iter().map(|column| {
        let (cell, width) = (cell(&column.field), column.width);
        match column.field.align {
            Align::Right => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        }
    });
    cells.collect::<Vec<String>>().join(" ")
}

/// The start and the count of each slot of a histogram, as JSON.
pub(super) fn slots(rows: impl IntoIterator<Item = (u64, u64)>) -> Node {
    let rows = rows.into_iter();
    rows.map(|row| {
        Object::default()
            .with("from_ns", row.0)
            .with("count", row.1)
    })
    .collect()
}

/// Formats a duration with three digits and its unit: `4.20 s`, `812 us`.
pub(super) fn span(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| ns >= *size) else {
        return format!("{ns} ns");
    };
    let value = ns as f64 / size as f64;
    match value {
        0.0..9.995 => format!("{value:.2} {unit}"),
        9.995..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits() {
        let spans = [0, 999, 1000, 9_996, 99_960, 1_234_567, 61_000_000_000].map(span);
        let expected = [
            "0 ns", "999 ns", "1.00 us", "10.0 us", "100 us", "1.23 ms", "61.0 s",
        ];
        assert_eq!(spans, expected);
    }
}
