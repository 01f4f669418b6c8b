//! Sensitivity of a scenario's headline figures to unmeasured numbers.
//!
//! [`sensitivity`] varies every assumed number of the scenario, its machine and its kernel over its
//! range: one at a time to both ends, then all together by a Latin hypercube. It returns the interval
//! of each headline figure over all these runs, and the effect of each number on it. A few more seeds
//! without a change show the effect of chance.
//!
//! The scenario's own assumed numbers are varied alone if nothing is published.
//!
//! Invariant: the same scenario and options give the same points and the same order of results,
//! with any number of threads.

mod figures;
mod numbers;
mod points;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hitm_sim::scenario::ShippedFile;
use rayon::prelude::*;

use super::{Error, LoadOptions, Reproduction, SimReport, Simulation};

pub use figures::{Effect, Figure};
pub use numbers::Number;

use figures::{Headline, Runs};
pub(crate) use numbers::numbers_of;
pub(crate) use points::{Point, value_at};
use points::{latin_hypercube, one_at_a_time};

/// Seeds beyond the first with which the unchanged scenario is run.
const CHANCE_SEEDS: u64 = 3;
/// Seed of the hypercube.
const SAMPLE_SEED: u64 = 1;

/// The cases, points and seeds of a variation.
#[derive(Debug, Clone)]
pub struct SensitivityOptions {
    /// The cases, and the number of seeds of each point; 1 where it is not set.
    pub cases: Reproduction,
    /// Points at which all numbers are varied together.
    pub sample_count: usize,
}

/// The result of varying the numbers of a scenario.
#[derive(Debug, Clone)]
pub struct Sensitivity {
    /// Folder and file of the scenario.
    pub scenario: String,
    /// Name of its machine.
    pub machine: String,
    /// Version of the model.
    pub model_version: u32,
    /// True if it was shortened.
    pub quick: bool,
    /// Seeds of each point.
    pub seed_count: u64,
    /// Points at which one number is at an end of its range.
    pub single_count: usize,
    /// Points at which all are varied together.
    pub sample_count: usize,
    /// The varied numbers.
    pub numbers: Vec<Number>,
    /// The headline figures.
    pub figures: Vec<Figure>,
}

/// Varies the numbers of each scenario of the cases that has published figures or assumed numbers. `progress` gets the
/// scenario, points done and points to do, from any thread.
///
/// # Errors
/// An unknown case, or a run that fails.
pub fn sensitivity(
    options: &SensitivityOptions,
    progress: &(dyn Fn(&str, usize, usize) + Sync),
) -> Result<Vec<Sensitivity>, Error> {
    let mut all = Vec::new();
    for file in options.cases.files()? {
        let scenario = Varied::new(file, options)?;
        if scenario.has_headlines() {
            all.push(scenario.vary(&|done, count| progress(file.name, done, count))?);
        }
    }
    Ok(all)
}

/// A scenario whose numbers are varied.
struct Varied<'a> {
    file: ShippedFile,
    options: &'a SensitivityOptions,
    base: Simulation,
    numbers: Vec<Number>,
}

impl<'a> Varied<'a> {
    fn new(file: ShippedFile, options: &'a SensitivityOptions) -> Result<Varied<'a>, Error> {
        let base = Varied::load(file, options, &Point::default(), &[])?;
        let scenario = base.scenario();
        let numbers = match scenario.published.is_empty() {
            true => numbers::own_numbers(scenario).collect(),
            false => numbers_of(base.machine_file(), scenario),
        };
        Ok(Varied {
            file,
            options,
            base,
            numbers,
        })
    }

    /// Loads the scenario at a point, with the layouts of its published figures.
    fn load(
        file: ShippedFile,
        options: &SensitivityOptions,
        point: &Point,
        numbers: &[Number],
    ) -> Result<Simulation, Error> {
        let origin = format!("scenarios/{}/{}", file.folder, file.name);
        let load = LoadOptions {
            quick: options.cases.quick,
            settings: point.settings(numbers),
            numbers: point.machine_numbers(numbers),
            ..LoadOptions::default()
        };
        let mut simulation = Simulation::of_text(file.text, &origin, Path::new(""), &load)?;
        simulation.keep_published_layouts();
        Ok(simulation)
    }

    fn has_headlines(&self) -> bool {
        let scenario = self.base.scenario();
        !scenario.published.is_empty() || !scenario.assumed.is_empty()
    }

    fn vary(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Sensitivity, Error> {
        let singles = one_at_a_time(&self.numbers);
        let samples = latin_hypercube(&self.numbers, self.options.sample_count, SAMPLE_SEED);
        let single_count = singles.len();
        let mut runs = vec![(Point::default(), 0)];
        runs.extend((1..=CHANCE_SEEDS).map(|seed| (Point::default(), seed)));
        let unchanged = runs.len();
        runs.extend(singles.into_iter().chain(samples).map(|point| (point, 0)));
        let done = AtomicUsize::new(0);
        let one = |(point, seed): &(Point, u64)| {
            let headlines = self.run(point, *seed);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
            headlines
        };
        let results: Result<Vec<Vec<Headline>>, Error> = runs.par_iter().map(one).collect();
        let results = results?;
        let (chance, varied) = results.split_at(unchanged);
        let (singles, samples) = varied.split_at(single_count);
        let runs = Runs {
            chance,
            singles,
            samples,
        };
        Ok(Sensitivity {
            scenario: self.base.scenario().name.clone(),
            machine: self.base.machine_file().name.clone(),
            model_version: hitm_sim::engine::MODEL_VERSION,
            quick: self.options.cases.quick,
            seed_count: self.seed_count(),
            single_count,
            sample_count: samples.len(),
            figures: figures::figures(&self.numbers, &runs),
            numbers: self.numbers.clone(),
        })
    }

    fn seed_count(&self) -> u64 {
        self.options.cases.seed_count.unwrap_or(1)
    }

    fn run(&self, point: &Point, seed: u64) -> Result<Vec<Headline>, Error> {
        let simulation = Varied::load(self.file, self.options, point, &self.numbers)?;
        let seed = simulation.seed().wrapping_add(seed * self.seed_count());
        let report: SimReport = simulation.run(seed, self.seed_count(), &|_| {})?;
        Ok(figures::headlines(simulation.scenario(), &report))
    }
}
