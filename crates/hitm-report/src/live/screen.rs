//! Tables and details for a view that shows one row in one line.
//!
//! The first line of rows is the head. Of each kind there is a table for 80 columns and one for wider screens.

use hitm_base::{Printout, printable};
use hitm_live::locks::{LockCaller, LockThread};
use hitm_live::throttle::{GroupRow, TaskRow, ThrottleReport};
use hitm_live::wakeups::{self, Measured, RunDelay, TaskLatencies, WakeupReport};

use super::{
    LIVE_CALLER_FIELDS, LIVE_GROUP_FIELDS, LIVE_LOCK_FIELDS, LIVE_RUN_DELAY_FIELDS,
    LIVE_THREAD_FIELDS, LIVE_THROTTLED_FIELDS, LIVE_WAKEUP_FIELDS, LiveLocks, LockView,
};
use crate::fields::{Field, Unit, Value};
use crate::text::style::Painter;
use crate::text::table::{Align, FieldTable, shorten, wrap};

/// Columns from which on the wide tables are used.
const WIDE: usize = 100;

type Columns = [(&'static str, Align)];

const LOCKS: &Columns = &[
    ("wasted_cpus", Align::Right),
    ("hold_share", Align::Right),
    ("needed_cpus", Align::Right),
    ("slept_ns", Align::Right),
    ("thread_count", Align::Right),
    ("class", Align::Left),
    ("name", Align::Name),
    ("object", Align::Name),
];
const LOCKS_WIDE: &Columns = &[
    ("wasted_cpus", Align::Right),
    ("waited_share", Align::Right),
    ("held_share", Align::Right),
    ("hold_share", Align::Right),
    ("hold_share_error", Align::Right),
    ("needed_cpus", Align::Right),
    ("bound", Align::Right),
    ("slept_ns", Align::Right),
    ("thread_count", Align::Right),
    ("class", Align::Left),
    ("name", Align::Name),
    ("object", Align::Name),
];
const GROUPS: &Columns = &[
    ("total_ns", Align::Right),
    ("throttled_share", Align::Right),
    ("quota_cpus", Align::Right),
    ("p99_ns", Align::Right),
    ("longest_ns", Align::Right),
    ("cpu_stat_throttled_ns", Align::Right),
    ("path", Align::Name),
];
const GROUPS_WIDE: &Columns = &[
    ("total_ns", Align::Right),
    ("quota_ns", Align::Right),
    ("timer_ns", Align::Right),
    ("ipi_ns", Align::Right),
    ("cpu_ns", Align::Right),
    ("throttled_share", Align::Right),
    ("quota_cpus", Align::Right),
    ("p99_ns", Align::Right),
    ("longest_ns", Align::Right),
    ("cpu_stat_throttled_ns", Align::Right),
    ("path", Align::Name),
];
/// Without BPF.
const COUNTED_GROUPS: &Columns = &[
    ("cpu_stat_throttled_ns", Align::Right),
    ("throttled_share", Align::Right),
    ("quota_cpus", Align::Right),
    ("run_delay_ns", Align::Right),
    ("path", Align::Name),
];
const THROTTLED: &Columns = &[
    ("total_ns", Align::Right),
    ("quota_ns", Align::Right),
    ("timer_ns", Align::Right),
    ("ipi_ns", Align::Right),
    ("cpu_ns", Align::Right),
    ("longest_ns", Align::Right),
    ("tid", Align::Right),
    ("comm", Align::Name),
];
const WAKEUPS: &Columns = &[
    ("longest_ns", Align::Right),
    ("p99_ns", Align::Right),
    ("p50_ns", Align::Right),
    ("count", Align::Right),
    ("pid", Align::Right),
    ("tid", Align::Right),
    ("comm", Align::Name),
];
const RUN_DELAYS: &Columns = &[
    ("run_delay_ns", Align::Right),
    ("runs", Align::Right),
    ("tid", Align::Right),
    ("comm", Align::Name),
];
const CALLERS: &Columns = &[
    ("waiting_samples", Align::Right),
    ("wait_ns", Align::Right),
    ("chain", Align::Name),
];
const THREADS: &Columns = &[
    ("held_ns", Align::Right),
    ("waited_ns", Align::Right),
    ("pid", Align::Right),
    ("tid", Align::Right),
    ("comm", Align::Name),
];

/// A row for each lock, in at most `width` columns.
pub fn lock_rows(locks: &LiveLocks, width: usize) -> Printout {
    let columns = if width < WIDE { LOCKS } else { LOCKS_WIDE };
    rows(LIVE_LOCK_FIELDS, columns, &locks.locks, width)
}

/// A lock with its object, callers and threads, and all of its figures.
pub fn lock_detail(view: &LockView, width: usize) -> Printout {
    let mut out = paragraph(&view.lock.title(), width);
    let lock = &view.lock;
    section::<LockCaller>(
        &mut out,
        "Callers",
        (LIVE_CALLER_FIELDS, CALLERS),
        (&lock.callers, width),
    );
    section::<LockThread>(
        &mut out,
        "Threads",
        (LIVE_THREAD_FIELDS, THREADS),
        (&lock.threads, width),
    );
    figures(&mut out, LIVE_LOCK_FIELDS, view, width);
    out
}

/// A row for each throttled group.
pub fn group_rows(report: &ThrottleReport, width: usize) -> Printout {
    let columns = match (report.has_causes(), width < WIDE) {
        (false, _) => COUNTED_GROUPS,
        (true, true) => GROUPS,
        (true, false) => GROUPS_WIDE,
    };
    rows(LIVE_GROUP_FIELDS, columns, &report.groups, width)
}

/// A group with its tasks, the locks that they held while they stood still, and all of its figures.
pub fn group_detail(group: &GroupRow, tasks: &[TaskRow], width: usize) -> Printout {
    let mut out = paragraph(&format!("Group {}", group.path), width);
    section(
        &mut out,
        "Tasks",
        (LIVE_THROTTLED_FIELDS, THROTTLED),
        (tasks, width),
    );
    for held in &group.locks {
        out.append(&paragraph(&held.text(), width));
    }
    figures(&mut out, LIVE_GROUP_FIELDS, group, width);
    out
}

/// A row for each task that was woken, the longest latency first; without BPF for each that was ready and did not run.
pub fn wakeup_rows(report: &WakeupReport, width: usize) -> Printout {
    match &report.measured {
        Measured::Wakeups(table) => rows(LIVE_WAKEUP_FIELDS, WAKEUPS, &table.tasks, width),
        Measured::RunDelays { delays, .. } => {
            rows(LIVE_RUN_DELAY_FIELDS, RUN_DELAYS, delays, width)
        }
    }
}

/// A task with its figures and the histogram of its latencies.
pub fn wakeup_detail(task: &TaskLatencies, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    out.blank();
    out.line("From waking to running (ns):");
    out.block("", &wakeups::histogram(&task.latencies).text());
    figures(&mut out, LIVE_WAKEUP_FIELDS, task, width);
    out
}

/// A task of which only the kernel's sums are known.
pub fn run_delay_detail(task: &RunDelay, width: usize) -> Printout {
    let mut out = paragraph(&format!("{} {}", task.comm, task.tid), width);
    figures(&mut out, LIVE_RUN_DELAY_FIELDS, task, width);
    out
}

fn rows<T>(
    fields: &'static [Field<T>],
    columns: &'static Columns,
    items: &[T],
    width: usize,
) -> Printout {
    let mut table = FieldTable::new(fields, columns);
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
fn section<T>(
    out: &mut Printout,
    title: &str,
    (fields, columns): (&'static [Field<T>], &'static Columns),
    (items, width): (&[T], usize),
) {
    if items.is_empty() {
        return;
    }
    out.blank();
    out.line(title);
    out.append(&rows(fields, columns, items, width));
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
        let meaning = shorten(field.description, room.max(2));
        out.line(&format!("  {title:<TITLE$}{value:>VALUE$}  {meaning}"));
    }
}
