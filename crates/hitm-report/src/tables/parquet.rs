//! A table as Parquet, by the writer of sweeps.

use std::io::Write;

use hitm_sweep::plan::KeyType;
use hitm_sweep::table::{self, Cell, TableWriter};
use hitm_sweep::value::Unit as SweepUnit;

use super::{Table, plain};
use crate::fields::{Unit, Value};

impl Table {
    /// Writes the table as Parquet. Addresses and lists are text, as in CSV; counts and cycles are 64-bit
    /// integers, shares and means floats, and a column without any value floats as well.
    ///
    /// # Errors
    /// A writer that fails.
    pub fn parquet<W: Write + Send>(&self, writer: W) -> std::io::Result<W> {
        let kinds = self.kinds();
        let columns = self.columns.iter().zip(&kinds);
        let columns: Vec<table::Column> = columns
            .map(|(column, kind)| {
                let description = match column.unit.label() {
                    "-" => column.description.to_owned(),
                    unit => format!("{} ({unit})", column.description),
                };
                table::Column::of_type(column.id, *kind, &description)
            })
            .collect();
        let mut writer = TableWriter::new(writer, &columns).map_err(std::io::Error::other)?;
        for row in &self.rows {
            let cells = self.columns.iter().zip(row).zip(&kinds);
            let cells: Vec<Cell> = cells
                .map(|((column, value), kind)| cell(column.unit, value, *kind))
                .collect();
            writer.push(&cells).map_err(std::io::Error::other)?;
        }
        writer.finish().map_err(std::io::Error::other)
    }

    /// The types of the columns.
    pub(super) fn kinds(&self) -> Vec<KeyType> {
        let indices = 0..self.columns.len();
        indices.map(|index| self.kind(index)).collect()
    }

    /// The type that all values of a column have.
    fn kind(&self, index: usize) -> KeyType {
        let unit = self.columns[index].unit;
        let values = self.rows.iter().map(|row| &row[index]);
        let mut kind = None;
        for value in self.full.get(index).into_iter().chain(values) {
            let one = match value {
                Value::Missing => continue,
                Value::Flag(_) => KeyType::Flag,
                // Numbers beyond 63 bits are sums that stopped counting: text keeps them.
                Value::Whole(number)
                    if unit == Unit::Address || i64::try_from(*number).is_err() =>
                {
                    KeyType::Text
                }
                Value::Whole(_) => KeyType::Integer(SweepUnit::None),
                Value::Number(_) => KeyType::Float,
                Value::Text(_) | Value::Texts(_) | Value::Wholes(_) => KeyType::Text,
            };
            kind = match kind {
                None => Some(one),
                Some(known) if known == one => Some(one),
                Some(_) => Some(KeyType::Text),
            };
        }
        kind.unwrap_or(KeyType::Float)
    }
}

fn cell(unit: Unit, value: &Value, kind: KeyType) -> Cell {
    match (kind, value) {
        (_, Value::Missing) => Cell::Missing,
        (KeyType::Flag, Value::Flag(flag)) => Cell::Flag(*flag),
        (KeyType::Integer(_), Value::Whole(number)) => {
            i64::try_from(*number).map_or(Cell::Missing, Cell::Integer)
        }
        (KeyType::Float, Value::Number(number)) => Cell::Float(*number),
        (_, value) => Cell::Text(plain(unit, value).into_owned()),
    }
}
