//! The report: plain structs with public fields, filled by [`Report::build`](crate::Report::build) and shown through
//! the quantities that are declared with them.

mod bounds;
mod counts;
mod findings;
mod header;
mod lines;
mod rows;
mod who;

use std::collections::BTreeMap;

use hitm_base::{AccessOp, LineAddr};

use crate::by::{Filtered, SortKey, TotalsBy};
use crate::handed::HandedOver;
use crate::machine::MachineSummary;
use crate::pairs::Pair;
use crate::runs::Runs;
use crate::waiting::Waiting;

pub use bounds::{CostBounds, Watched, watched};
pub use counts::{AccessCounts, source};
pub(crate) use counts::{Counted, Counts, HitmCounts, Hitms, store_hits, upgrades_of};
pub use findings::{Finding, FindingKind, FindingPlace, finding, finding_place};
pub use header::{
    ProcessSummary, Quiet, RunHeader, SampledEvent, ThreadSummary, Totals, process, quiet, run,
    thread, totals,
};
pub use lines::{FightReport, LineReport, ObjectUse, fight, line, object};
pub use rows::{CallFrame, CallPath, RowReport, call_frame, call_path, row};
pub use who::Who;

/// Version of the JSON form. It rises when a field changes its meaning or disappears, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// Everything that a report says about one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The run's command, machine model and settings.
    pub run: RunHeader,
    /// The runs of a folder of recordings, of which this report shows one; none of a single recording.
    pub runs: Option<Runs>,
    /// Sums over all lines.
    pub totals: Totals,
    /// Samples and watches of a running program; none of other runs.
    pub watched: Option<Watched>,
    /// Naming coverage of a recorded machine; none for a recorded program.
    pub of_machine: Option<MachineSummary>,
    /// The findings, each what one change cures, the costliest first; those of the C library and of runtimes come last.
    pub findings: Vec<Finding>,
    /// The contended lines in detail, the costliest first, at most as many as were asked for.
    pub lines: Vec<LineReport>,
    /// Counts of the lines that are not shown in detail.
    pub quiet: Quiet,
    /// Hand-overs of the quiet lines; of recordings, not of samples.
    pub handed: HandedOver,
    /// Time that threads waited for one another, lines apart; of recordings, not of samples.
    pub waiting: Waiting,
    /// Totals by name, as asked for.
    pub totals_by: Vec<TotalsBy>,
    /// Hand-overs by function, of all lines and of each finding, where they were asked for.
    pub pairs: Vec<Pair>,
    /// The part that filters leave; none without filters. `lines` and `findings` then have the lines with such
    /// accesses.
    pub filtered: Option<Filtered>,
    /// The order of lines and totals.
    pub sort: SortKey,
    /// Rows of a table of totals that text shows.
    pub totals_max: usize,
    /// The threads, in order of appearance.
    pub threads: Vec<ThreadSummary>,
    /// The processes, one for each program of each; none where there is only one.
    pub processes: Vec<ProcessSummary>,
    /// True if accesses have call chains.
    pub has_call_chains: bool,
    /// Messages from the reader of the recording, or from its recorder.
    pub diagnostics: Vec<String>,
}

impl Report {
    /// Returns true if the accesses are samples.
    pub fn is_sampled(&self) -> bool {
        self.run.sampled.is_some()
    }

    /// The command that it is an answer to, in the title of text and page.
    pub(crate) fn title(&self) -> String {
        let verb = match self.watched {
            Some(_) => "hitm live lines",
            None => "hitm report",
        };
        format!("{verb}: {}", self.run.command.join(" "))
    }

    /// Ranks of the lines that are shown in detail.
    pub(crate) fn ranks(&self) -> BTreeMap<LineAddr, u64> {
        let lines = self.lines.iter();
        lines.map(|line| (line.line, line.rank)).collect()
    }

    /// Places in `lines` of a finding's lines, the costliest first.
    pub fn places_of(&self, finding: &Finding) -> Vec<usize> {
        let lines = self.lines.iter().enumerate();
        let own = lines.filter(|(_, line)| finding.lines.contains(&line.line));
        own.map(|(place, _)| place).collect()
    }

    /// Those that contend.
    pub fn who(&self) -> Who {
        let processes = &self.processes;
        match &self.of_machine {
            Some(_) => Who::Cpus,
            None if !processes.is_empty() && processes.iter().all(|one| one.thread_count <= 1) => {
                Who::Processes
            }
            None => Who::Threads,
        }
    }

    /// The finding that costs most, if it is worth a word.
    pub fn first_finding(&self) -> Option<&Finding> {
        self.findings.first().filter(|first| first.is_told())
    }

    /// Returns true for samples of which none says what data it used.
    pub fn has_no_address(&self) -> bool {
        self.is_sampled() && self.watched.is_none() && self.totals.counts.total() == 0
    }
}

/// `part / whole`, 0 when there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The word for an operation.
pub(crate) const fn op_text(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "load",
        AccessOp::Store => "store",
        AccessOp::LockedRmw => "locked",
        AccessOp::Fence => "fence",
    }
}
