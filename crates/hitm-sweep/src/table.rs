//! The table of a sweep: Parquet with Arrow's types, one row a run and metric.
//!
//! The same rows give the same bytes. Rows come in the order of the plan, batches and row groups
//! have fixed lengths, and nothing of the host or the time is written. Memory holds one row group.

#![expect(
    clippy::disallowed_types,
    reason = "Arrow takes metadata as a HashMap; it is written in the order of its keys"
)]

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::plan::KeyType;

/// Rows of a batch.
const BATCH_ROWS: usize = 8_192;
/// Rows of a row group.
const GROUP_ROWS: usize = 16 * BATCH_ROWS;
/// The program in the file's footer: no version, so that the bytes depend on the rows alone.
const CREATED_BY: &str = "hitm sweep";

/// A column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: KeyType,
    /// Unit of its values.
    pub unit: Option<String>,
    /// One sentence about it, without a full stop.
    pub description: String,
}

impl Column {
    /// A column of a key's values, in the unit of the type.
    pub fn of_type(name: &str, kind: KeyType, description: &str) -> Column {
        Column {
            name: name.to_owned(),
            kind,
            unit: match kind {
                KeyType::Integer(unit) => unit.name().map(str::to_owned),
                KeyType::Float | KeyType::Flag | KeyType::Text => None,
            },
            description: description.to_owned(),
        }
    }

    fn field(&self) -> Field {
        let data_type = match self.kind {
            KeyType::Integer(_) => DataType::Int64,
            KeyType::Float => DataType::Float64,
            KeyType::Flag => DataType::Boolean,
            KeyType::Text => DataType::Utf8,
        };
        let mut metadata = HashMap::from([("description".to_owned(), self.description.clone())]);
        if let Some(unit) = &self.unit {
            metadata.insert("unit".to_owned(), unit.clone());
        }
        Field::new(&self.name, data_type, true).with_metadata(metadata)
    }
}

/// The value of a column in one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value.
    Missing,
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
}

/// The schema of a table with these columns.
fn schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(Column::field).collect();
    Arc::new(Schema::new(fields))
}

/// Collects rows of one type of column.
enum Builder {
    Integer(Int64Builder),
    Float(Float64Builder),
    Flag(BooleanBuilder),
    Text(StringBuilder),
}

impl Builder {
    fn new(kind: KeyType) -> Builder {
        match kind {
            KeyType::Integer(_) => Builder::Integer(Int64Builder::new()),
            KeyType::Float => Builder::Float(Float64Builder::new()),
            KeyType::Flag => Builder::Flag(BooleanBuilder::new()),
            KeyType::Text => Builder::Text(StringBuilder::new()),
        }
    }

    /// Adds a cell. One of another type is a bug of the caller: the column's type is that of all
    /// its values.
    fn push(&mut self, cell: &Cell) {
        match (self, cell) {
            (Builder::Integer(builder), Cell::Integer(number)) => builder.append_value(*number),
            (Builder::Integer(builder), Cell::Missing) => builder.append_null(),
            (Builder::Float(builder), Cell::Float(number)) => builder.append_value(*number),
            (Builder::Float(builder), Cell::Integer(number)) => {
                builder.append_value(*number as f64);
            }
            (Builder::Float(builder), Cell::Missing) => builder.append_null(),
            (Builder::Flag(builder), Cell::Flag(flag)) => builder.append_value(*flag),
            (Builder::Flag(builder), Cell::Missing) => builder.append_null(),
            (Builder::Text(builder), Cell::Text(text)) => builder.append_value(text),
            (Builder::Text(builder), Cell::Missing) => builder.append_null(),
            (_, cell) => panic!("a cell has the type of its column, found {cell:?}"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Integer(builder) => Arc::new(builder.finish()),
            Builder::Float(builder) => Arc::new(builder.finish()),
            Builder::Flag(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Writes a table row by row.
pub struct TableWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
    builders: Vec<Builder>,
    row_count: usize,
}

impl<W: Write + Send> fmt::Debug for TableWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a table with these columns.
    ///
    /// # Errors
    /// A writer that fails.
    pub fn new(writer: W, columns: &[Column]) -> Result<TableWriter<W>, ParquetError> {
        let schema = schema(columns);
        let properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        Ok(TableWriter {
            writer: ArrowWriter::try_new(writer, schema.clone(), Some(properties))?,
            schema,
            builders: columns
                .iter()
                .map(|column| Builder::new(column.kind))
                .collect(),
            row_count: 0,
        })
    }

    /// Adds a row, a cell for each column.
    ///
    /// # Errors
    /// A writer that fails.
    ///
    /// # Panics
    /// If a cell's type differs from its column's, or a cell is missing.
    pub fn push(&mut self, row: &[Cell]) -> Result<(), ParquetError> {
        assert_eq!(row.len(), self.builders.len(), "a cell for each column");
        for (builder, cell) in self.builders.iter_mut().zip(row) {
            builder.push(cell);
        }
        self.row_count += 1;
        if self.row_count == BATCH_ROWS {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), ParquetError> {
        self.row_count = 0;
        let columns = self.builders.iter_mut().map(Builder::finish).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        self.writer.write(&batch)
    }

    /// Ends the table.
    ///
    /// # Errors
    /// A writer that fails.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        if self.row_count > 0 {
            self.write_batch()?;
        }
        self.writer.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::value::Unit;

    fn columns() -> Vec<Column> {
        let column = |name: &str, kind| Column::of_type(name, kind, &format!("The {name}"));
        vec![
            column("tick", KeyType::Integer(Unit::PerSecond)),
            column("metric", KeyType::Text),
            column("value", KeyType::Float),
            column("flag", KeyType::Flag),
        ]
    }

    fn written(row_count: i64) -> Vec<u8> {
        let mut writer = TableWriter::new(Vec::new(), &columns()).unwrap();
        for number in 0..row_count {
            let value = match number % 7 {
                0 => Cell::Missing,
                _ => Cell::Float(number as f64 / 3.0),
            };
            let metric = Cell::Text(format!("m{}", number % 5));
            let flag = Cell::Flag(number % 2 == 0);
            let row = [Cell::Integer(number), metric, value, flag];
            writer.push(&row).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        // Metadata passes through hash maps, whose order differs from map to map.
        let first = written(300_000);
        assert!((0..4).all(|_| written(300_000) == first));
    }

    #[test]
    fn rows_read_back_with_types_and_units() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&written(100)).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let tick = builder.schema().field_with_name("tick").unwrap().clone();
        assert_eq!(tick.data_type(), &DataType::Int64);
        assert_eq!(tick.metadata()["unit"], "1/s");
        assert_eq!(tick.metadata()["description"], "The tick");
        let batches: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
        let [batch] = &batches[..] else {
            panic!("one batch, found {}", batches.len());
        };
        assert_eq!(batch.num_rows(), 100);
        let ticks = batch["tick"].as_primitive::<Int64Type>();
        let values = batch["value"].as_primitive::<Float64Type>();
        assert_eq!((ticks.value(99), values.value(99)), (99, 33.0));
        assert!(values.is_null(7) && !values.is_null(8));
        assert_eq!(batch["metric"].as_string::<i32>().value(9), "m4");
        assert!(batch["flag"].as_boolean().value(2));
    }

    #[test]
    fn an_empty_table_has_its_columns() {
        assert!(written(0).len() > 100);
    }
}
