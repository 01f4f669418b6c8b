//! The report as text.

use hitm_base::{grouped, printable, with_note};
use hitm_live::wakeups::{
    self, Latencies, Measured, RunDelay, TaskLatencies, WakeupReport, WakeupTable, latencies,
    run_delay, sum,
};

use crate::Printout;
use crate::live::fixed::{Fixed, first_rows, head, row, span};

/// Tasks whose histograms are shown.
const HISTOGRAMS_MAX: usize = 3;

const LATENCIES: &[Fixed<Latencies>] = &[
    Fixed::new(latencies::count, 9),
    Fixed::new(latencies::p50_ns, 9),
    Fixed::new(latencies::p99_ns, 9),
    Fixed::new(latencies::longest_ns, 9),
];
const RUN_DELAYS: &[Fixed<RunDelay>] = &[
    Fixed::new(run_delay::tid, 8),
    Fixed::new(run_delay::runs, 9),
    Fixed::new(run_delay::run_delay_ns, 9),
];

/// Shows the report to people.
pub fn text(report: &WakeupReport) -> Printout {
    let mut out = Printout::new();
    let duration = span(report.duration_ns);
    match &report.measured {
        Measured::Wakeups(table) => {
            out.line(&format!(
                "Wake-ups for {duration}, by BPF programs: {}, each from waking to running.",
                grouped(table.count)
            ));
            woken(&mut out, table);
        }
        Measured::RunDelays { reason, delays } => {
            out.line(&format!(
                "Run delays for {duration}, by schedstat: {}.",
                printable(reason)
            ));
            out.line(
                "They are sums: of tasks that were preempted as well as of those that were woken.",
            );
            run_delays(&mut out, delays);
        }
    }
    out
}

fn woken(out: &mut Printout, table: &WakeupTable) {
    let all = sum(table.cpus.iter().map(|(_, latencies)| latencies));
    if all.count == 0 {
        return;
    }
    out.blank();
    histogram(out, "All (ns)", &all);
    out.blank();
    out.line(&format!("{:>8} {}", "CPU", head(LATENCIES)));
    for (cpu, latencies) in &table.cpus {
        out.line(&format!("{cpu:>8} {}", row(LATENCIES, latencies)));
    }
    let mut tasks: Vec<&TaskLatencies> = table.tasks.iter().collect();
    tasks.sort_by_key(|task| (std::cmp::Reverse(task.latencies.longest_ns), task.tid));
    out.blank();
    out.line("Tasks, the longest latency first:");
    out.line(&format!("{:>8} {} name", "thread", head(LATENCIES)));
    first_rows(out, &tasks, |task| {
        let figures = row(LATENCIES, &task.latencies);
        format!("{:>8} {figures} {}", task.tid, printable(&task.comm))
    });
    for task in tasks.iter().take(HISTOGRAMS_MAX) {
        out.blank();
        histogram(
            out,
            &format!(
                "{} (ns)",
                with_note(&printable(&task.comm), &task.tid.to_string())
            ),
            &task.latencies,
        );
    }
    for loss in losses(table) {
        out.line(&loss);
    }
}

/// Wake-ups that the figures lack, one sentence each.
pub(super) fn losses(table: &WakeupTable) -> Vec<String> {
    let parts = [
        (
            table.lost_wakes,
            "wake-ups were lost: 16,384 tasks waited for a CPU at once",
        ),
        (
            table.lost_tasks,
            "wake-ups are in the rows of CPUs alone: 4,096 tasks have rows",
        ),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts
        .map(|(count, what)| format!("{} {what}.", grouped(count)))
        .collect()
}

fn histogram(out: &mut Printout, title: &str, latencies: &Latencies) {
    out.line(&format!("{title}:"));
    out.block("", &wakeups::histogram(latencies).text());
}

fn run_delays(out: &mut Printout, delays: &[RunDelay]) {
    out.blank();
    out.line(&format!("{} {:>9} name", head(RUN_DELAYS), "a run"));
    first_rows(out, delays, |delay| {
        let a_run = span(delay.run_delay_ns / delay.runs.max(1));
        let figures = row(RUN_DELAYS, delay);
        format!("{figures} {a_run:>9} {}", printable(&delay.comm))
    });
}
