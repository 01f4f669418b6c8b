//! `hitm.simulate`.

use std::path::Path;

use hitm::sim::{LoadOptions, Simulation};
use hitm_report::fields::Value;
use hitm_report::sim::fields::{metric, variant};
use hitm_report::sim::simulation_json;
use pyo3::prelude::*;

use crate::error::raise;
use crate::interrupt::{Cancel, detached};
use crate::table::{Table, columns, values};

/// Runs a scenario; returns its JSON (docs/formats/sim.md) and its figures as a table.
#[pyfunction]
#[pyo3(signature = (scenario, *, settings, machine = None, layouts = Vec::new(), quick = false, seed = None, seeds = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: String,
    settings: Vec<String>,
    machine: Option<String>,
    layouts: Vec<String>,
    quick: bool,
    seed: Option<u64>,
    seeds: Option<u64>,
) -> PyResult<(String, Table)> {
    let options = LoadOptions {
        machine,
        layouts,
        quick,
        settings,
        numbers: Vec::new(),
    };
    let simulation = Simulation::load_named(Path::new(&scenario), &options);
    let simulation = simulation.map_err(|error| raise(&error))?;
    let first = seed.unwrap_or_else(|| simulation.seed());
    let count = match (seed, seeds) {
        (None, None) => simulation.seed_count(),
        (_, count) => count.unwrap_or(1),
    };
    let work = |cancel: &Cancel| {
        let report = simulation.run(first, count, &|_| cancel.check());
        report.map_err(|error| raise(&error))
    };
    let report = detached(py, work, |_| Ok(()))??;
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for variant in &report.variants {
        for summary in &variant.summaries {
            let mut row = values(variant::ALL, variant);
            row.extend(values(metric::ALL, summary));
            rows.push(row);
        }
    }
    let mut facts = columns(variant::ALL);
    facts.extend(columns(metric::ALL));
    Ok((simulation_json(&report, false), Table::of_rows(facts, rows)))
}
