//! TOML text -> [`Scenario`].

use std::ops::RangeInclusive;
use std::time::Duration;

use hitm_base::document::{Document as _, describe, integer};
use toml::de::DeTable;

use super::assumed::assumed;
use super::choices::choices;
use super::groups::groups;
use super::quantity::nanos;
use super::reader::{self as read, Reader, Table, span};
use super::settings::{self, SETTING_BYTES_MAX, SETTINGS_MAX};
use super::workload::{Workload, workload};
use super::{
    KernelSpec, MachineChoice, ModelChoice, Places, Published, RunSpec, SEEDS_MAX, Scenario,
    ScenarioError, ScenarioGroup, TEXT_BYTES_MAX, VARIANTS_MAX,
};
use crate::kernel::{
    Balancing, KernelConfig, LoadBalancing, Mechanism, Placement, Preemption, Throttling,
};

/// The longest run: an hour of virtual time.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// Accesses and suspensions of a run that states no cap.
const EVENTS_MAX: u64 = 20_000_000_000;
/// Times of timers.
const TIMER: RangeInclusive<Duration> = Duration::from_micros(1)..=RUN_MAX;
/// Windows of lock-aware placement.
const LOCK_WINDOW: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(1);
/// Slices of a quota: those that `sched_cfs_bandwidth_slice_us` takes, up to the longest period.
const SLICE: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);
/// The kernel's own layout, when a scenario names none.
const LAYOUT: &str = "linux-6.12";

const CACHES: [(&str, bool); 2] = [("infinite", false), ("finite", true)];

pub(super) fn parse(
    text: &str,
    origin: &str,
    settings: &[String],
) -> Result<Scenario, ScenarioError> {
    let reader = Reader::new(text, origin, settings);
    if text.len() > TEXT_BYTES_MAX {
        let expected = format!("at most {TEXT_BYTES_MAX} bytes");
        let found = format!("{} bytes", text.len());
        return Err(reader.error(0..0, "the file", found, expected));
    }
    if settings.len() > SETTINGS_MAX {
        let expected = format!("at most {SETTINGS_MAX}");
        let found = format!("{} settings", settings.len());
        return Err(reader.error(0..0, "--set", found, expected));
    }
    if let Some(index) = settings
        .iter()
        .position(|setting| setting.len() > SETTING_BYTES_MAX)
    {
        let expected = format!("at most {SETTING_BYTES_MAX} bytes");
        let found = format!("{} bytes in setting {}", settings[index].len(), index + 1);
        return Err(reader.error(0..0, "--set", found, expected));
    }
    let padded = settings::padded(&reader, settings);
    let mut document = DeTable::parse(text).map_err(|error| {
        let found = format!("no TOML ({})", error.message());
        let expected = "a scenario as docs/formats/scenario.md describes it";
        reader.error(error.span().unwrap_or(0..0), "the file", found, expected)
    })?;
    settings::apply(&reader, document.get_mut(), settings, &padded)?;
    let mut scenario = scenario(&reader, document.get_ref())?;
    scenario.places = reader.into_places();
    Ok(scenario)
}

fn scenario(reader: &Reader<'_>, document: &DeTable<'_>) -> Result<Scenario, ScenarioError> {
    let root = Table::new(reader, document, String::new(), 0..0);
    let schema = root.required("schema", "schema = 1")?;
    if integer(schema) != Some(1) {
        let found = describe(schema);
        return Err(root.error("schema", found, "1"));
    }
    let name = root.required_words("name")?;
    let description = root.required_words("description")?;
    let source = root.required_words("source")?;
    let (machine, kernel) = (machine(reader, &root)?, kernel(reader, &root)?);
    let groups = groups(reader, &root)?;
    let scenario = Scenario {
        name,
        description,
        source,
        machine,
        kernel,
        workloads: workloads(reader, &root, &groups)?,
        groups,
        run: run(reader, &root)?,
        assumed: assumed(reader, &root, document)?,
        published: published(reader, &root)?,
        places: Places::default(),
    };
    root.finish()?;
    check_duration(&root, &scenario)?;
    check_variants(&root, &scenario)?;
    Ok(scenario)
}

fn machine(reader: &Reader<'_>, root: &Table<'_, '_, '_>) -> Result<MachineChoice, ScenarioError> {
    const EXPECTED: &str = "a table [machine] with `preset` or `file`";
    let value = root.required("machine", EXPECTED)?;
    let table = Table::of(reader, value, "machine".into())?;
    let model = match (table.words("preset")?, table.words("file")?) {
        (Some(preset), None) => ModelChoice::Preset(preset),
        (None, Some(file)) => ModelChoice::File(file),
        (Some(_), Some(_)) => {
            return Err(table.error("file", "`preset` and `file`", "one of them"));
        }
        (None, None) => return Err(table.error("preset", "no such key", EXPECTED)),
    };
    let most = hitm_base::Topology::CPUS_MAX as u64;
    let cpus = table.number("cpus", 1, most)?.map(|count| count as usize);
    let finite_caches = table.one_of("caches", &CACHES)?.unwrap_or(false);
    table.finish()?;
    Ok(MachineChoice {
        model,
        cpus,
        finite_caches,
    })
}

fn kernel(reader: &Reader<'_>, root: &Table<'_, '_, '_>) -> Result<KernelSpec, ScenarioError> {
    let mut kernel = KernelSpec {
        balancing: vec![Balancing::PushIpi],
        throttling: vec![Throttling::Async],
        preempt: vec![Preemption::None],
        placement: vec![Placement::Default],
        mechanisms: vec![Vec::new()],
        wake_lists: None,
        layouts: vec![LAYOUT.to_owned()],
        cpusets: Vec::new(),
        overlapping: false,
        shared: KernelConfig::new(Balancing::PushIpi),
    };
    let Some(value) = root.get("kernel") else {
        return Ok(kernel);
    };
    let table = Table::of(reader, value, "kernel".into())?;
    policies(&table, &mut kernel)?;
    kernel.wake_lists = table.choice_flag("wake_lists")?;
    let layouts = read::list_of_words(&table, "layouts", "names or files of layouts")?;
    kernel.layouts = layouts.unwrap_or(kernel.layouts);
    if let Some(rates) = read::rates(&table, "tick", 10_000)? {
        let [rate] = rates[..] else {
            return Err(table.error("tick", "several rates", "one, such as \"250/s\""));
        };
        kernel.shared.hz = rate as u32;
    }
    kernel.cpusets = read::lists_of_cpus(&table, "cpusets")?.unwrap_or_default();
    kernel.overlapping = table.flag("overlapping_cpusets")?;
    if kernel.overlapping && kernel.balancing.contains(&Balancing::PushIpi) {
        let found = "true with balancing \"push-ipi\"";
        let expected =
            "balancing \"passive\" or \"push-pull\": since 2.6.25 cpusets do not overlap";
        return Err(table.error("overlapping_cpusets", found, expected));
    }
    let config = &mut kernel.shared;
    let runtime = read::time(&table, "rt_runtime", *TIMER.start(), RUN_MAX)?;
    config.rt_runtime = runtime.map(nanos);
    config.rt_period = span(&table, "rt_period", TIMER, config.rt_period)?;
    let slice = config.cfs_bandwidth_slice;
    config.cfs_bandwidth_slice = span(&table, "cfs_bandwidth_slice", SLICE, slice)?;
    config.balance_interval = span(&table, "balance_interval", TIMER, config.balance_interval)?;
    choices(reader, &table, config)?;
    config.lock_window = span(&table, "lock_window", LOCK_WINDOW, config.lock_window)?;
    if let Some(sets) = read::sets_of(&table, "mechanisms", &Mechanism::WORDS)? {
        kernel.mechanisms = sets;
    }
    let config = &kernel.shared;
    table.finish()?;
    if config
        .rt_runtime
        .is_some_and(|runtime| runtime > config.rt_period)
    {
        let found = "more than the period";
        return Err(table.error("rt_runtime", found, "at most `rt_period`"));
    }
    Ok(kernel)
}

/// Reads the forms of the kernel that are run.
fn policies(table: &Table<'_, '_, '_>, kernel: &mut KernelSpec) -> Result<(), ScenarioError> {
    if let Some(balancing) = read::some_of(table, "balancing", &Balancing::WORDS)? {
        kernel.balancing = balancing;
    }
    if let Some(throttling) = read::some_of(table, "throttling", &Throttling::WORDS)? {
        kernel.throttling = throttling;
    }
    if let Some(preempt) = read::some_of(table, "preempt", &Preemption::WORDS)? {
        kernel.preempt = preempt;
    }
    if let Some(placement) = read::some_of(table, "placement", &Placement::WORDS)? {
        kernel.placement = placement;
    }
    if let Some(load_balancing) = table.one_of("load_balancing", &LoadBalancing::WORDS)? {
        kernel.shared.load_balancing = load_balancing;
    }
    Ok(())
}

fn workloads(
    reader: &Reader<'_>,
    root: &Table<'_, '_, '_>,
    groups: &[ScenarioGroup],
) -> Result<Vec<Workload>, ScenarioError> {
    let mut workloads: Vec<Workload> = Vec::new();
    for (index, value) in read::tables(root, "workload")?.iter().enumerate() {
        let table = Table::of(reader, value, format!("workload[{index}]"))?;
        let read = workload(&table, groups)?;
        let is_taken = groups.iter().any(|group| group.name == read.name);
        if is_taken || workloads.iter().any(|other| other.name == read.name) {
            let found = match is_taken {
                true => format!("{:?}, the name of a group", read.name),
                false => format!("a second workload {:?}", read.name),
            };
            return Err(table.error("name", found, "a name of its own"));
        }
        workloads.push(read);
    }
    if workloads.is_empty() {
        return Err(root.error("workload", "none", "at least one table [[workload]]"));
    }
    Ok(workloads)
}

fn run(reader: &Reader<'_>, root: &Table<'_, '_, '_>) -> Result<RunSpec, ScenarioError> {
    let mut run = RunSpec {
        seed: 1,
        seeds: 1,
        duration: None,
        warm_up: Duration::ZERO,
        events_max: EVENTS_MAX,
    };
    let Some(value) = root.get("run") else {
        return Ok(run);
    };
    let table = Table::of(reader, value, "run".into())?;
    run.seed = table.number("seed", 0, u64::MAX)?.unwrap_or(run.seed);
    run.seeds = table.number("seeds", 1, SEEDS_MAX)?.unwrap_or(run.seeds);
    run.duration = read::time(&table, "duration", *TIMER.start(), RUN_MAX)?;
    let warm_up = read::time(&table, "warm_up", Duration::ZERO, RUN_MAX)?;
    run.warm_up = warm_up.unwrap_or_default();
    run.events_max = table
        .number("events_max", 1, u64::MAX)?
        .unwrap_or(EVENTS_MAX);
    table.finish()?;
    if run.duration.is_some_and(|duration| run.warm_up >= duration) {
        return Err(table.error("warm_up", "no time after it", "less than `duration`"));
    }
    Ok(run)
}

fn published(
    reader: &Reader<'_>,
    root: &Table<'_, '_, '_>,
) -> Result<Vec<Published>, ScenarioError> {
    let one = |(index, value)| {
        let table = Table::of(reader, value, format!("published[{index}]"))?;
        let published = Published {
            id: table.required_words("id")?,
            value: read::range(&table, "value")?,
            unit: table.required_words("unit")?,
            source: table.required_words("source")?,
            layout: table.words("layout")?,
            balancing: table.one_of("balancing", &Balancing::WORDS)?,
            throttling: table.one_of("throttling", &Throttling::WORDS)?,
            preempt: table.one_of("preempt", &Preemption::WORDS)?,
            placement: table.one_of("placement", &Placement::WORDS)?,
            change_from: table.words("change_from")?,
        };
        table.finish()?;
        if published.change_from.is_some() && published.layout.is_none() {
            let expected = "`layout` beside it: from which layout to which";
            return Err(table.error("change_from", "no `layout`", expected));
        }
        Ok(published)
    };
    let tables = read::tables(root, "published")?.iter();
    tables.enumerate().map(one).collect()
}

/// A run ends by its duration or by a workload that ends it.
fn check_duration(root: &Table<'_, '_, '_>, scenario: &Scenario) -> Result<(), ScenarioError> {
    let ends = |workload: &Workload| workload.kind.program().kind().ends;
    if scenario.run.duration.is_none() && !scenario.workloads.iter().any(ends) {
        let expected = "`duration`: none of these workloads ends by itself";
        return Err(root.error("run", "no `duration`", expected));
    }
    Ok(())
}

fn check_variants(root: &Table<'_, '_, '_>, scenario: &Scenario) -> Result<(), ScenarioError> {
    let mut with_loads = 0;
    let kernel = &scenario.kernel;
    let mut count = kernel.balancing.len() * kernel.throttling.len() * kernel.layouts.len();
    count *= kernel.preempt.len() * kernel.placement.len() * kernel.mechanisms.len();
    for workload in &scenario.workloads {
        let loads = workload.loads();
        if !loads.is_empty() {
            with_loads += 1;
            count *= loads.len();
        }
    }
    if with_loads > 1 {
        return Err(root.error("workload", "several of kind \"ffmpeg\"", "one at most"));
    }
    if count > VARIANTS_MAX {
        let found = format!("{count} combinations of policies, layouts and loads");
        return Err(root.error("kernel", found, format!("at most {VARIANTS_MAX}")));
    }
    Ok(())
}
