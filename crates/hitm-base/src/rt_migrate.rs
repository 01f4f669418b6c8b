//! `rt-migrate-test` (rt-tests): its options, its rule and its table.
//!
//! Threads of rising priority start at once, one more than CPUs, and are busy for the same time. An
//! iteration fails when a thread starts later than the next lower one by more than the allowed
//! error. It then has to wait for it to finish.
//!
//! Here, because the test runs on this host (`hitm-live`) and simulated (`hitm-sim`), which do not know each other.
//!
//! Source: rt-tests, src/rt-migrate-test/rt-migrate-test.c; the rule is that of its check of results.

use std::fmt::Write as _;
use std::ops::Range;

use crate::Nanos;

/// The test's options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RtMigrateConfig {
    /// Threads; the test's default is one more than CPUs.
    pub tasks: usize,
    /// Priority of the first thread (`-p`).
    pub base_prio: u8,
    /// Busy time (`-r`).
    pub run_time: Nanos,
    /// Pause of the parent between iterations (`-s`).
    pub sleep: Nanos,
    /// Allowed lateness (`-m`).
    pub max_err: Nanos,
    /// Iterations (`-l`).
    pub loops: usize,
    /// All but the first thread share one priority (`-e`).
    pub equal: bool,
    /// Stop at the first failure (`-c`).
    pub check: bool,
}

impl RtMigrateConfig {
    /// The defaults on a machine of `cpu_count`.
    pub fn new(cpu_count: usize) -> RtMigrateConfig {
        RtMigrateConfig {
            tasks: cpu_count + 1,
            base_prio: 2,
            run_time: Nanos(20e6),
            sleep: Nanos(100e6),
            max_err: Nanos(1e6),
            loops: 50,
            equal: false,
            check: false,
        }
    }

    /// The priority of a thread.
    pub fn prio(&self, task: usize) -> u8 {
        // Priorities above the range of the parent's are shared by the last threads.
        let step = if self.equal { task.min(1) } else { task };
        self.base_prio + step.min(usize::from(97 - self.base_prio)) as u8
    }
}

/// One thread in one iteration, in microseconds and loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// From the parent's time to the thread's first instruction after the barrier.
    pub start_us: u64,
    /// From the parent's time to the end of its busy loop.
    pub length_us: u64,
    /// Passes of its busy loop.
    pub loops: u64,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RtMigrate {
    /// The options.
    pub config: RtMigrateConfig,
    /// By iteration and thread, in ascending priority.
    pub iterations: Vec<Vec<Sample>>,
}

impl RtMigrate {
    /// The thread for which an iteration fails; `None` when it passes.
    pub fn failure(&self, iteration: usize) -> Option<usize> {
        let max_err_us = (self.config.max_err.0 / 1e3) as u64;
        let samples = &self.iterations[iteration];
        (1..samples.len()).find(|task| {
            if self.config.prio(*task) == self.config.prio(*task - 1) {
                return false;
            }
            let (lower, this) = (&samples[*task - 1], &samples[*task]);
            let waited = this.loops < lower.loops
                || this.start_us > lower.length_us
                || this.length_us > lower.length_us + max_err_us;
            this.start_us > lower.start_us + max_err_us && waited
        })
    }

    /// Iterations that fail.
    pub fn failures(&self) -> Vec<usize> {
        let all = 0..self.iterations.len();
        all.filter(|iteration| self.failure(*iteration).is_some())
            .collect()
    }

    /// The longest start delay of each thread, in microseconds.
    pub fn max_start_us(&self) -> Vec<u64> {
        let task_max = |task: usize| {
            let starts = self.iterations.iter().map(|samples| samples[task].start_us);
            starts.max().unwrap_or(0)
        };
        (0..self.config.tasks).map(task_max).collect()
    }

    /// The results in the form of the test.
    pub fn text(&self) -> String {
        let tasks = 0..self.config.tasks;
        let mut text = head(tasks.clone());
        for number in 0..self.iterations.len() {
            self.iteration(&mut text, number, tasks.clone());
        }
        for task in 0..self.config.tasks {
            let starts = self.iterations.iter().map(|samples| samples[task].start_us);
            let starts: Vec<u64> = starts.collect();
            let total: u64 = starts.iter().sum();
            let average = total.checked_div(starts.len() as u64).unwrap_or(0);
            let _ = writeln!(
                text,
                " Task {task} (prio {}):\n   Max: {} us\n   Min: {} us\n   Tot: {total} us\n   Avg: {average} us\n",
                self.config.prio(task),
                starts.iter().max().unwrap_or(&0),
                starts.iter().min().unwrap_or(&0),
            );
        }
        match self.failures().first() {
            Some(iteration) => {
                let _ = writeln!(text, " Failed at iteration {iteration}!");
            }
            None => text.push_str(" Passed!\n"),
        }
        text
    }

    /// An iteration that fails in the form of the test; of many threads those around the one that
    /// had to wait.
    pub fn failure_text(&self, iteration: usize) -> String {
        let waiting = self.failure(iteration).unwrap_or(0);
        let first = waiting.saturating_sub(SHOWN_TASKS / 2);
        let last = (first + SHOWN_TASKS).min(self.config.tasks);
        let tasks = last.saturating_sub(SHOWN_TASKS)..last;
        let mut text = head(tasks.clone());
        self.iteration(&mut text, iteration, tasks);
        let _ = writeln!(text, " Failed at iteration {iteration}!");
        text
    }

    fn iteration(&self, text: &mut String, number: usize, tasks: Range<usize>) {
        let samples = &self.iterations[number][tasks];
        row(text, &format!("{number:4}:"), samples, |sample| {
            sample.start_us
        });
        row(text, " len:", samples, |sample| sample.length_us);
        row(text, " loops:", samples, |sample| sample.loops);
        text.push('\n');
    }
}

/// Threads of an iteration that fit a terminal's width.
const SHOWN_TASKS: usize = 10;

fn head(tasks: Range<usize>) -> String {
    let mut text = String::from("Iter: ");
    for task in tasks {
        let _ = write!(text, "{task:7} ");
    }
    text.push('\n');
    text
}

fn row(text: &mut String, head: &str, samples: &[Sample], value: impl Fn(&Sample) -> u64) {
    let _ = write!(text, "{head:6}");
    for sample in samples {
        let _ = write!(text, "{:7} ", value(sample));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(samples: &[(u64, u64, u64)]) -> Option<usize> {
        let config = RtMigrateConfig {
            tasks: samples.len(),
            ..RtMigrateConfig::new(4)
        };
        let sample = |(start_us, length_us, loops): &(u64, u64, u64)| Sample {
            start_us: *start_us,
            length_us: *length_us,
            loops: *loops,
        };
        let run = RtMigrate {
            config,
            iterations: vec![samples.iter().map(sample).collect()],
        };
        run.failure(0)
    }

    #[test]
    fn the_failed_iteration_of_the_patch_set_fails() {
        let samples = [
            (36, 20036, 167_789),
            (33, 20033, 167_693),
            (20041, 40041, 227_167),
            (39, 20039, 167_829),
            (33, 20033, 167_814),
        ];
        assert_eq!(failure_of(&samples), Some(2));
    }

    #[test]
    fn its_good_iterations_pass() {
        let waiting = [
            (20060, 40060, 227_255),
            (61, 20061, 146_050),
            (55, 20055, 168_104),
            (56, 20056, 145_965),
            (61, 20061, 168_144),
        ];
        let preempted = [
            (40, 20040, 28),
            (46, 20046, 167_769),
            (31, 20031, 167_781),
            (35, 20035, 167_668),
            (42, 20042, 167_804),
        ];
        assert_eq!((failure_of(&waiting), failure_of(&preempted)), (None, None));
    }
}
