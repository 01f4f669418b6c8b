//! Tables and details for a view that shows one row in one line.
//!
//! The first line of rows is the head. Of each kind there is a table for 80 columns and one for wider screens.

use hitm_base::printable;
use hitm_live::locks::{LockCaller, LockThread};

use super::{LiveLocks, LockView, live_caller, live_lock, live_thread};
use crate::Printout;
use crate::fields::{Field, Unit, Value};
use crate::screen::rendered;
use crate::text::table::{FieldTable, Shows, gives_way, shorten, stays, wrap};

/// Width from which on tables have all of their columns.
const WIDE: usize = 100;

/// The columns of a table; of a narrow one those that stay.
pub(super) fn wide_or_narrow<T>(
    columns: &[Shows<T>],
    width: usize,
) -> impl Iterator<Item = &Shows<T>> {
    let shown = columns.iter();
    shown.filter(move |one| width >= WIDE || one.gives_way.is_none())
}

const LOCKS: &[Shows<LockView>] = &[
    stays(live_lock::wasted_cpus),
    gives_way(1, live_lock::waited_share),
    gives_way(2, live_lock::held_share),
    stays(live_lock::hold_share),
    gives_way(3, live_lock::hold_share_error),
    stays(live_lock::needed_cpus),
    gives_way(4, live_lock::bound),
    stays(live_lock::slept_ns),
    stays(live_lock::thread_count),
    stays(live_lock::class),
    stays(live_lock::name),
    stays(live_lock::object),
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
pub(super) fn lock_rows(locks: &LiveLocks, width: usize) -> Printout {
    rows(wide_or_narrow(LOCKS, width), &locks.locks, width)
}

/// A lock with its object, callers and threads, and all of its figures.
pub(super) fn lock_detail(view: &LockView, width: usize) -> Printout {
    let mut out = paragraph(&view.lock.title(), width);
    let lock = &view.lock;
    section(&mut out, "Callers", &rows(CALLERS, &lock.callers, width));
    section(&mut out, "Threads", &rows(THREADS, &lock.threads, width));
    figures(&mut out, live_lock::ALL, view, width);
    out
}

/// A head and a row for each item, in at most `width` columns.
pub(super) fn rows<T: 'static, C: Into<Shows<T>>>(
    columns: impl IntoIterator<Item = C>,
    items: &[T],
    width: usize,
) -> Printout {
    let mut table = FieldTable::new(columns);
    items.iter().for_each(|item| table.push(item));
    rendered(&table, width)
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
pub(super) fn figures<T>(out: &mut Printout, fields: &'static [Field<T>], item: &T, width: usize) {
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
