//! Columns of text that fit a given width.
//!
//! Names become printable before they are measured: what is escaped takes more room.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hitm_base::printable;

use super::name::{shorten_name, width_min};
use super::style::{Painter, Style};
use crate::Printout;
use crate::fields::{Field, Unit, Value};
pub(crate) use hitm_fields::Align;

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
    pub(crate) fn of_field<T>(field: &Field<T>) -> Column {
        let per_cent = if field.unit == Unit::Share { "%" } else { "" };
        Column::new(&format!("{}{per_cent}", field.title), field.align)
    }
}

/// Rows of cells, each perhaps with notes on lines of their own below.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<(Vec<String>, Vec<String>)>,
    /// Columns that a narrow screen leaves out, the first one first.
    leaves_out: Vec<usize>,
}

/// The narrowest that a column of names becomes when no column is left that could give way.
const NAME_WIDTH_MIN: usize = 10;
/// The narrowest that a column of words becomes while another column could give way: `lock with its data`.
const WORDS_WIDTH_MIN: usize = 18;

/// The columns of a table that there is room for.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// Their numbers, ascending.
    shown: Vec<usize>,
    /// Their widths.
    widths: Vec<usize>,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table {
            columns,
            rows: Vec::new(),
            leaves_out: Vec::new(),
        }
    }

    /// Leaves columns out when there is no room for all, the first one first.
    pub(crate) fn leave_out(&mut self, columns: impl IntoIterator<Item = usize>) {
        self.leaves_out = columns.into_iter().collect();
    }

    pub(crate) fn push(&mut self, cells: Vec<String>) {
        self.push_with_notes(cells, Vec::new());
    }

    pub(crate) fn push_with_notes(&mut self, mut cells: Vec<String>, notes: Vec<String>) {
        cells.iter_mut().for_each(make_printable);
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push((cells, notes));
    }

    /// Writes the table in at most `width` columns, unless the figures that it cannot leave out are wider.
    pub(crate) fn render(&self, out: &mut Printout, width: usize, painter: Painter) {
        let fit = self.fit(width);
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.clone()).collect();
        let mut push = |style, text: &str| out.spans(&[(painter.color(style), text)]);
        push(Style::Bold, &self.line(&titles, &fit));
        for (cells, notes) in &self.rows {
            push(Style::Plain, &self.line(cells, &fit));
            for note in notes {
                let indent = fit.widths[0] + 4;
                let note = shorten(note, width.saturating_sub(indent));
                push(Style::Dim, &format!("{}{note}", " ".repeat(indent)));
            }
        }
    }

    /// Names the columns that `width` has no room for, and the width that has; none when all are shown.
    pub(crate) fn left_out(&self, width: usize) -> Option<String> {
        let fit = self.fit(width);
        let left_out = (0..self.columns.len()).filter(|column| !fit.shown.contains(column));
        let titles: Vec<&str> = left_out
            .map(|column| &*self.columns[column].title)
            .collect();
        if titles.is_empty() {
            return None;
        }
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let needed = taken(&all, &self.widths_min(&self.widths_wanted()));
        Some(format!(
            "Not shown in {width} columns: {}. --width {needed} shows all.",
            titles.join(", ")
        ))
    }

    fn fit(&self, width: usize) -> Fit {
        let wanted = self.widths_wanted();
        let least = self.widths_min(&wanted);
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        for column in &self.leaves_out {
            if taken(&shown, &least) <= width {
                break;
            }
            shown.retain(|other| other != column);
        }
        let mut widths = wanted;
        self.narrow(&shown, &mut widths, |column| least[column], width);
        // No column is left that could give way.
        self.narrow(&shown, &mut widths, |_| NAME_WIDTH_MIN, width);
        let widths = shown.iter().map(|column| widths[*column]).collect();
        Fit { shown, widths }
    }

    fn widths_wanted(&self) -> Vec<usize> {
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
        widths
    }

    /// The widths at which names keep their last member.
    fn widths_min(&self, wanted: &[usize]) -> Vec<usize> {
        let mut least = wanted.to_vec();
        for (column, least) in least.iter_mut().enumerate() {
            let title = self.columns[column].title.chars().count();
            match self.columns[column].align {
                Align::Left | Align::Right => {}
                Align::Words => *least = (*least).min(WORDS_WIDTH_MIN.max(title)),
                Align::Name => {
                    let cells = self.rows.iter().map(|(cells, _)| width_min(&cells[column]));
                    *least = cells.max().unwrap_or(0).max(title);
                }
            }
        }
        least
    }

    /// Takes from the widest elastic column, of two from the second one, until the table fits or all are at their
    /// least.
    fn narrow(
        &self,
        shown: &[usize],
        widths: &mut [usize],
        least: impl Fn(usize) -> usize,
        width: usize,
    ) {
        for _ in width..taken(shown, widths) {
            let elastic = shown.iter().copied();
            let elastic = elastic.filter(|column| self.columns[*column].align.is_elastic());
            let elastic = elastic.filter(|column| widths[*column] > least(*column));
            match elastic.max_by_key(|column| widths[*column]) {
                Some(column) => widths[column] -= 1,
                None => return,
            }
        }
    }

    fn line(&self, cells: &[String], fit: &Fit) -> String {
        let mut line = String::from(" ");
        for (column, width) in fit.shown.iter().zip(&fit.widths) {
            let cell = &cells[*column];
            line.push(' ');
            match self.columns[*column].align {
                Align::Right => line.push_str(&format!("{cell:>width$}")),
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Name => line.push_str(&format!("{:<width$}", shorten_name(cell, *width))),
                Align::Words => line.push_str(&format!("{:<width$}", shorten(cell, *width))),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Columns of the screen that columns of a table take: two blanks before the first, one before each other one.
fn taken(shown: &[usize], widths: &[usize]) -> usize {
    shown
        .iter()
        .map(|column| widths[*column] + 1)
        .sum::<usize>()
        + 1
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

/// Quantities of an item behind their titles: `loads 12, stores 3`.
pub(crate) fn pairs<T>(item: &T, fields: &[Field<T>]) -> String {
    let texts = fields
        .iter()
        .map(|field| format!("{} {}", field.title, field.text(item)));
    texts.collect::<Vec<String>>().join(", ")
}

/// A table over the fields of one kind of record.
pub(crate) struct FieldTable<T: 'static> {
    fields: Vec<Field<T>>,
    pub(crate) table: Table,
}

/// A column of a table: a field, and when it gives way.
#[derive(Debug)]
pub(crate) struct Shows<T: 'static> {
    pub(crate) field: Field<T>,
    /// Its place among the columns that a narrow screen leaves out, the first one first; none if it stays.
    pub(crate) gives_way: Option<usize>,
}

impl<T> Clone for Shows<T> {
    fn clone(&self) -> Shows<T> {
        *self
    }
}

impl<T> Copy for Shows<T> {}

/// A column that stays, however narrow the screen is.
pub(crate) const fn stays<T>(field: Field<T>) -> Shows<T> {
    Shows {
        field,
        gives_way: None,
    }
}

/// A column that a narrow screen leaves out, those with smaller numbers first.
pub(crate) const fn gives_way<T>(place: usize, field: Field<T>) -> Shows<T> {
    Shows {
        field,
        gives_way: Some(place),
    }
}

impl<T> From<&Shows<T>> for Shows<T> {
    fn from(shows: &Shows<T>) -> Shows<T> {
        *shows
    }
}

impl<T> From<&Field<T>> for Shows<T> {
    fn from(field: &Field<T>) -> Shows<T> {
        stays(*field)
    }
}

/// A value that a cell shows in place of its item's own.
pub(crate) struct Shown<T> {
    field: Field<T>,
    value: Value,
}

impl<T> FieldTable<T> {
    /// The table of these columns, without rows.
    pub(crate) fn new<C: Into<Shows<T>>>(columns: impl IntoIterator<Item = C>) -> FieldTable<T> {
        let columns: Vec<Shows<T>> = columns.into_iter().map(C::into).collect();
        let fields: Vec<Field<T>> = columns.iter().map(|one| one.field).collect();
        let mut table = Table::new(fields.iter().map(Column::of_field).collect());
        let places = columns.iter().enumerate();
        let places = places.filter_map(|(column, one)| Some((one.gives_way?, column)));
        let places: BTreeMap<usize, usize> = places.collect();
        table.leave_out(places.into_values());
        FieldTable { fields, table }
    }

    pub(crate) fn cells(&self, item: &T) -> Vec<String> {
        self.cells_with(item, &[])
    }

    /// The cells of an item, some of which show something else.
    pub(crate) fn cells_with(&self, item: &T, others: &[Shown<T>]) -> Vec<String> {
        let cell = |field: &Field<T>| {
            let other = others.iter().find(|other| other.field.is(field));
            other.map_or_else(|| field.cell(item), Shown::cell)
        };
        self.fields.iter().map(cell).collect()
    }

    pub(crate) fn push(&mut self, item: &T) {
        self.table.push(self.cells(item));
    }

    /// Adds a row for several items, with nothing in the columns of other fields.
    pub(crate) fn push_folded(&mut self, shown: &[Shown<T>]) {
        let cell = |field: &Field<T>| {
            let shown = shown.iter().find(|one| one.field.is(field));
            shown.map(Shown::cell).unwrap_or_default()
        };
        let cells = self.fields.iter().map(cell).collect();
        self.table.push(cells);
    }
}

impl<T> Shown<T> {
    pub(crate) const fn new(field: Field<T>, value: Value) -> Shown<T> {
        Shown { field, value }
    }

    fn cell(&self) -> String {
        self.value.cell(self.field.unit)
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

    fn table() -> Table {
        let heads = [
            ("#", Align::Right),
            ("object", Align::Name),
            ("verdict", Align::Words),
            ("lost", Align::Right),
            ("nodes", Align::Right),
        ];
        let heads = heads.map(|(title, align)| Column::new(title, align));
        let mut table = Table::new(heads.into());
        table.leave_out([4, 3]);
        for object in ["rd.cpupri.pri_to_cpu[0].count", "x"] {
            let cells = [
                "1",
                object,
                "lock with its data, false sharing",
                "1.500M",
                "0-3",
            ];
            table.push(cells.map(String::from).into());
        }
        table
    }

    #[track_caller]
    fn check(width: usize, row: &str, left_out: Option<&str>) {
        let mut out = Printout::new();
        table().render(&mut out, width, Painter { color: false });
        assert_eq!(out.lines().nth(1), Some(row));
        let widest = out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{out}");
        assert_eq!(table().left_out(width).as_deref(), left_out);
    }

    #[test]
    fn names_give_way_then_columns_do() {
        let whole =
            "  1 rd.cpupri.pri_to_cpu[0].count lock with its data, false sharing 1.500M   0-3";
        check(80, whole, None);
        let short = "  1 ..pri_to_cpu[0].count lock with..e sharing 1.500M   0-3";
        check(59, short, None);
        let nodes = "  1 ..count lock wit.. sharing 1.500M";
        check(
            37,
            nodes,
            Some("Not shown in 37 columns: nodes. --width 43 shows all."),
        );
        let lost = "  1 ..count lock wit.. sharing";
        let told = "Not shown in 30 columns: lost, nodes. --width 43 shows all.";
        check(30, lost, Some(told));
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
