//! `hitm.sweep`: a plan, its runs one by one or all, and its table.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hitm::sweep::{Part, Progress, Store, Sweep};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::interrupt::detached;
use crate::table::Table;

/// A plan with its runs.
#[pyclass(frozen, name = "Sweep", module = "hitm")]
#[derive(Debug)]
pub(crate) struct PySweep(Sweep);

#[pymethods]
impl PySweep {
    /// Reads a plan, checks it and names its runs.
    #[new]
    fn new(py: Python<'_>, plan: PathBuf) -> PyResult<PySweep> {
        let sweep = py
            .detach(|| Sweep::load(&plan, &mut |_, _| {}))
            .map_err(|error| raise(&error))?;
        Ok(PySweep(sweep))
    }

    /// A plan as text; its paths count from `folder`.
    #[staticmethod]
    fn of_text(py: Python<'_>, text: &str, folder: PathBuf) -> PyResult<PySweep> {
        let sweep = py.detach(|| Sweep::of_text(text, "the plan", &folder));
        Ok(PySweep(sweep.map_err(|error| raise(&error))?))
    }

    /// Runs of the plan.
    #[getter]
    fn run_count(&self) -> usize {
        self.0.run_count()
    }

    /// Numbers of the runs without a result in the folder.
    fn missing(&self, py: Python<'_>, folder: PathBuf) -> PyResult<Vec<usize>> {
        let store = Store::read_only(&folder);
        let missing = py.detach(|| self.0.missing(&store, Part::ALL));
        missing.map_err(|error| raise(&error))
    }

    /// Makes these runs, one after the other, as far as the folder has not got them. Returns how many
    /// were made.
    fn run_some(&self, py: Python<'_>, folder: PathBuf, runs: Vec<usize>) -> PyResult<usize> {
        if let Some(run) = runs.iter().find(|run| **run >= self.0.run_count()) {
            return Err(PyIndexError::new_err(format!("no run {run}")));
        }
        let store = Store::open(&folder).map_err(|error| raise(&error))?;
        let made = detached(
            py,
            |cancel| {
                let mut made = 0;
                for run in runs {
                    cancel.check();
                    made += usize::from(self.0.run_one(&store, run)?);
                }
                Ok::<usize, hitm::sweep::Error>(made)
            },
            |_| Ok(()),
        )?;
        made.map_err(|error| raise(&error))
    }

    /// Makes all runs that the folder has not got, on so many threads. `progress` is called with
    /// runs done, runs to do and failures, some times a second.
    #[pyo3(signature = (folder, *, jobs = None, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        jobs: Option<NonZeroUsize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(usize, usize, usize)> {
        let jobs = jobs.or_else(|| std::thread::available_parallelism().ok());
        let store = Store::open(&folder).map_err(|error| raise(&error))?;
        let now = Mutex::new(Progress::default());
        let tell = |py: Python<'_>| {
            let Some(progress) = &progress else {
                return Ok(());
            };
            let now = *now.lock().expect("no thread panicked");
            progress
                .call1(py, (now.done, now.all, now.failed))
                .map(drop)
        };
        let totals = detached(
            py,
            |cancel| {
                self.0.run(
                    &store,
                    Part::ALL,
                    jobs.unwrap_or(NonZeroUsize::MIN),
                    &|progress| {
                        *now.lock().expect("no thread panicked") = progress;
                        !cancel.is_set()
                    },
                )
            },
            tell,
        )?;
        let totals = totals.map_err(|error| raise(&error))?;
        tell(py)?;
        Ok((totals.made, totals.found, totals.failed))
    }

    /// Writes the table; returns its path.
    fn compact(&self, py: Python<'_>, folder: PathBuf) -> PyResult<PathBuf> {
        let store = Store::read_only(&folder);
        py.detach(|| self.0.compact(&store))
            .map_err(|error| raise(&error))
    }

    fn __repr__(&self) -> String {
        format!(
            "<hitm.Sweep {} of {} runs>",
            self.0.plan().name,
            self.0.run_count()
        )
    }
}

/// The table in a Parquet file.
#[pyfunction]
pub(crate) fn read_table(path: PathBuf) -> PyResult<Table> {
    let path: &Path = &path;
    Table::of_parquet(path.to_owned())
}
