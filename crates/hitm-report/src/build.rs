//! Statistics, names and run facts -> [`Report`].

mod by;
mod calls;
mod findings;
mod functions;
mod judged;
mod lines;
mod locks;
mod objects;
mod places;
mod source_lines;
mod turns;

use std::collections::BTreeMap;

use hitm_base::{Cycles, LineAddr, Machine, ThreadId};
use hitm_coherence::sharing::{Known, Verdict, judge};
use hitm_coherence::stats::{LineStats, Statistics};

use hitm_trace::{Waits, WatchedRun};

use crate::Names;
use crate::by::{By, Selection, SortKey, TotalsBy};
use crate::handed::HandedOver;
use crate::model::{
    AccessCounts, LineReport, Quiet, Report, RunHeader, SampledEvent, ThreadSummary, Totals,
    Watched, share,
};
use crate::waiting::Waiting;
use by::{Left, Namer, line_order};
use calls::CallPaths;
use findings::FindingBuilder;
use functions::Functions;
use judged::Judged;
pub(crate) use judged::gives_back;
use lines::LineBuilder;
pub(crate) use locks::LineLock;
pub(crate) use objects::LineNames;
pub use source_lines::{SourceLine, source_line};

/// Facts about a run besides its accesses.
#[derive(Debug, Clone)]
pub struct RunFacts<'a> {
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// The machine model that priced the accesses.
    pub machine: &'a Machine,
    /// Cycles that a thread may run ahead of the slowest one.
    pub window: Cycles,
    /// Placement of the threads on CPUs, in the words of the command line.
    pub placement: String,
    /// CPUs that the program saw; 0 where that is not recorded.
    pub program_cpu_count: u64,
    /// Seed of the run.
    pub seed: u64,
    /// The threads.
    pub threads: Vec<ThreadFacts>,
    /// Time that threads waited for one another.
    pub waits: Vec<Waits>,
    /// Time asleep at words at which no other thread sleeps, for a lock or for work.
    pub parked: Cycles,
    /// Virtual time of the end, from that of the beginning on.
    pub end: Cycles,
    /// Accesses that were counted but not stored, because only one thread had touched the line.
    pub private_access_count: u64,
    /// Accesses that the recorder had to drop.
    pub lost_access_count: u64,
    /// True if the recording was closed properly.
    pub complete: bool,
    /// Messages from the reader of the recording, or from its recorder.
    pub diagnostics: Vec<String>,
    /// Facts about the samples, when the accesses are samples.
    pub sampled: Option<SampledFacts>,
}

/// Facts about samples besides their accesses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampledFacts {
    /// The sampled events.
    pub events: Vec<SampledEvent>,
    /// Accesses whose samples say whether their address was found in a TLB.
    pub tlb_known_count: u64,
    /// The part of these that missed it.
    pub tlb_miss_count: u64,
    /// Lines of a running program that were watched.
    pub watched: Option<WatchedRun>,
}

impl RunFacts<'_> {
    fn watched(&self) -> Option<&WatchedRun> {
        self.sampled.as_ref()?.watched.as_ref()
    }
}

/// Facts about a thread besides its accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadFacts {
    /// The thread.
    pub thread: ThreadId,
    /// Its id in the operating system.
    pub tid: u64,
    /// Instructions executed.
    pub instruction_count: u64,
    /// Virtual cycles that passed while it ran.
    pub cycles: Cycles,
}

/// The least share of all threads' time, 0 to 1, that makes a line worth showing. A run-time
/// library's own lines are contended for a moment at start-up; a thousandth of the run is less than
/// what two runs of one program differ by.
pub const RUN_SHARE_MIN: f64 = 0.001;

/// Part of the threads' time, 0 to 1, from which on something is worth a change.
pub const WORTH_SHARE_MIN: f64 = 0.01;

/// Limits on the size of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportOptions {
    /// Contended lines shown in detail.
    pub lines_max: usize,
    /// Rows of one line; beyond it rows of one instruction are folded over threads, and then the
    /// cheapest are left out.
    pub rows_max: usize,
    /// Call paths shown for each row, where accesses have call chains.
    pub call_paths_max: usize,
}

impl ReportOptions {
    /// Call paths shown when nothing else is asked for.
    pub const CALL_PATHS_MAX_DEFAULT: usize = 3;
    /// Lines shown when nothing else is asked for.
    pub const LINES_MAX_DEFAULT: usize = 20;
    /// Rows of a line that still fit on a screen.
    pub const ROWS_MAX_DEFAULT: usize = 16;
}

impl Default for ReportOptions {
    fn default() -> ReportOptions {
        ReportOptions {
            lines_max: ReportOptions::LINES_MAX_DEFAULT,
            rows_max: ReportOptions::ROWS_MAX_DEFAULT,
            call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
        }
    }
}

impl Report {
    /// Places in [`Report::lines`] by the names of the accesses to them, of one kind of name: those of a row of
    /// [`TotalsBy`] that the report shows.
    pub fn places_by(
        &self,
        statistics: &Statistics,
        names: &dyn Names,
        by: By,
        selection: &Selection,
    ) -> BTreeMap<String, Vec<usize>> {
        let lines: Vec<LineAddr> = self.lines.iter().map(|line| line.line).collect();
        let namer = Namer::new(names, statistics, &selection.skip, self.is_sampled());
        by::places_by(&namer, by, &lines)
    }

    /// Builds the report of a run, or of a part of it, with totals by name. Names are asked for only for what is
    /// shown, and those of all rows when there are filters or totals. Cost: a pass over all rows of `statistics`.
    pub fn build(
        statistics: &Statistics,
        names: &dyn Names,
        facts: &RunFacts<'_>,
        options: &ReportOptions,
        selection: &Selection,
    ) -> Report {
        let lost = lost_by_thread(statistics);
        let totals = totals(statistics, facts, &lost);
        let are_samples = facts.sampled.is_some();
        let named = Named::of(statistics, names, selection, are_samples, &totals);
        // Accesses of watched lines are drawn in an order, and priced.
        let are_apart = are_samples && facts.watched().is_none();
        let rules = Rules {
            are_samples: are_apart,
            fetches_pairs: facts.machine.adjacent_line_milli > 0,
            sort: selection.sort,
        };
        let (judged, mut quiet) = judge_all(statistics, &totals, rules, names);
        let totals = Totals {
            flagged_line_count: judged.len() as u64,
            ..totals
        };
        let handed = match are_samples {
            true => HandedOver::default(),
            false => handed_over(statistics, &judged, names, &totals),
        };
        let judged = with_names(judged, &named, names, are_apart);
        let shown = judged.len().min(options.lines_max);
        leave_out(&mut quiet, &judged[shown..]);
        let paths = &statistics.calls;
        let calls = CallPaths::new(names, are_samples, paths, options.call_paths_max);
        let builder = LineBuilder {
            names,
            topology: &facts.machine.topology,
            totals: &totals,
            rows_max: options.rows_max,
            are_samples,
            calls,
        };
        let lines = judged[..shown].iter().zip(1..);
        let lines = lines.map(|(line, rank)| builder.build(line, rank));
        let lines: Vec<LineReport> = lines.collect();
        let waiting = Waiting::build(facts, statistics, names, totals.thread_cycles);
        let findings = FindingBuilder {
            names,
            statistics,
            functions: &Functions::new(names, &selection.skip, are_samples),
            lines: &builder,
            totals: &totals,
            handed: &handed,
            waiting: &waiting,
            waits: &facts.waits,
            watched: facts.watched(),
            shown_max: options.lines_max,
        }
        .build(&judged, &lines);
        Report {
            run: header(facts),
            runs: None,
            watched: facts.watched().map(Watched::of),
            findings,
            lines,
            quiet,
            handed,
            waiting,
            threads: threads(&lost, names, facts),
            processes: Vec::new(),
            of_machine: None,
            totals_by: named.totals_by,
            pairs: Vec::new(),
            filtered: named.left.and_then(|left| left.filtered()),
            sort: selection.sort,
            totals_max: options.lines_max,
            has_call_chains: !statistics.calls.is_empty(),
            diagnostics: facts.diagnostics.clone(),
            totals,
        }
    }
}

/// The lines that filters leave, with what names tell of them.
fn with_names<'a>(
    judged: Vec<Judged<'a>>,
    named: &Named<'_>,
    names: &dyn Names,
    are_samples: bool,
) -> Vec<Judged<'a>> {
    let is_left = |one: &Judged<'_>| {
        let left = named.left.as_ref();
        left.is_none_or(|left| left.has(one.line))
    };
    let judged = judged.into_iter().filter(is_left);
    let judged = judged.map(|line| line.with_locks(names, are_samples));
    judged.map(|line| line.with_runtime(names)).collect()
}

fn handed_over(
    statistics: &Statistics,
    judged: &[Judged<'_>],
    names: &dyn Names,
    totals: &Totals,
) -> HandedOver {
    let contended = judged.iter().map(|one| one.line).collect();
    HandedOver::build(statistics, &contended, names, totals)
}

fn leave_out(quiet: &mut Quiet, lines: &[Judged<'_>]) {
    let lost = lines.iter().map(|one| one.stats.contention_stall.0);
    quiet.left_out_line_count = lines.len() as u64;
    quiet.left_out_lost_cycles = lost.fold(0, u64::saturating_add);
}

/// Decisions that need the names of all rows.
#[derive(Default)]
struct Named<'a> {
    left: Option<Left<'a>>,
    totals_by: Vec<TotalsBy>,
}

impl<'a> Named<'a> {
    fn of(
        statistics: &'a Statistics,
        names: &'a dyn Names,
        selection: &'a Selection,
        are_samples: bool,
        totals: &Totals,
    ) -> Named<'a> {
        // Lines have a table of their own.
        let wanted = selection.by.iter().filter(|by| **by != By::Line);
        let wanted: Vec<By> = wanted.copied().collect();
        if wanted.is_empty() && selection.filters.is_empty() {
            return Named::default();
        }
        let namer = Namer::new(names, statistics, &selection.skip, are_samples);
        let left = Left::of(&namer, &selection.filters, totals);
        let of = |by: By| left.totals(&namer, by, selection.sort, totals);
        Named {
            totals_by: wanted.into_iter().map(of).collect(),
            left: Some(left),
        }
    }
}

fn header(facts: &RunFacts<'_>) -> RunHeader {
    let topology = &facts.machine.topology;
    RunHeader {
        command: facts.command.clone(),
        machine: facts.machine.name.clone(),
        machine_description: facts.machine.description.clone(),
        cpu_count: topology.cpu_count() as u64,
        node_count: topology.node_count() as u64,
        clock_khz: facts.machine.clock.khz(),
        window_cycles: facts.window.0,
        placement: facts.placement.clone(),
        program_cpu_count: facts.program_cpu_count,
        seed: facts.seed,
        private_access_count: facts.private_access_count,
        lost_access_count: facts.lost_access_count,
        complete: facts.complete,
        sampled: facts.sampled.as_ref().map(|sampled| sampled.events.clone()),
    }
}

/// Cycles that each thread lost to contention.
type LostByThread = BTreeMap<ThreadId, u64>;

fn totals(statistics: &Statistics, facts: &RunFacts<'_>, lost: &LostByThread) -> Totals {
    let cycles = facts
        .threads
        .iter()
        .map(|thread| cycles(thread, facts, lost));
    let mut totals = Totals {
        line_count: statistics.lines.len() as u64 + statistics.rest.line_count,
        thread_cycles: cycles.fold(0, u64::saturating_add),
        ..Totals::default()
    };
    if let Some(sampled) = &facts.sampled {
        totals.tlb_known_count = sampled.tlb_known_count;
        totals.tlb_miss_count = sampled.tlb_miss_count;
    }
    for stats in statistics.lines.values() {
        totals.counts.merge(&AccessCounts::of(stats));
        totals.stall_cycles += stats.stall.0;
        totals.lost_cycles += stats.contention_stall.0;
    }
    let rest = &statistics.rest;
    totals.counts.merge(&AccessCounts::of_rest(rest));
    totals.stall_cycles += rest.stall.0;
    totals.lost_cycles += rest.contention_stall().0;
    totals
}

/// Rules for all lines of a report.
#[derive(Debug, Clone, Copy)]
struct Rules {
    are_samples: bool,
    /// The machine fetches both lines of an aligned pair.
    fetches_pairs: bool,
    sort: SortKey,
}

impl Rules {
    /// The other line of the pair, where the machine fetches both.
    fn other_of_pair(self, statistics: &Statistics, line: LineAddr) -> Option<&LineStats> {
        let other = LineAddr(line.0 ^ 1);
        self.fetches_pairs.then(|| statistics.lines.get(&other))?
    }
}

/// The contended lines in their order, and how many lines are not worth a verdict.
fn judge_all<'a>(
    statistics: &'a Statistics,
    totals: &Totals,
    rules: Rules,
    names: &dyn Names,
) -> (Vec<Judged<'a>>, Quiet) {
    let mut judged = Vec::new();
    let mut quiet = Quiet {
        line_count: statistics.rest.contended_line_count,
        lost_cycles: statistics.rest.contention_stall().0,
        ..Quiet::default()
    };
    let mut small = Vec::new();
    for (&line, stats) in &statistics.lines {
        let other_of_pair = rules.other_of_pair(statistics, line);
        let known = Known {
            are_samples: rules.are_samples,
            other_of_pair,
            ..Known::default()
        };
        let sharing = judge(stats, &known);
        let run_share = share(stats.contention_stall.0, totals.thread_cycles);
        // A recording that was cut short may not know how long its threads ran.
        let matters = run_share >= RUN_SHARE_MIN || totals.thread_cycles == 0;
        let is_contended = sharing.verdict != Verdict::NoContention;
        if !is_contended && sharing.contended_count > 0 {
            quiet.add(stats);
        }
        if is_contended {
            let one = Judged {
                line,
                stats,
                other_of_pair,
                sharing,
                is_of_runtime: false,
                locks: Vec::new(),
            };
            if matters {
                judged.push(one);
            } else {
                small.push(one);
            }
        }
    }
    let (together, apart) = judged::worth_together(small, names, totals);
    judged.extend(together);
    apart.iter().for_each(|one| quiet.add(one.stats));
    judged.sort_by_key(|one| line_order(rules.sort, one.line, one.stats));
    (judged, quiet)
}

fn lost_by_thread(statistics: &Statistics) -> LostByThread {
    let rest = statistics.rest.lost.iter();
    let mut lost: LostByThread = rest.map(|(thread, lost)| (*thread, lost.0)).collect();
    for stats in statistics.lines.values() {
        for (key, row) in &stats.rows {
            *lost.entry(key.thread).or_default() += row.contention_stall.0;
        }
    }
    lost
}

/// Returns the time of a thread. A recording that was cut short has its accesses up to the end, and
/// its totals up to some moment before. So the lost cycles are a lower bound of the time.
fn cycles(thread: &ThreadFacts, facts: &RunFacts<'_>, lost: &LostByThread) -> u64 {
    let least = lost.get(&thread.thread).copied().unwrap_or(0);
    match facts.sampled {
        // Samples tell no time.
        Some(_) => thread.cycles.0,
        None => thread.cycles.0.max(least),
    }
}

fn threads(lost: &LostByThread, names: &dyn Names, facts: &RunFacts<'_>) -> Vec<ThreadSummary> {
    let threads = facts.threads.iter().map(|thread| ThreadSummary {
        thread: thread.thread,
        name: names.thread(thread.thread),
        tid: thread.tid,
        instruction_count: thread.instruction_count,
        cycles: cycles(thread, facts, lost),
        lost_cycles: lost.get(&thread.thread).copied().unwrap_or(0),
    });
    threads.collect()
}
