//! Tables and details for a view that shows one row in one line.
//!
//! The first line of rows is the head. Of each kind there is a table for 80 columns and one for wider screens.

use hitm_base::{Printout, printable};
use hitm_live::locks::{LockCaller, LockThread};
use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport};
use hitm_live::wakeups::{self, Measured, RunDelay, TaskLatencies, WakeupReport};

use super::{
    LiveLocks, LockView, live_caller, live_group, live_lock, live_run_delay, live_thread,
    live_throttled, live_wakeup,
};
use crate::fields::{Field, Unit, Value};
use crate::text::style::Painter;
use crate::text::table::{FieldTable, shorten, wrap};

/// Columns from which on the wide tables are used.
const WIDE: usize = 100;

const LOCKS: &[Field<LockView>] = &[
    live_lock::wasted_cpus,
    live_lock::hold_share,
    live_lock::needed_cpus,
    live_lock::slept_ns,
    live_lock::thread_count,
    live_lock::class,
    live_lock::name,
    live_lock::object,
];
const LOCKS_WIDE: &[Field<LockView>] = &[
    live_lock::wasted_cpus,
    live_lock::waited_share,
    live_lock::held_share,
    live_lock::hold_share,
    live_lock::hold_share_error,
    live_lock::needed_cpus,
    live_lock::bound,
    live_lock::slept_ns,
    live_lock::thread_count,
    live_lock::class,
    live_lock::name,
    live_lock::object,
];
const GROUPS: &[Field<GroupRow>] = &[
    live_group::total_ns,
    live_group::throttled_share,
    live_group::quota_cpus,
    live_group::p99_ns,
    live_group::longest_ns,
    live_group::cpu_stat_throttled_ns,
    live_group::path,
];
const GROUPS_WIDE: &[Field<GroupRow>] = &[
    live_group::total_ns,
    live_group::quota_ns,
    live_group::timer_ns,
    live_group::ipi_ns,
    live_group::cpu_ns,
    live_group::throttled_share,
    live_group::quota_cpus,
    live_group::p99_ns,
    live_group::longest_ns,
    live_group::cpu_stat_throttled_ns,
    live_group::path,
];
/// Without BPF.
const COUNTED_GROUPS: &[Field<GroupRow>] = &[
    live_group::cpu_stat_throttled_ns,
    live_group::throttled_share,
    live_group::quota_cpus,
    live_group::run_delay_ns,
    live_group::path,
];
const THROTTLED: &[Field<TaskRow>] = &[
    live_throttled::total_ns,
    live_throttled::quota_ns,
    live_throttled::timer_ns,
    live_throttled::ipi_ns,
    live_throttled::cpu_ns,
    live_throttled::longest_ns,
    live_throttled::tid,
    live_throttled::comm,
];
const WAKEUPS: &[Field<TaskLatencies>] = &[
    live_wakeup::longest_ns,
    live_wakeup::p99_ns,
    live_wakeup::p50_ns,
    live_wakeup::count,
    live_wakeup::pid,
    live_wakeup::tid,
    live_wakeup::comm,
];
const RUN_DELAYS: &[Field<RunDelay>] = &[
    live_run_delay::run_delay_ns,
    live_run_delay::runs,
    live_run_delay::tid,
    live_run_delay::comm,
];
const CALLERS: &[Field<LockCaller>] = &[
    live_caller::waiting_samples,
    live_caller::wait_ns,
    live_caller::chain,
];
const THREADS: &[Field<LockThread>] = &[
    live_thread::held_ns,
    live_thread::waited_ns,
    live_thread::pid,
    live_thread::tid,
    live_thread::comm,
];

/// A row for each lock, in at most `width` columns.
pub fn lock_rows(locks: &LiveLocks, width: usize) -> Printout {
    let columns = if width < WIDE { LOCKS } else { LOCKS_WIDE };
    rows(columns, &locks.locks, width)
}

/// A lock with its object, callers and threads, and all of its figures.
pub fn lock_detail(view: &LockView, width: usize) -> Printout {
    let mut out = paragraph(&view.lock.title(), width);
    let lock = &view.lock;
    section(&mut out, "Callers", &rows(CALLERS, &lock.callers, width));
    section(&mut out, "Threads", &rows(THREADS, &lock.threads, width));
    figures(&mut out, live_lock::ALL, view, width);
    out
}

/// A row for each throttled group.
pub fn group_rows(report: &ThrottleReport, width: usize) -> Printout {
    let columns = match (report.has_causes(), width < WIDE) {
        (false, _) => COUNTED_GROUPS,
        (true, true) => GROUPS,
        (true, false) => GROUPS_WIDE,
    };
    rows(columns, &report.groups, width)
}

/// A group with its tasks, the locks that they held while they stood still, and all of its figures.
pub fn group_detail(group: &GroupRow, tasks: &[TaskRow], width: usize) -> Printout {
    let mut out = paragraph(&format!("Group {}", group.path), width);
    section(&mut out, "Tasks", &rows(THROTTLED, tasks, width));
    for held in &group.locks {
        out.append(&paragraph(&held.text(), width));
    }
    figures(&mut out, live_group::ALL, group, width);
    out
}

/// A row for each task that was woken, the longest latency first; without BPF for each that was ready and did not run.
pub fn wakeup_rows(report: &WakeupReport, width: usize) -> Printout {
    match &report.measured {
        Measured::Wakeups(table) => rows(WAKEUPS, &table.tasks, width),
        Measured::RunDelays { delays, .. } => rows(RUN_DELAYS, delays, width),
    }
}

/// A task with its figures and the histogram of its latencies.
pub fn wakeup_detail(task: &TaskLatencies, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    out.blank();
    out.line("From waking to running (ns):");
    out.block("", &wakeups::histogram(&task.latencies).text());
    figures(&mut out, live_wakeup::ALL, task, width);
    out
}

/// A task of which only the kernel's sums are known.
pub fn run_delay_detail(task: &RunDelay, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    figures(&mut out, live_run_delay::ALL, task, width);
    out
}

fn rows<T: 'static>(columns: &[Field<T>], items: &[T], width: usize) -> Printout {
    let mut table = FieldTable::new(columns);
    items.iter().for_each(|item| table.push(item));
    let mut out = Printout::new();
    table
        .table
        .render(&mut out, width, Painter { color: false });
    out
}

/// Text in lines of at most `width` columns, broken at blanks.
pub fn paragraph(text: &str, width: usize) -> Printout {
    let mut out = Printout::new();
    for line in wrap(text, width) {
        out.line(&line);
    }
    out
}

/// A table below a heading, if it has rows.
fn section(out: &mut Printout, title: &str, rows: &Printout) {
    if rows.lines().nth(1).is_none() {
        return;
    }
    out.blank();
    out.line(title);
    out.append(rows);
}

/// Every figure with its meaning.
fn figures<T>(out: &mut Printout, fields: &'static [Field<T>], item: &T, width: usize) {
    const TITLE: usize = 12;
    const VALUE: usize = 12;
    const BLANKS: usize = 4;
    out.blank();
    out.line("Figures");
    for field in fields {
        // Names stand above.
        if matches!((field.value)(item), Value::Text(_)) {
            continue;
        }
        let title = match field.unit {
            Unit::Share => format!("{}%", field.title),
            _ => field.title.to_owned(),
        };
        let value = field.text(item);
        let value = printable(&value);
        let room = width.saturating_sub(TITLE + VALUE.max(value.chars().count()) + BLANKS);
        let meaning = shorten(field.description(), room.max(2));
        out.line(&format!("  {title:<TITLE$}{value:>VALUE$}  {meaning}"));
    }
}
