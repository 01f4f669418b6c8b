//! Reports for continuous integration: findings with a level, a place in the source and a fingerprint, which
//! [`sarif`], [`junit`] and [`github`] write in the forms that services read.
//!
//! Each finding of the report is told, at the source line that lost most by it. One that breaks a gate without being
//! shown has no place. A member that breaks the baseline is told as well.
//! Every number comes from [`fields`](crate::fields).

pub mod github;
pub mod junit;
mod place;
pub mod sarif;

use std::collections::BTreeMap;

use hitm_base::{Fnv1a, LineAddr};
use hitm_recording::without_numbers;

use crate::baseline::{Change, Compared, Comparison, Keys};
use crate::fields::{Field, finding, quiet};
use crate::gate::{Gate, GateFailure};
use crate::model::{Finding, FindingKind, LineReport, Report, RowReport};
use crate::runs::Runs;
use place::places_of;
pub use place::{Place, SourceRoot};

/// Inputs of a job's answer.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// The report.
    pub report: &'a Report,
    /// The gates of `--fail-on`.
    pub gates: &'a [Gate],
    /// The findings that break them.
    pub failures: &'a [GateFailure<'a>],
    /// The comparison with a baseline, if there is one.
    pub comparison: Option<&'a Comparison>,
    /// Directory that places in the source are given relative to.
    pub source_root: &'a SourceRoot,
}

/// Weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Contention that no layout ends.
    Note,
    /// False sharing that is worth a word.
    Warning,
    /// It breaks a gate or the baseline.
    Error,
}

impl Level {
    /// The name in SARIF.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A kind of contention.
    Finding(FindingKind),
    /// A change of a member from the baseline.
    Baseline(Change),
}

impl Rule {
    /// All rules, in the order in which files list them.
    pub fn all() -> impl Iterator<Item = Rule> {
        let changes = [Change::New, Change::Dearer].map(Rule::Baseline);
        FindingKind::all().map(Rule::Finding).chain(changes)
    }

    /// The name in files.
    pub const fn id(self) -> &'static str {
        match self {
            Rule::Finding(kind) => kind.id(),
            Rule::Baseline(Change::New) => "baseline-new",
            Rule::Baseline(Change::Dearer) => "baseline-dearer",
            Rule::Baseline(Change::Within) => "baseline-within",
        }
    }

    /// The rule in a few words, its definition, and what to do.
    pub const fn help(self) -> [&'static str; 3] {
        const LOOK: &str = "Look at what changed since the baseline. `hitm report` says what the threads fight over.";
        match self {
            Rule::Finding(kind) => kind.help(),
            Rule::Baseline(Change::New | Change::Within) => [
                "New contention",
                "Threads lose cycles to contention on a member that cost nothing in the baseline.",
                LOOK,
            ],
            Rule::Baseline(Change::Dearer) => [
                "Dearer contention",
                "Threads lose more cycles to contention on a member than in the baseline, by more than the tolerance.",
                LOOK,
            ],
        }
    }

    /// Level of a finding that breaks no gate.
    pub const fn level(self) -> Level {
        match self {
            Rule::Finding(kind) if kind.is_curable_by_layout() => Level::Warning,
            Rule::Finding(_) => Level::Note,
            Rule::Baseline(_) => Level::Error,
        }
    }
}

/// The subject of what is told, for those who write more than its sentence.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A finding of the report.
    Finding(&'a Finding),
    /// A member that differs from the baseline.
    Member(&'a Compared),
}

/// One thing to tell.
#[derive(Debug, Clone)]
pub struct Told<'a> {
    /// Its kind.
    pub rule: Rule,
    /// Its weight.
    pub level: Level,
    /// Object, or object and member.
    pub name: String,
    /// One or several sentences.
    pub message: String,
    /// The source lines, the one that lost most first.
    pub places: Vec<Place>,
    /// The same in every build of the same source, and different from those of other findings.
    pub fingerprint: String,
    /// The finding or member.
    pub subject: Subject<'a>,
}

/// Everything to tell, and what is only counted.
#[derive(Debug, Clone)]
pub struct Findings<'a> {
    /// The findings, the costliest first, then the members that break the baseline.
    pub list: Vec<Told<'a>>,
    /// Sentences about what is in no finding.
    pub notes: Vec<String>,
}

impl<'a> Findings<'a> {
    /// The findings of a report and its gates.
    pub fn of(checked: &Checked<'a>) -> Findings<'a> {
        let report = checked.report;
        let keys = Keys::of(report);
        let lines = report.lines.iter().map(|line| (line.line, line));
        let lines: BTreeMap<LineAddr, &LineReport> = lines.collect();
        let has_failed = |one: &Finding| {
            checked
                .failures
                .iter()
                .any(|failure| failure.finding.number == one.number)
        };
        let findings = report.findings.iter();
        let told = findings.filter(|one| one.is_shown || has_failed(one));
        let mut list: Vec<Told<'a>> = told
            .map(|one| {
                let own = one.lines.iter().filter_map(|line| lines.get(line));
                let rows: Vec<&RowReport> = own.flat_map(|line| &line.rows).collect();
                of_finding(checked, one, &keys, &rows)
            })
            .collect();
        if let Some(comparison) = checked.comparison {
            let rows = rows_by_member(report);
            let compared = comparison.regressions();
            list.extend(compared.map(|row| of_member(checked, comparison, row, &rows)));
        }
        number_twins(&mut list);
        Findings {
            list,
            notes: notes(report),
        }
    }
}

fn of_finding<'a>(
    checked: &Checked<'a>,
    finding: &'a Finding,
    keys: &Keys,
    rows: &[&RowReport],
) -> Told<'a> {
    let rule = Rule::Finding(finding.kind);
    let failures = checked.failures.iter();
    let broken: Vec<&GateFailure<'_>> = failures
        .filter(|failure| failure.finding.number == finding.number)
        .collect();
    let level = match (!broken.is_empty(), finding.has_false_sharing) {
        (true, _) => Level::Error,
        (false, true) => Level::Warning,
        (false, false) => Level::Note,
    };
    let mut message = text_of(checked.report, finding);
    for failure in broken {
        message += &format!(" Breaks --fail-on {}.", failure.gate);
    }
    if !finding.is_shown {
        message += " --top shows more.";
    }
    Told {
        rule,
        level,
        name: finding.name.clone(),
        message,
        places: places_of(checked.source_root, rows),
        fingerprint: fingerprint(rule, &identity(finding, keys)),
        subject: Subject::Finding(finding),
    }
}

/// The kind, the cost and the advice.
fn text_of(report: &Report, finding: &Finding) -> String {
    let figure = |field: Field<_>| field.text(finding);
    let cost = match report.run.sampled {
        // Samples have no sums of cycles.
        Some(_) => format!("{} of the lost cycles", figure(finding::lost_share)),
        None => format!(
            "{} cycles lost, {} of the run",
            figure(finding::cost_cycles),
            figure(finding::run_share)
        ),
    };
    let lines = match finding.line_count {
        0 | 1 => String::new(),
        count => format!(" on {count} lines"),
    };
    let kind = match finding.verdict_text.as_str() {
        "" => &finding.kind_brief,
        verdict => verdict,
    };
    format!("{}: {kind}{lines}: {cost}. {}", finding.name, finding.fix)
        .trim_end()
        .to_owned()
}

/// Returns the names that identify a finding in every build: its own, else the functions that contend.
fn identity(finding: &Finding, keys: &Keys) -> Vec<String> {
    match &finding.identity {
        Some(name) => vec![keys.key(name)],
        None => {
            let places = finding.places.iter();
            let functions = places.map(|place| keys.key(&without_numbers(&place.function)));
            let mut functions: Vec<String> = functions.collect();
            functions.sort();
            functions.dedup();
            functions
        }
    }
}

/// The rows of each member, by the name that a baseline has for it.
fn rows_by_member(report: &Report) -> BTreeMap<String, Vec<&RowReport>> {
    let keys = Keys::of(report);
    let mut by_member: BTreeMap<String, Vec<&RowReport>> = BTreeMap::new();
    for row in report.lines.iter().flat_map(|line| &line.rows) {
        let name = keys.key(&without_numbers(&row.member));
        by_member.entry(name).or_default().push(row);
    }
    by_member
}

fn of_member<'a>(
    checked: &Checked<'a>,
    comparison: &Comparison,
    row: &'a Compared,
    rows: &BTreeMap<String, Vec<&RowReport>>,
) -> Told<'a> {
    let rule = Rule::Baseline(row.change);
    let same = rows.get(&row.name).map_or(&[][..], Vec::as_slice);
    Told {
        rule,
        level: Level::Error,
        name: row.name.clone(),
        message: format!("{}.", comparison.text(row)),
        places: places_of(checked.source_root, same),
        fingerprint: fingerprint(rule, std::slice::from_ref(&row.name)),
        subject: Subject::Member(row),
    }
}

/// A hash of the rule and the names.
fn fingerprint(rule: Rule, names: &[String]) -> String {
    let hash = Fnv1a::EMPTY.with_word(rule.id().as_bytes());
    let hash = names
        .iter()
        .fold(hash, |hash, name| hash.with_word(name.as_bytes()));
    format!("{:016x}", hash.value())
}

/// Appends a number to fingerprints that occur before.
fn number_twins(list: &mut [Told<'_>]) {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for finding in list {
        let count = seen.entry(finding.fingerprint.clone()).or_default();
        *count += 1;
        if *count > 1 {
            finding.fingerprint += &format!(":{count}");
        }
    }
}

/// Returns notes on lines that are only counted and on a recording that was not closed, and all
/// diagnostics.
fn notes(report: &Report) -> Vec<String> {
    let runs = report.runs.iter();
    let mut notes: Vec<String> = runs.map(Runs::shown_text).collect();
    let quiet = &report.quiet;
    if quiet.left_out_line_count > 0 {
        let figure = |field: Field<_>| field.text(quiet);
        let lost = match report.run.sampled {
            Some(_) => String::new(),
            None => format!(" lost {} cycles and", figure(quiet::left_out_lost_cycles)),
        };
        notes.push(format!(
            "{} more contended lines{lost} are not shown (--top)",
            figure(quiet::left_out_line_count)
        ));
    }
    if !report.run.complete {
        notes.push("the recording ends before the run".to_owned());
    }
    notes.extend(report.diagnostics.iter().cloned());
    notes
}
