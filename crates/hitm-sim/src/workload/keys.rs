//! Keys that several kinds of workloads have, and the ranges of their values.

use std::ops::RangeInclusive;
use std::time::Duration;

use hitm_base::Nanos;

use super::placed::CpuChoice;
use crate::kernel::{OwnPolicy, Policy, Quota};
use crate::scenario::ScenarioError;
use crate::scenario::quantity::nanos;
pub(super) use crate::scenario::reader::{Table, cpus, needed, rates, some_of, span, time};

/// Longest time of a workload's key.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(1_000);
/// Most threads of one workload.
pub(crate) const THREADS_MAX: u64 = 16_384;
/// Most groups within one group.
pub(crate) const GROUPS_MAX: u64 = 4_096;
/// Most wake-ups a second and CPU.
pub(crate) const WAKEUPS_MAX: u64 = 1_000_000;

/// Any time, none included.
pub(crate) const ANY: RangeInclusive<Duration> = Duration::ZERO..=TIME_MAX;
/// Times that are as long as a single access.
pub(crate) const SHORT: RangeInclusive<Duration> = Duration::from_nanos(100)..=TIME_MAX;
/// Times of timers.
pub(crate) const TIMER: RangeInclusive<Duration> = Duration::from_micros(1)..=TIME_MAX;

/// Valid keys for the CPUs and the policy of threads, for generators of scenarios.
pub(super) const TASKS: &str = r#"
cpus = "0-3" | "0,2" | "3"
threads = 2 | 1
pinned = true | false
policy = "fifo" | "rr" | "normal"
priority = 99 | 1
nice = 0 | -20 | 19
start = "0s" | "5ms"
"#;

const PARAMETRIC: [(&str, Policy); 5] = [
    ("fifo", Policy::Fifo(1)),
    ("rr", Policy::Rr(1)),
    ("normal", Policy::Normal(0)),
    ("batch", Policy::Batch(0)),
    ("idle", Policy::Idle),
];

/// Policies behind their words, those of classes of their own last.
pub(super) fn policies() -> Vec<(&'static str, Policy)> {
    let own = OwnPolicy::WORDS.map(|(word, policy)| (word, Policy::Own(policy)));
    [&PARAMETRIC[..], &own].concat()
}

pub(crate) fn cpu_choice(table: &Table<'_, '_, '_>) -> Result<CpuChoice, ScenarioError> {
    Ok(CpuChoice {
        cpus: cpus(table, "cpus")?,
        pinned: table.flag("pinned")?,
        threads: count(table, "threads", THREADS_MAX)?,
    })
}

pub(crate) fn policy(table: &Table<'_, '_, '_>, default: Policy) -> Result<Policy, ScenarioError> {
    let (real_time, nice) = (table.number("priority", 1, 99)?, nice(table)?);
    let default_priority = match default {
        Policy::Fifo(priority) | Policy::Rr(priority) => priority,
        _ => 1,
    };
    let priority = real_time.map_or(default_priority, |priority| priority as u8);
    let policy = match table.one_of("policy", &policies())?.unwrap_or(default) {
        Policy::Fifo(_) => Policy::Fifo(priority),
        Policy::Rr(_) => Policy::Rr(priority),
        Policy::Normal(_) => Policy::Normal(nice.unwrap_or(0)),
        Policy::Batch(_) => Policy::Batch(nice.unwrap_or(0)),
        other => other,
    };
    let misplaced = match policy {
        Policy::Normal(_) | Policy::Batch(_) if real_time.is_some() => {
            Some(("priority", "`nice` for policy normal or batch"))
        }
        Policy::Idle if real_time.is_some() => Some(("priority", "no priority for policy idle")),
        Policy::Idle if nice.is_some() => Some(("nice", "no nice value for policy idle")),
        Policy::Own(_) if real_time.is_some() => Some(("priority", "no priority for this policy")),
        Policy::Own(_) if nice.is_some() => Some(("nice", "no nice value for this policy")),
        Policy::Fifo(_) | Policy::Rr(_) if nice.is_some() => {
            Some(("nice", "`priority` for a real-time policy"))
        }
        _ => None,
    };
    match misplaced {
        Some((key, expected)) => Err(table.error(key, format!("the key {key}"), expected)),
        None => Ok(policy),
    }
}

pub(crate) fn nice(table: &Table<'_, '_, '_>) -> Result<Option<i8>, ScenarioError> {
    let expected = || "a nice value from -20 to 19".to_owned();
    table.read("nice", expected, |value| match value.get_ref() {
        toml::de::DeValue::Integer(number) if number.radix() == 10 => {
            let nice = number.as_str().parse().ok()?;
            (-20..=19).contains(&nice).then_some(nice)
        }
        _ => None,
    })
}

/// Quota, period and burst of a group.
pub(crate) fn quota(table: &Table<'_, '_, '_>) -> Result<Quota, ScenarioError> {
    let least = Duration::from_millis(1);
    let quota = time(table, "quota", least, TIME_MAX)?;
    let period = least..=Duration::from_secs(1);
    let quota = Quota {
        quota: nanos(needed(table, "quota", "a time, such as \"1s\"", quota)?),
        period: span(table, "period", period, Nanos(100e6))?,
        burst: span(table, "burst", ANY, Nanos(0.0))?,
    };
    if quota.burst > quota.quota {
        return Err(table.error("burst", "more than the quota", "at most `quota`"));
    }
    Ok(quota)
}

pub(crate) fn count(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    most: u64,
) -> Result<Option<usize>, ScenarioError> {
    Ok(table.number(key, 1, most)?.map(|count| count as usize))
}

pub(crate) fn required(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, ScenarioError> {
    let expected = format!("a whole number from {least} to {most}");
    needed(table, key, expected, table.number(key, least, most)?)
}
