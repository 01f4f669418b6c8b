//! Live locks as text.

use hitm_base::{counted, grouped, with_note};
use hitm_live::locks::{LockCaller, WAITING_MIN};
use hitm_live::recording::FUTEX_LAYER;

use super::{
    LiveLocks, LockView, ProgramLock, ProgramLocks, holders, live_lock, live_program,
    live_program_lock, live_run, named,
};
use crate::Printout;
use crate::fields::Field;
use crate::text::style::Style;
use crate::text::table::{FieldTable, Shows, gives_way, stays};
use crate::text::{TextOptions, Writer};

const COLUMNS: &[Shows<LockView>] = &[
    stays(live_lock::wasted_cpus),
    gives_way(2, live_lock::waited_share),
    gives_way(3, live_lock::held_share),
    stays(live_lock::hold_share),
    gives_way(1, live_lock::hold_share_error),
    stays(live_lock::needed_cpus),
    gives_way(4, live_lock::bound),
    stays(live_lock::thread_count),
    gives_way(5, live_lock::class),
    stays(live_lock::name),
];
const PROGRAM_COLUMNS: &[Shows<ProgramLock>] = &[
    stays(live_program_lock::wait_ns),
    stays(live_program_lock::acquisition_count),
    stays(live_program_lock::contended_share),
    gives_way(1, live_program_lock::handover_count),
    stays(live_program_lock::hold_share),
    stays(live_program_lock::needed_cpus),
    gives_way(2, live_program_lock::bound),
    stays(live_program_lock::thread_count),
    gives_way(3, live_program_lock::kind),
    stays(live_program_lock::call_site),
];
const LEGEND: &str = "u is the share of its working time for which a thread holds the lock; 1/u CPUs are of use to its \
                      threads, and together they are at most 1/u times as fast as one";
/// Callers and threads that are named below a lock.
const NOTES_MAX: usize = 3;

/// The tables.
pub fn render(locks: &LiveLocks, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    writer.live_header(locks);
    writer.kernel_locks(locks, options);
    if let Some(program) = &locks.program {
        writer.program_locks(program, locks.run.duration_ns, options);
    }
    writer.out
}

impl LiveLocks {
    /// Returns true if a lock of the program is contended, or locks were waited for in a few samples.
    fn has_other_waits(&self) -> bool {
        let mut own = self.program.iter().flat_map(|program| &program.locks);
        self.run.few_count > 0 || own.any(ProgramLock::is_contended)
    }

    /// The sentence where no wait for a lock was seen.
    pub(super) fn none_contended(&self) -> &'static str {
        match self.run.layers.iter().any(|layer| layer == FUTEX_LAYER) {
            true => "No lock is contended.",
            false => {
                "No contended lock was seen. Threads that sleep for a lock of their program were not looked at."
            }
        }
    }

    /// CPU time of all samples.
    fn cpu_ns(&self) -> u64 {
        self.run.sample_count * self.run.period_ns
    }
}

impl Writer {
    fn live_header(&mut self, locks: &LiveLocks) {
        let run = |field: Field<_>| field.text(&locks.run);
        self.push(
            Style::Bold,
            &format!("hitm live locks: {}", run(live_run::target)),
        );
        let host = format!(
            "{} CPUs, Linux {}",
            run(live_run::cpu_count),
            run(live_run::kernel)
        );
        self.paragraph(Style::Plain, "host", &host);
        let samples = format!(
            "{} in {}, {} lost",
            run(live_run::sample_count),
            run(live_run::duration_ns),
            run(live_run::lost_count)
        );
        self.paragraph(Style::Plain, "samples", &samples);
        for layer in &locks.run.layers {
            self.paragraph(Style::Plain, "layer", layer);
        }
        for missing in &locks.run.missing {
            self.paragraph(Style::Plain, "not used", missing);
        }
    }

    fn kernel_locks(&mut self, locks: &LiveLocks, options: &TextOptions) {
        let limit = options.percent_limit;
        let all = locks.cpu_ns().max(1) as f64;
        let is_shown = |view: &&LockView| {
            limit.holds(view.lock.waited_ns as f64 / all) || limit.holds(view.slept_share())
        };
        let (shown, hidden): (Vec<&LockView>, Vec<&LockView>) =
            locks.locks.iter().partition(is_shown);
        match (shown.is_empty(), locks.run.sample_count) {
            (true, 0) => {}
            // Something is: it stands below.
            (true, _) if !hidden.is_empty() || locks.has_other_waits() => {}
            (true, _) => self.sentence(Style::Plain, locks.none_contended()),
            (false, _) => self.live_locks(&shown),
        }
        if !hidden.is_empty() {
            let (count, limit) = (hidden.len(), limit.text());
            let text =
                format!("  {count} more below {limit} of the sampled time (--percent-limit)");
            self.sentence(Style::Plain, &text);
        }
        if locks.run.left_out_count > 0 {
            let count = live_run::left_out_count.text(&locks.run);
            let text = format!("  {count} more found no room: they were waited for least");
            self.sentence(Style::Plain, &text);
        }
        if locks.run.few_count > 0 {
            let count = counted(locks.run.few_count as u64, "lock");
            let text = format!("{count} with waits in fewer than {WAITING_MIN} samples");
            self.paragraph(Style::Plain, "few", &text);
        }
        self.idle_words(locks);
    }

    /// Waits for work are no contention.
    fn idle_words(&mut self, locks: &LiveLocks) {
        if locks.run.idle_count > 0 {
            let count = live_run::idle_count.text(&locks.run);
            let text =
                format!("{count} words at which threads slept for work or for a thread's end");
            self.paragraph(Style::Plain, "idle", &text);
        }
    }

    fn live_locks(&mut self, views: &[&LockView]) {
        self.title("Locks by CPU time that their waiters waste");
        let mut table = FieldTable::new(COLUMNS);
        for view in views {
            let cells = table.cells(view);
            table.table.push_with_notes(cells, notes(view));
        }
        self.table(&table.table);
        self.paragraph(Style::Plain, "u", LEGEND);
    }

    fn program_locks(&mut self, program: &ProgramLocks, duration_ns: u64, options: &TextOptions) {
        let limit = options.percent_limit;
        self.title("The program's own locks by the time that their threads waited");
        let locks = program.locks.iter().filter(|lock| !lock.is_condition());
        let share = |lock: &ProgramLock| lock.used.wait_ns as f64 / duration_ns.max(1) as f64;
        let is_shown = |lock: &&ProgramLock| lock.is_contended() && limit.holds(share(lock));
        let (shown, hidden): (Vec<&ProgramLock>, Vec<&ProgramLock>) = locks.partition(is_shown);
        let mut table = FieldTable::new(PROGRAM_COLUMNS);
        for lock in &shown {
            let cells = table.cells(lock);
            table.table.push_with_notes(cells, program_notes(lock));
        }
        match shown.is_empty() {
            true => self.push(Style::Plain, "  No lock of the program is contended."),
            false => self.table(&table.table),
        }
        if !hidden.is_empty() {
            let (count, limit) = (grouped(hidden.len() as u64), limit.text());
            let text =
                format!("  {count} more waited for below {limit} of the time (--percent-limit)");
            self.sentence(Style::Plain, &text);
        }
        if !shown.is_empty() {
            self.paragraph(Style::Plain, "u", LEGEND);
        }
        self.conditions(program);
        let field = |field: Field<_>| field.text(program);
        let seen = format!(
            "{} acquisitions by {} threads of {} processes; {} operations lost, {} holds ended by other threads",
            field(live_program::acquisition_count),
            field(live_program::thread_count),
            field(live_program::process_count),
            field(live_program::lost_count),
            field(live_program::stale_count),
        );
        self.paragraph(Style::Plain, "seen", &seen);
    }

    /// A wait for a condition is no contention: a line for all of them.
    fn conditions(&mut self, program: &ProgramLocks) {
        let conditions: Vec<&ProgramLock> = program
            .locks
            .iter()
            .filter(|lock| lock.is_condition())
            .collect();
        let Some(longest) = conditions.iter().max_by_key(|lock| lock.used.wait_max_ns) else {
            return;
        };
        let waits = conditions.iter().map(|lock| lock.used.acquisitions);
        let field = |field: Field<ProgramLock>| field.text(longest);
        let text = format!(
            "{} with {} waits; the longest took {} at {}",
            grouped(conditions.len() as u64),
            grouped(waits.fold(0, u64::saturating_add)),
            field(live_program_lock::wait_longest_ns),
            field(live_program_lock::wait_site),
        );
        self.paragraph(Style::Plain, "conditions", &text);
    }
}

fn notes(view: &LockView) -> Vec<String> {
    let lock = &view.lock;
    let mut notes = Vec::new();
    if !lock.object.is_empty() {
        notes.push(format!("of {}", lock.object));
    }
    notes.extend(traced_note(view));
    notes.extend(holders::notes(view));
    // Callers of sleepers alone have no samples.
    let weight = |caller: &LockCaller| match lock.waited_ns {
        0 => caller.traced_ns,
        _ => caller.samples,
    };
    let all = lock.callers.iter().map(weight).fold(0, u64::saturating_add);
    for caller in lock.callers.iter().take(NOTES_MAX) {
        let share = weight(caller) as f64 * 100.0 / all.max(1) as f64;
        notes.push(format!("{share:.0} % by {}", caller.chain));
    }
    let threads = lock.threads.iter().take(NOTES_MAX);
    let named = threads.map(|part| named(&part.thread.comm, part.thread.tid));
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

/// Sleep and addresses, where tracepoints saw a wait.
fn traced_note(view: &LockView) -> Option<String> {
    let traced = view
        .lock
        .traced
        .as_ref()
        .filter(|traced| traced.count > 0)?;
    let field = |field: Field<_>| field.text(view);
    let first = traced.addresses.first().copied().unwrap_or_default();
    let others = match traced.addresses.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", grouped(count as u64 - 1)),
    };
    Some(format!(
        "slept {} in {} waits, the longest {}, at {first:#x}{others}",
        field(live_lock::slept_ns),
        field(live_lock::wait_count),
        field(live_lock::longest_ns),
    ))
}

fn program_notes(lock: &ProgramLock) -> Vec<String> {
    let field = |field: Field<_>| field.text(lock);
    let variable = lock.used.variable.as_deref();
    let which = variable.map_or_else(String::new, |variable| format!("{variable} at "));
    let pid = format!("process {}", field(live_program_lock::pid));
    let process = with_note(&pid, &lock.process.comm);
    let (wait, site) = (
        field(live_program_lock::wait_longest_ns),
        field(live_program_lock::wait_site),
    );
    let (held, longest) = (
        field(live_program_lock::held_ns),
        field(live_program_lock::held_longest_ns),
    );
    vec![
        format!("{which}{} of {process}", field(live_program_lock::address)),
        format!("longest wait {wait} at {site}"),
        format!("held {held}, the longest {longest}"),
    ]
}
