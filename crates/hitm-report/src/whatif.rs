//! View of `hitm whatif`: the facade's answer, cut to size and divided by iterations.

use hitm::whatif::{Change, Run, ThreadChange, WhatifReport};

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

/// One of the two runs, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// The run.
    pub run: Run,
    /// The mean of the threads that iterate.
    pub cycles_per_iteration: Option<f64>,
}

/// A thread, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadView {
    /// The thread.
    pub change: ThreadChange,
    /// Its cycles of an iteration, when it iterates.
    pub cycles_per_iteration: Option<Change<f64>>,
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
