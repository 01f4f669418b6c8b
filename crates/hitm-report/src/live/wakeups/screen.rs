//! Tables and details of late wake-ups, for a view that shows one row in one line.

use hitm_base::Printout;
use hitm_fields::Field;
use hitm_live::wakeups::{
    Measured, RunDelay, TaskLatencies, WakeupReport, histogram, run_delay, task_latencies,
};

use crate::live::declared::{figures, rows};
use crate::live::screen::paragraph;

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

/// A row for each task that was woken, the longest latency first; without BPF for each that was ready and did not run.
pub fn wakeup_rows(report: &WakeupReport, width: usize) -> Printout {
    match &report.measured {
        Measured::Wakeups(table) => rows(TASKS, &table.tasks, width),
        Measured::RunDelays { delays, .. } => rows(RUN_DELAYS, delays, width),
    }
}

/// A task with its figures and the histogram of its latencies.
pub fn wakeup_detail(task: &TaskLatencies, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    out.blank();
    out.line("From waking to running (ns):");
    out.block("", &histogram(&task.latencies).text());
    figures(&mut out, task_latencies::ALL, task, width);
    out
}

/// A task of which only the kernel's sums are known.
pub fn run_delay_detail(task: &RunDelay, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    figures(&mut out, run_delay::ALL, task, width);
    out
}
