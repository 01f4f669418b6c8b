//! Reads a table back, row by row.
//!
//! The file may be anybody's: whatever it holds is an error or rows of the table. The library of Parquet
//! panics on some damage; here that becomes an error ([`is_reading`]).

use std::cell::Cell as StdCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;
use thiserror::Error;

use crate::plan::KeyType;
use crate::table::{Cell, Column};
use crate::value::Unit;

/// First bytes of a Parquet file.
pub const MAGIC: &[u8; 4] = b"PAR1";
/// Most columns of a table: a plan has some dozens of keys.
const COLUMNS_MAX: usize = 1_000;

/// A table that cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is damaged, or in a form of Parquet that sweeps do not write.
    #[error("no table of a sweep: {0}")]
    Parquet(String),
    /// A column of another type.
    #[error("column {name}: found type {found}, expected int64, float64, boolean or text")]
    Type {
        /// Name of the column.
        name: String,
        /// Its type.
        found: String,
    },
    /// Too many columns.
    #[error("found {0} columns, expected at most {COLUMNS_MAX}")]
    Columns(usize),
}

/// The rows of a table.
pub struct TableReader {
    columns: Vec<Column>,
    batches: ParquetRecordBatchReader,
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableReader")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl TableReader {
    /// Reads the columns of a Parquet file.
    ///
    /// # Errors
    /// A file that is no Parquet, or has columns of other types than sweeps write.
    pub fn new(file: impl ChunkReader + 'static) -> Result<TableReader, ReadError> {
        let failed = |error: &dyn std::fmt::Display| ReadError::Parquet(error.to_string());
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file))?;
        let builder = builder.map_err(|error| failed(&error))?;
        let fields = builder.schema().fields();
        if fields.len() > COLUMNS_MAX {
            return Err(ReadError::Columns(fields.len()));
        }
        let column = |field: &arrow_schema::FieldRef| {
            let kind = match field.data_type() {
                DataType::Int64 => KeyType::Integer(Unit::None),
                DataType::Float64 => KeyType::Float,
                DataType::Boolean => KeyType::Flag,
                DataType::Utf8 => KeyType::Text,
                other => {
                    return Err(ReadError::Type {
                        name: field.name().clone(),
                        found: other.to_string(),
                    });
                }
            };
            let stated = |key: &str| field.metadata().get(key).cloned();
            Ok(Column {
                name: field.name().clone(),
                kind,
                unit: stated("unit"),
                description: stated("description").unwrap_or_default(),
            })
        };
        let columns: Result<Vec<Column>, ReadError> = fields.iter().map(column).collect();
        Ok(TableReader {
            columns: columns?,
            batches: guarded(|| builder.build())?.map_err(|error| failed(&error))?,
        })
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Calls `row` with the cells of each row, in the order of the table.
    ///
    /// # Errors
    /// Rows that are damaged.
    pub fn rows(mut self, mut row: impl FnMut(&[Cell])) -> Result<(), ReadError> {
        let mut cells = Vec::new();
        while let Some(batch) = guarded(|| self.batches.next())? {
            let batch = batch.map_err(|error| ReadError::Parquet(error.to_string()))?;
            for index in 0..batch.num_rows() {
                cells.clear();
                cells.extend(batch.columns().iter().map(|column| cell(column, index)));
                row(&cells);
            }
        }
        Ok(())
    }
}

thread_local! {
    static READING: StdCell<bool> = const { StdCell::new(false) };
}

/// Returns true while this thread is inside the library of Parquet. A panic there is about a damaged
/// file, not about a bug of ours: a panic hook keeps silent, and the reader returns an error.
pub fn is_reading() -> bool {
    READING.get()
}

/// Calls the library; a panic is an error.
fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, ReadError> {
    READING.set(true);
    // What the library leaves behind after a panic is dropped unseen.
    let result = catch_unwind(AssertUnwindSafe(read));
    READING.set(false);
    result.map_err(|_| ReadError::Parquet("the file is damaged".to_owned()))
}

fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Missing;
    }
    match column.data_type() {
        DataType::Int64 => Cell::Integer(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Cell::Flag(column.as_boolean().value(row)),
        DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row).to_owned()),
        // The constructor admits no other type.
        other => unreachable!("a column of type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::table::TableWriter;

    fn written() -> Vec<u8> {
        let kinds = [
            ("ticks", KeyType::Integer(Unit::PerSecond)),
            ("value", KeyType::Float),
            ("flag", KeyType::Flag),
            ("metric", KeyType::Text),
        ];
        let columns = kinds.map(|(name, kind)| Column::of_type(name, kind, "A column"));
        let mut writer = TableWriter::new(Vec::new(), &columns).unwrap();
        for number in 0..50 {
            let metric = Cell::Text(format!("m{}", number % 5));
            let value = Cell::Float(number as f64);
            writer
                .push(&[Cell::Integer(number), value, Cell::Flag(number > 9), metric])
                .unwrap();
        }
        writer.push(&[const { Cell::Missing }; 4]).unwrap();
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Column>, Vec<Vec<Cell>>), ReadError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let reader = TableReader::new(file)?;
        let columns = reader.columns().to_vec();
        let mut rows = Vec::new();
        reader.rows(|row| rows.push(row.to_vec()))?;
        Ok((columns, rows))
    }

    #[test]
    fn rows_read_back() {
        let (columns, rows) = read(&written()).unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["ticks", "value", "flag", "metric"]);
        assert_eq!(columns[0].unit.as_deref(), Some("1/s"));
        assert_eq!(rows.len(), 51);
        let text = |text: &str| Cell::Text(text.to_owned());
        let expected = [
            Cell::Integer(13),
            Cell::Float(13.0),
            Cell::Flag(true),
            text("m3"),
        ];
        assert_eq!(rows[13], expected);
        assert_eq!(rows[50], [const { Cell::Missing }; 4]);
    }

    /// Each byte wrong in turn, and each length: an error or rows.
    #[test]
    fn no_damage_panics() {
        let whole = written();
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _ = read(&bytes);
            }
            assert!(read(&whole[..at]).is_err());
        }
    }
}
