//! Reports for continuous integration: findings with a level, a place in the source and a fingerprint, which
//! [`sarif`], [`junit`] and [`github`] write in the forms that services read.
//!
//! A contended line that the report shows is one finding, at the source line that lost most by it. A line that
//! breaks a gate without being shown is one without a place, and a member that breaks the baseline is one.
//! Every number comes from [`fields`](crate::fields).

pub mod github;
pub mod junit;
mod place;
pub mod sarif;

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{Fnv1a, LineAddr};
use hitm_coherence::sharing::Verdict;
use hitm_recording::without_numbers;

use crate::baseline::{Change, Compared, Comparison, Keys};
use crate::fields::{Field, line, quiet};
use crate::gate::{Gate, GateFailure};
use crate::model::{LineReport, Report, RowReport};
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
    /// The lines that break them.
    pub failures: &'a [GateFailure],
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
    /// A verdict on a line.
    Verdict(Verdict),
    /// A change of a member from the baseline.
    Baseline(Change),
}

impl Rule {
    /// All rules, in the order in which files list them.
    pub fn all() -> impl Iterator<Item = Rule> {
        let verdicts = Verdict::ALL.iter().copied().map(Rule::Verdict);
        let told = verdicts.filter(|rule| *rule != Rule::Verdict(Verdict::NoContention));
        told.chain([Change::New, Change::Dearer].map(Rule::Baseline))
    }

    /// The name in files.
    pub const fn id(self) -> &'static str {
        match self {
            Rule::Verdict(verdict) => verdict.id(),
            Rule::Baseline(Change::New) => "baseline-new",
            Rule::Baseline(Change::Dearer) => "baseline-dearer",
            Rule::Baseline(Change::Within) => "baseline-within",
        }
    }

    /// The rule in a few words, its definition, and what to do.
    pub const fn help(self) -> [&'static str; 3] {
        const LOOK: &str = "Look at what changed since the baseline. `hitm report` says what the threads fight over.";
        match self {
            Rule::Verdict(verdict) => {
                let facts = verdict.facts();
                [facts.title, facts.meaning, facts.remedy]
            }
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
            Rule::Verdict(verdict) if verdict.is_curable_by_layout() => Level::Warning,
            Rule::Verdict(_) => Level::Note,
            Rule::Baseline(_) => Level::Error,
        }
    }
}

/// The subject of a finding, for those who write more than its sentence.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A line that the report shows.
    Line(&'a LineReport),
    /// A line that it only counts.
    Failure(&'a GateFailure),
    /// A member that differs from the baseline.
    Member(&'a Compared),
}

/// One thing to tell.
#[derive(Debug, Clone)]
pub struct Finding<'a> {
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
    /// The line or member.
    pub subject: Subject<'a>,
}

/// Everything to tell, and what is only counted.
#[derive(Debug, Clone)]
pub struct Findings<'a> {
    /// The lines, the costliest first, then the members that break the baseline.
    pub list: Vec<Finding<'a>>,
    /// Sentences about what is in no finding.
    pub notes: Vec<String>,
}

impl<'a> Findings<'a> {
    /// The findings of a report and its gates.
    pub fn of(checked: &Checked<'a>) -> Findings<'a> {
        let mut of_lines = OfLines::new(checked);
        let lines = checked.report.lines.iter();
        let mut list: Vec<Finding<'a>> = lines
            .map(|line| of_line(checked, line, &mut of_lines))
            .collect();
        let hidden = checked.failures.iter();
        let hidden = hidden.filter(|failure| of_lines.failures.contains_key(&failure.line));
        list.extend(hidden.map(of_failure));
        if let Some(comparison) = checked.comparison {
            let rows = rows_by_member(checked.report);
            let compared = comparison.regressions();
            list.extend(compared.map(|row| of_member(checked, comparison, row, &rows)));
        }
        number_twins(&mut list);
        Findings {
            list,
            notes: notes(checked.report),
        }
    }
}

/// Failures and flags by line.
struct OfLines<'a> {
    /// Of the lines that no finding is about yet.
    failures: BTreeMap<LineAddr, Vec<&'a GateFailure>>,
    with_false_sharing: BTreeSet<LineAddr>,
    keys: Keys,
}

impl<'a> OfLines<'a> {
    fn new(checked: &Checked<'a>) -> OfLines<'a> {
        let mut failures: BTreeMap<LineAddr, Vec<&GateFailure>> = BTreeMap::new();
        for failure in checked.failures {
            failures.entry(failure.line).or_default().push(failure);
        }
        let flagged = checked.report.flagged.iter();
        let flagged = flagged.filter(|flagged| flagged.has_false_sharing);
        OfLines {
            failures,
            with_false_sharing: flagged.map(|flagged| flagged.line).collect(),
            keys: Keys::of(checked.report),
        }
    }
}

fn of_line<'a>(
    checked: &Checked<'a>,
    line: &'a LineReport,
    of_lines: &mut OfLines<'a>,
) -> Finding<'a> {
    let rule = Rule::Verdict(line.verdict);
    let broken = of_lines.failures.remove(&line.line).unwrap_or_default();
    let has_false_sharing = of_lines.with_false_sharing.contains(&line.line);
    let level = match (!broken.is_empty(), has_false_sharing) {
        (true, _) => Level::Error,
        (false, true) => Level::Warning,
        (false, false) => Level::Note,
    };
    let mut message = line_text(checked.report, line);
    for failure in broken {
        message += &format!(" Breaks --fail-on {}.", failure.gate);
    }
    Finding {
        rule,
        level,
        name: line.name(),
        message,
        places: places_of(checked.source_root, &line.rows.iter().collect::<Vec<_>>()),
        fingerprint: fingerprint(rule, &identity(line, &of_lines.keys)),
        subject: Subject::Line(line),
    }
}

/// The verdict, the cost and the advice.
fn line_text(report: &Report, line: &LineReport) -> String {
    let figure = |field: Field<_>| field.text(line);
    let cost = match report.run.sampled {
        // Samples have no sums of cycles.
        Some(_) => format!("{} of the lost cycles", figure(line::lost_share)),
        None => format!(
            "{} cycles lost, {} of the run",
            figure(line::lost_cycles),
            figure(line::run_share)
        ),
    };
    format!(
        "{}: {}: {cost}. {}",
        line.name(),
        line.verdict_text,
        line.advice
    )
}

/// Returns the names that identify a line in every build: the accessed members, else the functions that access it.
fn identity(line: &LineReport, keys: &Keys) -> Vec<String> {
    let of = |name: fn(&crate::RowReport) -> &String| {
        let rows = line.rows.iter().map(name).filter(|name| !name.is_empty());
        let mut names: Vec<String> = rows.map(|name| keys.key(&without_numbers(name))).collect();
        names.sort();
        names.dedup();
        names
    };
    match of(|row| &row.member) {
        members if members.is_empty() => of(|row| &row.function),
        members => members,
    }
}

fn of_failure(failure: &GateFailure) -> Finding<'_> {
    let rule = Rule::Verdict(failure.verdict);
    let name = format!("{:#x}", failure.line.first_byte());
    Finding {
        rule,
        level: Level::Error,
        fingerprint: fingerprint(rule, std::slice::from_ref(&name)),
        name,
        message: format!("{failure}. --top shows more lines."),
        places: Vec::new(),
        subject: Subject::Failure(failure),
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
) -> Finding<'a> {
    let rule = Rule::Baseline(row.change);
    let same = rows.get(&row.name).map_or(&[][..], Vec::as_slice);
    Finding {
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

/// Appends a number to fingerprints that occur before: lines of one array have the same names.
fn number_twins(list: &mut [Finding<'_>]) {
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
