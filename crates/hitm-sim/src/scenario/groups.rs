//! Task groups of a scenario: what `[[group]]` says, and the figures of each.

use std::ops::RangeInclusive;
use std::rc::Rc;

use hitm_base::Cycles;

use super::ScenarioError;
use super::reader::{self as read, Reader, Table};
use crate::engine::SimError;
use crate::kernel::{BandwidthCounts, GroupId, GroupSpec, Kernel, Mechanism, Quota};
use crate::workload::figures::{Add, Figure, Figures, Window, figures};
use crate::workload::keys::quota;
use crate::workload::metric::WorkloadResult;

/// `cpu.weight`.
const WEIGHTS: RangeInclusive<u64> = 1..=10_000;
const USUAL_WEIGHT: u64 = 100;
/// Beginnings of metrics that belong to no workload.
const TAKEN: [&str; 5] = ["time", "sched", "wakeup", "root_domain", "cpu"];

/// A task group of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioGroup {
    /// Its name: what its metrics begin with.
    pub name: String,
    /// The group that it lies in, by number; the root when absent.
    pub parent: Option<usize>,
    /// Its `cpu.weight`.
    pub weight: u64,
    /// Its `cpu.max` and `cpu.max.burst`; no limit when absent.
    pub quota: Option<Quota>,
}

/// Reads the groups, each behind the one that it lies in.
pub(super) fn groups(
    reader: &Reader<'_>,
    root: &Table<'_, '_, '_>,
) -> Result<Vec<ScenarioGroup>, ScenarioError> {
    let mut groups: Vec<ScenarioGroup> = Vec::new();
    for (index, value) in read::tables(root, "group")?.iter().enumerate() {
        let table = Table::of(reader, value, format!("group[{index}]"))?;
        let name = read::metric_name(&table, table.required_words("name")?)?;
        let is_taken = |group: &ScenarioGroup| group.name == name;
        if groups.iter().any(is_taken) || TAKEN.contains(&name.as_str()) {
            let found = format!("a second {name:?}");
            return Err(table.error("name", found, "a name of its own"));
        }
        let parent = by_name(&table, "parent", &groups)?;
        let weight = table.number("weight", *WEIGHTS.start(), *WEIGHTS.end())?;
        let quota = match table.get("quota") {
            Some(_) => Some(quota(&table)?),
            None => None,
        };
        table.finish()?;
        groups.push(ScenarioGroup {
            name,
            parent,
            weight: weight.unwrap_or(USUAL_WEIGHT),
            quota,
        });
    }
    Ok(groups)
}

/// The number of the group that a key names.
pub(super) fn by_name(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    groups: &[ScenarioGroup],
) -> Result<Option<usize>, ScenarioError> {
    let Some(name) = table.words(key)? else {
        return Ok(None);
    };
    let number = groups.iter().position(|group| group.name == name);
    number.map(Some).ok_or_else(|| {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let expected = match names.is_empty() {
            true => "a [[group]] of this name before it".to_owned(),
            false => format!("one of {}", names.join(", ")),
        };
        table.error(key, format!("{name:?}"), expected)
    })
}

/// Makes the groups.
pub(super) fn create(kernel: &Kernel, groups: &[ScenarioGroup]) -> Result<Vec<GroupId>, SimError> {
    let mut made: Vec<GroupId> = Vec::new();
    for group in groups {
        let parent = group.parent.map_or(GroupId::ROOT, |parent| made[parent]);
        made.push(kernel.create_group(&GroupSpec {
            parent,
            // `sched_weight_from_cgroup`.
            shares: (group.weight * 1024 + 50) / 100,
            quota: group.quota,
        })?);
    }
    Ok(made)
}

/// The groups by their paths: `/pod/app`.
pub(super) fn paths(groups: &[ScenarioGroup], made: &[GroupId]) -> Vec<(String, GroupId)> {
    let mut paths: Vec<(String, GroupId)> = Vec::new();
    for (group, id) in groups.iter().zip(made) {
        let above = group.parent.map_or("", |parent| paths[parent].0.as_str());
        paths.push((format!("{above}/{}", group.name), *id));
    }
    paths
}

figures! {
    FIGURES {
        NR_PERIODS: "nr_periods", "count", "Periods that passed while its quota was in use";
        NR_THROTTLED: "nr_throttled", "count", "Of these, periods at whose end a queue of it was throttled";
        THROTTLED_PERIODS: "throttled_periods", "%", "The part of periods at whose end a queue of it was throttled";
        THROTTLED_USEC: "throttled_usec", "us", "Time for which its queues were throttled with something to run, each CPU's apart";
        NR_BURSTS: "nr_bursts", "count", "Periods in which more than its quota was used";
        BURST_USEC: "burst_usec", "us", "Time beyond the quota that was used in them";
        EXPIRED_USEC: "expired_usec", "us", "Time of slices that expired before it was used";
        USAGE_USEC: "usage_usec", "us", "CPU time that its tasks used, with those of groups in it";
        QUOTA_USED: "quota_used", "%", "That time as a part of the quota of the whole run";
        WAIT_QUOTA_MS: "wait_quota_ms", "ms", "Time that its tasks waited until the timer was due that gave quota";
        WAIT_TIMER_MS: "wait_timer_ms", "ms", "Time that its tasks waited for that timer, which was late or walked";
        WAIT_INTERRUPT_MS: "wait_interrupt_ms", "ms", "Time that its tasks waited for the interrupt to their CPU and its walk";
        WAIT_CPU_MS: "wait_cpu_ms", "ms", "Time that its tasks could run and waited for a CPU";
    }
}

/// A group that runs.
pub(super) struct RunningGroup {
    pub(super) id: GroupId,
    pub(super) quota: Option<Quota>,
}

impl RunningGroup {
    /// All groups, with their names.
    pub(super) fn all(
        groups: &[ScenarioGroup],
        made: &[GroupId],
    ) -> Vec<(String, Rc<dyn Figures>)> {
        let of = |(group, id): (&ScenarioGroup, &GroupId)| {
            let quota = group.quota;
            let running: Rc<dyn Figures> = Rc::new(RunningGroup { id: *id, quota });
            (group.name.clone(), running)
        };
        groups.iter().zip(made).map(of).collect()
    }
}

impl Figures for RunningGroup {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let kernel = window.kernel;
        if let Some(counts) = kernel.bandwidth_counts(self.id) {
            let loses = kernel
                .config()
                .mechanisms
                .contains(&Mechanism::ExpiringSlices);
            of_quota(&counts, loses, window, add);
        }
        let (used, waits) = kernel.group_totals(self.id, window.end);
        add(USAGE_USEC, window.micros(used));
        if let Some(quota) = self.quota {
            let whole = window.clock.nanos(window.end).0 * quota.quota.0 / quota.period.0;
            add(QUOTA_USED, window.clock.nanos(used).0 * 100.0 / whole);
        }
        let causes = [
            (WAIT_QUOTA_MS, waits.quota),
            (WAIT_TIMER_MS, waits.timer),
            (WAIT_INTERRUPT_MS, waits.interrupt),
            (WAIT_CPU_MS, waits.cpu),
        ];
        for (figure, wait) in causes {
            add(figure, window.micros(wait) / 1e3);
        }
        WorkloadResult::default()
    }
}

/// Adds what `cpu.stat` has, and the time that expired if slices do.
fn of_quota(counts: &BandwidthCounts, loses: bool, window: Window<'_>, add: Add<'_>) {
    add(NR_PERIODS, counts.nr_periods as f64);
    add(NR_THROTTLED, counts.nr_throttled as f64);
    let periods = counts.nr_periods.max(1) as f64;
    add(
        THROTTLED_PERIODS,
        counts.nr_throttled as f64 * 100.0 / periods,
    );
    let mut time = |figure: Figure, span: Cycles| add(figure, window.micros(span));
    time(THROTTLED_USEC, counts.throttled_time);
    if loses {
        time(EXPIRED_USEC, counts.expired);
    }
    time(BURST_USEC, counts.burst_time);
    add(NR_BURSTS, counts.nr_bursts as f64);
}
