//! From results to the table, in the order of the plan.

use std::io;
use std::path::{Path, PathBuf};

use hitm_files::output_file::{self, OutputFile};
use hitm_sweep::plan::{KeyType, Point, SourceKind};
use hitm_sweep::result::RunResult;
use hitm_sweep::table::{Cell, Column, TableWriter};
use hitm_sweep::value::{Unit, Value};

use super::points::{LAYOUT, Labels, MACHINE, THREADS_TO};
use super::stated::StatedNumbers;
use super::{Entry, EntryKind, Error, Part, Store, Sweep, TABLE_FILE};

/// Keys whose value stands in a label column.
const LABELLED: [&str; 3] = [MACHINE, LAYOUT, THREADS_TO];

impl Sweep {
    /// Writes the table to the store's folder and returns its path.
    ///
    /// # Errors
    /// Runs without a result; a full disk.
    pub fn compact(&self, store: &Store) -> Result<PathBuf, Error> {
        let missing = self.missing(store, Part::ALL)?.len();
        if missing > 0 {
            return Err(Error::Incomplete {
                missing,
                all: self.entries.len(),
            });
        }
        let path = store.folder().join(TABLE_FILE);
        self.write_table(store, &path)?;
        Ok(path)
    }

    fn write_table(&self, store: &Store, path: &Path) -> Result<(), Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Table {
            path: path.to_owned(),
            message: error.to_string(),
        };
        let columns = self.columns();
        // Engines that share the folder may end together.
        let mut file = output_file::in_turn(|| OutputFile::create(path))?;
        let buffer = io::BufWriter::new(&mut file);
        let mut table = TableWriter::new(buffer, &columns).map_err(|error| failed(&error))?;
        for entry in &self.entries {
            for row in self.rows(entry, store)? {
                table.push(&row).map_err(|error| failed(&error))?;
            }
        }
        let buffer = table.finish().map_err(|error| failed(&error))?;
        let flushed = buffer.into_inner();
        flushed.map_err(|error| failed(&error.error()))?;
        Ok(file.commit()?)
    }

    /// The columns of the table.
    fn columns(&self) -> Vec<Column> {
        let column = Column::of_type;
        let text = |name, description| column(name, KeyType::Text, description);
        let mut columns = vec![text(
            "run",
            "Name of the run: a hash of everything that decides it",
        )];
        match self.plan.kind {
            SourceKind::Scenarios => columns.extend([
                text("scenario", "The scenario, as the plan names it"),
                text("machine", "The machine model"),
                text("layout", "The layout of the kernel's structures"),
                text("balancing", "The mover of real-time tasks"),
                text("throttling", "The handling of groups without quota left"),
                text("preempt", "The preemption model of the kernel"),
                text("placement", "The placement of fair tasks"),
                column(
                    "wakeups_per_cpu_second",
                    KeyType::Integer(Unit::PerSecond),
                    "The load of a thread pool: wake-ups a second and CPU that were asked for",
                ),
            ]),
            SourceKind::Recordings => columns.extend([
                text("recording", "The recording, as the plan names it"),
                text("machine", "The machine model"),
                text("layout", "The layout of the program's structures"),
                text("threads_to", "The placement of threads"),
            ]),
        }
        for (key, kind) in self.own_keys() {
            columns.push(column(key, kind, "A key that the plan varies"));
        }
        columns.extend(self.stated.iter().flat_map(StatedNumbers::columns));
        let seed = KeyType::Integer(Unit::None);
        columns.extend([
            column("seed", seed, "Seed of the run"),
            text("metric", "The figure; none in the row of a run that failed"),
            text("unit", "Unit of the value"),
            column("value", KeyType::Float, "Value of the figure"),
            text("failure", "The message of a run that failed"),
        ]);
        columns
    }

    /// Keys with a column of their own.
    fn own_keys(&self) -> impl Iterator<Item = (&str, KeyType)> {
        let keys = self.plan.keys().into_iter();
        keys.filter(|(key, _)| !LABELLED.contains(key))
    }

    /// The rows of one run.
    fn rows(&self, entry: &Entry, store: &Store) -> Result<Vec<Vec<Cell>>, Error> {
        let point = self.plan.point(u64::from(entry.point));
        let (name, labels, seed, result) = match entry.kind {
            EntryKind::Run { name, labels } => {
                let seed = Cell::Integer(self.seed(entry) as i64);
                let labels = Some(&self.labels[labels as usize]);
                (Cell::Text(name.to_string()), labels, seed, store.get(name)?)
            }
            EntryKind::Broken { message } => {
                let message = self.messages[message as usize].clone();
                let failed = RunResult::Failed(message);
                (Cell::Missing, None, Cell::Missing, Some(failed))
            }
        };
        let mut before = vec![name];
        before.extend(self.label_cells(&point, labels));
        before.extend(self.key_cells(&point));
        before.extend(self.stated_cells(entry));
        before.push(seed);
        let with = |after: [Cell; 4]| before.iter().cloned().chain(after).collect();
        let figures = match result {
            Some(RunResult::Figures(figures)) => figures,
            Some(RunResult::Failed(message)) => {
                let [id, unit, value] = [const { Cell::Missing }; 3];
                return Ok(vec![with([id, unit, value, Cell::Text(message)])]);
            }
            None => {
                return Err(Error::Incomplete {
                    missing: 1,
                    all: self.entries.len(),
                });
            }
        };
        let metrics = &self.plan.metrics;
        let wanted = figures
            .iter()
            .filter(|figure| metrics.is_empty() || metrics.iter().any(|(id, _)| *id == figure.id));
        let row = |figure: &hitm_sweep::result::Figure| {
            let (id, unit) = (figure.id.clone(), figure.unit.clone());
            let value = Cell::Float(figure.value);
            with([Cell::Text(id), Cell::Text(unit), value, Cell::Missing])
        };
        Ok(wanted.map(row).collect())
    }

    /// Source, machine, layout and other labels of a variant.
    fn label_cells(&self, point: &Point<'_>, labels: Option<&Labels>) -> Vec<Cell> {
        let text = |text: Option<&str>| text.map_or(Cell::Missing, |text| Cell::Text(text.into()));
        let stated = |key: &str| {
            let mut settings = point.settings.iter();
            settings
                .find(|setting| setting.key == key)
                .map(|setting| setting.value.text())
        };
        let source = Cell::Text(self.plan.sources[point.source].0.clone());
        let Some(labels) = labels else {
            let mut cells = vec![source];
            cells.extend([MACHINE, LAYOUT].map(|key| text(stated(key).as_deref())));
            match self.plan.kind {
                SourceKind::Scenarios => cells.extend([const { Cell::Missing }; 5]),
                SourceKind::Recordings => cells.push(text(stated(THREADS_TO).as_deref())),
            }
            return cells;
        };
        let mut cells = vec![
            source,
            text(Some(&labels.machine)),
            text(Some(&labels.layout)),
        ];
        if self.plan.kind == SourceKind::Scenarios {
            let policies = [labels.balancing, labels.throttling, labels.preempt];
            cells.extend(policies.map(text));
        }
        cells.push(text(Some(&labels.placement)));
        if self.plan.kind == SourceKind::Scenarios {
            cells.push(
                labels
                    .load
                    .map_or(Cell::Missing, |load| Cell::Integer(load as i64)),
            );
        }
        cells
    }

    /// Values of the numbers with a stated range.
    fn stated_cells(&self, entry: &Entry) -> Vec<Cell> {
        let cells = |stated: &StatedNumbers| stated.cells(u64::from(entry.point));
        self.stated.as_ref().map(cells).unwrap_or_default()
    }

    fn key_cells(&self, point: &Point<'_>) -> Vec<Cell> {
        let types = self.own_keys();
        let settings = point.settings.iter();
        let settings = settings.filter(|setting| !LABELLED.contains(&setting.key));
        let cells = settings.zip(types);
        cells
            .map(|(setting, (_, kind))| cell(setting.value, kind))
            .collect()
    }
}

/// A value in its key's column.
fn cell(value: &Value, kind: KeyType) -> Cell {
    match (kind, value) {
        (KeyType::Integer(_), value) => {
            let quantity = value.quantity().map(|(number, _)| Cell::Integer(number));
            quantity.expect("the column's type is that of all values")
        }
        (KeyType::Float, Value::Integer(number)) => Cell::Integer(*number),
        (KeyType::Float, Value::Float(number)) => Cell::Float(*number),
        (KeyType::Flag, Value::Flag(flag)) => Cell::Flag(*flag),
        (_, value) => Cell::Text(value.text()),
    }
}
