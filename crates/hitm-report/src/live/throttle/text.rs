//! The report as text.

use hitm_base::{grouped, printable, with_note};
use hitm_live::spread::Spread;
use hitm_live::throttle::{
    Causes, Episode, GroupRow, HeldLock, Source, TaskRow, ThrottleReport, task_row,
};

use crate::Printout;
use crate::live::fixed::{Fixed, ROWS_MAX, first_rows, head, row, span};

/// Shows the report to people.
pub fn text(report: &ThrottleReport) -> Printout {
    let mut out = Printout::new();
    source(&mut out, report);
    if let Source::Bpf { is_asynchronous } = report.source {
        walks(
            &mut out,
            "Period timers (sched_cfs_period_timer)",
            &report.period_timer,
        );
        if report.slack_timer.count() > 0 {
            walks(
                &mut out,
                "Slack timers (sched_cfs_slack_timer)",
                &report.slack_timer,
            );
        }
        match is_asynchronous {
            true => walks(
                &mut out,
                "CPUs that were asked (__cfsb_csd_unthrottle)",
                &report.handlers,
            ),
            false => {
                out.blank();
                out.line("The timers of this kernel walk over the queues of all CPUs themselves.");
            }
        }
    }
    for group in &report.groups {
        group_text(&mut out, group);
    }
    if report.groups.is_empty() {
        out.blank();
        out.line(&format!(
            "No group was throttled; {} have a quota.",
            grouped(report.limited_groups)
        ));
    }
    tasks(&mut out, &report.tasks);
    lost(&mut out, report);
    out
}

fn source(out: &mut Printout, report: &ThrottleReport) {
    let duration = span(report.duration_ns);
    match &report.source {
        Source::Bpf { .. } => out.line(&format!(
            "Throttling for {duration}, by BPF programs: every episode."
        )),
        Source::Counters(reason) => {
            out.line(&format!(
                "Throttling for {duration}, by cpu.stat and schedstat alone: {}.",
                printable(reason)
            ));
            out.line("Without BPF programs there are no causes, no tasks, no locks and no times of timers.");
        }
    }
}

fn walks(out: &mut Printout, name: &str, times: &Spread) {
    out.blank();
    let count = times.count();
    if count == 0 {
        out.line(&format!("{name}: none."));
        return;
    }
    out.line(&format!(
        "{name}: {} times, {} in all, longest {}, interrupts off (ns):",
        grouped(count),
        span(times.sum_ns()),
        span(times.longest_ns())
    ));
    out.block("", &times.histogram().text());
}

fn group_text(out: &mut Printout, group: &GroupRow) {
    out.blank();
    out.line(&format!("Group {}{}", group.path, quota(group)));
    let stat = &group.stat;
    out.line(&format!(
        "  periods {}, throttled in {} ({}); cpu.stat: {} throttled{}",
        grouped(stat.periods),
        grouped(stat.throttled_periods),
        percent(stat.throttled_periods, stat.periods),
        span(stat.throttled_ns),
        match stat.bursts {
            0 => String::new(),
            bursts => format!(", {} bursts", grouped(bursts)),
        }
    ));
    if let Some(delay) = group.run_delay_ns {
        out.line(&format!(
            "  its tasks were ready and did not run for {} (schedstat; throttled and waiting for a CPU together)",
            span(delay)
        ));
    }
    if group.spread.count() > 0 {
        episodes(out, group);
    }
}

fn quota(group: &GroupRow) -> String {
    let Some(quota) = group.bandwidth else {
        return String::new();
    };
    let burst = match quota.burst_us {
        0 => String::new(),
        burst => format!(" and a burst of {}", span(burst * 1000)),
    };
    let (of, period) = (span(quota.quota_us * 1000), span(quota.period_us * 1000));
    let cpus = quota.cpus();
    format!(": {of} of {period}{burst} ({cpus:.2} CPUs)")
}

fn episodes(out: &mut Printout, group: &GroupRow) {
    let causes = &group.causes;
    let total = causes.total_ns();
    out.line(&format!(
        "  tasks were throttled {} times for {}: half of the times for {} at most, 99 % for {}, the longest {}",
        grouped(group.spread.count()),
        span(total),
        span(group.spread.quantile_ns(500)),
        span(group.spread.quantile_ns(990)),
        span(group.spread.longest_ns())
    ));
    for (name, ns) in parts(causes) {
        if ns > 0 || name != UNASSIGNED {
            out.line(&format!(
                "    {name:<36} {:>10}  {:>6}",
                span(ns),
                percent(ns, total)
            ));
        }
    }
    if let Some(longest) = &group.longest {
        longest_text(out, longest);
    }
    gap(out, group);
    for held in group.locks.iter().take(ROWS_MAX) {
        out.line(&format!("  {}", held_text(held)));
    }
}

/// A lock, its holder and its waiters in one line.
pub(super) fn held_text(held: &HeldLock) -> String {
    format!(
        "lock {:#x}, held by throttled thread {}: {} waits began meanwhile, the last by {}",
        held.lock,
        held.holder,
        grouped(held.waits),
        with_note(&printable(&held.waiter_comm), &held.waiter.to_string()),
    )
}

const UNASSIGNED: &str = "not assigned to a cause";

fn parts(causes: &Causes) -> [(&'static str, u64); 5] {
    [
        ("for the quota", causes.quota_ns),
        ("for the timer, late or walking", causes.timer_ns),
        ("for the interrupt to the task's CPU", causes.ipi_ns),
        ("for a CPU afterwards", causes.cpu_ns),
        (UNASSIGNED, causes.unassigned_ns),
    ]
}

fn longest_text(out: &mut Printout, episode: &Episode) {
    let causes = Causes::of(episode);
    out.line(&format!(
        "  longest: {} for {}: quota {}, timer {}, interrupt {}, CPU {}; from CPU {} to CPU {}",
        with_note(&printable(&episode.comm), &episode.tid.to_string()),
        span(causes.total_ns()),
        span(causes.quota_ns),
        span(causes.timer_ns),
        span(causes.ipi_ns),
        span(causes.cpu_ns),
        episode.out_cpu,
        episode.in_cpu
    ));
}

/// Explains the gap between the sum over tasks and cpu.stat.
fn gap(out: &mut Printout, group: &GroupRow) {
    let causes = &group.causes;
    let on_queues = causes.total_ns() - causes.cpu_ns;
    out.line(&format!(
        "  cpu.stat says {}: it counts the queue of each CPU once, when its throttling ends. Here:",
        span(group.stat.throttled_ns)
    ));
    out.line(&format!(
        "    {:>10}  sum over tasks",
        span(causes.total_ns())
    ));
    out.line(&format!(
        "  - {:>10}  waiting for a CPU, no longer throttled",
        span(causes.cpu_ns)
    ));
    out.line(&format!(
        "  - {:>10}  several tasks of one queue at once",
        span(on_queues.saturating_sub(group.queues_ns))
    ));
    out.line(&format!(
        "  = {:>10}  queues with a task that stands still",
        span(group.queues_ns)
    ));
}

const TASKS: &[Fixed<TaskRow>] = &[
    Fixed::new(task_row::tid, 8),
    Fixed::new(task_row::comm, 15),
    Fixed::new(task_row::episodes, 7),
    Fixed::new(task_row::total_ns, 9),
    Fixed::new(task_row::quota_ns, 9),
    Fixed::new(task_row::timer_ns, 9),
    Fixed::new(task_row::ipi_ns, 9),
    Fixed::new(task_row::cpu_ns, 9),
    Fixed::new(task_row::longest_ns, 9),
];

fn tasks(out: &mut Printout, tasks: &[TaskRow]) {
    if tasks.is_empty() {
        return;
    }
    out.blank();
    out.line("Tasks, by the time that they were throttled:");
    out.line(&head(TASKS));
    first_rows(out, tasks, |task| row(TASKS, task));
}

fn lost(out: &mut Printout, report: &ThrottleReport) {
    let mut losses = losses(report);
    if report.throttled_still > 0 {
        let still = grouped(report.throttled_still);
        let text = format!("{still} tasks are throttled still; their time up to now is counted.");
        losses.insert(0, text);
    }
    if !losses.is_empty() {
        out.blank();
    }
    for loss in losses {
        out.line(&loss);
    }
}

/// Episodes and rows that the figures lack, one sentence each.
pub(super) fn losses(report: &ThrottleReport) -> Vec<String> {
    let counts = &report.counts;
    let parts = [
        (counts.lost_events, "events were lost: the buffer was full"),
        (
            counts.lost_tasks,
            "episodes were lost: 16,384 tasks were throttled at once",
        ),
        (
            counts.not_followed,
            "episodes were not followed: too many tasks of one CPU were throttled",
        ),
        (
            counts.unseen_ends,
            "episodes were lost: nobody saw their end",
        ),
        (
            counts.refused,
            "episodes were lost: the kernel refused to note them",
        ),
        (report.left_out, "rows were left out of full tables"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts
        .map(|(count, what)| format!("{} {what}.", grouped(count)))
        .collect()
}

/// A share with one decimal, or a dash when `whole` is 0.
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}
