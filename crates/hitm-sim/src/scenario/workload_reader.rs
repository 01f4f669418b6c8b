//! Reads the workloads of a scenario.

use std::time::Duration;

use hitm_base::document::describe;

use super::ScenarioError;
use super::bench_reader::{lock_bench, policy_changer, request_response};
use super::reader::{ScenarioTable as _, Table};
use super::workload::{
    CgroupHogsSpec, CpuChoice, CyclicSpec, FileCopySpec, HackbenchSpec, HogsSpec, LockHolderSpec,
    PiStressSpec, PoolSpec, RtAppSpec, RtMigrateSpec, SchbenchSpec, SchedSpec, Workload,
    WorkloadKind,
};
use crate::kernel::{Hold, Policy};

/// Longest time of a workload's key.
pub(super) const TIME_MAX: Duration = Duration::from_secs(1_000);
/// Most threads of one workload.
const THREADS_MAX: u64 = 16_384;
/// Most groups within one group.
const GROUPS_MAX: u64 = 4_096;
/// Most wake-ups a second and CPU.
const WAKEUPS_MAX: u64 = 1_000_000;

#[derive(Clone, Copy)]
enum Kind {
    RtMigrateTest,
    Ffmpeg,
    Cyclictest,
    Cyclic,
    Hogs,
    Pinned,
    CgroupHogs,
    LockHolder,
    FileCopy,
    Hackbench,
    Schbench,
    PiStress,
    LockBench,
    RequestResponse,
    PolicyChanger,
    RtApp,
}

const HOLDS: [(&str, Hold); 2] = [("read", Hold::Read), ("write", Hold::Write)];

const KINDS: [(&str, Kind); 16] = [
    ("rt-migrate-test", Kind::RtMigrateTest),
    ("ffmpeg", Kind::Ffmpeg),
    ("cyclictest", Kind::Cyclictest),
    ("cyclic", Kind::Cyclic),
    ("hogs", Kind::Hogs),
    ("pinned", Kind::Pinned),
    ("cgroup-hogs", Kind::CgroupHogs),
    ("lock-holder", Kind::LockHolder),
    ("file-copy", Kind::FileCopy),
    ("hackbench", Kind::Hackbench),
    ("schbench", Kind::Schbench),
    ("pi-stress", Kind::PiStress),
    ("lock-bench", Kind::LockBench),
    ("request-response", Kind::RequestResponse),
    ("policy-changer", Kind::PolicyChanger),
    ("rt-app", Kind::RtApp),
];

pub(super) fn workload(table: &Table<'_, '_, '_>) -> Result<Workload, ScenarioError> {
    let kind = table.one_of("kind", &KINDS)?;
    let kind = kind.ok_or_else(|| table.error("kind", "no such key", "the kind of workload"))?;
    let stated = table.words("name")?;
    let (default_name, kind) = match kind {
        Kind::RtMigrateTest => (
            "rt_migrate",
            WorkloadKind::RtMigrateTest(rt_migrate(table)?),
        ),
        Kind::Ffmpeg => ("ffmpeg", WorkloadKind::Pool(pool(table)?)),
        Kind::Cyclictest => {
            let interval = Duration::from_millis(1);
            (
                "cyclictest",
                WorkloadKind::Cyclictest(cyclic(table, "interval", interval)?),
            )
        }
        Kind::Cyclic => {
            let sleep = Duration::from_micros(100);
            (
                "cyclic",
                WorkloadKind::Cyclic(cyclic(table, "sleep", sleep)?),
            )
        }
        Kind::Hogs => {
            let spec = HogsSpec {
                cpus: cpu_choice(table)?,
                sched: sched(table, Policy::Normal(0))?,
                start: start(table)?,
            };
            ("hogs", WorkloadKind::Hogs(spec))
        }
        Kind::Pinned => ("pinned", WorkloadKind::Hogs(pinned(table)?)),
        Kind::CgroupHogs => ("cgroup_hogs", WorkloadKind::CgroupHogs(cgroup_hogs(table)?)),
        Kind::LockHolder => ("lock_holder", WorkloadKind::LockHolder(lock_holder(table)?)),
        Kind::FileCopy => ("file_copy", WorkloadKind::FileCopy(file_copy(table)?)),
        Kind::Hackbench => ("hackbench", WorkloadKind::Hackbench(hackbench(table)?)),
        Kind::Schbench => ("schbench", WorkloadKind::Schbench(schbench(table)?)),
        Kind::PiStress => ("pi_stress", WorkloadKind::PiStress(pi_stress(table)?)),
        Kind::LockBench => ("lock_bench", WorkloadKind::LockBench(lock_bench(table)?)),
        Kind::RequestResponse => {
            let spec = request_response(table)?;
            ("request_response", WorkloadKind::RequestResponse(spec))
        }
        Kind::PolicyChanger => {
            let spec = policy_changer(table)?;
            ("policy_changer", WorkloadKind::PolicyChanger(spec))
        }
        Kind::RtApp => {
            let file = table.required_words("file")?;
            ("rt_app", WorkloadKind::RtApp(RtAppSpec { file }))
        }
    };
    table.finish()?;
    let name = stated.unwrap_or_else(|| default_name.to_owned());
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.chars().all(is_id) {
        let expected = "lower-case letters, digits and _: metrics begin with it";
        return Err(table.error("name", format!("{name:?}"), expected));
    }
    Ok(Workload { name, kind })
}

fn rt_migrate(table: &Table<'_, '_, '_>) -> Result<RtMigrateSpec, ScenarioError> {
    let time = |key, default| {
        let stated = table.time(key, Duration::from_micros(1), TIME_MAX)?;
        Ok(stated.unwrap_or(default))
    };
    Ok(RtMigrateSpec {
        tasks: count(table, "tasks", 4096)?,
        base_prio: table.number("base_prio", 1, 90)?.unwrap_or(2) as u8,
        run_time: time("run_time", Duration::from_millis(20))?,
        sleep: time("sleep", Duration::from_millis(100))?,
        max_error: time("max_error", Duration::from_millis(1))?,
        loops: count(table, "loops", 100_000)?.unwrap_or(50),
        equal: table.flag("equal")?,
        check: table.flag("check")?,
    })
}

fn pool(table: &Table<'_, '_, '_>) -> Result<PoolSpec, ScenarioError> {
    let workers = required(table, "workers", 1, 256)? as usize;
    let runnable = required(table, "runnable", 1, workers as u64)? as usize;
    let wakeups = table.rates("wakeups", WAKEUPS_MAX)?;
    let missing = || table.error("wakeups", "no such key", "a rate a CPU, such as \"2500/s\"");
    let frame_time = table.time("frame_time", Duration::from_micros(1), TIME_MAX)?;
    Ok(PoolSpec {
        instances: count(table, "instances", 4096)?,
        cores_per_instance: required(table, "cores_per_instance", 1, 256)? as usize,
        workers,
        runnable,
        slices: table.flag("slices")?,
        sched: sched(table, Policy::Fifo(99))?,
        wakeups_per_second: wakeups.ok_or_else(missing)?,
        burst_ratio: table.number("burst_ratio", 1, 1_000)?.unwrap_or(10),
        frame_time: frame_time.unwrap_or(Duration::from_millis(10)),
    })
}

fn cyclic(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    interval: Duration,
) -> Result<CyclicSpec, ScenarioError> {
    let stated = table.time(key, Duration::from_micros(1), TIME_MAX)?;
    let work = table.time("work", Duration::from_nanos(1), TIME_MAX)?;
    Ok(CyclicSpec {
        cpus: cpu_choice(table)?,
        sched: sched(table, Policy::Fifo(99))?,
        interval: stated.unwrap_or(interval),
        work: work.unwrap_or(Duration::from_nanos(200)),
    })
}

fn cgroup_hogs(table: &Table<'_, '_, '_>) -> Result<CgroupHogsSpec, ScenarioError> {
    let least = Duration::from_millis(1);
    let quota = table.time("quota", least, TIME_MAX)?;
    let missing = || table.error("quota", "no such key", "a time, such as \"1s\"");
    let period = table.time("period", least, Duration::from_secs(1))?;
    let burst = table.time("burst", Duration::ZERO, TIME_MAX)?;
    let spec = CgroupHogsSpec {
        subtrees: count(table, "subtrees", 64)?.unwrap_or(1),
        children: required(table, "children", 1, GROUPS_MAX)? as usize,
        leaves: required(table, "leaves", 0, GROUPS_MAX)? as usize,
        hogs: required(table, "hogs", 1, THREADS_MAX)? as usize,
        quota: quota.ok_or_else(missing)?,
        period: period.unwrap_or(Duration::from_millis(100)),
        burst: burst.unwrap_or_default(),
    };
    if spec.burst > spec.quota {
        return Err(table.error("burst", "more than the quota", "at most `quota`"));
    }
    Ok(spec)
}

fn lock_holder(table: &Table<'_, '_, '_>) -> Result<LockHolderSpec, ScenarioError> {
    let least = Duration::from_millis(1);
    let quota = table.time("quota", least, TIME_MAX)?;
    let missing = || table.error("quota", "no such key", "a time, such as \"1s\"");
    let time = |key, default| {
        let stated = table.time(key, Duration::from_nanos(100), TIME_MAX)?;
        Ok(stated.unwrap_or(default))
    };
    Ok(LockHolderSpec {
        quota: quota.ok_or_else(missing)?,
        period: table
            .time("period", least, Duration::from_secs(1))?
            .unwrap_or(Duration::from_millis(100)),
        holds: table.one_of("holds", &HOLDS)?.unwrap_or(Hold::Read),
        work: time("work", Duration::from_micros(5))?,
        page_wait: time("page_wait", Duration::from_micros(200))?,
        pause: time("pause", Duration::from_millis(2))?,
    })
}

fn file_copy(table: &Table<'_, '_, '_>) -> Result<FileCopySpec, ScenarioError> {
    let cycle = table.time("cycle", Duration::from_nanos(100), TIME_MAX)?;
    let missing = || table.error("cycle", "no such key", "a time, such as \"2us\"");
    Ok(FileCopySpec {
        cpus: cpu_choice(table)?,
        files: count(table, "files", 4096)?.unwrap_or(1),
        buffer_bytes: required(table, "buffer_bytes", 1, 1 << 20)?,
        blocks: required(table, "blocks", 1, 1 << 16)?,
        baseline: required(table, "baseline", 1, 1 << 20)?,
        cycle: cycle.ok_or_else(missing)?,
        hold_percent: required(table, "hold_percent", 1, 99)?,
    })
}

fn hackbench(table: &Table<'_, '_, '_>) -> Result<HackbenchSpec, ScenarioError> {
    Ok(HackbenchSpec {
        groups: count(table, "groups", 4096)?.unwrap_or(10),
        pairs: count(table, "pairs", 256)?.unwrap_or(20),
        loops: count(table, "loops", 1_000_000)?.unwrap_or(100),
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(100),
    })
}

fn schbench(table: &Table<'_, '_, '_>) -> Result<SchbenchSpec, ScenarioError> {
    let work = table.time("work", Duration::from_nanos(100), TIME_MAX)?;
    let pause = table.time("pause", Duration::ZERO, TIME_MAX)?;
    Ok(SchbenchSpec {
        message_threads: count(table, "message_threads", 4096)?.unwrap_or(2),
        workers: count(table, "workers", 4096)?.unwrap_or(16),
        work: work.unwrap_or(Duration::from_micros(500)),
        pause: pause.unwrap_or_default(),
    })
}

fn pi_stress(table: &Table<'_, '_, '_>) -> Result<PiStressSpec, ScenarioError> {
    let hold = table.time("hold", Duration::ZERO, TIME_MAX)?;
    Ok(PiStressSpec {
        groups: count(table, "groups", 4096)?,
        base_prio: table.number("base_prio", 1, 97)?.unwrap_or(1) as u8,
        hold: hold.unwrap_or_default(),
    })
}

fn pinned(table: &Table<'_, '_, '_>) -> Result<HogsSpec, ScenarioError> {
    table.required("cpus", "the CPUs that get a thread each")?;
    let cpus = CpuChoice {
        cpus: table.cpus("cpus")?,
        pinned: true,
        threads: None,
    };
    Ok(HogsSpec {
        cpus,
        sched: sched(table, Policy::Fifo(99))?,
        start: start(table)?,
    })
}

fn start(table: &Table<'_, '_, '_>) -> Result<Duration, ScenarioError> {
    let stated = table.time("start", Duration::ZERO, TIME_MAX)?;
    Ok(stated.unwrap_or_default())
}

pub(super) fn cpu_choice(table: &Table<'_, '_, '_>) -> Result<CpuChoice, ScenarioError> {
    let cpus = table.cpus("cpus")?;
    let pinned = table.flag("pinned")?;
    let threads = count(table, "threads", THREADS_MAX)?;
    Ok(CpuChoice {
        cpus,
        pinned,
        threads,
    })
}

pub(super) fn sched(
    table: &Table<'_, '_, '_>,
    default: Policy,
) -> Result<SchedSpec, ScenarioError> {
    let (real_time, nice) = (table.number("priority", 1, 99)?, nice(table)?);
    let priority = |default: u8| real_time.map_or(default, |priority| priority as u8);
    let default_priority = match default {
        Policy::Fifo(priority) | Policy::Rr(priority) => priority,
        Policy::Normal(_) => 1,
    };
    let choices = [("fifo", 0), ("rr", 1), ("normal", 2)];
    let default_choice = usize::from(matches!(default, Policy::Normal(_))) * 2;
    let policy = match table.one_of("policy", &choices)?.unwrap_or(default_choice) {
        0 => Policy::Fifo(priority(default_priority)),
        1 => Policy::Rr(priority(default_priority)),
        _ => Policy::Normal(nice.unwrap_or(0)),
    };
    let misplaced = match policy {
        Policy::Normal(_) if real_time.is_some() => Some(("priority", "`nice` for policy normal")),
        Policy::Fifo(_) | Policy::Rr(_) if nice.is_some() => {
            Some(("nice", "`priority` for a real-time policy"))
        }
        _ => None,
    };
    match misplaced {
        Some((key, expected)) => Err(table.error(key, format!("the key {key}"), expected)),
        None => Ok(SchedSpec { policy }),
    }
}

fn nice(table: &Table<'_, '_, '_>) -> Result<Option<i8>, ScenarioError> {
    const EXPECTED: &str = "a nice value from -20 to 19";
    let Some(value) = table.get("nice") else {
        return Ok(None);
    };
    let number = match value.get_ref() {
        toml::de::DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        _ => None,
    };
    match number.filter(|nice| (-20..=19).contains(nice)) {
        Some(nice) => Ok(Some(nice)),
        None => Err(table.error("nice", describe(value), EXPECTED)),
    }
}

fn count(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    most: u64,
) -> Result<Option<usize>, ScenarioError> {
    Ok(table.number(key, 1, most)?.map(|count| count as usize))
}

fn required(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, ScenarioError> {
    let expected = format!("a whole number from {least} to {most}");
    let missing = || table.error(key, "no such key", expected);
    table.number(key, least, most)?.ok_or_else(missing)
}
