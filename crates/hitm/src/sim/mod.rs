//! Simulation: a scenario file, the machine and the layouts that it names, and the results.
//!
//! [`Simulation::load`] opens what a scenario names. [`Simulation::run`] runs every variant with
//! every seed on all cores and sums up. Each run is one thread, so results do not depend on the
//! number of threads.

mod layouts;
mod load;
mod naming;
mod reproduce;
mod sections;
mod sensitivity;
mod summary;
mod types;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::Machine;
use hitm_base::machine::{Item, MachineFile, Quantity};
use hitm_layout::layout_file::LayoutFileError;
pub use hitm_sim::engine::Trace;
use hitm_sim::engine::{MODEL_VERSION, SimError};
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{self, RunRequest, Scenario, ScenarioError, TraceError};
use hitm_sim::workload::requests::TracedRequest;
use hitm_sim::workload::rt_app::{RtApp, RtAppError};
use rayon::prelude::*;
use thiserror::Error;

use hitm_files::text_file::TextFileError;
use hitm_whatif::layout_files::LayoutReadError;

pub use hitm_sim::scenario::{
    C2cCounts, C2cLine, C2cRow, Latencies, Metric, ModeShares, Outcome, Peak, SEEDS_MAX, Variant,
    WorkloadResult,
};
pub use layouts::layouts_of;
pub use load::is_rt_app;
pub(crate) use naming::run_name;
pub use naming::{shipped_scenario, shipped_scenarios};
pub use reproduce::{Reproduction, folders, reproduce};
pub use sections::{SectionError, Sections};
pub use sensitivity::{Effect, Figure, Number, Sensitivity, SensitivityOptions, sensitivity};
pub(crate) use sensitivity::{Point as NumberPoint, numbers_of, value_at};
pub use summary::{Check, Comparison, Crossing, Summary, VariantReport, variant_label};

/// Errors of loading and running a simulation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The machine model is wrong.
    #[error(transparent)]
    Machine(#[from] hitm_machine::Error),
    /// There is no such layout, or it cannot be read.
    #[error(transparent)]
    LayoutRead(#[from] LayoutReadError),
    /// A layout file is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutFileError),
    /// A kernel's types cannot be read.
    #[error(transparent)]
    Types(#[from] hitm_advise::types_files::TypesError),
    /// The structure cannot be read.
    #[error(transparent)]
    Type(#[from] hitm_layout::Error),
    /// A file of types has no structure that the model uses.
    #[error("{file}: found none of the structures of the scheduler, expected a kernel's types")]
    NoStructs {
        /// The file.
        file: String,
    },
    /// An rt-app file is wrong.
    #[error(transparent)]
    RtApp(#[from] RtAppError),
    /// A trace of requests is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A scenario cannot be run, or not to its end.
    #[error("{scenario} ({variant}): {source}")]
    Run {
        /// The scenario.
        scenario: String,
        /// Variant that failed.
        variant: String,
        /// Error of the run.
        source: SimError,
    },
    /// No such folder of scenarios.
    #[error("no scenarios for {name:?}: there are {known}")]
    UnknownFolder {
        /// Requested name.
        name: String,
        /// All folders.
        known: String,
    },
}

/// Overrides of a scenario's settings.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// A machine's name or file.
    pub machine: Option<String>,
    /// Layouts by name or file; empty for the scenario's own.
    pub layouts: Vec<String>,
    /// A tenth of the duration and of the iterations.
    pub quick: bool,
    /// Overridden scenario keys, `KEY=VALUE` each.
    pub settings: Vec<String>,
    /// Overridden numbers of the machine. Latencies that would be shorter than nearer ones rise to
    /// these; clean transfers are capped at dirty ones.
    pub numbers: Vec<(Item, Quantity)>,
}

/// A scenario with all files that it names.
#[derive(Debug, Clone)]
pub struct Simulation {
    scenario: Scenario,
    machine: Machine,
    machine_file: MachineFile,
    /// In the order of the scenario.
    layouts: Vec<(String, Layouts)>,
    /// By name of the workload.
    rt_apps: std::collections::BTreeMap<String, RtApp>,
    /// Traces of requests, likewise.
    traces: std::collections::BTreeMap<String, Vec<TracedRequest>>,
    hash: u64,
}

impl Simulation {
    /// Keys of rt-app's files that change nothing here, with the name of their workload.
    pub fn inert_keys(&self) -> impl Iterator<Item = (&str, &[String])> {
        let apps = self.rt_apps.iter();
        let inert = apps.map(|(name, app)| (name.as_str(), app.inert.as_slice()));
        inert.filter(|(_, keys)| !keys.is_empty())
    }
}

/// Progress of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time done, of all runs together, in nanoseconds.
    pub done_ns: u64,
    /// Virtual time to do, when it is known.
    pub all_ns: Option<u64>,
}

/// The results of a scenario.
#[derive(Debug, Clone)]
pub struct SimReport {
    /// Name of the scenario.
    pub scenario: String,
    /// Description of the scenario.
    pub description: String,
    /// Source of the scenario.
    pub source: String,
    /// Name of the machine.
    pub machine: String,
    /// CPUs that were simulated.
    pub cpu_count: usize,
    /// Version of the model.
    pub model_version: u32,
    /// Hash of all inputs.
    pub scenario_hash: u64,
    /// The seeds, one run of each variant for each.
    pub seeds: Vec<u64>,
    /// Results by variant.
    pub variants: Vec<VariantReport>,
    /// Published figures beside simulated ones.
    pub comparisons: Vec<Comparison>,
    /// Load at which one published figure is met, and the other figures there.
    pub crossing: Option<Crossing>,
}

impl SimReport {
    /// Returns true if every workload that checks itself passed, in every run.
    pub fn passed(&self) -> bool {
        let checks = self.checks();
        checks.iter().all(|check| check.failed_seeds.is_empty())
    }

    /// Results of workloads that check themselves, by variant and workload.
    pub fn checks(&self) -> Vec<Check<'_>> {
        self.variants
            .iter()
            .flat_map(VariantReport::checks)
            .collect()
    }
}

impl Simulation {
    /// The seed that the scenario states.
    pub fn seed(&self) -> u64 {
        self.scenario.run.seed
    }

    /// Number of seeds from [`Simulation::seed`] on that the scenario states.
    pub fn seed_count(&self) -> u64 {
        self.scenario.run.seeds
    }

    /// The parsed scenario, with overrides applied.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Machine file of the scenario.
    pub fn machine_file(&self) -> &MachineFile {
        &self.machine_file
    }

    /// Removes layouts that no published figure names, where any names one.
    fn keep_published_layouts(&mut self) {
        let published = self.scenario.published.iter();
        let named = published.flat_map(|one| one.layout.iter().chain(&one.change_from));
        let named: Vec<String> = named.cloned().collect();
        let is_named = |layout: &String| named.is_empty() || named.contains(layout);
        self.scenario.kernel.layouts.retain(is_named);
    }

    /// Runs every variant with `seed_count` seeds from `first_seed` on; `progress` may be called
    /// from any thread.
    ///
    /// ```
    /// use hitm::sim::{LoadOptions, Simulation};
    ///
    /// let options = LoadOptions {
    ///     quick: true,
    ///     ..LoadOptions::default()
    /// };
    /// let simulation = Simulation::load_named("001-rt-balancing/cpus-004".as_ref(), &options)?;
    /// let report = simulation.run(simulation.seed(), 1, &|_| ())?;
    /// assert!(report.passed());
    /// # Ok::<(), hitm::sim::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error, in the order of variants and seeds, of a run that fails.
    pub fn run(
        &self,
        first_seed: u64,
        seed_count: u64,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<SimReport, Error> {
        self.run_all(first_seed, seed_count, progress, false)
            .map(|(report, _)| report)
    }

    /// Like [`Simulation::run`], and returns the course of the first seed of the first variant.
    ///
    /// # Errors
    /// Those of [`Simulation::run`].
    pub fn run_traced(
        &self,
        first_seed: u64,
        seed_count: u64,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(SimReport, Trace), Error> {
        let (report, trace) = self.run_all(first_seed, seed_count, progress, true)?;
        Ok((report, trace.expect("the first run was traced")))
    }

    fn run_all(
        &self,
        first_seed: u64,
        seed_count: u64,
        progress: &(dyn Fn(Progress) + Sync),
        is_traced: bool,
    ) -> Result<(SimReport, Option<Trace>), Error> {
        let seeds: Vec<u64> = (0..seed_count)
            .map(|n| first_seed.wrapping_add(n))
            .collect();
        let variants = self.scenario.variants();
        let tasks = variants
            .iter()
            .flat_map(|variant| seeds.iter().map(move |seed| (variant, *seed)));
        let tasks: Vec<(&Variant, u64)> = tasks.collect();
        let per_run = self
            .scenario
            .run
            .duration
            .map(|time| time.as_nanos() as u64);
        let all_ns = per_run.map(|nanos| nanos * tasks.len() as u64);
        let done = AtomicU64::new(0);
        let one = |(index, (variant, seed)): (usize, &(&Variant, u64))| {
            let told = Cell::new(0);
            let tell = |now: u64| {
                let added = now - told.replace(now);
                let done_ns = done.fetch_add(added, Ordering::Relaxed) + added;
                progress(Progress { done_ns, all_ns });
            };
            let mut progress = |now, _| tell(now);
            let outcome = match is_traced && index == 0 {
                true => self
                    .run_one_traced(variant, *seed, &mut progress)
                    .map(|(outcome, trace)| (outcome, Some(trace))),
                false => self
                    .run_one(variant, *seed, &mut progress)
                    .map(|outcome| (outcome, None)),
            };
            tell(per_run.unwrap_or(0).max(told.get()));
            outcome
        };
        let outcomes: Vec<Result<_, Error>> = tasks.par_iter().enumerate().map(one).collect();
        let mut trace = None;
        let mut outcomes = outcomes.into_iter().map(|outcome| {
            let (outcome, course) = outcome?;
            trace = trace.take().or(course);
            Ok(outcome)
        });
        let mut reports = Vec::new();
        for variant in variants {
            let of_variant: Result<Vec<Outcome>, Error> =
                outcomes.by_ref().take(seeds.len()).collect();
            reports.push(VariantReport::new(&self.scenario, variant, of_variant?));
        }
        let comparisons = summary::comparisons(&self.scenario, &reports);
        let crossing = summary::crossing(&self.scenario, &reports);
        let report = SimReport {
            scenario: self.scenario.name.clone(),
            description: self.scenario.description.clone(),
            source: self.scenario.source.clone(),
            machine: self.machine.name.clone(),
            cpu_count: self.machine.topology.cpu_count(),
            model_version: MODEL_VERSION,
            scenario_hash: self.hash,
            seeds,
            variants: reports,
            comparisons,
            crossing,
        };
        Ok((report, trace))
    }

    fn layouts_of_variant(&self, variant: &Variant) -> &(String, Layouts) {
        let mut layouts = self.layouts.iter();
        let layouts = layouts.find(|(name, _)| *name == variant.layout);
        layouts.expect("a layout is loaded for each variant")
    }

    /// Runs one variant with one seed on this thread.
    pub(crate) fn run_one(
        &self,
        variant: &Variant,
        seed: u64,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Outcome, Error> {
        scenario::run(&self.request(variant, seed), progress)
            .map_err(|source| self.failed(variant, source))
    }

    /// Like `run_one`, and returns the course of the run.
    fn run_one_traced(
        &self,
        variant: &Variant,
        seed: u64,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(Outcome, Trace), Error> {
        scenario::run_traced(&self.request(variant, seed), progress)
            .map_err(|source| self.failed(variant, source))
    }

    fn request<'a>(&'a self, variant: &'a Variant, seed: u64) -> RunRequest<'a> {
        let (_, layouts) = self.layouts_of_variant(variant);
        RunRequest {
            scenario: &self.scenario,
            machine: &self.machine,
            layouts: layouts.clone(),
            variant,
            seed,
            scenario_hash: self.hash,
            rt_apps: &self.rt_apps,
            traces: &self.traces,
        }
    }

    fn failed(&self, variant: &Variant, source: SimError) -> Error {
        Error::Run {
            scenario: self.scenario.name.clone(),
            variant: variant_label(&self.scenario, variant),
            source,
        }
    }
}
