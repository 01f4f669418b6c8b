//! Tables and details of late wake-ups, for a view that shows one row in one line.

use hitm_fields::Field;
use hitm_live::wakeups::{
    Measured, RunDelay, TaskLatencies, WakeupReport, histogram, run_delay, task_latencies,
};

use super::text::losses;
use crate::Printout;
use crate::live::screen::{figures, paragraph, rows};
use crate::live::{Window, named};

const TASKS: &[Field<TaskLatencies>] = &[
    task_latencies::longest_ns,
    task_latencies::p99_ns,
    task_latencies::p50_ns,
    task_latencies::count,
    task_latencies::pid,
    task_latencies::tid,
    task_latencies::comm,
];
const RUN_DELAYS: &[Field<RunDelay>] = &[
    run_delay::run_delay_ns,
    run_delay::runs,
    run_delay::tid,
    run_delay::comm,
];

impl Window for WakeupReport {
    fn row_count(&self) -> usize {
        match &self.measured {
            Measured::Wakeups(table) => table.tasks.len(),
            Measured::RunDelays { delays, .. } => delays.len(),
        }
    }

    fn key(&self, row: usize) -> Option<String> {
        let tid = match &self.measured {
            Measured::Wakeups(table) => table.tasks.get(row)?.tid,
            Measured::RunDelays { delays, .. } => delays.get(row)?.tid,
        };
        Some(tid.to_string())
    }

    fn rows(&self, width: usize) -> Printout {
        match &self.measured {
            Measured::Wakeups(table) => rows(TASKS, &table.tasks, width),
            Measured::RunDelays { delays, .. } => rows(RUN_DELAYS, delays, width),
        }
    }

    fn detail(&self, row: usize, width: usize) -> Printout {
        let detail = match &self.measured {
            Measured::Wakeups(table) => table.tasks.get(row).map(|task| woken(task, width)),
            Measured::RunDelays { delays, .. } => delays.get(row).map(|task| delayed(task, width)),
        };
        detail.unwrap_or_default()
    }

    fn nothing(&self) -> String {
        "No task was woken.".to_owned()
    }

    fn notes(&self) -> Vec<String> {
        match &self.measured {
            Measured::Wakeups(table) => losses(table),
            Measured::RunDelays { reason, .. } => {
                vec![format!(
                    "not used: BPF programs: {reason}; these are run delays"
                )]
            }
        }
    }
}

/// A task with its figures and the histogram of its latencies.
fn woken(task: &TaskLatencies, width: usize) -> Printout {
    let mut out = paragraph(&named(&task.comm, task.tid), width);
    out.blank();
    out.line("From waking to running (ns):");
    out.block("", &histogram(&task.latencies).text());
    figures(&mut out, task_latencies::ALL, task, width);
    out
}

/// A task of which only the kernel's sums are known.
fn delayed(task: &RunDelay, width: usize) -> Printout {
    let mut out = paragraph(&named(&task.comm, task.tid), width);
    figures(&mut out, run_delay::ALL, task, width);
    out
}
