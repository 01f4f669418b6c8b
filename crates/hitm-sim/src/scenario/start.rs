//! From what a scenario says of a workload to tasks on a kernel, and from these to figures.

use std::rc::Rc;
use std::time::Duration;

use hitm_base::{CpuId, Cycles, Nanos};

use super::bench::Bench;
use super::distribute::{distribute_metrics, lock_metrics};
use super::locks::file_copy_metrics;
use super::metric::{Metric, WorkloadResult};
use super::workload::{
    CgroupHogsSpec, CyclicSpec, FileCopySpec, HackbenchSpec, LockHolderSpec, PoolSpec,
    RtMigrateSpec, SchbenchSpec, Workload, WorkloadKind,
};
use super::{RunRequest, Scenario};
use crate::engine::SimError;
use crate::kernel::{CpuMask, Kernel, Quota, Task};
use crate::workload::cgroup_hogs::{CgroupHogs, CgroupHogsConfig};
use crate::workload::cyclic::{Cyclic, CyclicConfig, Sleep, spawn_hogs};
use crate::workload::file_copy::{FileCopy, FileCopyConfig};
use crate::workload::hackbench::{Hackbench, HackbenchConfig};
use crate::workload::lock_holder::{LockHolder, LockHolderConfig};
use crate::workload::pi_stress::{PiStress, PiStressConfig};
use crate::workload::pool::{PoolConfig, Pools};
use crate::workload::rt_app;
use crate::workload::rt_migrate::{self, RtMigrate, RtMigrateConfig};
use crate::workload::schbench::{Schbench, SchbenchConfig};

/// A workload that runs.
pub(super) struct Running {
    name: String,
    kind: RunningKind,
    kernel: Rc<Kernel>,
    /// Its counter when the warm-up ended.
    warm: u64,
}

enum RunningKind {
    RtMigrateTest(Rc<rt_migrate::Running>),
    Pools(Rc<Pools>, u64),
    Cyclictest(Rc<Cyclic>),
    Cyclic(Rc<Cyclic>),
    Hogs(Vec<Rc<Task>>),
    CgroupHogs(CgroupHogs),
    LockHolder(LockHolder),
    FileCopy(FileCopy, u64),
    Hackbench(Rc<Hackbench>),
    Schbench(Rc<Schbench>),
    PiStress(Rc<PiStress>),
    Bench(Bench),
    RtApp(Rc<rt_app::Running>),
}

/// The part of a run that figures are of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) seconds: f64,
    pub(super) clock: hitm_base::Clock,
}

pub(super) fn start(
    kernel: &Rc<Kernel>,
    request: &RunRequest<'_>,
    workload: &Workload,
) -> Result<Running, SimError> {
    let scenario = request.scenario;
    let cpus = kernel.cpu_count();
    let bench = Bench::start(kernel, scenario, &workload.kind)?;
    let kind = match &workload.kind {
        WorkloadKind::RtMigrateTest(spec) => {
            let config = rt_migrate_config(spec, cpus);
            RunningKind::RtMigrateTest(rt_migrate::Running::spawn(kernel, config)?)
        }
        WorkloadKind::Pool(spec) => {
            let config = pool_config(spec, kernel, request.variant.wakeups_per_second);
            let frame_bursts = config.frame_bursts;
            RunningKind::Pools(Pools::spawn(kernel, config)?, frame_bursts)
        }
        WorkloadKind::Cyclictest(spec) => {
            let sleep = Sleep::Absolute(nanos(spec.interval));
            RunningKind::Cyclictest(cyclic(kernel, scenario, spec, sleep)?)
        }
        WorkloadKind::Cyclic(spec) => {
            let sleep = Sleep::Relative(nanos(spec.interval));
            RunningKind::Cyclic(cyclic(kernel, scenario, spec, sleep)?)
        }
        WorkloadKind::Hogs(spec) => {
            let masks = spec.cpus.masks(scenario, cpus);
            let start = nanos(spec.start);
            RunningKind::Hogs(spawn_hogs(kernel, &masks, spec.sched.policy, start)?)
        }
        WorkloadKind::CgroupHogs(spec) => {
            RunningKind::CgroupHogs(CgroupHogs::spawn(kernel, cgroup_hogs_config(spec))?)
        }
        WorkloadKind::LockHolder(spec) => {
            RunningKind::LockHolder(LockHolder::spawn(kernel, lock_holder_config(spec))?)
        }
        WorkloadKind::FileCopy(spec) => {
            let config = file_copy_config(spec, cpus);
            RunningKind::FileCopy(FileCopy::spawn(kernel, &config)?, spec.baseline)
        }
        WorkloadKind::Hackbench(spec) => {
            RunningKind::Hackbench(Hackbench::spawn(kernel, hackbench_config(spec))?)
        }
        WorkloadKind::Schbench(spec) => {
            RunningKind::Schbench(Schbench::spawn(kernel, schbench_config(spec))?)
        }
        WorkloadKind::PiStress(spec) => {
            let config = PiStressConfig {
                // As the program does: from the second CPU on, in turn.
                groups: (1..=spec.groups.unwrap_or(cpus.div_ceil(2)))
                    .map(|group| CpuId((group % cpus) as u16))
                    .collect(),
                base_prio: spec.base_prio,
                hold: nanos(spec.hold),
            };
            RunningKind::PiStress(PiStress::spawn(kernel, &config)?)
        }
        WorkloadKind::LockBench(_)
        | WorkloadKind::RequestResponse(_)
        | WorkloadKind::PolicyChanger(_) => {
            RunningKind::Bench(bench.expect("a benchmark starts one"))
        }
        WorkloadKind::RtApp(_) => {
            let app = &request.rt_apps[&workload.name];
            let has_end = request.duration().is_some();
            RunningKind::RtApp(rt_app::Running::spawn(kernel, app, has_end)?)
        }
    };
    Ok(Running {
        name: workload.name.clone(),
        kind,
        kernel: Rc::clone(kernel),
        warm: 0,
    })
}

fn cgroup_hogs_config(spec: &CgroupHogsSpec) -> CgroupHogsConfig {
    CgroupHogsConfig {
        subtrees: spec.subtrees,
        children: spec.children,
        leaves: spec.leaves,
        hogs: spec.hogs,
        quota: Quota {
            quota: nanos(spec.quota),
            period: nanos(spec.period),
            burst: nanos(spec.burst),
        },
    }
}

fn lock_holder_config(spec: &LockHolderSpec) -> LockHolderConfig {
    LockHolderConfig {
        quota: Quota {
            quota: nanos(spec.quota),
            period: nanos(spec.period),
            burst: Nanos(0.0),
        },
        holds: spec.holds,
        work: nanos(spec.work),
        page_wait: nanos(spec.page_wait),
        pause: nanos(spec.pause),
    }
}

fn file_copy_config(spec: &FileCopySpec, cpu_count: usize) -> FileCopyConfig {
    let allowed = spec.cpus.cpus.as_ref();
    let mask = |cpus: &Vec<u16>| CpuMask::of(cpu_count, cpus.iter().map(|cpu| CpuId(*cpu)));
    let allowed = allowed.map(mask);
    let own = allowed.as_ref().map_or(cpu_count, CpuMask::count);
    FileCopyConfig {
        threads: spec.cpus.threads.unwrap_or(own),
        files: spec.files,
        buffer_bytes: spec.buffer_bytes,
        blocks: spec.blocks,
        cycle: nanos(spec.cycle),
        hold_share: spec.hold_percent as f64 / 100.0,
        allowed,
    }
}

fn hackbench_config(spec: &HackbenchSpec) -> HackbenchConfig {
    HackbenchConfig {
        groups: spec.groups,
        pairs: spec.pairs,
        loops: spec.loops as u64,
        size_bytes: spec.size_bytes,
    }
}

fn schbench_config(spec: &SchbenchSpec) -> SchbenchConfig {
    SchbenchConfig {
        message_threads: spec.message_threads,
        workers: spec.workers,
        work: nanos(spec.work),
        pause: nanos(spec.pause),
    }
}

fn rt_migrate_config(spec: &RtMigrateSpec, cpu_count: usize) -> RtMigrateConfig {
    RtMigrateConfig {
        tasks: spec.tasks.unwrap_or(cpu_count + 1),
        base_prio: spec.base_prio,
        run_time: nanos(spec.run_time),
        sleep: nanos(spec.sleep),
        max_err: nanos(spec.max_error),
        loops: spec.loops,
        equal: spec.equal,
        check: spec.check,
    }
}

/// Bursts between `least` and `burst_ratio` times that, of the mean that gives the load. In each
/// mean, as many of an instance's CPUs as have a runnable worker finish a burst.
fn pool_config(spec: &PoolSpec, kernel: &Kernel, wakeups_per_second: Option<u64>) -> PoolConfig {
    let mut instances = PoolConfig::per_cores(kernel, spec.cores_per_instance);
    instances.truncate(spec.instances.unwrap_or(instances.len()));
    let cpus = instances[0].count();
    let busy = spec.runnable.min(cpus) as f64 / cpus as f64;
    let rate = wakeups_per_second.unwrap_or(spec.wakeups_per_second[0]) as f64;
    let mean_ns = busy * 1e9 / rate;
    let least_ns = 2.0 * mean_ns / (1.0 + spec.burst_ratio as f64);
    let frame_bursts = (spec.frame_time.as_nanos() as f64 / mean_ns).round();
    PoolConfig {
        instances,
        workers: spec.workers,
        tokens: spec.runnable,
        slices: spec.slices,
        policy: spec.sched.policy,
        burst_least: Nanos(least_ns),
        burst_most: Nanos(least_ns * spec.burst_ratio as f64),
        frame_bursts: (frame_bursts as u64).max(1),
    }
}

fn cyclic(
    kernel: &Rc<Kernel>,
    scenario: &Scenario,
    spec: &CyclicSpec,
    sleep: Sleep,
) -> Result<Rc<Cyclic>, SimError> {
    let config = CyclicConfig {
        threads: spec.cpus.masks(scenario, kernel.cpu_count()),
        policy: spec.sched.policy,
        sleep,
        work: nanos(spec.work),
    };
    Cyclic::spawn(kernel, config)
}

pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as f64)
}

impl Running {
    /// The warm-up is over: counts from here on are reported.
    pub(super) fn warmed_up(&mut self) {
        self.warm = self.counter();
    }

    fn counter(&self) -> u64 {
        match &self.kind {
            RunningKind::Pools(pools, _) => pools.bursts(),
            RunningKind::Cyclic(cyclic) => cyclic.operations(),
            RunningKind::PiStress(stress) => stress.inversions(),
            RunningKind::FileCopy(copy, _) => copy.blocks(),
            RunningKind::Bench(bench) => bench.operations(),
            _ => 0,
        }
    }

    pub(super) fn result(&self, window: Window) -> WorkloadResult {
        let per_second = (self.counter() - self.warm) as f64 / window.seconds;
        let mut result = WorkloadResult {
            name: self.name.clone(),
            metrics: Vec::new(),
            text: None,
            histograms: None,
            placements: None,
            passed: None,
            failure: None,
        };
        let mut add = |id, unit, value, description| {
            result
                .metrics
                .push(Metric::new(&self.name, id, unit, value, description));
        };
        match &self.kind {
            RunningKind::RtMigrateTest(running) => {
                let results = running.results();
                rt_migrate_metrics(&results, &mut add);
                let failures = results.failures();
                result.passed = Some(failures.is_empty());
                result.text = Some(results.text());
                let shown = failures.first().map(|first| results.failure_text(*first));
                result.failure = shown;
            }
            RunningKind::Pools(_, frame_bursts) => {
                pool_metrics(per_second, *frame_bursts, &mut add)
            }
            RunningKind::Cyclictest(cyclic) => lateness(cyclic, window, &mut add),
            RunningKind::Cyclic(cyclic) => {
                let text = "Wake-ups of all threads a second: the stressor's bogo operations";
                add("operations_per_second", "1/s", per_second, text);
                lateness(cyclic, window, &mut add);
            }
            RunningKind::Hogs(tasks) => {
                let used = tasks.iter().map(|task| task.totals().run_time.0).sum();
                let millis = window.clock.nanos(Cycles(used)).0 / 1e6;
                let text = "CPU time of all threads in the whole run, as of each one's last tick or switch";
                add("used_ms", "ms", millis, text);
            }
            RunningKind::LockHolder(holder) => {
                let histograms = lock_metrics(&holder.waits(), window, &mut add);
                result.text = Some(histograms.clone());
                result.histograms = Some(histograms);
            }
            RunningKind::CgroupHogs(hogs) => {
                let (histogram, trace) = distribute_metrics(hogs, window, &mut add);
                result.text = Some(format!("{histogram}{trace}"));
                result.histograms = Some(histogram);
            }
            RunningKind::FileCopy(copy, baseline) => {
                let kilobytes = per_second * copy.buffer_bytes() as f64 / 1024.0;
                let text = "Score of all threads: KB/s over the baseline, times 10";
                add("score", "points", kilobytes / *baseline as f64 * 10.0, text);
                let (locks, placements) = file_copy_metrics(copy, window, &self.kernel, &mut add);
                result.text = Some(format!("{locks}{placements}"));
                result.placements = (!placements.is_empty()).then_some(placements);
            }
            RunningKind::Hackbench(bench) => hackbench_metrics(bench, window, &mut add),
            RunningKind::Schbench(bench) => schbench_metrics(bench, window, &mut add),
            RunningKind::PiStress(_) => {
                let text = "Priority inversions of all groups a second";
                add("inversions_per_second", "1/s", per_second, text);
            }
            RunningKind::Bench(bench) => bench.metrics(per_second, &mut add),
            RunningKind::RtApp(running) => rt_app_metrics(&running.results(), window, &mut add),
        }
        result
    }
}

pub(super) type Add<'a> = &'a mut dyn FnMut(&'static str, &'static str, f64, &'static str);

fn hackbench_metrics(bench: &Hackbench, window: Window, add: Add<'_>) {
    if let Some(time) = bench.time() {
        let text = "From the first thread's start to the last message read";
        add("time_ms", "ms", window.clock.nanos(time).0 / 1e6, text);
    }
    let text = "Messages read in the whole run";
    add("messages", "count", bench.messages() as f64, text);
}

fn schbench_metrics(bench: &Schbench, window: Window, add: Add<'_>) {
    let requests = bench.requests();
    let text = "Requests done in the whole run";
    add("requests", "count", requests.requests.len() as f64, text);
    let mut of = |ids: [&'static str; 2], texts: [&'static str; 2], times: &[Cycles]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        for ((id, text), part) in ids.into_iter().zip(texts).zip([0.5, 0.99]) {
            if let Some(last) = times.len().checked_sub(1) {
                let time = times[(last as f64 * part).round() as usize];
                add(id, "us", window.clock.nanos(time).0 / 1e3, text);
            }
        }
    };
    let ids = ["wakeup_us_p50", "wakeup_us_p99"];
    let texts = [
        "From the wake-up of a worker to its first instruction, half of all take at most this",
        "The same, 99 % of all",
    ];
    of(ids, texts, &requests.wakeups);
    let ids = ["request_us_p50", "request_us_p99"];
    let texts = [
        "From the wake-up of a worker to the end of its request, half of all take at most this",
        "The same, 99 % of all",
    ];
    of(ids, texts, &requests.requests);
}

fn pool_metrics(bursts_per_second: f64, frame_bursts: u64, add: Add<'_>) {
    let text = "Frames of all instances a second";
    let frames = bursts_per_second / frame_bursts as f64;
    add("frames_per_second", "1/s", frames, text);
    let text = "Bursts of all workers a second";
    add("bursts_per_second", "1/s", bursts_per_second, text);
}

fn rt_migrate_metrics(results: &RtMigrate, add: Add<'_>) {
    let failures = results.failures();
    let count = |count: usize| count as f64;
    add(
        "iterations",
        "count",
        count(results.iterations.len()),
        "Iterations done",
    );
    let text = "Iterations in which a thread had to wait for one of lower priority";
    add("failed_iterations", "count", count(failures.len()), text);
    let late = |iteration: &usize| {
        let task = results.failure(*iteration)?;
        Some(results.iterations[*iteration][task].start_us as f64)
    };
    if let Some(late) = failures.first().and_then(late) {
        let text = "How late the waiting thread of the first failed iteration started";
        add("failed_start_us", "us", late, text);
    }
    let starts = results.max_start_us();
    let text = "The latest start of any thread but the lowest";
    let most = starts.iter().skip(1).max().copied().unwrap_or(0);
    add("start_us_max", "us", most as f64, text);
    let lowest = starts.first().copied().unwrap_or(0);
    add(
        "lowest_start_us_max",
        "us",
        lowest as f64,
        "The latest start of the lowest thread",
    );
}

fn lateness(cyclic: &Cyclic, window: Window, add: Add<'_>) {
    let results = cyclic.results();
    let micros = |span: Cycles| window.clock.nanos(span).0 / 1e3;
    let awake = results.iter().filter(|thread| thread.cycles > 0);
    let cycles: u64 = results.iter().map(|thread| thread.cycles).sum();
    let Some(least) = awake.map(|thread| thread.least).min() else {
        return;
    };
    let sum = Cycles(results.iter().map(|thread| thread.sum.0).sum());
    let most = results
        .iter()
        .map(|thread| thread.most)
        .max()
        .unwrap_or_default();
    add(
        "wakeups",
        "count",
        cycles as f64,
        "Wake-ups of all threads in the whole run",
    );
    add(
        "late_us_min",
        "us",
        micros(least),
        "The least lateness of a wake-up",
    );
    add(
        "late_us_mean",
        "us",
        micros(sum) / cycles as f64,
        "The mean lateness",
    );
    add("late_us_max", "us", micros(most), "The largest lateness");
}

fn rt_app_metrics(tasks: &[rt_app::TaskResult], window: Window, add: Add<'_>) {
    let micros = |span: Cycles| window.clock.nanos(span).0 / 1e3;
    let sum = |value: fn(&rt_app::TaskResult) -> u64| tasks.iter().map(value).sum::<u64>();
    let (timers, missed) = (sum(|task| task.timers), sum(|task| task.missed));
    add(
        "threads",
        "count",
        sum(|task| task.threads) as f64,
        "Threads that began",
    );
    add(
        "phases",
        "count",
        sum(|task| task.phases) as f64,
        "Phases that threads finished",
    );
    add(
        "timers",
        "count",
        timers as f64,
        "Timers that threads came to",
    );
    add(
        "missed",
        "count",
        missed as f64,
        "Of these, those whose time had passed already",
    );
    if timers > missed {
        let waited = (timers - missed) as f64;
        let late = micros(Cycles(sum(|task| task.late_sum.0))) / waited;
        add(
            "late_us_mean",
            "us",
            late,
            "Mean time from when a timer was due to the thread's next instruction",
        );
        let most = tasks
            .iter()
            .map(|task| task.late_max)
            .max()
            .unwrap_or_default();
        add("late_us_max", "us", micros(most), "The longest such time");
    }
}
