//! Checks a plan's keys, values and metrics against the files that it names, before anything runs.
//!
//! Every value of every key is tried with the first values of the others, and with the last ones
//! when that fails: a key may require another one. A combination that cannot be run is a row of the
//! table, not a mistake of the plan.

use std::path::Path;

use hitm_base::document::TextPlace;
use hitm_files::input_file::NamedBy;
use hitm_machine as machine;
use hitm_sim::scenario::{Scenario, ScenarioError};
use hitm_sweep::plan::{Axis, Plan, Point, RUNS_MAX, Setting, SourceKind};
use hitm_whatif::layout_files;

use super::Error;
use super::metrics::{is_of_replay, is_of_scenario, known};
use super::points::{
    LAYOUT, MACHINE, Source, THREADS_TO, layout_name, load_options, machine_name, setting_text,
    with_causes,
};

/// Most rows of an axis that are tried: those of a sample lie between ends that were.
const ROWS_MAX: usize = 1_000;

/// Refuses a plan with a wrong key, value or metric.
pub(super) fn check(plan: &Plan, sources: &[Source], folder: &Path) -> Result<(), Error> {
    let mut scenarios = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        match source {
            Source::Scenario { .. } => check_scenario(plan, source, number, &mut scenarios)?,
            Source::Recording { .. } => check_replay_keys(plan)?,
        }
    }
    check_names(plan, folder)?;
    check_metrics(plan, &scenarios)
}

/// Refuses a plan with more than [`RUNS_MAX`] runs, variants included.
pub(super) fn check_run_count(plan: &Plan, count: usize) -> Result<(), Error> {
    if count as u64 <= RUNS_MAX {
        return Ok(());
    }
    let place = plan.sources[0].1;
    let found = format!("more than {RUNS_MAX} runs, variants included");
    let expected = format!("at most {RUNS_MAX}");
    Err(plan.error(place, "scenarios", found, expected).into())
}

/// The rows of an axis that are tried.
fn tried(row_count: usize) -> impl Iterator<Item = usize> {
    let step = row_count.div_ceil(ROWS_MAX).max(1);
    (0..row_count).step_by(step).chain([row_count - 1])
}

fn check_scenario(
    plan: &Plan,
    source: &Source,
    number: usize,
    scenarios: &mut Vec<Scenario>,
) -> Result<(), Error> {
    let first = vec![0; plan.axes.len()];
    let last: Vec<usize> = plan.axes.iter().map(|axis| axis.rows.len() - 1).collect();
    let parse = |rows: &[usize]| {
        let point = plan.point_of(number, rows);
        parse(plan, source, &point).map_err(|error| placed(plan, &point, error))
    };
    let keyed = |axis: &&Axis| !axis.keys.is_empty();
    if plan.axes.iter().all(|axis| !keyed(&axis)) {
        scenarios.push(parse(&first)?);
    }
    // A sample of stated numbers alone has no key to try.
    let axes = plan.axes.iter().enumerate();
    for (index, axis) in axes.filter(|(_, axis)| keyed(axis)) {
        for row in tried(axis.rows.len()) {
            let mut rows = first.clone();
            rows[index] = row;
            let scenario = parse(&rows).or_else(|error| {
                rows.clone_from(&last);
                rows[index] = row;
                parse(&rows).map_err(|_| error)
            });
            let scenario = scenario?;
            if scenarios.last() != Some(&scenario) {
                scenarios.push(scenario);
            }
        }
    }
    Ok(())
}

fn parse(plan: &Plan, source: &Source, point: &Point<'_>) -> Result<Scenario, ScenarioError> {
    let Source::Scenario { text, origin, .. } = source else {
        unreachable!("a plan's sources are of one kind");
    };
    let options = load_options(plan, point, Path::new(""));
    Scenario::parse_with(text, origin, &options.settings)
}

/// Puts the error at the plan's own line, when it is about one of the plan's settings.
fn placed(plan: &Plan, point: &Point<'_>, error: ScenarioError) -> Error {
    let mut settings = point.settings.iter();
    let setting =
        settings.find(|setting| error.origin == format!("--set {}", setting_text(setting)));
    let place_of = |setting: &Setting<'_>| match error.found.as_str() {
        "an unknown key" => setting.key_place,
        _ => setting.value_place,
    };
    match setting {
        Some(setting) => {
            let place = place_of(setting);
            plan.error(place, setting.key, error.found, error.expected)
                .into()
        }
        None => named(
            plan,
            plan.sources[point.source].1,
            "scenarios",
            error.to_string(),
        ),
    }
}

/// Error of a file or a value that the plan names.
pub(super) fn named(plan: &Plan, place: TextPlace, key: &str, message: String) -> Error {
    Error::Named {
        origin: plan.origin.clone(),
        line: place.line,
        column: place.column,
        key: key.to_owned(),
        message,
    }
}

/// Fails when a plan of recordings has other keys than these three, or several seeds.
fn check_replay_keys(plan: &Plan) -> Result<(), Error> {
    const KEYS: [&str; 3] = [MACHINE, LAYOUT, THREADS_TO];
    for (key, place) in plan.axes.iter().flat_map(|axis| &axis.keys) {
        if !KEYS.contains(&key.as_str()) {
            let expected = format!("one of {}", KEYS.join(", "));
            return Err(plan.error(*place, key, "an unknown key", expected).into());
        }
    }
    if plan.seed_count > 1 {
        let found = format!("{} seeds of a recording", plan.seed_count);
        let place = plan.sources[0].1;
        return Err(plan
            .error(place, "seeds", found, "1: a replay has no seed")
            .into());
    }
    Ok(())
}

/// Fails unless machines, layouts and placements of threads exist.
fn check_names(plan: &Plan, folder: &Path) -> Result<(), Error> {
    for axis in &plan.axes {
        for (index, (key, _)) in axis.keys.iter().enumerate() {
            let mut seen: Vec<String> = Vec::new();
            for row in tried(axis.rows.len()) {
                let (values, place) = &axis.rows[row];
                let text = values[index].text();
                if seen.contains(&text) {
                    continue;
                }
                let message = match key.as_str() {
                    MACHINE => {
                        let name = machine_name(&text, folder);
                        machine::resolve_named(&name, NamedBy::Input)
                            .err()
                            .map(with_causes)
                    }
                    LAYOUT => layout_error(&text, plan.kind, folder),
                    THREADS_TO if plan.kind == SourceKind::Recordings => {
                        text.parse::<hitm_weave::Placement>().err().map(with_causes)
                    }
                    _ => None,
                };
                if let Some(message) = message {
                    return Err(named(plan, *place, key, message));
                }
                seen.push(text);
            }
        }
    }
    Ok(())
}

fn layout_error(name: &str, kind: SourceKind, folder: &Path) -> Option<String> {
    let name = layout_name(name, folder);
    let path = Path::new(&name);
    match kind {
        // A kernel's own types are valid too; a wrong file shows when it is read.
        SourceKind::Scenarios if path.exists() => None,
        _ => layout_files::read(path).err().map(with_causes),
    }
}

fn check_metrics(plan: &Plan, scenarios: &[Scenario]) -> Result<(), Error> {
    for (id, place) in &plan.metrics {
        let is_known = match plan.kind {
            SourceKind::Scenarios => {
                let mut scenarios = scenarios.iter();
                scenarios.any(|scenario| is_of_scenario(scenario, id))
            }
            SourceKind::Recordings => is_of_replay(id),
        };
        if !is_known {
            let found = format!("{id:?}, a metric that no run has");
            let error = plan.error(*place, "metrics", found, known(plan.kind, scenarios));
            return Err(error.into());
        }
    }
    Ok(())
}
