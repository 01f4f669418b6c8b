//! Figures of the workloads that run.

use std::rc::Rc;

use hitm_base::{Clock, Cycles};

use super::distribute::{distribute_metrics, lock_metrics};
use super::locks::file_copy_metrics;
use super::metric::WorkloadResult;
use crate::kernel::{Kernel, Task};
use crate::workload::cgroup_hogs::CgroupHogs;
use crate::workload::cyclic::Cyclic;
use crate::workload::file_copy::FileCopy;
use crate::workload::hackbench::Hackbench;
use crate::workload::lock_bench::LockBench;
use crate::workload::lock_holder::LockHolder;
use crate::workload::pi_stress::PiStress;
use crate::workload::policy_changer::PolicyChanger;
use crate::workload::pool::Pools;
use crate::workload::request_response::RequestResponse;
use crate::workload::rt_app;
use crate::workload::rt_migrate::{self, RtMigrate};
use crate::workload::schbench::Schbench;

/// The part of a run that figures are of.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) seconds: f64,
    pub(super) clock: Clock,
    pub(super) kernel: &'a Kernel,
    /// Operations of the workload a second.
    pub(super) per_second: f64,
}

impl Window<'_> {
    pub(super) fn micros(&self, span: Cycles) -> f64 {
        self.clock.nanos(span).0 / 1e3
    }
}

/// Takes a figure: its id, unit, value and meaning.
pub(super) type Add<'a> = &'a mut dyn FnMut(&'static str, &'static str, f64, &'static str);

/// A workload that runs.
pub(super) trait Figures {
    /// Operations so far, of those that are counted.
    fn operations(&self) -> u64 {
        0
    }

    /// Adds the figures; returns results in the workload's own form.
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult;
}

impl Figures for rt_migrate::Running {
    fn figures(&self, _: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let results = self.results();
        rt_migrate_metrics(&results, add);
        let failures = results.failures();
        let failure = failures.first().map(|first| results.failure_text(*first));
        WorkloadResult {
            passed: Some(failures.is_empty()),
            text: Some(results.text()),
            failure,
            ..WorkloadResult::default()
        }
    }
}

impl Figures for Pools {
    fn operations(&self) -> u64 {
        self.bursts()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let text = "Frames of all instances a second";
        let frames = window.per_second / self.frame_bursts() as f64;
        add("frames_per_second", "1/s", frames, text);
        let text = "Bursts of all workers a second";
        add("bursts_per_second", "1/s", window.per_second, text);
        WorkloadResult::default()
    }
}

impl Figures for Cyclic {
    fn operations(&self) -> u64 {
        self.results().cycles
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        if self.is_stressor() {
            let text = "Wake-ups of all threads a second: the stressor's bogo operations";
            add("operations_per_second", "1/s", window.per_second, text);
        }
        lateness(self, window, add);
        WorkloadResult::default()
    }
}

/// Threads that burn their CPU.
pub(super) struct Hogs(pub(super) Vec<Rc<Task>>);

impl Figures for Hogs {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let used = self.0.iter().map(|task| task.totals().run_time.0).sum();
        let millis = window.clock.nanos(Cycles(used)).0 / 1e6;
        let text = "CPU time of all threads in the whole run, as of each one's last tick or switch";
        add("used_ms", "ms", millis, text);
        WorkloadResult::default()
    }
}

impl Figures for LockHolder {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let histograms = Some(lock_metrics(&self.waits(), window, add));
        WorkloadResult {
            text: histograms.clone(),
            histograms,
            ..WorkloadResult::default()
        }
    }
}

impl Figures for CgroupHogs {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let (histogram, trace) = distribute_metrics(self, window, add);
        WorkloadResult {
            text: Some(format!("{histogram}{trace}")),
            histograms: Some(histogram),
            ..WorkloadResult::default()
        }
    }
}

impl Figures for FileCopy {
    fn operations(&self) -> u64 {
        self.blocks()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let text = "Score of all threads: KB/s over the baseline, times 10";
        add("score", "points", self.score(window.per_second), text);
        let (locks, placements) = file_copy_metrics(self, window, add);
        WorkloadResult {
            text: Some(format!("{locks}{placements}")),
            placements: (!placements.is_empty()).then_some(placements),
            ..WorkloadResult::default()
        }
    }
}

impl Figures for Hackbench {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        if let Some(time) = self.time() {
            let text = "From the first thread's start to the last message read";
            add("time_ms", "ms", window.clock.nanos(time).0 / 1e6, text);
        }
        let text = "Messages read in the whole run";
        add("messages", "count", self.messages() as f64, text);
        WorkloadResult::default()
    }
}

impl Figures for Schbench {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let requests = self.requests();
        let text = "Requests done in the whole run";
        add("requests", "count", requests.requests.len() as f64, text);
        let mut of = |ids: [&'static str; 2], texts: [&'static str; 2], times: &[Cycles]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            for ((id, text), part) in ids.into_iter().zip(texts).zip([0.5, 0.99]) {
                if let Some(last) = times.len().checked_sub(1) {
                    let time = times[(last as f64 * part).round() as usize];
                    add(id, "us", window.micros(time), text);
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
        WorkloadResult::default()
    }
}

impl Figures for LockBench {
    fn operations(&self) -> u64 {
        self.acquisitions().iter().sum()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let text = "Acquisitions of all threads a second";
        add("acquisitions_per_second", "1/s", window.per_second, text);
        let counts = self.acquisitions();
        let ends = counts.iter().min().zip(counts.iter().max());
        if let Some((least, most)) = ends.filter(|(_, most)| **most > 0) {
            let text = "Acquisitions of the thread with the fewest over those of the one with the most, in the \
                        whole run";
            add("least_of_most", "ratio", *least as f64 / *most as f64, text);
        }
        WorkloadResult::default()
    }
}

/// Workloads whose only figure is their operations a second.
macro_rules! rates {
    ($($workload:ty, $operations:ident, $id:literal, $text:literal;)*) => {$(
        impl Figures for $workload {
            fn operations(&self) -> u64 {
                self.$operations()
            }

            fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
                add($id, "1/s", window.per_second, $text);
                WorkloadResult::default()
            }
        }
    )*};
}

rates! {
    PiStress, inversions, "inversions_per_second", "Priority inversions of all groups a second";
    RequestResponse, transactions, "transactions_per_second", "Transactions of all pairs a second";
    PolicyChanger, changes, "changes_per_second", "Changes of policy of all threads a second";
}

impl Figures for rt_app::Running {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        rt_app_metrics(&self.results(), window, add);
        WorkloadResult::default()
    }
}

fn rt_migrate_metrics(results: &RtMigrate, add: Add<'_>) {
    let failures = results.failures();
    let count = |count: usize| count as f64;
    let done = count(results.iterations.len());
    add("iterations", "count", done, "Iterations done");
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
    let text = "The latest start of the lowest thread";
    add("lowest_start_us_max", "us", lowest as f64, text);
}

fn lateness(cyclic: &Cyclic, window: Window<'_>, add: Add<'_>) {
    let all = cyclic.results();
    if all.cycles == 0 {
        return;
    }
    let text = "Wake-ups of all threads in the whole run";
    add("wakeups", "count", all.cycles as f64, text);
    let mean = window.micros(all.sum) / all.cycles as f64;
    for (id, micros, text) in [
        (
            "late_us_min",
            window.micros(all.least),
            "The least lateness of a wake-up",
        ),
        ("late_us_mean", mean, "The mean lateness"),
        (
            "late_us_max",
            window.micros(all.most),
            "The largest lateness",
        ),
    ] {
        add(id, "us", micros, text);
    }
}

fn rt_app_metrics(tasks: &[rt_app::TaskResult], window: Window<'_>, add: Add<'_>) {
    let sum = |value: fn(&rt_app::TaskResult) -> u64| tasks.iter().map(value).sum::<u64>();
    let (timers, missed) = (sum(|task| task.timers), sum(|task| task.missed));
    for (id, count, text) in [
        ("threads", sum(|task| task.threads), "Threads that began"),
        (
            "phases",
            sum(|task| task.phases),
            "Phases that threads finished",
        ),
        ("timers", timers, "Timers that threads came to"),
        (
            "missed",
            missed,
            "Of these, those whose time had passed already",
        ),
    ] {
        add(id, "count", count as f64, text);
    }
    if timers > missed {
        let waited = (timers - missed) as f64;
        let late = window.micros(Cycles(sum(|task| task.late_sum.0))) / waited;
        let text = "Mean time from when a timer was due to the thread's next instruction";
        add("late_us_mean", "us", late, text);
        let most = tasks.iter().map(|task| task.late_max).max();
        let most = window.micros(most.unwrap_or_default());
        add("late_us_max", "us", most, "The longest such time");
    }
}
