//! Tables as Arrow, through the PyCapsule interface: polars, pandas, pyarrow and DuckDB read them
//! without a copy, and none of them is needed.

use std::ffi::CStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema, SchemaRef};
use hitm_report::fields::{Column, Field, Unit, Value};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::error::raise;

/// The name that consumers ask a capsule for.
const STREAM: &CStr = c"arrow_array_stream";

/// The rows of a table.
#[derive(Debug, Clone)]
enum Rows {
    Batch(RecordBatch),
    /// A Parquet file, read on demand.
    Parquet(PathBuf),
}

/// A table in Arrow's form.
#[pyclass(frozen, module = "hitm")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    row_count: usize,
    rows: Rows,
}

/// Columns of a table of fields.
pub(crate) fn columns<T>(fields: &[Field<T>]) -> Vec<Column> {
    fields.iter().map(Field::column).collect()
}

/// Values of one item.
pub(crate) fn values<T>(fields: &[Field<T>], item: &T) -> Vec<Value> {
    fields.iter().map(|field| (field.value)(item)).collect()
}

impl Table {
    /// A table of fields, one row an item.
    pub(crate) fn of_fields<'t, T: 'static>(
        fields: &[Field<T>],
        items: impl IntoIterator<Item = &'t T>,
    ) -> Table {
        let rows = items.into_iter().map(|item| values(fields, item)).collect();
        Table::of_rows(columns(fields), rows)
    }

    /// A table of rows with a value for each column.
    pub(crate) fn of_rows(columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Table {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (index, column) in columns.into_iter().enumerate() {
            let values: Vec<&Value> = rows.iter().map(|row| &row[index]).collect();
            let array = array(&values, column.unit);
            let metadata = [
                ("description".to_owned(), column.description.to_owned()),
                ("unit".to_owned(), column.unit.label().to_owned()),
            ];
            let field = ArrowField::new(column.id, array.data_type().clone(), true);
            fields.push(field.with_metadata(metadata.into()));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays)
            .expect("columns have the type of their field and one length");
        Table {
            schema,
            row_count: rows.len(),
            rows: Rows::Batch(batch),
        }
    }

    /// The table in a Parquet file.
    pub(crate) fn of_parquet(path: PathBuf) -> PyResult<Table> {
        let file = File::open(&path).map_err(|error| raise(&error))?;
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| raise(&error))?;
        Ok(Table {
            schema: builder.schema().clone(),
            row_count: builder.metadata().file_metadata().num_rows() as usize,
            rows: Rows::Parquet(path),
        })
    }

    fn reader(&self) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        match &self.rows {
            Rows::Batch(batch) => {
                let batches = [Ok::<_, ArrowError>(batch.clone())];
                let reader = RecordBatchIterator::new(batches, self.schema.clone());
                Ok(Box::new(reader))
            }
            Rows::Parquet(path) => {
                let file = File::open(path).map_err(|error| raise(&error))?;
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)
                    .map_err(|error| raise(&error))?;
                Ok(Box::new(builder.build().map_err(|error| raise(&error))?))
            }
        }
    }
}

#[pymethods]
impl Table {
    /// The table as an Arrow stream.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore the requested schema; consumers cast.
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(self.reader()?);
        PyCapsule::new(py, stream, Some(STREAM.to_owned()))
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// Units of the columns that have one.
    #[getter]
    fn units(&self) -> std::collections::BTreeMap<String, String> {
        let fields = self.schema.fields().iter();
        let with_unit = fields.filter_map(|field| {
            let unit = field.metadata().get("unit").filter(|unit| *unit != "-");
            unit.map(|unit| (field.name().clone(), unit.clone()))
        });
        with_unit.collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.row_count
    }

    fn __len__(&self) -> usize {
        self.row_count
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<hitm.Table of {} rows: {names}>", self.row_count)
    }

    /// The columns as lists, for those who have no library for tables.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let lists: Vec<Bound<'py, PyList>> = self
            .schema
            .fields()
            .iter()
            .map(|_| PyList::empty(py))
            .collect();
        for batch in self.reader()? {
            let batch = batch.map_err(|error| raise(&error))?;
            for (list, column) in lists.iter().zip(batch.columns()) {
                for row in 0..column.len() {
                    append(list, column, row)?;
                }
            }
        }
        for (field, list) in self.schema.fields().iter().zip(lists) {
            dict.set_item(field.name(), list)?;
        }
        Ok(dict)
    }
}

fn append(list: &Bound<'_, PyList>, column: &ArrayRef, row: usize) -> PyResult<()> {
    if column.is_null(row) {
        return list.append(list.py().None());
    }
    match column.data_type() {
        DataType::Boolean => list.append(column.as_boolean().value(row)),
        DataType::Int64 => list.append(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => list.append(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => list.append(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => list.append(column.as_string::<i32>().value(row)),
        other => Err(raise(&ArrowError::NotYetImplemented(format!(
            "{other} as a list"
        )))),
    }
}

/// A column of the narrowest type that holds its values. One without values has the type of its
/// unit.
fn array(values: &[&Value], unit: Unit) -> ArrayRef {
    let has = |is: fn(&Value) -> bool| values.iter().any(|value| is(value));
    let is_text =
        |value: &Value| matches!(value, Value::Text(_) | Value::Texts(_) | Value::Wholes(_));
    if has(is_text) || unit == Unit::None && values.iter().all(|value| **value == Value::Missing) {
        let mut builder = StringBuilder::new();
        values
            .iter()
            .for_each(|value| builder.append_option(text(value)));
        Arc::new(builder.finish())
    } else if has(|value| matches!(value, Value::Flag(_))) {
        let mut builder = BooleanBuilder::new();
        let flag = |value: &Value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        };
        values
            .iter()
            .for_each(|value| builder.append_option(flag(value)));
        Arc::new(builder.finish())
    } else if has(|value| matches!(value, Value::Whole(_)))
        && !has(|value| matches!(value, Value::Number(_)))
    {
        let mut builder = UInt64Builder::new();
        let whole = |value: &Value| match value {
            Value::Whole(whole) => Some(*whole),
            _ => None,
        };
        values
            .iter()
            .for_each(|value| builder.append_option(whole(value)));
        Arc::new(builder.finish())
    } else {
        let mut builder = Float64Builder::new();
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            Value::Whole(whole) => Some(*whole as f64),
            _ => None,
        };
        values
            .iter()
            .for_each(|value| builder.append_option(number(value)));
        Arc::new(builder.finish())
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Missing => None,
        Value::Flag(flag) => Some(flag.to_string()),
        Value::Whole(whole) => Some(whole.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Texts(texts) => Some(texts.join(", ")),
        Value::Wholes(wholes) => {
            let texts: Vec<String> = wholes.iter().map(u64::to_string).collect();
            Some(texts.join(", "))
        }
    }
}
