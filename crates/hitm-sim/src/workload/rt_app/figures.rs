//! Figures of threads that rt-app files describe.

use hitm_base::{Clock, Cycles};

use super::{Running, TaskResult};
use crate::kernel::TaskTotals;
use crate::workload::figures::{Add, Figures, Window, figures};
use crate::workload::metric::WorkloadResult;

figures! {
    FIGURES {
        THREADS: "threads", "count", "Threads that began";
        PHASES: "phases", "count", "Phases that threads finished";
        TIMERS: "timers", "count", "Timers that threads came to";
        MISSED: "missed", "count", "Of these, those whose time had passed already";
        LATE_US_MEAN: "late_us_mean", "us", "Mean time from when a timer was due to the thread's next instruction";
        LATE_US_MAX: "late_us_max", "us", "The longest such time";
    }
}

impl Figures for Running {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let tasks = &self.results();
        let sum = |value: fn(&TaskResult) -> u64| tasks.iter().map(value).sum::<u64>();
        let (timers, missed) = (sum(|task| task.timers), sum(|task| task.missed));
        add(THREADS, sum(|task| task.threads) as f64);
        add(PHASES, sum(|task| task.phases) as f64);
        add(TIMERS, timers as f64);
        add(MISSED, missed as f64);
        if timers > missed {
            let late = window.micros(Cycles(sum(|task| task.late_sum.0)));
            add(LATE_US_MEAN, late / (timers - missed) as f64);
            let most = tasks.iter().map(|task| task.late_max).max();
            add(LATE_US_MAX, window.micros(most.unwrap_or_default()));
        }
        WorkloadResult {
            text: Some(self.text(window.clock)),
            ..WorkloadResult::default()
        }
    }
}

/// Columns of the table of tasks.
const HEADS: [&str; 9] = [
    "threads",
    "run ms",
    "timers",
    "slack us",
    "least",
    "wakeups",
    "wake-up us",
    "most",
    "migrations",
];

impl Running {
    /// A table of the tasks over the whole run: means, and the worst of each.
    fn text(&self, clock: Clock) -> String {
        let micros = |cycles: f64| cycles * clock.nanos(Cycles(1)).0 / 1e3;
        let results = self.results();
        let width = results.iter().map(|task| task.name.chars().count());
        let width = width.max().unwrap_or(0).max("task".len());
        let heads = HEADS.map(|head| format!("  {head:>10}"));
        let mut text = format!("{:<width$}{}\n", "task", heads.concat());
        for (index, task) in results.iter().enumerate() {
            let cells = cells(task, &self.totals(index), micros);
            let cells = cells.map(|cell| format!("  {cell:>10}"));
            text += &format!("{:<width$}{}\n", task.name, cells.concat());
        }
        text
    }
}

/// One task's row; a dash where nothing was measured.
fn cells(task: &TaskResult, threads: &[TaskTotals], micros: impl Fn(f64) -> f64) -> [String; 9] {
    let sum = |value: fn(&TaskTotals) -> u64| threads.iter().map(value).sum::<u64>();
    let wakeups = sum(|thread| thread.wakeups);
    let run = sum(|thread| thread.run_time.0);
    let waited = sum(|thread| thread.wake_latency_sum.0);
    let longest = threads.iter().map(|thread| thread.wake_latency_max.0).max();
    let one = |count: u64, cycles: f64| match count {
        0 => "-".to_owned(),
        _ => format!("{:.1}", micros(cycles)),
    };
    let mean = |count: u64, cycles: f64| one(count, cycles / count.max(1) as f64);
    [
        task.threads.to_string(),
        format!("{:.3}", micros(run as f64) / 1e3),
        task.timers.to_string(),
        mean(task.timers, task.slack_sum_cycles as f64),
        one(task.timers, task.slack_cycles_min as f64),
        wakeups.to_string(),
        mean(wakeups, waited as f64),
        one(wakeups, longest.unwrap_or(0) as f64),
        sum(|thread| thread.migrations).to_string(),
    ]
}
