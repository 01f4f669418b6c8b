//! The sentences about a run whose threads wait for locks and flags more than for lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::counted;
use hitm_recording::without_numbers;
use hitm_trace::WaitKind;

use crate::fields::{Field, Unit, Value, wait_row, waiting};
use crate::model::share;
use crate::names::brief;
use crate::sentences::summary as say;
use crate::skip::SkippedFunctions;
use crate::waiting::{WaitRow, kind_text};
use crate::{Report, WORTH_SHARE_MIN};

/// Part of the waits of one kind from which on what most of them are for stands for all. Assumed 0.8.
const ONE_IS_ALL: f64 = 0.8;

/// The threads' waiting in its forms: `87.2% of the threads' time is waiting: 86.1% spinning for tail, 1.1% for lines.`
pub(super) fn lost(report: &Report) -> String {
    let waiting = &report.waiting;
    let of_whole = |cycles| share(cycles, waiting.whole_cycles);
    let percent = |share| Value::Number(share).text(Unit::Share);
    let lines = report.totals.lost_cycles;
    let all = waiting.run_share() + of_whole(lines);
    let kinds = [
        (WaitKind::Spinning, waiting.spinning_cycles),
        (WaitKind::Asleep, waiting.asleep_cycles),
    ];
    let mut parts: Vec<(u64, String)> = Vec::new();
    for (kind, cycles) in kinds {
        let rows = waiting.rows.iter().filter(|row| row.kind == Some(kind));
        let Some(first) = dearest(rows).filter(|_| of_whole(cycles) >= WORTH_SHARE_MIN) else {
            continue;
        };
        let (share, name) = (percent(of_whole(cycles)), brief(&first.name));
        // The first one stands for all if it is nearly all.
        let part = match first.cycles as f64 >= ONE_IS_ALL * cycles as f64 {
            true => say::waits(share, kind_text(kind), name),
            false => say::waits_most(share, kind_text(kind), name),
        };
        parts.push((cycles, part));
    }
    parts.push((lines, say::waits_lines(percent(of_whole(lines)))));
    parts.sort_by_key(|(cycles, _)| Reverse(*cycles));
    let parts: Vec<String> = parts.into_iter().map(|(_, part)| part).collect();
    say::waiting(percent(all), parts.join(", "))
}

/// Waits for objects of one name, numbers of elements and offsets in a variable without type apart.
struct OfName {
    name: String,
    cycles: u64,
}

/// `io_threads_pending` of `io_threads_pending+64`.
fn without_offset(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match name.rsplit_once('+') {
        Some((variable, offset)) if is_number(offset) => variable,
        _ => name,
    }
}

/// The object, or the elements of an array, that threads wait for longest.
fn dearest<'a>(rows: impl Iterator<Item = &'a WaitRow>) -> Option<OfName> {
    let mut sums: BTreeMap<String, OfName> = BTreeMap::new();
    for row in rows {
        let kind = without_offset(&without_numbers(&row.name)).to_owned();
        let sum = sums.entry(kind.clone());
        // One element has its number.
        let sum = sum
            .and_modify(|sum| sum.name = kind)
            .or_insert_with(|| OfName {
                name: row.name.clone(),
                cycles: 0,
            });
        sum.cycles = sum.cycles.saturating_add(row.cycles);
    }
    // Of two alike the first name.
    let sums = sums.into_values().rev();
    sums.max_by_key(|sum| sum.cycles)
}

pub(super) fn place(wait: &WaitRow) -> String {
    let figure = |field: Field<_>| field.text(wait);
    let kind = figure(wait_row::kind);
    let within = match wait.waiters.as_slice() {
        [] => String::new(),
        functions => say::within(functions.join(", ")),
    };
    let changed = match wait.releasers.as_slice() {
        [] => String::new(),
        functions => say::changed_in(functions.join(", ")),
    };
    let (share, name, address) = (
        figure(wait_row::run_share),
        figure(wait_row::name),
        figure(wait_row::address),
    );
    let at = match name == address {
        true => String::new(),
        false => say::at(address),
    };
    say::waits_at(share, kind, name, at, within + &changed)
}

/// Threads that get on at a time from which on their number says something about the lock. Below, the program is
/// idle: threads wait for work and not for one another. Assumed, 0.3 to 0.9: what one lock lets run one at a time is
/// close to 1.
const BUSY_MIN: f64 = 0.5;

pub(super) fn reason(report: &Report, wait: &WaitRow) -> String {
    let figure = |field: Field<_>| field.text(wait);
    let busy = report.waiting.busy_threads_mean;
    let get_on = match busy >= BUSY_MIN {
        true => say::get_on(
            waiting::busy_threads_mean.text(&report.waiting),
            report.threads.len(),
        ),
        false => String::new(),
    };
    say::waiters(
        report.who().counted(wait.thread_count),
        match wait.thread_count {
            1 => "waits",
            _ => "wait",
        },
        counted(wait.wait_count, "time"),
        figure(wait_row::cycles_mean),
        made_to_wait(report, wait) + &get_on,
    )
}

/// The thread that lets the waiters go on, and the function in which it does: `, until one of 4 threads changes it in serve`. A function that only unlocks
/// says nothing.
fn made_to_wait(report: &Report, wait: &WaitRow) -> String {
    let locks = SkippedFunctions::default();
    let within = wait.releasers.iter().find(|name| !locks.contains(name));
    let within = within.map_or(String::new(), say::changes_in);
    match (&wait.releasing_thread, wait.releasing_thread_count) {
        (_, 0) => String::new(),
        (Some(thread), 1) => say::until(thread, within),
        (Some(thread), count) => say::until_mostly(thread, report.who().counted(count), within),
        (None, count) => say::until_one(report.who().counted(count), within),
    }
}
