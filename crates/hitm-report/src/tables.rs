//! Every table of a report with its columns, for CSV and Parquet.
//!
//! Columns are the fields of [`fields`](crate::fields). A table of parts begins with a column that says of
//! what: the rank of the line, the kind of name, the operation.

mod parquet;

use std::borrow::Cow;

use crate::fields::{
    CALL_FRAME_FIELDS, CALL_PATH_FIELDS, FIGHT_FIELDS, Field, HANDED_FIELDS, HANDED_ROW_FIELDS,
    LINE_FIELDS, MACHINE_FIELDS, OBJECT_FIELDS, QUIET_FIELDS, ROW_FIELDS, RUN_FIELDS,
    SOURCE_FIELDS, THREAD_FIELDS, TOTAL_ROW_FIELDS, TOTALS_FIELDS, UNNAMED_FIELDS, Unit, Value,
    WAIT_ROW_FIELDS, WAITING_FIELDS, exact_only, sampled_only,
};
use crate::json::LeftOut;
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
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub id: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// One sentence about it, without a full stop.
    pub description: &'static str,
}

/// Rank of the line in tables of its parts.
const LINE_RANK: Column = Column {
    id: "line_rank",
    unit: Unit::None,
    description: "Rank of the line in the table of lines",
};

const ROW_INDEX: Column = Column {
    id: "row_index",
    unit: Unit::None,
    description: "Place of the row among those of its line, 0 for the first one",
};

const PATH_INDEX: Column = Column {
    id: "path_index",
    unit: Unit::None,
    description: "Place of the path among those of its row, 0 for the hottest one",
};

const BY: Column = Column {
    id: "by",
    unit: Unit::None,
    description: "Kind of name that the row adds up",
};

const OP: Column = Column {
    id: "op",
    unit: Unit::None,
    description: "Plain loads, plain stores or locked operations",
};

const LIST: Column = Column {
    id: "list",
    unit: Unit::None,
    description: "`objects` or `takers`",
};

impl Table {
    fn new(name: &'static str) -> Table {
        Table {
            name,
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Gives the table its columns: `keys`, then the fields.
    fn begin<T>(&mut self, keys: &[Column], (fields, left_out): (&'static [Field<T>], LeftOut)) {
        let own = fields.iter().filter(|field| !left_out.contains(&field.id));
        let own = own.map(|field| Column {
            id: field.id,
            unit: field.unit,
            description: field.description,
        });
        self.columns = keys.iter().copied().chain(own).collect();
    }

    /// Adds a row for each item: the values of the keys, then the fields.
    fn add<T>(
        &mut self,
        keys: &[Value],
        (fields, left_out): (&'static [Field<T>], LeftOut),
        items: &[T],
    ) {
        self.rows.extend(items.iter().map(|item| {
            let own = fields.iter().filter(|field| !left_out.contains(&field.id));
            let own = own.map(|field| (field.value)(item));
            keys.iter().cloned().chain(own).collect()
        }));
    }

    fn of<T>(name: &'static str, fields: (&'static [Field<T>], LeftOut), items: &[T]) -> Table {
        let mut table = Table::new(name);
        table.begin(&[], fields);
        table.add(&[], fields, items);
        table
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
        let exact = |ids: LeftOut| crate::json::left_out(self, ids);
        let of_totals = match self.run.sampled {
            Some(_) => exact_only::TOTALS,
            None => sampled_only::TOTALS,
        };
        let mut counts = Table::new("counts");
        counts.begin(&[OP], (SOURCE_FIELDS, &[]));
        add_counts(&mut counts, &[], &self.totals.counts);
        let mut tables = vec![
            Table::of(
                "run",
                (RUN_FIELDS, exact(exact_only::RUN)),
                std::slice::from_ref(&self.run),
            ),
            Table::of(
                "totals",
                (TOTALS_FIELDS, of_totals),
                std::slice::from_ref(&self.totals),
            ),
            counts,
            self.totals_by(),
            Table::of("lines", (LINE_FIELDS, exact(exact_only::LINE)), &self.lines),
        ];
        tables.extend(self.parts_of_lines());
        tables.push(Table::of(
            "quiet",
            (QUIET_FIELDS, exact(exact_only::QUIET)),
            &[self.quiet],
        ));
        if self.run.sampled.is_none() {
            tables.push(Table::of(
                "handed_over",
                (HANDED_FIELDS, &[]),
                std::slice::from_ref(&self.handed),
            ));
            let mut kinds = Table::new("handed_over_by");
            kinds.begin(&[LIST], (HANDED_ROW_FIELDS, &[]));
            for (list, rows) in [
                ("objects", &self.handed.objects),
                ("takers", &self.handed.takers),
            ] {
                let key = [Value::Text(list.to_owned())];
                kinds.add(&key, (HANDED_ROW_FIELDS, &[]), rows);
            }
            tables.push(kinds);
            let waiting = std::slice::from_ref(&self.waiting);
            tables.push(Table::of("waiting", (WAITING_FIELDS, &[]), waiting));
            let waits = (WAIT_ROW_FIELDS, &[][..]);
            tables.push(Table::of("waits", waits, &self.waiting.rows));
        }
        let of_threads = (THREAD_FIELDS, exact(exact_only::THREAD));
        tables.push(Table::of("threads", of_threads, &self.threads));
        if let Some(machine) = &self.of_machine {
            let machine = std::slice::from_ref(machine);
            tables.push(Table::of("of_machine", (MACHINE_FIELDS, &[]), machine));
            let unnamed = &machine[0].unnamed;
            tables.push(Table::of("unnamed", (UNNAMED_FIELDS, &[]), unnamed));
        }
        tables
    }

    fn totals_by(&self) -> Table {
        let left_out = crate::json::left_out(self, exact_only::TOTAL_ROW);
        let mut table = Table::new("totals_by");
        table.begin(&[BY], (TOTAL_ROW_FIELDS, left_out));
        for totals in &self.totals_by {
            let key = [Value::Text(totals.by.id().to_owned())];
            table.add(&key, (TOTAL_ROW_FIELDS, left_out), &totals.rows);
        }
        table
    }

    fn parts_of_lines(&self) -> Vec<Table> {
        let exact = |ids: LeftOut| crate::json::left_out(self, ids);
        let [mut by_source, mut fights, mut objects, mut rows] =
            ["line_counts", "fights", "objects", "rows"].map(Table::new);
        let [mut paths, mut frames] = ["call_paths", "frames"].map(Table::new);
        let key = &[LINE_RANK];
        by_source.begin(&[LINE_RANK, OP], (SOURCE_FIELDS, &[]));
        fights.begin(key, (FIGHT_FIELDS, exact(exact_only::FIGHT)));
        objects.begin(key, (OBJECT_FIELDS, &[]));
        rows.begin(key, (ROW_FIELDS, exact(exact_only::ROW)));
        paths.begin(&[LINE_RANK, ROW_INDEX], (CALL_PATH_FIELDS, &[]));
        frames.begin(
            &[LINE_RANK, ROW_INDEX, PATH_INDEX],
            (CALL_FRAME_FIELDS, &[]),
        );
        for line in &self.lines {
            let rank = &[Value::Whole(line.rank)];
            add_counts(&mut by_source, rank, &line.counts);
            fights.add(rank, (FIGHT_FIELDS, exact(exact_only::FIGHT)), &line.fights);
            objects.add(rank, (OBJECT_FIELDS, &[]), &line.objects);
            rows.add(rank, (ROW_FIELDS, exact(exact_only::ROW)), &line.rows);
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
        table.add(&keys, (SOURCE_FIELDS, &[]), &[counts]);
    }
}

fn call_paths(line: &LineReport, paths: &mut Table, frames: &mut Table) {
    for (row, row_index) in line.rows.iter().zip(0..) {
        let key = [Value::Whole(line.rank), Value::Whole(row_index)];
        paths.add(&key, (CALL_PATH_FIELDS, &[]), &row.call_paths);
        for (path, path_index) in row.call_paths.iter().zip(0..) {
            let [rank, row_index] = key.clone();
            let key = [rank, row_index, Value::Whole(path_index)];
            frames.add(&key, (CALL_FRAME_FIELDS, &[]), &path.frames);
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
        let column = |id| Column {
            id,
            unit: Unit::None,
            description: "",
        };
        let text = |text: &str| Value::Text(text.to_owned());
        let table = Table {
            name: "t",
            columns: vec![column("a"), column("b")],
            rows: vec![vec![text("x,\"y\"\nz"), text("1")]],
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
