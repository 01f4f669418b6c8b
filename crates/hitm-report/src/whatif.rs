//! View of `hitm whatif`: the facade's answer, cut to size and divided by iterations.

mod fields;

use hitm_fields::fields;
use hitm_whatif::{Change, Run, ThreadChange, WhatifReport};

use crate::model::{HitmCounts, Hitms};
pub use fields::{whatif_line, whatif_member, whatif_move, whatif_object};

/// Version of the JSON; docs/formats/whatif.md describes it.
pub const WHATIF_SCHEMA: u64 = 1;

/// Instructions an iteration from which on a thread counts as one that iterates.
const INSNS_AN_ITERATION_MIN: u64 = 4;

/// Size limit of the view, and the iterations that cycles are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhatifOptions {
    /// The most lines, and the most objects.
    pub lines_max: usize,
    /// Iterations of each thread, if the user says how many.
    pub iterations: Option<u64>,
}

fields! {
    /// One of the two runs, as it is shown.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RunView in whatif_run {
        /// The run.
        pub run: Run;
        /// Name of the machine model.
        machine => known label "machine", |item| item.run.machine;
        /// One line about the machine model.
        machine_description => known label "", |item| item.run.machine_description;
        /// Clock of the machine model.
        clock_khz => khz "clock", |item| item.run.clock.khz();
        /// Placement of the threads on CPUs.
        placement => known label "placement", |item| item.run.placement;
        /// Latest virtual clock of a thread.
        end_cycles => cycles "end", |item| item.run.end.0;
        /// Cycles of an iteration, the mean over the threads that run at least four instructions an iteration; null
        /// without --per.
        pub cycles_per_iteration: Option<f64> => cycles "cycles/iteration";
        /// Accesses to lines that several threads use.
        access_count => count "accesses", |item| item.run.totals.accesses;
        ..HitmCounts: local_hitm_count "local HITM", remote_hitm_count "remote HITM";
        /// Time that threads waited for memory, whatever the source.
        stall_cycles => cycles "stalled", |item| item.run.totals.stall.0;
        /// Part of stall_cycles whose source is another CPU's use of the line.
        lost_cycles => cycles "lost", |item| item.run.totals.lost.0;
    }
}

fields! {
    /// A thread, as it is shown.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ThreadView in whatif_thread {
        /// The thread.
        pub change: ThreadChange;
        /// Number of the thread in the recording.
        thread => number "thread", |item| item.change.thread.0;
        /// Name and tid.
        name => known name "name", |item| item.change.name;
        /// Instructions that the thread ran, in both runs.
        instruction_count => count "instructions", |item| item.change.insns;
        /// Cycles that the thread ran or waited for memory, as recorded.
        cycles_before => cycles "before", |item| item.change.cycles.before.0;
        /// The same, as replayed.
        cycles_after => cycles "after", |item| item.change.cycles.after.0;
        /// Growth of the cycles, as a part of those before.
        cycles_change => share "change", |item| {
            let cycles = item.change.cycles;
            growth(Change { before: cycles.before.0, after: cycles.after.0 })
        };
        /// Its cycles of an iteration, when it iterates.
        pub cycles_per_iteration: Option<Change<f64>>;
        /// Cycles of an iteration, as recorded; null without --per, and for a thread that does not iterate.
        cycles_per_iteration_before => cycles "per iteration",
            |item| item.cycles_per_iteration.map(|per| per.before);
        /// The same, as replayed.
        cycles_per_iteration_after => cycles "after", |item| item.cycles_per_iteration.map(|per| per.after);
        /// Part of the cycles that the thread waited for memory, as recorded.
        stall_cycles_before => cycles "stalled", |item| item.change.stall.before.0;
        /// The same, as replayed.
        stall_cycles_after => cycles "after", |item| item.change.stall.after.0;
        /// Part of the stall whose source is another CPU's use of a line, as recorded.
        lost_cycles_before => cycles "lost", |item| item.change.lost.before.0;
        /// The same, as replayed.
        lost_cycles_after => cycles "after", |item| item.change.lost.after.0;
    }
}

/// The answer, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatifView {
    /// The facade's answer, its lists cut to size.
    pub report: WhatifReport,
    /// The two runs.
    pub run: Change<RunView>,
    /// The threads.
    pub threads: Vec<ThreadView>,
    /// Lines and objects that are not shown.
    pub left_out: (usize, usize),
}

impl Hitms for RunView {
    fn remote_hitm(&self) -> u64 {
        self.run.totals.remote_hitm
    }

    fn local_hitm(&self) -> u64 {
        self.run.totals.local_hitm
    }
}

impl WhatifView {
    /// Takes what the options ask for.
    pub fn new(mut report: WhatifReport, options: &WhatifOptions) -> WhatifView {
        let left_out = (
            cut(&mut report.lines, options.lines_max),
            cut(&mut report.objects, options.lines_max),
        );
        let threads: Vec<ThreadView> = report
            .threads
            .iter()
            .map(|change| ThreadView {
                cycles_per_iteration: per_iteration(change, options.iterations),
                change: change.clone(),
            })
            .collect();
        let iterating = threads
            .iter()
            .filter_map(|thread| thread.cycles_per_iteration);
        let iterating: Vec<Change<f64>> = iterating.collect();
        let mean = |of: fn(&Change<f64>) -> f64| {
            let sum: f64 = iterating.iter().map(of).sum();
            (!iterating.is_empty()).then(|| sum / iterating.len() as f64)
        };
        let run = Change {
            before: RunView {
                run: report.run.before.clone(),
                cycles_per_iteration: mean(|change| change.before),
            },
            after: RunView {
                run: report.run.after.clone(),
                cycles_per_iteration: mean(|change| change.after),
            },
        };
        WhatifView {
            run,
            threads,
            left_out,
            report,
        }
    }
}

fn per_iteration(thread: &ThreadChange, iterations: Option<u64>) -> Option<Change<f64>> {
    let iterations = iterations.filter(|count| *count > 0)?;
    let is_iterating = thread.insns > iterations.saturating_mul(INSNS_AN_ITERATION_MIN);
    is_iterating.then(|| Change {
        before: thread.cycles.before.0 as f64 / iterations as f64,
        after: thread.cycles.after.0 as f64 / iterations as f64,
    })
}

/// Cuts a list; says how many are left out.
fn cut<T>(list: &mut Vec<T>, most: usize) -> usize {
    let left_out = list.len().saturating_sub(most);
    list.truncate(most);
    left_out
}

/// Returns the growth from `before` to `after`, as a part of `before`.
pub(crate) fn growth(change: Change<u64>) -> Option<f64> {
    (change.before > 0).then(|| change.after as f64 / change.before as f64 - 1.0)
}
