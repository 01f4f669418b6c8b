//! Live locks as text.

use hitm_base::{Printout, grouped};

use super::{LIVE_LOCK_FIELDS, LIVE_RUN_FIELDS, LiveLocks, LockView};
use crate::fields::by_id;
use crate::text::style::Style;
use crate::text::table::{Align, FieldTable};
use crate::text::{TextOptions, Writer};

const COLUMNS: &[(&str, Align)] = &[
    ("wasted_cpus", Align::Right),
    ("waited_share", Align::Right),
    ("held_share", Align::Right),
    ("hold_share", Align::Right),
    ("hold_share_error", Align::Right),
    ("needed_cpus", Align::Right),
    ("bound", Align::Right),
    ("thread_count", Align::Right),
    ("class", Align::Left),
    ("name", Align::Name),
];
/// Callers and threads that are named below a lock.
const NOTES_MAX: usize = 3;

/// The tables.
pub fn render(locks: &LiveLocks, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    writer.live_header(locks);
    let limit = options.percent_limit;
    let all = locks.cpu_ns().max(1) as f64;
    let share = |view: &LockView| view.lock.waited_ns as f64 / all;
    let (shown, hidden): (Vec<&LockView>, Vec<&LockView>) = locks
        .locks
        .iter()
        .partition(|view| limit.holds(share(view)));
    match shown.is_empty() {
        true => writer.push(Style::Plain, "No lock is contended."),
        false => writer.live_locks(&shown),
    }
    if !hidden.is_empty() {
        let (count, limit) = (hidden.len(), limit.text());
        let text = format!("  {count} more below {limit} of the sampled time (--percent-limit)");
        writer.push(Style::Plain, &text);
    }
    writer.out
}

impl LiveLocks {
    /// CPU time of all samples.
    fn cpu_ns(&self) -> u64 {
        self.run.sample_count * self.run.period_ns
    }
}

impl Writer {
    fn live_header(&mut self, locks: &LiveLocks) {
        let run = |id| by_id(LIVE_RUN_FIELDS, id).text(&locks.run);
        self.push(Style::Bold, &format!("hitm live locks: {}", run("target")));
        let host = format!("{} CPUs, Linux {}", run("cpu_count"), run("kernel"));
        self.paragraph(Style::Plain, "host", &host);
        let samples = format!(
            "{} in {}, {} lost",
            run("sample_count"),
            run("duration_ns"),
            run("lost_count")
        );
        self.paragraph(Style::Plain, "samples", &samples);
        for layer in &locks.run.layers {
            self.paragraph(Style::Plain, "layer", layer);
        }
        for missing in &locks.run.missing {
            self.paragraph(Style::Plain, "not used", missing);
        }
    }

    fn live_locks(&mut self, views: &[&LockView]) {
        self.title("Locks by CPU time that their waiters waste");
        let mut table = FieldTable::new(LIVE_LOCK_FIELDS, COLUMNS);
        for view in views {
            let cells = table.cells(view);
            table.table.push_with_notes(cells, notes(view));
        }
        self.table(&table.table);
        let legend = "u is the share of its working time for which a thread holds the lock; 1/u CPUs are of \
                      use to its threads, and together they are at most 1/u times as fast as one";
        self.paragraph(Style::Plain, "u", legend);
    }
}

fn notes(view: &LockView) -> Vec<String> {
    let lock = &view.lock;
    let mut notes = Vec::new();
    if !lock.object.is_empty() {
        notes.push(format!("of {}", lock.object));
    }
    let waiting: u64 = lock.callers.iter().map(|(_, count)| count).sum();
    for (chain, count) in lock.callers.iter().take(NOTES_MAX) {
        let share = *count as f64 * 100.0 / waiting.max(1) as f64;
        notes.push(format!("{share:.0} % by {chain}"));
    }
    let threads = lock.threads.iter().take(NOTES_MAX);
    let named = threads.map(|part| format!("{} {}", part.thread.comm, part.thread.tid));
    let mut named: Vec<String> = named.collect();
    if lock.threads.len() > NOTES_MAX {
        named.push(format!(
            "{} others",
            grouped((lock.threads.len() - NOTES_MAX) as u64)
        ));
    }
    notes.push(format!("threads {}", named.join(", ")));
    notes
}
