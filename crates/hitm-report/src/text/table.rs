//! Columns of text that fit a given width.
//!
//! Names become printable before they are measured: what is escaped takes more room.

use std::borrow::Cow;

use hitm_base::{Printout, printable};

use super::style::{Painter, Style};
use crate::fields::{Field, Unit, Value, by_id};

/// How a column's cells are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
    /// To the left, and shortened in the middle when the table is too wide.
    Name,
}

/// A column's head.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    title: String,
    align: Align,
}

impl Column {
    pub(crate) fn new(title: &str, align: Align) -> Column {
        Column {
            title: printable(title).into_owned(),
            align,
        }
    }

    /// The head of a column with a field.
    pub(crate) fn of_field<T>(field: &Field<T>, align: Align) -> Column {
        let per_cent = if field.unit == Unit::Share { "%" } else { "" };
        Column::new(&format!("{}{per_cent}", field.title), align)
    }
}

/// Rows of cells, each perhaps with notes on lines of their own below.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<(Vec<String>, Vec<String>)>,
}

/// The narrowest that a column of names becomes.
const NAME_WIDTH_MIN: usize = 10;

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        self.push_with_notes(cells, Vec::new());
    }

    pub(crate) fn push_with_notes(&mut self, mut cells: Vec<String>, notes: Vec<String>) {
        cells.iter_mut().for_each(make_printable);
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push((cells, notes));
    }

    /// Writes the table in at most `width` columns, unless its numbers alone are wider.
    pub(crate) fn render(&self, out: &mut Printout, width: usize, painter: Painter) {
        let widths = self.widths(width);
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        let mut push = |style, text: &str| out.spans(&[(painter.color(style), text)]);
        push(Style::Bold, &self.line(&titles, &widths));
        for (cells, notes) in &self.rows {
            push(Style::Plain, &self.line(cells, &widths));
            for note in notes {
                let indent = widths[0] + 4;
                let note = shorten(note, width.saturating_sub(indent));
                push(Style::Dim, &format!("{}{note}", " ".repeat(indent)));
            }
        }
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|c| c.title.chars().count())
            .collect();
        for (cells, _) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        // Two blanks before the first column, one before each other one.
        let taken = widths.iter().sum::<usize>() + widths.len() + 1;
        let mut excess = taken.saturating_sub(width);
        while excess > 0 {
            let names = widths.iter_mut().zip(&self.columns);
            let names = names.filter(|(_, column)| column.align == Align::Name);
            // The widest gives way first; of two, the second one.
            match names.map(|(width, _)| width).max_by_key(|width| **width) {
                Some(width) if *width > NAME_WIDTH_MIN => *width -= 1,
                _ => break,
            }
            excess -= 1;
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::from(" ");
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            line.push(' ');
            match column.align {
                Align::Right => line.push_str(&format!("{cell:>width$}")),
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Name => line.push_str(&format!("{:<width$}", shorten(cell, *width))),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn make_printable(cell: &mut String) {
    if let Cow::Owned(escaped) = printable(cell) {
        *cell = escaped;
    }
}

/// `text`, printable, in at most `width` characters: its middle gives way to `..`.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    let text = printable(text);
    let count = text.chars().count();
    if count <= width {
        return text.into_owned();
    }
    let kept = width.saturating_sub(2);
    let head = kept.div_ceil(2);
    let tail = kept - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}..{end}")
}

/// `text`, printable, in lines of at most `width` characters, broken at blanks; a longer word stays
/// whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = printable(text);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is always a line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines
}

/// A table over the fields of one kind of record.
pub(crate) struct FieldTable<T: 'static> {
    fields: Vec<&'static Field<T>>,
    pub(crate) table: Table,
}

impl<T> FieldTable<T> {
    pub(crate) fn new(fields: &'static [Field<T>], columns: &[(&str, Align)]) -> FieldTable<T> {
        let picked: Vec<_> = columns.iter().map(|(id, _)| by_id(fields, id)).collect();
        let heads = picked.iter().zip(columns);
        let heads = heads.map(|(field, (_, align))| Column::of_field(field, *align));
        FieldTable {
            table: Table::new(heads.collect()),
            fields: picked,
        }
    }

    pub(crate) fn cells(&self, item: &T) -> Vec<String> {
        self.fields.iter().map(|field| field.cell(item)).collect()
    }

    pub(crate) fn push(&mut self, item: &T) {
        self.table.push(self.cells(item));
    }

    /// Adds a row for several items: `name` in the column of that id, figures in theirs, and nothing
    /// elsewhere.
    pub(crate) fn push_folded(&mut self, name: (&str, String), figures: &[(&str, Value)]) {
        let cell = |field: &&'static Field<T>| {
            if field.id == name.0 {
                return name.1.clone();
            }
            let figure = figures.iter().find(|(id, _)| *id == field.id);
            figure
                .and_then(|(_, value)| field.short(value))
                .unwrap_or_default()
        };
        let cells = self.fields.iter().map(cell).collect();
        self.table.push(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_name_gives_way() {
        assert_eq!(
            shorten("dequeue_pushable_task", 21),
            "dequeue_pushable_task"
        );
        assert_eq!(shorten("dequeue_pushable_task", 12), "deque.._task");
        assert_eq!(shorten("größenänderung", 8), "grö..ung");
        assert_eq!(shorten("abc", 0), "..");
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("incomprehensible it is", 5),
            ["incomprehensible", "it is"]
        );
        assert_eq!(wrap("", 5), [""]);
    }
}
