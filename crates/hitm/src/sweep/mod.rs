//! Many runs from one plan: each named by its content, run once, and all of them in one table.
//!
//! [`Sweep::load`] reads a plan, checks it and names its runs. [`Sweep::run`] makes those that a
//! [`Store`] lacks. [`Sweep::compact`] writes the table. A result is a file of the run's name, so
//! resuming, retrying, extending a plan and mixing engines are one thing: an existing run is not
//! made again. The table's bytes depend on the plan alone.

mod check;
mod estimate;
mod metrics;
mod points;
mod pool;
mod results;
mod rows;
mod slurm;
mod stated;
mod store;

use std::path::{Path, PathBuf};

use hitm_files::output_file::OutputError;
use hitm_files::text_file::{TextFileError, read};
use hitm_sweep::PlanError;
use hitm_sweep::name::RunName;
use hitm_sweep::plan::{Plan, TEXT_BYTES_MAX};
use points::{Job, Labels, Source};
use rayon::prelude::*;
use stated::StatedNumbers;
use thiserror::Error;

pub use estimate::Estimate;
pub use hitm_sweep::plan::KeyType;
pub use hitm_sweep::read::is_reading;
pub use hitm_sweep::result::{Figure, RunResult};
pub use hitm_sweep::table::{Cell, Column};
pub use pool::{Part, PartError, Progress, Totals};
pub use results::{read_table, table_of};
pub use slurm::slurm_script;
pub use store::Store;

/// The table's name in the folder of a sweep.
pub const TABLE_FILE: &str = "results.parquet";

/// Errors of a sweep.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file that the plan names, or a value for it, is wrong.
    #[error("{origin}:{line}:{column}: {key}: {message}")]
    Named {
        /// The plan's file.
        origin: String,
        /// Line in it.
        line: usize,
        /// Column in it.
        column: usize,
        /// The key.
        key: String,
        /// The message of its reader.
        message: String,
    },
    /// A result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A result cannot be put in its place.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The table cannot be written.
    #[error("cannot write {}: {message}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Error of the writer.
        message: String,
    },
    /// The table cannot be read.
    #[error("cannot read {}: {message}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the reader.
        message: String,
    },
    /// The table lacks a run.
    #[error("{missing} of {all} runs have no result: run the sweep to its end first")]
    Incomplete {
        /// Runs without a result.
        missing: usize,
        /// All runs.
        all: usize,
    },
}

/// One run of a sweep.
#[derive(Debug, Clone, Copy)]
struct Entry {
    point: u32,
    /// Index of its labels, or of its point's error message.
    kind: EntryKind,
    variant: u16,
    /// Number of the seed in the plan.
    seed: u32,
}

#[derive(Debug, Clone, Copy)]
enum EntryKind {
    /// A run, with its name and its labels.
    Run { name: RunName, labels: u32 },
    /// A point that cannot be run, with the index of its message.
    Broken { message: u32 },
}

/// A run of a point, with its name.
#[derive(Debug)]
struct NamedRun {
    name: RunName,
    variant: u16,
    /// Number of the seed in the plan.
    seed: u32,
    labels: Labels,
}

/// A plan with its runs.
#[derive(Debug)]
pub struct Sweep {
    plan: Plan,
    /// Folder that paths of the plan count from.
    folder: PathBuf,
    sources: Vec<Source>,
    /// Numbers whose ranges machine files and the kernel's costs state.
    stated: Option<StatedNumbers>,
    entries: Vec<Entry>,
    labels: Vec<Labels>,
    messages: Vec<String>,
}

impl Sweep {
    /// Reads the plan at `path` and the files that it names, checks every key and value, and names
    /// all runs.
    ///
    /// `progress` gets the points that have been named so far, and all.
    ///
    /// # Errors
    /// Files that cannot be read, keys, values and metrics that are wrong: with line and column.
    pub fn load(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Sweep, Error> {
        let text = read(path, TEXT_BYTES_MAX as u64, "a plan")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Sweep::of_text_with(&text, &path.display().to_string(), folder, progress)
    }

    /// Like [`Sweep::load`], of a text; `folder` is where its paths count from.
    ///
    /// # Errors
    /// As [`Sweep::load`].
    pub fn of_text(text: &str, origin: &str, folder: &Path) -> Result<Sweep, Error> {
        Sweep::of_text_with(text, origin, folder, &mut |_, _| {})
    }

    fn of_text_with(
        text: &str,
        origin: &str,
        folder: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Sweep, Error> {
        let plan = Plan::parse(text, origin)?;
        let mut sweep = Sweep {
            sources: points::sources(&plan, folder)?,
            plan,
            stated: None,
            folder: folder.to_owned(),
            entries: Vec::new(),
            labels: Vec::new(),
            messages: Vec::new(),
        };
        check::check(&sweep.plan, &sweep.sources, folder)?;
        sweep.stated = StatedNumbers::of_plan(&sweep.plan, &sweep.sources, folder)?;
        sweep.name_runs(progress)?;
        Ok(sweep)
    }

    /// Fills in the runs of all points, in the order of the plan.
    fn name_runs(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        /// Points that are named at a time: bounds the memory for them.
        const POINTS_AT_ONCE: u64 = 4_096;
        let point_count = self.plan.point_count();
        for first in (0..point_count).step_by(POINTS_AT_ONCE as usize) {
            let last = point_count.min(first + POINTS_AT_ONCE);
            let points: Vec<u64> = (first..last).collect();
            let named: Vec<Result<Vec<NamedRun>, String>> = points
                .par_iter()
                .map(|point| self.runs_of(*point))
                .collect();
            for (point, runs) in points.into_iter().zip(named) {
                self.add_point(point as u32, runs)?;
            }
            progress(last, point_count);
        }
        Ok(())
    }

    /// The runs of a point.
    fn runs_of(&self, point: u64) -> Result<Vec<NamedRun>, String> {
        let job = self.job(point)?;
        let mut runs = Vec::new();
        for variant in 0..job.variant_count() {
            for (number, seed) in self.plan.seeds().enumerate() {
                runs.push(NamedRun {
                    name: job.name(variant, seed),
                    variant: variant as u16,
                    seed: number as u32,
                    labels: job.labels(variant),
                });
            }
        }
        Ok(runs)
    }

    fn add_point(&mut self, point: u32, runs: Result<Vec<NamedRun>, String>) -> Result<(), Error> {
        match runs {
            Ok(runs) => {
                for run in runs {
                    let labels = index_of(&mut self.labels, run.labels);
                    let name = run.name;
                    self.entries.push(Entry {
                        point,
                        kind: EntryKind::Run { name, labels },
                        variant: run.variant,
                        seed: run.seed,
                    });
                }
            }
            Err(message) => {
                let message = index_of(&mut self.messages, message);
                self.entries.push(Entry {
                    point,
                    kind: EntryKind::Broken { message },
                    variant: 0,
                    seed: 0,
                });
            }
        }
        check::check_run_count(&self.plan, self.entries.len())
    }

    /// The plan as parsed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of runs; a point that cannot be run counts as one.
    pub fn run_count(&self) -> usize {
        self.entries.len()
    }

    /// Number of points that cannot be run; their rows have the message.
    pub fn broken_count(&self) -> usize {
        let is_broken = |entry: &&Entry| matches!(entry.kind, EntryKind::Broken { .. });
        self.entries.iter().filter(is_broken).count()
    }

    /// The work of a point.
    fn job(&self, point: u64) -> Result<Box<dyn Job>, String> {
        let stated = self.stated.as_ref();
        points::job(&self.plan, &self.sources, &self.folder, point, stated)
    }

    fn seed(&self, entry: &Entry) -> u64 {
        self.plan.first_seed.wrapping_add(u64::from(entry.seed))
    }

    /// Numbers of the runs without a result in the store, each name once, in the order of the plan.
    ///
    /// # Errors
    /// Results that cannot be read.
    pub fn missing(&self, store: &Store, part: Part) -> Result<Vec<usize>, Error> {
        let mut seen = std::collections::BTreeSet::new();
        let mut missing = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            let EntryKind::Run { name, .. } = entry.kind else {
                continue;
            };
            if part.has(number) && seen.insert(name) && store.get(name)?.is_none() {
                missing.push(number);
            }
        }
        Ok(missing)
    }
}

/// Returns the index of `item` in `known`, and adds it unless one of the last entries is equal.
/// Neighbours in a plan mostly share an item; a list of distinct ones is not searched in full each
/// time.
fn index_of<T: PartialEq>(known: &mut Vec<T>, item: T) -> u32 {
    const SEARCHED_MAX: usize = 256;
    let first = known.len().saturating_sub(SEARCHED_MAX);
    let found = known[first..].iter().rposition(|other| *other == item);
    let index = found.map_or_else(
        || {
            known.push(item);
            known.len() - 1
        },
        |index| first + index,
    );
    index as u32
}
