//! Two programs compared by their recordings: what each run costs, and what became of each finding.
//!
//! Of several runs the medians count. Findings are told apart by name, as a baseline tells members apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_fields::{Field, Value, fields};
use hitm_recording::Recording;

use crate::baseline::Keys;
use crate::model::share;
use crate::runs::Spread;
use crate::sentences::compare as say;
use crate::{Finding, RUN_SHARE_MIN, Report, ReportOptions};

/// Version of the JSON form.
pub const COMPARE_SCHEMA: u32 = 1;

fields! {
    /// Time of a run, and what of it is lost.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct RunCost in run_cost {
        /// Virtual time of all threads together.
        pub thread_cycles: u64 => cycles "thread cycles";
        /// The latest clock of a thread: the length of the run.
        pub run_cycles: u64 => cycles "run cycles";
        /// Cycles that threads lost to other CPUs' use of lines.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// lost_cycles as a part of thread_cycles.
        lost_share => share "lost", |run| run.lost_share();
        /// Cycles that threads waited for one another, spinning or asleep.
        pub waited_cycles: u64 => cycles "waited";
    }
}

impl RunCost {
    /// Time of a run, and what is lost on the lines that are there of its recording.
    pub fn of(recording: &Recording) -> RunCost {
        let statistics = &recording.statistics;
        let lines = statistics
            .lines
            .values()
            .map(|line| line.contention_stall.0);
        let waits = recording.waits().map(|wait| wait.cycles.0);
        RunCost {
            thread_cycles: recording.thread_cycles().0,
            run_cycles: recording.end_time().0,
            lost_cycles: lines.fold(statistics.rest.contention_stall().0, u64::saturating_add),
            waited_cycles: waits.fold(0, u64::saturating_add),
        }
    }

    fn lost_share(&self) -> f64 {
        share(self.lost_cycles, self.thread_cycles)
    }
}

/// A program that is compared, by the runs of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Its name.
    pub label: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its runs.
    pub runs: Vec<RunCost>,
    findings: BTreeMap<String, Costs>,
}

/// Cost of a finding.
#[derive(Debug, Clone, PartialEq, Default)]
struct Costs {
    kind: String,
    cycles: Vec<u64>,
}

impl Costs {
    /// The spread of a finding; of none it is all 0.
    fn spread(found: Option<&Costs>) -> Spread {
        Spread::of(found.map_or(&[], |one| &one.cycles))
    }
}

impl Measured {
    /// A program without runs.
    pub fn new(label: &str, command: &[String]) -> Measured {
        Measured {
            label: label.to_owned(),
            command: command.to_vec(),
            ..Measured::default()
        }
    }

    /// Adds the recording of a run.
    pub fn add(&mut self, recording: &Recording) {
        let report = &Report::of_recording(recording, &ReportOptions::default());
        let keys = Keys::of(report);
        for finding in &report.findings {
            let costs = self.findings.entry(key(&keys, finding)).or_default();
            costs.cycles.resize(self.runs.len() + 1, 0);
            if costs.kind.is_empty() {
                costs.kind.clone_from(&finding.kind_brief);
            }
            if let Some(cycles) = costs.cycles.last_mut() {
                *cycles = cycles.saturating_add(finding.cost_cycles());
            }
        }
        self.runs.push(RunCost::of(recording));
    }

    fn runs(&self) -> Runs<'_> {
        Runs::of(&self.label, &self.runs)
    }

    /// The findings under other names, in all runs also those that have not found them.
    fn renamed(&self, name: impl Fn(&str) -> String) -> BTreeMap<String, Costs> {
        let mut all: BTreeMap<String, Costs> = BTreeMap::new();
        for (own, found) in &self.findings {
            let costs = all.entry(name(own)).or_default();
            costs.cycles.resize(self.runs.len(), 0);
            // The kind is that of the costliest.
            if costs.kind.is_empty() || found.cycles.iter().sum::<u64>() > costs.cycles.iter().sum()
            {
                costs.kind.clone_from(&found.kind);
            }
            for (sum, cycles) in costs.cycles.iter_mut().zip(&found.cycles) {
                *sum = sum.saturating_add(*cycles);
            }
        }
        all
    }
}

/// The finding of another program that is about the whole object of which this one is about a part; else its own
/// name. Where members no longer share a line, each is a finding of its own.
fn whole_of(name: &str, others: &BTreeMap<String, Costs>) -> String {
    let is_part = |whole: &str| {
        let rest = name.strip_prefix(whole);
        rest.is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let whole = others.keys().find(|other| is_part(other));
    whole.map_or(name, String::as_str).to_owned()
}

/// The name that a finding has in every build of a program.
fn key(keys: &Keys, finding: &Finding) -> String {
    keys.key(finding.identity.as_ref().unwrap_or(&finding.name))
}

/// A quantity of two programs, of several runs the medians, and how it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    before: Spread,
    after: Spread,
}

impl Change {
    /// The change of the medians as a part of the first one; none where that is nothing.
    fn median(self) -> Option<f64> {
        ratio(self.after.median, self.before.median)
    }

    /// The least change between any two runs.
    fn least(self) -> Option<f64> {
        ratio(self.after.least, self.before.largest)
    }

    /// The largest change between any two runs.
    fn largest(self) -> Option<f64> {
        ratio(self.after.largest, self.before.least)
    }

    /// Returns true if all runs of one program lie on one side of those of the other.
    fn is_clear(self) -> bool {
        self.after.largest < self.before.least || self.before.largest < self.after.least
    }
}

fn ratio(after: u64, before: u64) -> Option<f64> {
    (before > 0).then(|| after as f64 / before as f64 - 1.0)
}

fields! {
    /// A quantity before and after.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ComparedRow in compared_row {
        /// Quantity of the runs, or finding by its object and member.
        pub name: String => name "what";
        /// Kind of contention, of both programs where they differ; null of a quantity of the runs.
        pub kind: Option<String> => words "kind";
        /// Cycles in the first program, of several runs the median.
        before_cycles => cycles "before", |row| row.change.before.median;
        /// Cycles in the second program, of several runs the median.
        after_cycles => cycles "after", |row| row.change.after.median;
        /// after_cycles less before_cycles, as a part of before_cycles; null where that is nothing.
        change_share => share "change", |row| row.change.median();
        /// The least change between a run of the first and one of the second program, as a part.
        change_least_share => share "from", |row| row.change.least();
        /// The largest change between a run of the first and one of the second program, as a part.
        change_largest_share => share "to", |row| row.change.largest();
        /// True if all runs of one program lie on one side of those of the other.
        is_clear => label "clear", |row| row.change.is_clear();
        /// before_cycles as a part of the first program's thread cycles.
        pub before_run_share: f64 => share "lost before";
        /// after_cycles as a part of the second program's thread cycles.
        pub after_run_share: f64 => share "lost after";
        /// Both spreads.
        pub change: Change;
    }
}

/// Two programs compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramComparison {
    /// The machine that priced the accesses.
    pub machine: String,
    /// The first program and the second one.
    pub programs: [Measured; 2],
    /// Quantities of the runs.
    pub totals: Vec<ComparedRow>,
    /// The findings, those first that change most.
    pub findings: Vec<ComparedRow>,
    /// Findings of less than [`RUN_SHARE_MIN`] in both programs.
    pub small_count: usize,
}

/// Quantities of the runs.
const TOTALS: [Field<RunCost>; 4] = [
    run_cost::thread_cycles,
    run_cost::run_cycles,
    run_cost::lost_cycles,
    run_cost::waited_cycles,
];

impl ProgramComparison {
    /// Compares two programs on one machine.
    pub fn of(machine: &str, programs: [Measured; 2]) -> ProgramComparison {
        let [before, after] = &programs;
        let whole = [before, after].map(|one| one.runs().cycles(run_cost::thread_cycles).median);
        let row = |name: &str, kind: Option<String>, change: Change| ComparedRow {
            name: name.to_owned(),
            kind,
            before_run_share: share(change.before.median, whole[0]),
            after_run_share: share(change.after.median, whole[1]),
            change,
        };
        let totals = TOTALS.iter().map(|field| {
            let change = Change {
                before: before.runs().cycles(*field),
                after: after.runs().cycles(*field),
            };
            row(field.title, None, change)
        });
        let found = [
            before.renamed(|name| whole_of(name, &after.findings)),
            after.renamed(|name| whole_of(name, &before.findings)),
        ];
        let names: BTreeSet<&String> = found.iter().flat_map(BTreeMap::keys).collect();
        let findings = names.into_iter().map(|name| {
            let [before, after] = found.each_ref().map(|all| all.get(name));
            let kinds = [before, after].map(|one| one.map(|one| &*one.kind));
            let [before, after] = [before, after].map(Costs::spread);
            let change = Change { before, after };
            row(name, Some(joined(kinds)), change)
        });
        let shows =
            |row: &ComparedRow| row.before_run_share.max(row.after_run_share) >= RUN_SHARE_MIN;
        let (mut shown, small): (Vec<_>, Vec<_>) = findings.partition(shows);
        // Stable: what changes by the same stays in the order of names.
        shown.sort_by_key(|row| {
            let Change { before, after } = row.change;
            Reverse(before.median.abs_diff(after.median))
        });
        ProgramComparison {
            machine: machine.to_owned(),
            totals: totals.collect(),
            findings: shown,
            small_count: small.len(),
            programs,
        }
    }

    /// The quantities that at least one of the programs has.
    pub(crate) fn known_totals(&self) -> impl Iterator<Item = &ComparedRow> {
        let rows = self.totals.iter();
        rows.filter(|row| row.change.before.largest.max(row.change.after.largest) > 0)
    }

    /// The result in one sentence.
    pub fn sentence(&self) -> String {
        let [before, after] = &self.programs;
        sentence(before.runs(), after.runs())
    }
}

/// One kind, or two that differ.
fn joined(kinds: [Option<&str>; 2]) -> String {
    match kinds {
        [Some(before), Some(after)] if before != after => format!("{before}, then {after}"),
        [Some(kind), _] | [None, Some(kind)] => kind.to_owned(),
        [None, None] => String::new(),
    }
}

/// Runs of a program, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'a> {
    label: &'a str,
    runs: &'a [RunCost],
}

impl<'a> Runs<'a> {
    pub(crate) fn of(label: &'a str, runs: &'a [RunCost]) -> Runs<'a> {
        Runs { label, runs }
    }

    fn cycles(self, field: Field<RunCost>) -> Spread {
        let cycles = self.runs.iter().map(|run| match (field.value)(run) {
            Value::Whole(cycles) => cycles,
            _ => 0,
        });
        Spread::of(&cycles.collect::<Vec<u64>>())
    }

    fn lost_share(self) -> f64 {
        let mut shares: Vec<f64> = self.runs.iter().map(RunCost::lost_share).collect();
        shares.sort_by(f64::total_cmp);
        shares
            .get(shares.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or(0.0)
    }
}

/// Says what runs of one program take and lose, measured by those of another one.
pub(crate) fn sentence(before: Runs<'_>, after: Runs<'_>) -> String {
    let change = Change {
        before: before.cycles(run_cost::thread_cycles),
        after: after.cycles(run_cost::thread_cycles),
    };
    if change.before.least == 0 || change.after.least == 0 {
        return say::no_time();
    }
    let [median, least, largest] =
        [change.median(), change.least(), change.largest()].map(Option::unwrap_or_default);
    let lost = say::lost_by_each(percent(before.lost_share()), percent(after.lost_share()));
    let is_single = before.runs.len() == 1 && after.runs.len() == 1;
    if !is_single && !change.is_clear() {
        let (from, to) = (signed(least), signed(largest));
        return say::alike(after.label, before.label, from, to, lost);
    }
    let (word, ends) = match median < 0.0 {
        true => ("fewer", [largest, least]),
        false => ("more", [least, largest]),
    };
    let [from, to] = ends.map(|end| percent(end.abs()));
    let range = match is_single {
        true => String::new(),
        false => say::range(from, to),
    };
    let change = say::threads_cycles(percent(median.abs()), word);
    say::takes(after.label, change, before.label, range, lost)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn signed(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(cycles: &[u64], lost: u64) -> Vec<RunCost> {
        let run = |thread_cycles: &u64| RunCost {
            thread_cycles: *thread_cycles,
            lost_cycles: lost,
            ..RunCost::default()
        };
        cycles.iter().map(run).collect()
    }

    fn said(before: &[RunCost], after: &[RunCost]) -> String {
        sentence(Runs::of("old", before), Runs::of("new", after))
    }

    #[test]
    fn the_range_is_that_of_any_two_runs() {
        let before = runs(&[1000, 1010, 990], 590);
        let after = runs(&[590, 600, 570], 3);
        assert_eq!(
            said(&before, &after),
            "new takes 41.0% fewer threads' cycles than old (39.4% to 43.6%); lost to contention: 59.0%, then 0.5%."
        );
        assert_eq!(
            said(&after, &before),
            "old takes 69.5% more threads' cycles than new (65.0% to 77.2%); lost to contention: 0.5%, then 59.0%."
                .replace("old", "x")
                .replace("new", "old")
                .replace('x', "new")
        );
    }

    #[test]
    fn runs_that_overlap_decide_nothing_and_single_ones_have_no_range() {
        let before = runs(&[1000, 1100], 10);
        let after = runs(&[1050, 1080], 10);
        assert_eq!(
            said(&before, &after),
            "The runs do not tell new from old: threads' cycles change by -4.5% to +8.0%; lost to contention: 0.9%, then 0.9%."
        );
        assert_eq!(
            said(&runs(&[1000], 10), &runs(&[1500], 10)),
            "new takes 50.0% more threads' cycles than old; lost to contention: 1.0%, then 0.7%."
        );
        assert_eq!(
            said(&runs(&[0], 0), &runs(&[1500], 10)),
            "Nothing to compare: a recording does not say how long its threads ran."
        );
    }

    #[test]
    fn a_finding_of_one_program_alone_is_new_or_gone() {
        let mut before = Measured::new("old", &[]);
        let mut after = Measured::new("new", &[]);
        before.runs = runs(&[1000, 1000], 500);
        after.runs = runs(&[600, 600], 0);
        let costs = |kind: &str, cycles: &[u64]| Costs {
            kind: kind.to_owned(),
            cycles: cycles.to_vec(),
        };
        before
            .findings
            .insert("a.x".into(), costs("false sharing", &[500, 400]));
        before
            .findings
            .insert("small".into(), costs("true sharing", &[0]));
        after
            .findings
            .insert("a.x".into(), costs("true sharing", &[3, 3]));
        after
            .findings
            .insert("a.x.y".into(), costs("lock", &[1, 1]));
        after.findings.insert("b".into(), costs("lock", &[0, 60]));
        let compared = ProgramComparison::of("milan", [before, after]);
        assert_eq!(compared.small_count, 2, "b is in one run of two");
        let row = &compared.findings[0];
        assert_eq!(row.name, "a.x");
        assert_eq!(
            row.kind.as_deref(),
            Some("false sharing, then true sharing")
        );
        assert_eq!(
            (row.change.before.median, row.change.after.median),
            (400, 4)
        );
        assert!(row.change.is_clear());
        assert_eq!(compared.totals[3].change.median(), None);
    }
}
