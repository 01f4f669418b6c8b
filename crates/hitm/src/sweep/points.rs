//! Work of a plan's points: a scenario with settings, or a recording on another machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hitm_base::Machine;
use hitm_files::input_file::{self, NamedBy};
use hitm_files::text_file::read_named;
use hitm_machine as machine;
use hitm_sim::scenario::{ModelChoice, TEXT_BYTES_MAX, Variant};
use hitm_sweep::name::{Naming, RunName};
use hitm_sweep::plan::{Plan, Point, SourceKind};
use hitm_sweep::result::{Figure, RESULT_VERSION, RunResult};
use hitm_sweep::value::Value;
use hitm_weave::Placement;
use hitm_whatif::layout_files;
use hitm_whatif::{WhatifConfig, WhatifError};

use super::Error;
use super::check::named;
use super::stated::StatedNumbers;
use crate::sim::{LoadOptions, Simulation, run_name, shipped_scenario};

/// The key that names a machine in place of the scenario's or the recording's.
pub(super) const MACHINE: &str = "machine";
/// The key that names a layout in place of the scenario's or the program's.
pub(super) const LAYOUT: &str = "layout";
/// The key that places the threads of a recording.
pub(super) const THREADS_TO: &str = "threads_to";

/// Prefix of a replay's figures.
const REPLAY: &str = "whatif";
/// Figures of a replay, as `hitm whatif --format json` names them.
pub(super) const REPLAY_METRICS: [(&str, &str); 6] = [
    ("end_cycles", "cycles"),
    ("access_count", "count"),
    ("local_hitm_count", "count"),
    ("remote_hitm_count", "count"),
    ("stall_cycles", "cycles"),
    ("lost_cycles", "cycles"),
];

/// Id of a replay's figure.
pub(super) fn replay_metric(id: &str) -> String {
    format!("{REPLAY}.{id}")
}

/// A file that the plan names.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A scenario: its text, and the folder that its paths count from.
    Scenario {
        text: String,
        origin: String,
        folder: PathBuf,
    },
    /// A recording, with the hash of its bytes.
    Recording { path: PathBuf, hash: String },
}

/// Labels that tell one run from the others besides keys and seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) machine: String,
    pub(super) layout: String,
    pub(super) balancing: Option<&'static str>,
    pub(super) throttling: Option<&'static str>,
    pub(super) preempt: Option<&'static str>,
    pub(super) placement: String,
    pub(super) load: Option<u64>,
}

/// The work of a point: one or several variants, each run with any seed.
pub(super) trait Job {
    fn variant_count(&self) -> usize;
    fn labels(&self, variant: usize) -> Labels;
    fn name(&self, variant: usize, seed: u64) -> RunName;
    /// Returns the result; the error is a problem of this host.
    fn run(&self, variant: usize, seed: u64) -> Result<RunResult, String>;
}

/// Reads the files that the plan names.
pub(super) fn sources(plan: &Plan, folder: &Path) -> Result<Vec<Source>, Error> {
    let one = |(name, place): &(String, hitm_base::document::TextPlace)| {
        let key = match plan.kind {
            SourceKind::Scenarios => "scenarios",
            SourceKind::Recordings => "recordings",
        };
        source(plan.kind, name, folder).map_err(|message| named(plan, *place, key, message))
    };
    plan.sources.iter().map(one).collect()
}

fn source(kind: SourceKind, name: &str, folder: &Path) -> Result<Source, String> {
    let path = folder.join(name);
    match kind {
        SourceKind::Scenarios => {
            let (text, folder) = match shipped_scenario(name) {
                Some(file) => (file.text.to_owned(), PathBuf::new()),
                None => {
                    let max = TEXT_BYTES_MAX as u64;
                    let text = read_named(&path, NamedBy::Input, max, "a scenario");
                    let parent = path.parent().unwrap_or(Path::new(""));
                    (text.map_err(with_causes)?, parent.to_owned())
                }
            };
            Ok(Source::Scenario {
                text,
                origin: name.to_owned(),
                folder,
            })
        }
        SourceKind::Recordings => {
            let file = input_file::open(&path, NamedBy::Input);
            let hash = file.and_then(hash_of).map_err(|error| {
                let error = hitm_files::limits::explain(error);
                format!("cannot read {}: {error}", path.display())
            })?;
            Ok(Source::Recording { path, hash })
        }
    }
}

/// The hash of a file's bytes.
fn hash_of(mut file: File) -> io::Result<String> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut naming = Naming::new(RESULT_VERSION);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(naming.name().to_string());
        }
        naming = naming.with_bytes(&piece[..count]);
    }
}

/// Work of a point, with the stated numbers of its sample.
///
/// # Errors
/// The message of a point that nothing can be run of.
pub(super) fn job(
    plan: &Plan,
    sources: &[Source],
    folder: &Path,
    number: u64,
    stated: Option<&StatedNumbers>,
) -> Result<Box<dyn Job>, String> {
    let point = plan.point(number);
    match &sources[point.source] {
        Source::Scenario {
            text,
            origin,
            folder: own,
        } => {
            let mut options = load_options(plan, &point, folder);
            if let Some(stated) = stated {
                stated.apply(number, &mut options);
            }
            let simulation =
                Simulation::of_text(text, origin, own, &options).map_err(with_causes)?;
            Ok(Box::new(SimulationJob::new(simulation, &point)))
        }
        Source::Recording { path, hash } => {
            ReplayJob::new(path, hash, &point, folder).map(|job| Box::new(job) as Box<dyn Job>)
        }
    }
}

/// Joins an error and its causes in one line.
pub(super) fn with_causes(error: impl std::error::Error + 'static) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if !text.ends_with(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        cause = error.source();
    }
    text
}

fn value_of<'p>(point: &Point<'p>, key: &str) -> Option<&'p Value> {
    let mut settings = point.settings.iter();
    settings
        .find(|setting| setting.key == key)
        .map(|setting| setting.value)
}

/// Returns the name, or the path from the plan's folder when the name is unknown.
fn placed(name: &str, folder: &Path, is_known: bool) -> String {
    match is_known {
        true => name.to_owned(),
        false => folder.join(name).display().to_string(),
    }
}

/// The name or path of a machine, from the plan's folder.
pub(super) fn machine_name(name: &str, folder: &Path) -> String {
    let is_known = name == machine::HOST || hitm_base::machine::preset(name).is_some();
    placed(name, folder, is_known)
}

/// The name or path of a layout, from the plan's folder.
pub(super) fn layout_name(name: &str, folder: &Path) -> String {
    let is_known = hitm_layout::layout_file::shipped(name).is_some();
    placed(name, folder, is_known)
}

/// Settings of a point, as `hitm sim` takes them.
pub(super) fn load_options(plan: &Plan, point: &Point<'_>, folder: &Path) -> LoadOptions {
    let machine = value_of(point, MACHINE).map(|name| machine_name(&name.text(), folder));
    let layouts = value_of(point, LAYOUT).map(|name| layout_name(&name.text(), folder));
    let of_scenario = |key: &str| key != MACHINE && key != LAYOUT;
    let settings = point.settings.iter();
    let settings = settings.filter(|setting| of_scenario(setting.key));
    LoadOptions {
        machine,
        layouts: layouts.into_iter().collect(),
        quick: plan.quick,
        settings: settings.map(setting_text).collect(),
        numbers: Vec::new(),
    }
}

/// Text of an override for `--set`.
pub(super) fn setting_text(setting: &hitm_sweep::plan::Setting<'_>) -> String {
    format!("{}={}", setting.key, setting.value.toml())
}

/// A scenario with its overrides.
struct SimulationJob {
    simulation: Simulation,
    variants: Vec<Variant>,
    /// By variant.
    namings: Vec<Naming>,
    machine: String,
    /// Name of the layout in the plan.
    layout: Option<String>,
}

impl SimulationJob {
    fn new(simulation: Simulation, point: &Point<'_>) -> SimulationJob {
        let of_scenario = match &simulation.scenario().machine.model {
            ModelChoice::Preset(name) | ModelChoice::File(name) => name.clone(),
        };
        let variants = simulation.scenario().variants();
        SimulationJob {
            namings: simulation.namings(&variants),
            variants,
            machine: value_of(point, MACHINE).map_or(of_scenario, Value::text),
            layout: value_of(point, LAYOUT).map(Value::text),
            simulation,
        }
    }
}

impl Job for SimulationJob {
    fn variant_count(&self) -> usize {
        self.variants.len()
    }

    fn labels(&self, variant: usize) -> Labels {
        let variant = &self.variants[variant];
        Labels {
            machine: self.machine.clone(),
            layout: self
                .layout
                .clone()
                .unwrap_or_else(|| variant.layout.clone()),
            balancing: Some(variant.balancing.id()),
            throttling: Some(variant.throttling.id()),
            preempt: Some(variant.preempt.id()),
            placement: variant.placement.id().to_owned(),
            load: variant.wakeups_per_second,
        }
    }

    fn name(&self, variant: usize, seed: u64) -> RunName {
        run_name(&self.namings[variant], seed)
    }

    fn run(&self, variant: usize, seed: u64) -> Result<RunResult, String> {
        let variant = &self.variants[variant];
        Ok(
            match self.simulation.run_one(variant, seed, &mut |_, _| {}) {
                Ok(outcome) => {
                    let figures = outcome.metrics.into_iter().map(|metric| Figure {
                        id: metric.id,
                        unit: metric.unit.to_owned(),
                        value: metric.value,
                    });
                    RunResult::Figures(figures.collect())
                }
                Err(error) => RunResult::Failed(with_causes(error)),
            },
        )
    }
}

/// A recording to replay.
struct ReplayJob {
    config: WhatifConfig,
    labels: Labels,
    name: RunName,
}

impl ReplayJob {
    fn new(path: &Path, hash: &str, point: &Point<'_>, folder: &Path) -> Result<ReplayJob, String> {
        let text = |key: &str| value_of(point, key).map(Value::text);
        let machine = text(MACHINE)
            .map(|name| resolved(&name, folder))
            .transpose()?;
        let layout = text(LAYOUT).map(|name| {
            layout_files::read(Path::new(&layout_name(&name, folder))).map_err(with_causes)
        });
        let layout = layout.transpose()?;
        let placement: Option<Placement> = text(THREADS_TO)
            .map(|list| list.parse())
            .transpose()
            .map_err(with_causes)?;
        let name = Naming::new(RESULT_VERSION)
            .with("recording", hash)
            .with("machine", &format!("{machine:?}"))
            .with(
                "layout",
                &format!("{:?}", layout.as_ref().map(|(_, text)| text)),
            )
            .with("placement", &format!("{placement:?}"))
            .name();
        let labels = Labels {
            machine: text(MACHINE).unwrap_or_else(|| "recorded".to_owned()),
            layout: text(LAYOUT).unwrap_or_else(|| "recorded".to_owned()),
            balancing: None,
            throttling: None,
            preempt: None,
            placement: text(THREADS_TO).unwrap_or_else(|| "recorded".to_owned()),
            load: None,
        };
        let config = WhatifConfig {
            input: path.to_owned(),
            layouts: layout.into_iter().map(|(layout, _)| layout).collect(),
            instances: Vec::new(),
            machine,
            placement,
        };
        Ok(ReplayJob {
            config,
            labels,
            name,
        })
    }
}

fn resolved(name: &str, folder: &Path) -> Result<Machine, String> {
    let machine = machine::resolve_named(&machine_name(name, folder), NamedBy::Input);
    machine.map(|(machine, _)| machine).map_err(with_causes)
}

impl Job for ReplayJob {
    fn variant_count(&self) -> usize {
        1
    }

    fn labels(&self, _: usize) -> Labels {
        self.labels.clone()
    }

    /// A replay has no seed.
    fn name(&self, _: usize, _: u64) -> RunName {
        self.name
    }

    fn run(&self, _: usize, _: u64) -> Result<RunResult, String> {
        let report = match hitm_whatif::run(&self.config, &mut |_, _| {}) {
            Ok(report) => report,
            // A retry may succeed: the disk, or the folder of temporary files, may be mended.
            Err(error @ WhatifError::Recording(_)) => return Err(with_causes(error)),
            Err(error) => return Ok(RunResult::Failed(with_causes(error))),
        };
        let after = &report.run.after;
        let totals = after.totals;
        let values = BTreeMap::from([
            ("end_cycles", after.end.0),
            ("access_count", totals.accesses),
            ("local_hitm_count", totals.local_hitm),
            ("remote_hitm_count", totals.remote_hitm),
            ("stall_cycles", totals.stall.0),
            ("lost_cycles", totals.lost.0),
        ]);
        let figures = REPLAY_METRICS.iter().map(|(id, unit)| Figure {
            id: replay_metric(id),
            unit: (*unit).to_owned(),
            value: values[id] as f64,
        });
        Ok(RunResult::Figures(figures.collect()))
    }
}
