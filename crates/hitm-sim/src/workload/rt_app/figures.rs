//! Figures of threads that rt-app files describe.

use hitm_base::Cycles;

use super::{Running, TaskResult};
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
        WorkloadResult::default()
    }
}
