//! Every table of a report with its columns, for CSV and Parquet.
//!
//! Columns are the fields of [`fields`](crate::fields). A table of parts begins with a column that says of
//! what: the rank of the line, the kind of name, the operation.

mod fleet;
mod parquet;

use std::borrow::Cow;
use std::slice::from_ref;

pub use fleet::{FleetLook, FleetRow, fleet, fleet_row};
pub use hitm_fields::Column;
use hitm_fields::{Field, Unit, Value, of_run};

use crate::fields::{
    call_frame, call_path, fight, handed, handed_row, line, machine, object, quiet, row, run,
    source, thread, total_row, totals, unnamed, wait_row, waiting,
};
use crate::model::{AccessCounts, LineReport, Report};

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its name, that of its file.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a value for each column.
    pub rows: Vec<Vec<Value>>,
    /// True if it is of samples.
    is_sampled: bool,
    /// Values of the type of each column, where it does not hang on the rows.
    full: Vec<Value>,
}

/// A column that says of what a part is.
const fn key(id: &'static str, description: &'static str) -> Column {
    Column {
        id,
        title: "",
        unit: Unit::None,
        description,
    }
}

const LINE_RANK: Column = key("line_rank", "Rank of the line in the table of lines");
const ROW_INDEX: Column = key(
    "row_index",
    "Place of the row among those of its line, 0 for the first one",
);
const PATH_INDEX: Column = key(
    "path_index",
    "Place of the path among those of its row, 0 for the hottest one",
);
const BY: Column = key("by", "Kind of name that the row adds up");
const OP: Column = key("op", "Plain loads, plain stores or locked operations");
const LIST: Column = key("list", "`objects` or `takers`");

impl Table {
    /// A table with its columns: `keys`, then the fields that the run has.
    fn new<T>(
        name: &'static str,
        is_sampled: bool,
        keys: &[Column],
        fields: &'static [Field<T>],
    ) -> Table {
        let own = of_run(fields, is_sampled).map(Field::column);
        Table {
            name,
            columns: keys.iter().copied().chain(own).collect(),
            rows: Vec::new(),
            is_sampled,
            full: Vec::new(),
        }
    }

    /// Adds a row for each item: the values of the keys, then the fields.
    fn add<T>(&mut self, keys: &[Value], fields: &'static [Field<T>], items: &[T]) {
        self.rows.extend(items.iter().map(|item| {
            let own = of_run(fields, self.is_sampled).map(|field| (field.value)(item));
            keys.iter().cloned().chain(own).collect()
        }));
    }

    /// The table as CSV by RFC 4180, with line feeds; the first row has the names of the columns. Addresses are
    /// hexadecimal, lists have `; ` between their items, and what is missing is empty. No name is a formula.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        let mut row = |cells: &mut dyn Iterator<Item = Cow<'_, str>>| {
            for (index, cell) in cells.enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&cell);
            }
            text.push('\n');
        };
        row(&mut self.columns.iter().map(|column| column.id.into()));
        for values in &self.rows {
            let cells = self.columns.iter().zip(values);
            row(&mut cells.map(|(column, value)| field(column.unit, value)));
        }
        text
    }
}

/// A value as programs read it.
pub(crate) fn plain(unit: Unit, value: &Value) -> Cow<'_, str> {
    match value {
        Value::Missing => "".into(),
        Value::Flag(flag) => if *flag { "true" } else { "false" }.into(),
        Value::Whole(address) if unit == Unit::Address => format!("{address:#x}").into(),
        Value::Whole(number) => number.to_string().into(),
        // As many decimals as JSON has.
        Value::Number(number) => {
            let text = format!("{number:.6}");
            let short = text.trim_end_matches('0').trim_end_matches('.');
            short.to_owned().into()
        }
        Value::Text(text) => text.into(),
        Value::Texts(texts) => texts.join("; ").into(),
        Value::Wholes(numbers) => {
            let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
            texts.join("; ").into()
        }
    }
}

/// A value as a field of CSV.
fn field(unit: Unit, value: &Value) -> Cow<'_, str> {
    match (value, plain(unit, value)) {
        (Value::Text(_) | Value::Texts(_), Cow::Borrowed(name)) => name_field(name),
        (Value::Text(_) | Value::Texts(_), Cow::Owned(names)) => {
            Cow::Owned(name_field(&names).into_owned())
        }
        (_, number) => number,
    }
}

/// A name as a field of CSV: in quotes where it has what ends a field or a row. A spreadsheet would
/// compute one that begins like a formula, so an apostrophe marks it as text.
pub(crate) fn name_field(name: &str) -> Cow<'_, str> {
    let name: Cow<'_, str> = match name.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        true => format!("'{name}").into(),
        false => name.into(),
    };
    match name.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))),
        false => name,
    }
}

impl Report {
    /// Every table of the report. One without rows has its columns all the same.
    pub fn tables(&self) -> Vec<Table> {
        let mut counts = self.new_table("counts", &[OP], source::ALL);
        add_counts(&mut counts, &[], &self.totals.counts);
        let mut tables = vec![
            self.table("run", run::ALL, from_ref(&self.run)),
            self.table("totals", totals::ALL, from_ref(&self.totals)),
            counts,
            self.table_of_totals(),
            self.table("lines", line::ALL, &self.lines),
        ];
        tables.extend(self.parts_of_lines());
        tables.push(self.table("quiet", quiet::ALL, &[self.quiet]));
        if !self.is_sampled() {
            let handed = self.table("handed_over", handed::ALL, from_ref(&self.handed));
            tables.extend([handed, self.handed_over_by()]);
            tables.push(self.table("waiting", waiting::ALL, from_ref(&self.waiting)));
            tables.push(self.table("waits", wait_row::ALL, &self.waiting.rows));
        }
        tables.push(self.table("threads", thread::ALL, &self.threads));
        if let Some(machine) = &self.of_machine {
            tables.push(self.table("of_machine", machine::ALL, from_ref(machine)));
            tables.push(self.table("unnamed", unnamed::ALL, &machine.unnamed));
        }
        tables
    }

    /// A table of these items.
    fn table<T>(&self, name: &'static str, fields: &'static [Field<T>], items: &[T]) -> Table {
        let mut table = self.new_table(name, &[], fields);
        table.add(&[], fields, items);
        table
    }

    fn new_table<T>(
        &self,
        name: &'static str,
        keys: &[Column],
        fields: &'static [Field<T>],
    ) -> Table {
        Table::new(name, self.is_sampled(), keys, fields)
    }

    fn table_of_totals(&self) -> Table {
        let mut table = self.new_table("totals_by", &[BY], total_row::ALL);
        for totals in &self.totals_by {
            let key = [Value::Text(totals.by.id().to_owned())];
            table.add(&key, total_row::ALL, &totals.rows);
        }
        table
    }

    fn handed_over_by(&self) -> Table {
        let mut table = self.new_table("handed_over_by", &[LIST], handed_row::ALL);
        for (list, rows) in [
            ("objects", &self.handed.objects),
            ("takers", &self.handed.takers),
        ] {
            let key = [Value::Text(list.to_owned())];
            table.add(&key, handed_row::ALL, rows);
        }
        table
    }

    fn parts_of_lines(&self) -> Vec<Table> {
        let key = &[LINE_RANK];
        let mut by_source = self.new_table("line_counts", &[LINE_RANK, OP], source::ALL);
        let mut fights = self.new_table("fights", key, fight::ALL);
        let mut objects = self.new_table("objects", key, object::ALL);
        let mut rows = self.new_table("rows", key, row::ALL);
        let mut paths = self.new_table("call_paths", &[LINE_RANK, ROW_INDEX], call_path::ALL);
        let of_path = &[LINE_RANK, ROW_INDEX, PATH_INDEX];
        let mut frames = self.new_table("frames", of_path, call_frame::ALL);
        for line in &self.lines {
            let rank = &[Value::Whole(line.rank)];
            add_counts(&mut by_source, rank, &line.counts);
            fights.add(rank, fight::ALL, &line.fights);
            objects.add(rank, object::ALL, &line.objects);
            rows.add(rank, row::ALL, &line.rows);
            if self.has_call_chains {
                call_paths(line, &mut paths, &mut frames);
            }
        }
        let mut tables = vec![by_source, fights, objects, rows];
        if self.has_call_chains {
            tables.extend([paths, frames]);
        }
        tables
    }
}

/// Adds accesses by operation and source.
fn add_counts(table: &mut Table, keys: &[Value], counts: &AccessCounts) {
    for (op, counts) in [
        ("loads", counts.loads),
        ("stores", counts.stores),
        ("locked", counts.locked),
    ] {
        let keys = [keys, &[Value::Text(op.to_owned())]].concat();
        table.add(&keys, source::ALL, &[counts]);
    }
}

fn call_paths(line: &LineReport, paths: &mut Table, frames: &mut Table) {
    for (row, row_index) in line.rows.iter().zip(0..) {
        let key = [Value::Whole(line.rank), Value::Whole(row_index)];
        paths.add(&key, call_path::ALL, &row.call_paths);
        for (path, path_index) in row.call_paths.iter().zip(0..) {
            let [rank, row_index] = key.clone();
            let key = [rank, row_index, Value::Whole(path_index)];
            frames.add(&key, call_frame::ALL, &path.frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_programs() {
        let of = |unit, value: Value| plain(unit, &value).into_owned();
        assert_eq!(of(Unit::Address, Value::Whole(0x4040c0)), "0x4040c0");
        assert_eq!(of(Unit::Cycles, Value::Whole(1_234_567)), "1234567");
        assert_eq!(of(Unit::Share, Value::Number(0.125)), "0.125");
        assert_eq!(of(Unit::Share, Value::Number(100.0)), "100");
        assert_eq!(of(Unit::Share, Value::Number(1.0 / 3.0)), "0.333333");
        assert_eq!(of(Unit::None, Value::Wholes(vec![0, 3])), "0; 3");
        assert_eq!(of(Unit::None, Value::Missing), "");
        assert_eq!(of(Unit::None, Value::Flag(true)), "true");
    }

    #[test]
    fn a_cell_stays_in_its_row() {
        let column = |id| key(id, "");
        let text = |text: &str| Value::Text(text.to_owned());
        let table = Table {
            name: "t",
            columns: vec![column("a"), column("b")],
            rows: vec![vec![text("x,\"y\"\nz"), text("1")]],
            is_sampled: false,
            full: Vec::new(),
        };
        assert_eq!(table.csv(), "a,b\n\"x,\"\"y\"\"\nz\",1\n");
    }

    #[test]
    fn no_name_is_a_formula() {
        let of = |value: Value| field(Unit::None, &value).into_owned();
        let text = |text: &str| of(Value::Text(text.to_owned()));
        for start in ["=", "+", "-", "@", "\t"] {
            let name = format!("{start}cmd|' /C calc'!A0");
            assert_eq!(text(&name), format!("'{name}"));
            let names = Value::Texts(vec![name.clone(), name.clone()]);
            assert_eq!(of(names), format!("'{name}; {name}"));
        }
        assert_eq!(text("\r=1"), "\"'\r=1\"");
        assert_eq!(text("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
        assert_eq!(text("a=1"), "a=1");
        assert_eq!(of(Value::Number(-1.5)), "-1.5");
        assert_eq!(of(Value::Whole(1)), "1");
    }
}
