//! View of a sweep's table: keys, metrics, and what of a metric's spread each key explains.
//!
//! [`SweepReading`] takes the table row by row. A *point* is one combination of the values of all keys
//! that vary; it has a value of a metric for each seed. [`text`] and [`json`] show keys, metrics and
//! effects; the page draws from the points ([`crate::page::sweep`]).
//!
//! Memory is bounded: beyond a million values a table's later points are counted and left out of
//! the pictures, sums stay those of all rows.

mod effects;
mod estimate;
pub mod json;
pub mod text;

use hitm_fields::fields;
use std::collections::BTreeMap;

use hitm::sweep::{Cell, Column, KeyType};

pub use estimate::estimate_text;

/// Version of the JSON; docs/formats/sweep.md describes it.
pub const SWEEP_SCHEMA: u64 = 1;

/// Values that pictures and effects are made of: 128 MiB, eight times the atlas and more.
const VALUES_MAX: usize = 1 << 20;

/// Columns that are no key.
const NO_KEYS: [&str; 6] = ["run", "seed", "metric", "unit", "value", "failure"];

/// A sweep, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepReport {
    /// Sums of the table.
    pub run: SweepRun,
    /// Every key, in the order of the table.
    pub keys: Vec<SweepKey>,
    /// Every metric, in the order of appearance.
    pub metrics: Vec<SweepMetric>,
    /// By metric, the keys that explain most first.
    pub effects: Vec<SweepEffect>,
    /// Messages of runs that failed, the most frequent first.
    pub failures: Vec<SweepFailure>,
    /// Index of the value of each key, by point.
    pub(crate) points: Vec<Vec<u32>>,
    /// By metric, then by point: the value of each seed.
    pub(crate) values: Vec<Vec<Vec<f64>>>,
}

fields! {
    /// Sums of a sweep's table.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SweepRun in sweep_run {
        /// File of the table.
        pub file: String => known words "table";
        /// Rows of the table.
        pub row_count: u64 => count "rows";
        /// Runs with figures.
        pub run_count: u64 => count "runs";
        /// Runs that failed, and points that cannot be run.
        pub failed_count: u64 => count "failed";
        /// Combinations of the keys' values; each has a run for every seed.
        pub point_count: u64 => count "points";
        /// Values beyond the first 1,048,576, which effects and pictures leave out.
        pub left_out_count: u64 => count "left out";
    }
}

fields! {
    /// A key of the plan.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SweepKey in sweep_key {
        /// The key.
        pub key: String => known words "key";
        /// Unit of its values.
        pub unit: Option<String> => known words "unit", |item| item.unit.as_deref().unwrap_or_default();
        /// Values that it takes.
        value_count => count "values", |item| item.stated().count();
        /// The first of them, the least of numbers.
        first => words "from", |item| end(item.stated().next());
        /// The last of them, the largest of numbers.
        last => words "to", |item| end(item.stated().next_back());
        /// Its values: numbers ascending with a missing one last, texts in the order of appearance.
        pub values: Vec<Cell>;
    }
}

fields! {
    /// A metric.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SweepMetric in sweep_metric {
        /// The metric.
        pub metric: String => known words "metric";
        /// Its unit.
        pub unit: String => known words "unit";
        /// Runs that have it.
        pub run_count: u64 => count "runs";
        /// Mean over these runs.
        pub mean: f64 => decimal "mean";
        /// Smallest value.
        pub least: f64 => decimal "least";
        /// Largest value.
        pub most: f64 => decimal "most";
    }
}

fields! {
    /// The part of a metric's spread that a key explains.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SweepEffect in sweep_effect {
        /// The metric.
        pub metric: String => known words "metric";
        /// The key.
        pub key: String => known words "key";
        /// Share of the metric's variance between the values of the key, less what chance gives as many groups.
        pub share: f64 => share "explains";
        /// Value of the key with the smallest mean; a range where the key has more than 16 values.
        pub least_at: String => known words "least at";
        /// Mean there.
        pub least_mean: f64 => decimal "mean";
        /// Value of the key with the largest mean.
        pub most_at: String => known words "most at";
        /// Mean at that value.
        pub most_mean: f64 => decimal "mean";
    }
}

fields! {
    /// A message of failed runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SweepFailure in sweep_failure {
        /// Runs with the message.
        pub count: u64 => count "runs";
        /// The message.
        pub message: String => known words "message";
    }
}

/// A value at an end of a key's range.
fn end(cell: Option<&Cell>) -> Option<String> {
    cell.map(cell_text)
}

impl SweepKey {
    /// True if all values that are not missing are numbers.
    pub fn is_number(&self) -> bool {
        let is_number = |value: &Cell| matches!(value, Cell::Integer(_) | Cell::Float(_));
        let mut stated = self.stated().peekable();
        stated.peek().is_some() && stated.all(is_number)
    }

    /// The values that are not missing: some points have no value of a key.
    pub fn stated(&self) -> impl DoubleEndedIterator<Item = &Cell> {
        self.values.iter().filter(|value| **value != Cell::Missing)
    }
}

/// A value of a key as text.
pub fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Missing => "-".to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Float(number) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

/// A table being read: its columns first, then its rows, then the report.
#[derive(Debug)]
pub struct SweepReading {
    run: SweepRun,
    columns: Fixed,
    keys: Vec<KeyColumn>,
    metrics: Vec<SweepMetric>,
    metric_at: BTreeMap<String, usize>,
    failures: BTreeMap<String, u64>,
    points: Vec<Vec<u32>>,
    point_at: BTreeMap<Vec<u32>, usize>,
    values: Vec<Vec<Vec<f64>>>,
    value_count: usize,
    /// Run and seed of the row before.
    last_run: Option<(Cell, Cell)>,
}

/// Places of the columns that every table has.
#[derive(Debug)]
struct Fixed {
    run: usize,
    seed: usize,
    metric: usize,
    unit: usize,
    value: usize,
    failure: usize,
}

/// A key being read.
#[derive(Debug)]
struct KeyColumn {
    at: usize,
    key: SweepKey,
    index_of: BTreeMap<String, u32>,
    /// The cell of the row before, and its index: neighbours mostly share it.
    last: Option<(Cell, u32)>,
}

impl KeyColumn {
    fn index(&mut self, cell: &Cell) -> u32 {
        if let Some((last, index)) = &self.last
            && last == cell
        {
            return *index;
        }
        let values = &mut self.key.values;
        let index = *self.index_of.entry(cell_text(cell)).or_insert_with(|| {
            values.push(cell.clone());
            values.len() as u32 - 1
        });
        self.last = Some((cell.clone(), index));
        index
    }
}

impl SweepReading {
    /// Finds the columns.
    ///
    /// # Errors
    /// The name of a column that sweeps have and the table has not.
    pub fn new(columns: &[Column]) -> Result<SweepReading, &'static str> {
        let place = |name: &'static str| {
            let of_type = |column: &&Column| match name {
                "value" => column.kind == KeyType::Float,
                "seed" => true,
                _ => column.kind == KeyType::Text,
            };
            let mut named = columns.iter().enumerate();
            let found = named.find(|(_, column)| column.name == name && of_type(column));
            found.map(|(index, _)| index).ok_or(name)
        };
        let [run, seed, metric, unit, value, failure] = NO_KEYS.map(place);
        let keys = columns.iter().enumerate();
        let keys = keys.filter(|(_, column)| !NO_KEYS.contains(&column.name.as_str()));
        let keys = keys.map(|(at, column)| KeyColumn {
            at,
            key: SweepKey {
                key: column.name.clone(),
                unit: column.unit.clone(),
                values: Vec::new(),
            },
            index_of: BTreeMap::new(),
            last: None,
        });
        Ok(SweepReading {
            columns: Fixed {
                run: run?,
                seed: seed?,
                metric: metric?,
                unit: unit?,
                value: value?,
                failure: failure?,
            },
            keys: keys.collect(),
            run: SweepRun::default(),
            metrics: Vec::new(),
            metric_at: BTreeMap::new(),
            failures: BTreeMap::new(),
            points: Vec::new(),
            point_at: BTreeMap::new(),
            values: Vec::new(),
            value_count: 0,
            last_run: None,
        })
    }

    /// Adds a row.
    pub fn add(&mut self, row: &[Cell]) {
        self.run.row_count += 1;
        let columns = &self.columns;
        let Cell::Text(metric) = &row[columns.metric] else {
            let message = cell_text(&row[columns.failure]);
            *self.failures.entry(message).or_default() += 1;
            self.run.failed_count += 1;
            return;
        };
        let run = (row[columns.run].clone(), row[columns.seed].clone());
        if self.last_run.as_ref() != Some(&run) {
            self.run.run_count += 1;
            self.last_run = Some(run);
        }
        let Cell::Float(value) = row[columns.value] else {
            return;
        };
        let metric = self.metric(metric.clone(), cell_text(&row[self.columns.unit]));
        self.metrics[metric].add(value);
        let Some(point) = self.point(row) else {
            self.run.left_out_count += 1;
            return;
        };
        let values = &mut self.values[metric];
        if values.len() <= point {
            values.resize(point + 1, Vec::new());
        }
        values[point].push(value);
        self.value_count += 1;
    }

    fn metric(&mut self, id: String, unit: String) -> usize {
        if let Some(index) = self.metric_at.get(&id) {
            return *index;
        }
        let index = self.metrics.len();
        self.metric_at.insert(id.clone(), index);
        self.values.push(Vec::new());
        self.metrics.push(SweepMetric {
            metric: id,
            unit,
            run_count: 0,
            mean: 0.0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        });
        index
    }

    /// The point of a row; none when there are too many values.
    fn point(&mut self, row: &[Cell]) -> Option<usize> {
        if self.value_count >= VALUES_MAX {
            return None;
        }
        let keys = self.keys.iter_mut();
        let point: Vec<u32> = keys.map(|key| key.index(&row[key.at])).collect();
        if let Some(index) = self.point_at.get(&point) {
            return Some(*index);
        }
        let index = self.points.len();
        self.point_at.insert(point.clone(), index);
        self.points.push(point);
        Some(index)
    }

    /// The report of all rows; `file` is the name of the table.
    pub fn finish(mut self, file: String) -> SweepReport {
        self.run.file = file;
        self.run.point_count = self.points.len() as u64;
        for values in &mut self.values {
            values.resize(self.points.len(), Vec::new());
        }
        let mut keys: Vec<SweepKey> = self.keys.into_iter().map(|column| column.key).collect();
        sort_values(&mut keys, &mut self.points);
        let failures = self.failures.into_iter();
        let failures = failures.map(|(message, count)| SweepFailure { count, message });
        let mut failures: Vec<SweepFailure> = failures.collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let mut report = SweepReport {
            run: self.run,
            keys,
            metrics: self.metrics,
            effects: Vec::new(),
            failures,
            points: self.points,
            values: self.values,
        };
        report.effects = effects::effects(&report);
        report
    }
}

impl SweepMetric {
    fn add(&mut self, value: f64) {
        self.run_count += 1;
        self.mean += (value - self.mean) / self.run_count as f64;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
}

/// Puts numbers in ascending order; texts keep theirs.
fn sort_values(keys: &mut [SweepKey], points: &mut [Vec<u32>]) {
    for (index, key) in keys.iter_mut().enumerate() {
        if !key.is_number() {
            continue;
        }
        let mut order: Vec<usize> = (0..key.values.len()).collect();
        order.sort_by(|a, b| number(&key.values[*a]).total_cmp(&number(&key.values[*b])));
        let mut new_of = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            new_of[*old] = new as u32;
        }
        key.values = order.iter().map(|old| key.values[*old].clone()).collect();
        for point in points.iter_mut() {
            point[index] = new_of[point[index] as usize];
        }
    }
}

/// A number of a key; what is missing comes behind all.
fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Integer(number) => *number as f64,
        Cell::Float(number) => *number,
        _ => f64::INFINITY,
    }
}
