//! Reads the workloads of a scenario.

use std::ops::RangeInclusive;
use std::time::Duration;

use hitm_base::rt_migrate::RtMigrateConfig;
use hitm_base::{CpuId, Nanos};

use super::ScenarioError;
use super::groups::{ScenarioGroup, by_name};
use super::program_lock_reader::program_lock;
use super::quantity::nanos;
use super::reader::{self as read, Table, needed, span};
use super::requests_reader::requests;
use super::workload::{CpuChoice, Placed, PoolSpec, Workload, WorkloadKind};
use crate::kernel::{Hold, Policy, Quota};
use crate::workload::cgroup_hogs::CgroupHogsConfig;
use crate::workload::cyclic::{CyclicConfig, HogsConfig, Sleep};
use crate::workload::file_copy::FileCopyConfig;
use crate::workload::hackbench::HackbenchConfig;
use crate::workload::lock_bench::{LockBenchConfig, LockKind};
use crate::workload::lock_holder::LockHolderConfig;
use crate::workload::pi_stress::PiStressConfig;
use crate::workload::policy_changer::PolicyChangerConfig;
use crate::workload::request_response::RequestResponseConfig;
use crate::workload::schbench::SchbenchConfig;

/// Longest time of a workload's key.
pub(super) const TIME_MAX: Duration = Duration::from_secs(1_000);
/// Most threads of one workload.
pub(super) const THREADS_MAX: u64 = 16_384;
/// Most groups within one group.
const GROUPS_MAX: u64 = 4_096;
/// Most wake-ups a second and CPU.
const WAKEUPS_MAX: u64 = 1_000_000;

/// Any time, none included.
pub(super) const ANY: RangeInclusive<Duration> = Duration::ZERO..=TIME_MAX;
/// Times that are as long as a single access.
pub(super) const SHORT: RangeInclusive<Duration> = Duration::from_nanos(100)..=TIME_MAX;
/// Times of timers.
pub(super) const TIMER: RangeInclusive<Duration> = Duration::from_micros(1)..=TIME_MAX;

type Read = fn(&Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError>;

/// Kinds of workloads: the name of one without a name, and what reads its keys.
const KINDS: [(&str, (&str, Read)); 18] = [
    ("rt-migrate-test", ("rt_migrate", rt_migrate)),
    ("ffmpeg", ("ffmpeg", pool)),
    ("cyclictest", ("cyclictest", cyclictest)),
    ("cyclic", ("cyclic", cyclic)),
    ("hogs", ("hogs", hogs)),
    ("pinned", ("hogs", pinned)),
    ("cgroup-hogs", ("cgroup_hogs", cgroup_hogs)),
    ("lock-holder", ("lock_holder", lock_holder)),
    ("file-copy", ("file_copy", file_copy)),
    ("hackbench", ("hackbench", hackbench)),
    ("schbench", ("schbench", schbench)),
    ("pi-stress", ("pi_stress", pi_stress)),
    ("lock-bench", ("lock_bench", lock_bench)),
    ("request-response", ("request_response", request_response)),
    ("policy-changer", ("policy_changer", policy_changer)),
    ("requests", ("requests", requests)),
    ("program-lock", ("program_lock", program_lock)),
    ("rt-app", ("rt_app", rt_app)),
];

const POLICIES: [(&str, Policy); 5] = [
    ("fifo", Policy::Fifo(1)),
    ("rr", Policy::Rr(1)),
    ("normal", Policy::Normal(0)),
    ("batch", Policy::Batch(0)),
    ("idle", Policy::Idle),
];

/// Policies that `policy-changer` goes through unless it is told others.
const CHANGED_TO: [Policy; 3] = [Policy::Fifo(1), Policy::Rr(1), Policy::Normal(0)];

/// Reads a workload.
pub(super) fn workload(
    table: &Table<'_, '_, '_>,
    groups: &[ScenarioGroup],
) -> Result<Workload, ScenarioError> {
    let kind = table.one_of("kind", &KINDS)?;
    let (default_name, read) = needed(table, "kind", "the kind of workload", kind)?;
    let stated = table.words("name")?;
    let kind = read(table)?;
    let group = group_of(table, &kind, groups)?;
    table.finish()?;
    let name = read::metric_name(table, stated.unwrap_or_else(|| default_name.to_owned()))?;
    Ok(Workload { name, group, kind })
}

/// The group that a workload's threads are put in, for kinds that leave the choice.
fn group_of(
    table: &Table<'_, '_, '_>,
    kind: &WorkloadKind,
    groups: &[ScenarioGroup],
) -> Result<Option<usize>, ScenarioError> {
    let policy = match kind {
        WorkloadKind::Cyclictest(placed) | WorkloadKind::Cyclic(placed) => placed.config.policy,
        WorkloadKind::Hogs(placed) => placed.config.policy,
        WorkloadKind::Requests { .. } | WorkloadKind::ProgramLock(_) => Policy::Normal(0),
        _ => return Ok(None),
    };
    let group = by_name(table, "group", groups)?;
    match policy {
        Policy::Fifo(_) | Policy::Rr(_) if group.is_some() => {
            let expected = "policy \"normal\": no quota binds real-time threads";
            Err(table.error("group", "a real-time policy", expected))
        }
        _ => Ok(group),
    }
}

fn rt_migrate(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let tasks = count(table, "tasks", 4096)?;
    let usual = RtMigrateConfig::new(0);
    let config = RtMigrateConfig {
        tasks: tasks.unwrap_or(0),
        base_prio: table.number("base_prio", 1, 90)?.unwrap_or(2) as u8,
        run_time: span(table, "run_time", TIMER, usual.run_time)?,
        sleep: span(table, "sleep", TIMER, usual.sleep)?,
        max_err: span(table, "max_error", TIMER, usual.max_err)?,
        loops: count(table, "loops", 100_000)?.unwrap_or(usual.loops),
        equal: table.flag("equal")?,
        check: table.flag("check")?,
    };
    Ok(WorkloadKind::RtMigrateTest { tasks, config })
}

fn pool(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let workers = required(table, "workers", 1, 256)? as usize;
    let runnable = required(table, "runnable", 1, workers as u64)? as usize;
    let wakeups = read::rates(table, "wakeups", WAKEUPS_MAX)?;
    let frame_time = span(table, "frame_time", TIMER, Nanos(10e6))?;
    Ok(WorkloadKind::Pool(PoolSpec {
        instances: count(table, "instances", 4096)?,
        cores_per_instance: required(table, "cores_per_instance", 1, 256)? as usize,
        workers,
        runnable,
        fair: table.number("fair", 0, 256)?.unwrap_or(0) as usize,
        slices: table.flag("slices")?,
        policy: policy(table, Policy::Fifo(99))?,
        wakeups_per_second: needed(
            table,
            "wakeups",
            "a rate a CPU, such as \"2500/s\"",
            wakeups,
        )?,
        burst_ratio: table.number("burst_ratio", 1, 1_000)?.unwrap_or(10),
        frame_time,
    }))
}

fn cyclictest(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let interval = span(table, "interval", TIMER, Nanos(1e6))?;
    let threads = sleepers(table, Sleep::Absolute(interval))?;
    Ok(WorkloadKind::Cyclictest(threads))
}

fn cyclic(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let sleep = span(table, "sleep", TIMER, Nanos(100e3))?;
    let threads = sleepers(table, Sleep::Relative(sleep))?;
    Ok(WorkloadKind::Cyclic(threads))
}

fn sleepers(
    table: &Table<'_, '_, '_>,
    sleep: Sleep,
) -> Result<Placed<CyclicConfig>, ScenarioError> {
    let work = Duration::from_nanos(1)..=TIME_MAX;
    let work = span(table, "work", work, Nanos(200.0))?;
    Ok(Placed {
        cpus: cpu_choice(table)?,
        config: CyclicConfig {
            policy: policy(table, Policy::Fifo(99))?,
            sleep,
            work,
        },
    })
}

fn hogs(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let cpus = cpu_choice(table)?;
    burners(table, cpus, Policy::Normal(0))
}

fn pinned(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    table.required("cpus", "the CPUs that get a thread each")?;
    let cpus = CpuChoice {
        cpus: read::cpus(table, "cpus")?,
        pinned: true,
        threads: None,
    };
    burners(table, cpus, Policy::Fifo(99))
}

fn burners(
    table: &Table<'_, '_, '_>,
    cpus: CpuChoice,
    default: Policy,
) -> Result<WorkloadKind, ScenarioError> {
    let config = HogsConfig {
        policy: policy(table, default)?,
        start: span(table, "start", ANY, Nanos(0.0))?,
    };
    Ok(WorkloadKind::Hogs(Placed { cpus, config }))
}

/// Quota, period and burst of a group.
pub(super) fn quota(table: &Table<'_, '_, '_>) -> Result<Quota, ScenarioError> {
    let least = Duration::from_millis(1);
    let quota = read::time(table, "quota", least, TIME_MAX)?;
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

fn cgroup_hogs(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let config = CgroupHogsConfig {
        subtrees: count(table, "subtrees", 64)?.unwrap_or(1),
        children: required(table, "children", 1, GROUPS_MAX)? as usize,
        leaves: required(table, "leaves", 0, GROUPS_MAX)? as usize,
        hogs: required(table, "hogs", 1, THREADS_MAX)? as usize,
        quota: quota(table)?,
    };
    Ok(WorkloadKind::CgroupHogs(config))
}

fn lock_holder(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    Ok(WorkloadKind::LockHolder(LockHolderConfig {
        quota: quota(table)?,
        holds: table.one_of("holds", &Hold::WORDS)?.unwrap_or(Hold::Read),
        work: span(table, "work", SHORT, Nanos(5e3))?,
        page_wait: span(table, "page_wait", SHORT, Nanos(200e3))?,
        pause: span(table, "pause", SHORT, Nanos(2e6))?,
    }))
}

fn file_copy(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let cycle = read::time(table, "cycle", *SHORT.start(), TIME_MAX)?;
    Ok(WorkloadKind::FileCopy(Placed {
        cpus: cpu_choice(table)?,
        config: FileCopyConfig {
            threads: 0,
            files: count(table, "files", 4096)?.unwrap_or(1),
            buffer_bytes: required(table, "buffer_bytes", 1, 1 << 20)?,
            blocks: required(table, "blocks", 1, 1 << 16)?,
            baseline: required(table, "baseline", 1, 1 << 20)?,
            cycle: nanos(needed(table, "cycle", "a time, such as \"2us\"", cycle)?),
            hold_share: required(table, "hold_percent", 1, 99)? as f64 / 100.0,
            read_share: table.number("read_percent", 1, 99)?.unwrap_or(67) as f64 / 100.0,
            allowed: None,
        },
    }))
}

fn hackbench(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    Ok(WorkloadKind::Hackbench(HackbenchConfig {
        groups: count(table, "groups", 4096)?.unwrap_or(10),
        pairs: count(table, "pairs", 256)?.unwrap_or(20),
        loops: table.number("loops", 1, 1_000_000)?.unwrap_or(100),
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(100),
    }))
}

fn schbench(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let work = span(table, "work", SHORT, Nanos(500e3))?;
    let pause = span(table, "pause", ANY, Nanos(0.0))?;
    Ok(WorkloadKind::Schbench(SchbenchConfig {
        message_threads: count(table, "message_threads", 4096)?.unwrap_or(2),
        workers: count(table, "workers", 4096)?.unwrap_or(16),
        work,
        pause,
    }))
}

fn pi_stress(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let hold = span(table, "hold", ANY, Nanos(0.0))?;
    let groups = count(table, "groups", 4096)?;
    let base_prio = table.number("base_prio", 1, 97)?.unwrap_or(1) as u8;
    let config = PiStressConfig { base_prio, hold };
    Ok(WorkloadKind::PiStress { groups, config })
}

fn lock_bench(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let lock = table.one_of("lock", &LockKind::WORDS)?;
    let lock = needed(
        table,
        "lock",
        "the kind of lock, such as \"spinlock\"",
        lock,
    )?;
    Ok(WorkloadKind::LockBench(Placed {
        cpus: cpu_choice(table)?,
        config: LockBenchConfig {
            lock,
            policy: policy(table, Policy::Normal(0))?,
            hold: span(table, "hold", ANY, Nanos(0.0))?,
            pause: span(table, "pause", ANY, Nanos(0.0))?,
        },
    }))
}

fn request_response(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    const EXPECTED: &str = "as many CPUs as `clients` has, one for each";
    let cpus = |key, expected| needed(table, key, expected, read::cpus(table, key)?);
    let clients = cpus("clients", "the CPUs of the clients, such as \"0-3\"")?;
    let servers = cpus("servers", EXPECTED)?;
    if clients.len() != servers.len() {
        return Err(table.error("servers", format!("{} CPUs", servers.len()), EXPECTED));
    }
    let work = span(table, "work", ANY, Nanos(0.0))?;
    let pairs = clients.into_iter().zip(servers);
    Ok(WorkloadKind::RequestResponse(RequestResponseConfig {
        pairs: pairs
            .map(|(client, server)| (CpuId(client), CpuId(server)))
            .collect(),
        policy: policy(table, Policy::Normal(0))?,
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(1),
        work,
    }))
}

fn policy_changer(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let policies = read::some_of(table, "policies", &POLICIES)?;
    let work = span(table, "work", ANY, Nanos(0.0))?;
    Ok(WorkloadKind::PolicyChanger(Placed {
        cpus: cpu_choice(table)?,
        config: PolicyChangerConfig {
            policies: policies.unwrap_or_else(|| CHANGED_TO.to_vec()),
            work,
        },
    }))
}

fn rt_app(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    Ok(WorkloadKind::RtApp(table.required_words("file")?))
}

pub(super) fn cpu_choice(table: &Table<'_, '_, '_>) -> Result<CpuChoice, ScenarioError> {
    Ok(CpuChoice {
        cpus: read::cpus(table, "cpus")?,
        pinned: table.flag("pinned")?,
        threads: count(table, "threads", THREADS_MAX)?,
    })
}

fn policy(table: &Table<'_, '_, '_>, default: Policy) -> Result<Policy, ScenarioError> {
    let (real_time, nice) = (table.number("priority", 1, 99)?, nice(table)?);
    let default_priority = match default {
        Policy::Fifo(priority) | Policy::Rr(priority) => priority,
        _ => 1,
    };
    let priority = real_time.map_or(default_priority, |priority| priority as u8);
    let policy = match table.one_of("policy", &POLICIES)?.unwrap_or(default) {
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

pub(super) fn nice(table: &Table<'_, '_, '_>) -> Result<Option<i8>, ScenarioError> {
    let expected = || "a nice value from -20 to 19".to_owned();
    table.read("nice", expected, |value| match value.get_ref() {
        toml::de::DeValue::Integer(number) if number.radix() == 10 => {
            let nice = number.as_str().parse().ok()?;
            (-20..=19).contains(&nice).then_some(nice)
        }
        _ => None,
    })
}

fn count(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    most: u64,
) -> Result<Option<usize>, ScenarioError> {
    Ok(table.number(key, 1, most)?.map(|count| count as usize))
}

pub(super) fn required(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, ScenarioError> {
    let expected = format!("a whole number from {least} to {most}");
    needed(table, key, expected, table.number(key, least, most)?)
}
