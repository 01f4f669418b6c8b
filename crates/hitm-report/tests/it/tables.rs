//! Every table as CSV and Parquet.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use hitm_report::tables::Table;
use hitm_report::{By, Report, Selection, json};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::example::{OPTIONS, everything, select};

fn report() -> Report {
    let selection = Selection {
        by: vec![By::Object, By::Member],
        ..Selection::default()
    };
    select(&everything(), 4, OPTIONS, &selection)
}

fn tables() -> BTreeMap<&'static str, Table> {
    let tables = report().tables().into_iter();
    tables.map(|table| (table.name, table)).collect()
}

/// Rows of CSV without quotes, by column.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let columns: Vec<&str> = lines.next().expect("columns").split(',').collect();
    let unquoted = lines.filter(|line| !line.contains('"'));
    unquoted
        .map(|line| columns.iter().copied().zip(line.split(',')).collect())
        .collect()
}

#[test]
fn csv_has_what_json_has() {
    let json: Value = serde_json::from_str(&json::render(&report())).expect("JSON");
    let tables = tables();
    let csv = tables["lines"].csv();
    let found = rows(&csv);
    let lines = json["lines"].as_array().expect("lines");
    // Advice has commas, so that lines are quoted: the other tables are read back.
    assert_eq!(csv.lines().count(), lines.len() + 1);
    assert!(found.is_empty(), "{found:?}");
    let threads = tables["threads"].csv();
    let expected = json["threads"].as_array().expect("threads");
    let found = rows(&threads);
    assert_eq!(found.len(), expected.len());
    for (row, expected) in found.iter().zip(expected) {
        for (key, value) in expected.as_object().expect("a thread") {
            let text = match value {
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            let short = text.strip_suffix(".0").unwrap_or(&text);
            assert_eq!(row[key.as_str()], short, "{key}");
        }
    }
}

#[test]
fn parts_say_of_which_line_they_are() {
    let json: Value = serde_json::from_str(&json::render(&report())).expect("JSON");
    let tables = tables();
    for (part, key) in [
        ("rows", "rows"),
        ("fights", "fights"),
        ("objects", "objects"),
    ] {
        let table = &tables[part];
        assert_eq!(table.columns[0].id, "line_rank");
        let lines = json["lines"].as_array().expect("lines");
        let counts = lines
            .iter()
            .map(|line| line[key].as_array().expect("parts").len());
        assert_eq!(table.rows.len(), counts.sum::<usize>(), "{part}");
    }
    let by: Vec<String> = rows(&tables["totals_by"].csv())
        .iter()
        .map(|row| row["by"].to_owned())
        .collect();
    assert!(by.contains(&"object".to_owned()) && by.contains(&"member".to_owned()));
}

/// The cells of a column as CSV writes them.
fn column(batch: &RecordBatch, index: usize) -> Vec<String> {
    let column = batch.column(index);
    let cell = |row: usize| {
        if column.is_null(row) {
            return String::new();
        }
        if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
            return numbers.value(row).to_string();
        }
        if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
            let text = format!("{:.6}", numbers.value(row));
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        if let Some(flags) = column.as_boolean_opt() {
            return flags.value(row).to_string();
        }
        column.as_string::<i32>().value(row).to_owned()
    };
    (0..batch.num_rows()).map(cell).collect()
}

#[test]
fn parquet_has_what_csv_has() {
    for (name, table) in tables() {
        let file = tempfile::tempfile().expect("a temporary file");
        let file = table.parquet(file).expect("a file takes it");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file);
        let reader = reader.expect("Parquet").build().expect("a reader");
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
        let csv = table.csv();
        let csv = rows(&csv);
        let row_count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(row_count, table.rows.len(), "{name}");
        if csv.len() != table.rows.len() {
            continue;
        }
        for (index, head) in table.columns.iter().enumerate() {
            let found: Vec<String> = batches
                .iter()
                .flat_map(|batch| column(batch, index))
                .collect();
            let expected: Vec<&str> = csv.iter().map(|row| row[head.id]).collect();
            assert_eq!(found, expected, "{name}.{}", head.id);
        }
    }
}
