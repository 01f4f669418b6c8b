//! Scenarios: a machine, a kernel, what runs on it and for how long, in TOML.
//! `docs/formats/scenario.md` describes the file.
//!
//! [`Scenario::parse`] reads the text, [`Scenario::check`] holds it against the machine that it
//! names, [`run()`] makes the kernel and its tasks and runs them. Where a file gives several
//! policies, layouts or loads, each combination is a [`Variant`], run on its own.
//!
//! Invariants of a [`Scenario`] that was parsed: it has a workload; names of workloads are unique.
//! Every time, rate and count lies in the range that the document states; it has at most
//! [`VARIANTS_MAX`] variants. One that was checked needs no CPU that its machine does not have.
//!
//! Published figures are carried along to be printed beside a result. Nothing here reads them.

mod assumed;
mod c2c;
pub(crate) mod check;
mod choices;
mod groups;
mod outcome;
mod parse;
mod peaks;
pub(crate) mod products;
pub(crate) mod quantity;
pub(crate) mod reader;
mod run;
mod settings;
mod shipped;
pub(crate) mod start;
#[cfg(test)]
mod tests;
mod trace;
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use hitm_base::document::TextPlace;
use thiserror::Error;

use crate::kernel::{Balancing, KernelConfig, Mechanism, Placement, Preemption, Throttling};

pub use assumed::Assumed;
pub use c2c::{C2cCounts, C2cLine, C2cRow};
pub use groups::ScenarioGroup;
pub use outcome::{Latencies, ModeShares, Outcome};
pub use peaks::Peak;
pub use run::{RunRequest, run, run_traced};
pub use shipped::{ShippedFile, shipped};
pub use trace::{TRACE_BYTES_MAX, TraceError, parse_trace};
pub use workload::Workload;

pub use crate::workload::WorkloadKind;
pub use crate::workload::figures::Figure;
pub use crate::workload::kind::Kind;
pub use crate::workload::metric::{Metric, WorkloadResult};
pub use crate::workload::placed::{CpuChoice, Placed};

/// Longest file, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// The most combinations of policies, layouts and loads of one scenario.
pub const VARIANTS_MAX: usize = 256;
/// The most seeds of one scenario: enough for any confidence.
pub const SEEDS_MAX: u64 = 10_000;
/// The most tasks of all workloads of one scenario: each takes some 10 KB.
pub const TASKS_MAX: u64 = 65_536;
/// The most queues of all groups on all CPUs: each takes some 1 KB. The largest published case has
/// 845,568.
pub const QUEUES_MAX: u64 = 1 << 20;
/// The most bytes of the messages in flight of all pipes, with one message in each: the lines of all
/// pages that they pass through are simulated.
pub const MESSAGE_BYTES_MAX: u64 = 32 << 20;

/// A scenario file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Short name.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Origin in one line.
    pub source: String,
    /// The machine that it runs on.
    pub machine: MachineChoice,
    /// Configuration of the kernel.
    pub kernel: KernelSpec,
    /// Task groups, each behind the one that it lies in.
    pub groups: Vec<ScenarioGroup>,
    /// Workloads that run together, at least one.
    pub workloads: Vec<Workload>,
    /// Duration, warm-up, seeds and limit.
    pub run: RunSpec,
    /// Numbers that are not published, with their ranges.
    pub assumed: Vec<Assumed>,
    /// Figures to print beside the results.
    pub published: Vec<Published>,
    /// Places of the keys, for errors that only the machine shows.
    places: Places,
}

/// The machine of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineChoice {
    /// A preset's name or a file's path.
    pub model: ModelChoice,
    /// Number of its CPUs in use, the first ones; all when absent.
    pub cpus: Option<usize>,
    /// True if caches have their real sizes; otherwise nothing is evicted.
    pub finite_caches: bool,
}

/// Origin of a machine model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// A model that comes with hitm.
    Preset(String),
    /// A machine file; its path counts from the scenario's folder.
    File(String),
}

/// The kernel of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSpec {
    /// Balancing of real-time tasks: one variant each.
    pub balancing: Vec<Balancing>,
    /// Handling of groups without quota left: one variant each.
    pub throttling: Vec<Throttling>,
    /// Preemption models: one variant each.
    pub preempt: Vec<Preemption>,
    /// Placement of fair tasks: one variant each.
    pub placement: Vec<Placement>,
    /// Sets of mechanisms beyond the usual: one variant each.
    pub mechanisms: Vec<Vec<Mechanism>>,
    /// True if wakers leave remote wake-ups to the woken CPU; absent for what the kernels of each
    /// policy do.
    pub wake_lists: Option<bool>,
    /// Layouts by name or path: one variant each.
    pub layouts: Vec<String>,
    /// CPU numbers of each cpuset.
    pub cpusets: Vec<Vec<u16>>,
    /// True if cpusets may overlap, as in 2007; otherwise each is a root domain.
    pub overlapping: bool,
    /// Configuration that all variants share. Members that have a list above, and the partition, do not count.
    pub shared: KernelConfig,
}

/// The run of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSpec {
    /// The seed, unless the caller has another.
    pub seed: u64,
    /// Number of seeds from it on that each variant is run with, unless overridden.
    pub seeds: u64,
    /// Virtual time after which the run ends; absent when a workload ends it.
    pub duration: Option<Duration>,
    /// Virtual time at the start that rates and sums leave out.
    pub warm_up: Duration,
    /// The run fails beyond so many accesses and suspensions.
    pub events_max: u64,
}

/// A figure from elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The metric that it is of.
    pub id: String,
    /// The least and largest value; equal for a single one.
    pub value: (f64, f64),
    /// Its unit, in words.
    pub unit: String,
    /// Publication or measurement that it is from.
    pub source: String,
    /// The variants that it is about: this layout only.
    pub layout: Option<String>,
    /// As above: this policy only.
    pub balancing: Option<Balancing>,
    /// As above: this form of throttling only.
    pub throttling: Option<Throttling>,
    /// As above: this preemption model only.
    pub preempt: Option<Preemption>,
    /// As above: this placement only.
    pub placement: Option<Placement>,
    /// The figure is the change from this layout to the other, in per cent.
    pub change_from: Option<String>,
}

/// One way to run a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Balancing of real-time tasks.
    pub balancing: Balancing,
    /// Handling of groups without quota left.
    pub throttling: Throttling,
    /// The preemption model.
    pub preempt: Preemption,
    /// Placement of fair tasks.
    pub placement: Placement,
    /// Mechanisms beyond the usual.
    pub mechanisms: Vec<Mechanism>,
    /// The layout, by name or path.
    pub layout: String,
    /// The load of the workload that has several, in wake-ups a second and CPU.
    pub wakeups_per_second: Option<u64>,
}

/// All kinds of workloads, in the order of the documents.
pub fn workload_kinds() -> impl Iterator<Item = &'static Kind> {
    crate::workload::KINDS.iter().map(|named| named.1)
}

impl Scenario {
    /// Reads a scenario; `origin` is its name in errors.
    ///
    /// # Errors
    /// Text that is no TOML, unknown or missing keys, values without their unit or out of range: with
    /// line and column.
    pub fn parse(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
        parse::parse(text, origin, &[])
    }

    /// As [`Scenario::parse`], with overridden keys: each setting is `KEY=VALUE`, the key with its
    /// tables (`kernel.tick=1000/s`, `workload.0.runnable=12`).
    ///
    /// # Errors
    /// As [`Scenario::parse`]; an error about a setting names it.
    pub fn parse_with(
        text: &str,
        origin: &str,
        settings: &[String],
    ) -> Result<Scenario, ScenarioError> {
        parse::parse(text, origin, settings)
    }

    /// Every combination of policy, layout and load, in the order of the file.
    pub fn variants(&self) -> Vec<Variant> {
        let loads = self.loads();
        let mut variants = Vec::new();
        for policies in self.policies() {
            for wakeups_per_second in &loads {
                let of_layout = |layout: &String| Variant {
                    layout: layout.clone(),
                    wakeups_per_second: *wakeups_per_second,
                    ..policies.clone()
                };
                variants.extend(self.kernel.layouts.iter().map(of_layout));
            }
        }
        variants
    }

    /// Variants without a layout and a load.
    fn policies(&self) -> Vec<Variant> {
        let kernel = &self.kernel;
        let mut policies = Vec::new();
        for balancing in &kernel.balancing {
            for throttling in &kernel.throttling {
                for placement in &kernel.placement {
                    for preempt in &kernel.preempt {
                        let of_mechanisms = |mechanisms: &Vec<Mechanism>| Variant {
                            balancing: *balancing,
                            throttling: *throttling,
                            preempt: *preempt,
                            placement: *placement,
                            mechanisms: mechanisms.clone(),
                            layout: String::new(),
                            wakeups_per_second: None,
                        };
                        policies.extend(kernel.mechanisms.iter().map(of_mechanisms));
                    }
                }
            }
        }
        policies
    }

    /// A tenth of the duration and of the iterations, for a quick look.
    pub fn shorten(&mut self) {
        let tenth = |time: Duration| time / 10;
        self.run.duration = self.run.duration.map(tenth);
        self.run.warm_up = tenth(self.run.warm_up);
        for workload in &mut self.workloads {
            workload.kind.program_mut().shorten();
        }
    }

    /// The loads of the workload that has several.
    fn loads(&self) -> Vec<Option<u64>> {
        let mut loads = self.workloads.iter().map(Workload::loads);
        match loads.find(|loads| !loads.is_empty()) {
            Some(loads) => loads.iter().copied().map(Some).collect(),
            None => vec![None],
        }
    }

    /// The figures that a run of it may have of its groups and workloads: the name of each with its
    /// figures.
    pub fn figures(&self) -> Vec<(&str, Vec<Figure>)> {
        let groups = self.groups.iter();
        let groups = groups.map(|group| (group.name.as_str(), groups::FIGURES.to_vec()));
        let workloads = self.workloads.iter();
        let workloads = workloads.map(|workload| (workload.name.as_str(), workload.kind.figures()));
        groups.chain(workloads).collect()
    }

    /// An error at the place of `key`, for what only becomes known later.
    pub fn error(&self, key: &str, found: String, expected: String) -> ScenarioError {
        ScenarioError {
            origin: self.places.origin.clone(),
            place: self.places.keys.get(key).copied(),
            key: key.to_owned(),
            found,
            expected,
        }
    }
}

/// Places of a file's keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Places {
    origin: String,
    keys: BTreeMap<String, TextPlace>,
}

/// A mistake in a scenario, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}: {key}: found {found}, expected {expected}",
    place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default())]
pub struct ScenarioError {
    /// Name of the file.
    pub origin: String,
    /// Place in the file.
    pub place: Option<TextPlace>,
    /// The key, with its tables: `workload[0].run_time`.
    pub key: String,
    /// Content of that place.
    pub found: String,
    /// Content that would be right there.
    pub expected: String,
}
