//! Plans: sources of runs, the keys to vary, seeds and metrics.
//!
//! [`Plan::parse`] reads the text. Its points are every source with every combination of the axes'
//! rows, in the order of the file; the last axis varies fastest. An axis has one key with a list or
//! a range of values, several keys that change together, or the points of a sample.
//!
//! Invariants of a parsed plan: it has a source and a seed. No key stands in two axes. Every axis
//! has a row, and every row a value for each of the axis's keys. Points times seeds are at most
//! [`RUNS_MAX`]. A sample is the last axis; with [`Stated`] numbers it may have no key of its own.

mod parse;
#[cfg(test)]
mod tests;

use crate::value::{Unit, Value};
use hitm_base::document::TextPlace;

use crate::PlanError;
use crate::sample::{Method, points};

/// Longest file, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// The most runs of a plan: their names take 32 MB.
pub const RUNS_MAX: u64 = 1_000_000;
/// The most keys and axes of a plan.
const KEYS_MAX: usize = 32;
/// The most values of an axis that is no sample.
const VALUES_MAX: usize = 10_000;
/// The most sources, and the most metrics.
const WORDS_MAX: usize = 1_000;

/// A plan of many runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Name of the file, for errors.
    pub origin: String,
    /// Short name.
    pub name: String,
    /// One line about it.
    pub description: Option<String>,
    /// The kind of the sources.
    pub kind: SourceKind,
    /// Files to run.
    pub sources: Vec<(String, TextPlace)>,
    /// True if each run does a tenth of the duration and of the iterations.
    pub quick: bool,
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds from it on.
    pub seed_count: u64,
    /// Metrics of the table; empty for all.
    pub metrics: Vec<(String, TextPlace)>,
    /// Keys and their values.
    pub axes: Vec<Axis>,
    /// Numbers that the sample takes from the ranges of machine files and of the kernel's costs.
    pub stated: Option<Stated>,
}

/// Part of a sample whose ranges stand in machine files and in the declarations of the kernel's
/// costs. The plan names the numbers, the caller knows their ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated {
    /// Keys of numbers, or tables of keys: `machine.transfers`.
    pub keys: Vec<(String, TextPlace)>,
    /// Points, as many as the last axis has rows.
    pub point_count: usize,
    /// Most numbers that the method can vary.
    pub number_count_max: usize,
    method: Method,
    seed: u64,
    /// Dimensions of the sample that the plan's own ranges take.
    dimension_count: usize,
}

impl Stated {
    /// Returns true if the sample varies the number of this key.
    pub fn names(&self, key: &str) -> bool {
        self.keys.iter().any(|(one, _)| is_within(key, one))
    }

    /// The shares of `number_count` ranges at each point, 0 to below 1. A longer list of numbers
    /// keeps the shares of the first ones.
    ///
    /// # Panics
    /// If there are more numbers than [`Stated::number_count_max`].
    pub fn shares(&self, number_count: usize) -> Vec<Vec<f64>> {
        let count = self.dimension_count + number_count;
        let mut points = points(self.method, self.point_count, count, self.seed)
            .expect("the caller keeps to the method's limit");
        for point in &mut points {
            point.drain(..self.dimension_count);
        }
        points
    }
}

/// Returns true if `key` is `table`, or lies in it.
pub fn is_within(key: &str, table: &str) -> bool {
    let rest = key.strip_prefix(table);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The kind of a plan's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// Scenarios, to be simulated.
    Scenarios,
    /// Recordings, to be replayed.
    Recordings,
}

/// Keys that change together.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The keys, each with its place.
    pub keys: Vec<(String, TextPlace)>,
    /// The values of all keys, row by row, each row with its place.
    pub rows: Vec<(Vec<Value>, TextPlace)>,
}

/// One combination of a source and a row of each axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'p> {
    /// The source, by its number in the plan.
    pub source: usize,
    /// Every key with its value, in the order of the plan.
    pub settings: Vec<Setting<'p>>,
}

/// A key with its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting<'p> {
    /// The key.
    pub key: &'p str,
    /// The value.
    pub value: &'p Value,
    /// The place of the key.
    pub key_place: TextPlace,
    /// The place of the value, or of the range that it is from.
    pub value_place: TextPlace,
}

/// The type of a key's column in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Whole numbers, in a unit.
    Integer(Unit),
    /// Numbers.
    Float,
    /// True and false.
    Flag,
    /// Text.
    Text,
}

impl Plan {
    /// Reads a plan; `origin` is its name in errors.
    ///
    /// # Errors
    /// Text that is no TOML, unknown or missing keys, empty ranges, too many runs: with line, column
    /// and key.
    pub fn parse(text: &str, origin: &str) -> Result<Plan, PlanError> {
        parse::parse(text, origin)
    }

    /// The number of points.
    pub fn point_count(&self) -> u64 {
        let rows = self.axes.iter().map(|axis| axis.rows.len() as u64);
        self.sources.len() as u64 * rows.product::<u64>()
    }

    /// The point of this number, from 0.
    ///
    /// # Panics
    /// If there is none.
    pub fn point(&self, number: u64) -> Point<'_> {
        let mut rows = vec![0; self.axes.len()];
        let mut left = number;
        for (row, axis) in rows.iter_mut().zip(&self.axes).rev() {
            let count = axis.rows.len() as u64;
            *row = (left % count) as usize;
            left /= count;
        }
        self.point_of(left as usize, &rows)
    }

    /// The point of a source and a row of each axis.
    ///
    /// # Panics
    /// If there is no such source or row.
    pub fn point_of(&self, source: usize, rows: &[usize]) -> Point<'_> {
        assert!(source < self.sources.len(), "the plan has such a source");
        let mut settings = Vec::new();
        for (row, axis) in rows.iter().zip(&self.axes) {
            let (values, value_place) = &axis.rows[*row];
            for ((key, key_place), value) in axis.keys.iter().zip(values) {
                settings.push(Setting {
                    key,
                    value,
                    key_place: *key_place,
                    value_place: *value_place,
                });
            }
        }
        Point { source, settings }
    }

    /// The seeds.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.first_seed;
        (0..self.seed_count).map(move |number| first.wrapping_add(number))
    }

    /// Every key, in the order of the plan, with the type of its column.
    pub fn keys(&self) -> Vec<(&str, KeyType)> {
        let mut keys = Vec::new();
        for axis in &self.axes {
            for (index, (key, _)) in axis.keys.iter().enumerate() {
                let values = axis.rows.iter().map(|(row, _)| &row[index]);
                keys.push((key.as_str(), key_type(values)));
            }
        }
        keys
    }

    /// An error at a place of the plan.
    pub fn error(
        &self,
        place: TextPlace,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> PlanError {
        PlanError {
            origin: self.origin.clone(),
            place,
            key: key.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// The narrowest type that holds all values.
fn key_type<'v>(values: impl Iterator<Item = &'v Value> + Clone) -> KeyType {
    let mut quantities = values.clone().map(Value::quantity);
    if let Some(Some((_, unit))) = quantities.next()
        && quantities.all(|other| other.is_some_and(|(_, other)| other == unit))
    {
        return KeyType::Integer(unit);
    }
    let is = |wanted: fn(&Value) -> bool| values.clone().all(wanted);
    if is(|value| matches!(value, Value::Integer(_) | Value::Float(_))) {
        KeyType::Float
    } else if is(|value| matches!(value, Value::Flag(_))) {
        KeyType::Flag
    } else {
        KeyType::Text
    }
}
