//! A run in five sentences: what is lost, where, why, what to do, what to run next.

mod quiet;
mod waits;

use hitm_fields::fields;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::{counted, grouped};
use hitm_coherence::stats::SourceCounts;

use crate::fields::{Field, line, totals};
use crate::model::{AccessCounts, Flagged, LineReport, share, upgrades_of};
use crate::names::brief;
use crate::pictures::Structure;
use crate::sentences::summary as say;
use crate::{Report, WORTH_SHARE_MIN};

fields! {
    /// A sentence of the summary.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SummaryLine in summary {
        /// The question: Lost, Where, Why, Do or Next.
        pub label: &'static str => label "";
        /// The answer.
        pub text: String => label "";
        /// True if the answer is a command to type.
        pub is_command: bool => label "";
    }
}

/// The summary of a report. `structures` are those on its falsely shared lines
/// ([`Pictures::structures`](crate::pictures::Pictures::structures)), `input` is the path of the recording.
pub fn of(report: &Report, structures: &[Structure], input: &Path) -> Vec<SummaryLine> {
    let kinds = kinds(report);
    let line = subject(report, &kinds);
    let wait = waits::waited_for(report);
    let [place, reason, advice] = match (wait, line) {
        (Some(wait), _) => [
            waits::place(wait),
            waits::reason(report, wait),
            waits::advice(wait),
        ],
        (None, Some(line)) => [
            place(report, line, &kinds),
            reason(report, line),
            line.advice.clone(),
        ],
        (None, None) => [
            elsewhere(report),
            quiet::reason(report),
            quiet::advice(report),
        ],
    };
    let next = next(report, line, wait.is_some(), structures, input);
    let answers = [
        ("Lost", lost(report)),
        ("Where", place),
        ("Why", reason),
        ("Do", advice),
        ("Next", next),
    ];
    let lines = answers.into_iter().map(|(label, text)| SummaryLine {
        label,
        text,
        is_command: label == "Next",
    });
    lines.collect()
}

fn lost(report: &Report) -> String {
    let totals = &report.totals;
    let figure = |field: Field<_>| field.text(totals);
    let lines = match totals.flagged_line_count {
        0 => say::no_line(),
        1 => say::one_line(),
        count => say::lines(grouped(count)),
    };
    match &report.run.sampled {
        Some(_) if report.has_no_address() => say::no_address(),
        Some(_) => say::samples(figure(totals::access_count), lines),
        None if report.waiting.first().is_some() => waits::lost(report),
        None => say::lost(
            figure(totals::run_share),
            figure(totals::lost_cycles),
            figure(totals::thread_cycles),
            lines,
        ),
    }
}

/// Part of the threads' time from which on a line of the C library or of a runtime is worth a word. Assumed: to
/// start and to end its threads costs a short program less.
const RUNTIME_SHARE_MIN: f64 = 0.05;

/// Returns true if a contended line is worth a word here.
fn is_told(line: &Flagged) -> bool {
    !line.is_runtime || line.run_share >= RUNTIME_SHARE_MIN
}

/// Lines of one kind of objects.
struct Kind {
    lost_cycles: u64,
    line_count: u64,
    /// Place of the costliest.
    first: usize,
}

/// The contended lines that are worth a word, by the kinds of their objects. Lines without a name have nothing in
/// common: the costliest stands for itself.
fn kinds(report: &Report) -> BTreeMap<&str, Kind> {
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let told = report.flagged.iter().enumerate();
    for (first, line) in told.filter(|(_, line)| is_told(line)) {
        let kind = kinds.entry(&line.kind).or_insert(Kind {
            lost_cycles: 0,
            line_count: 0,
            first,
        });
        if kind.line_count == 0 || !line.kind.is_empty() {
            kind.lost_cycles = kind.lost_cycles.saturating_add(line.lost_cycles);
            kind.line_count += 1;
        }
    }
    kinds
}

/// The line that the summary is about: the costliest one of the kind of objects whose lines cost most together.
fn subject<'a>(report: &'a Report, kinds: &BTreeMap<&str, Kind>) -> Option<&'a LineReport> {
    let dearest = kinds.values();
    let dearest = dearest.max_by_key(|kind| (kind.lost_cycles, Reverse(kind.first)))?;
    report.lines.get(dearest.first).or(report.lines.first())
}

fn place(report: &Report, line: &LineReport, kinds: &BTreeMap<&str, Kind>) -> String {
    let loss = match report.is_sampled() {
        true => say::sampled_latency(),
        false => say::lost_time(),
    };
    let address = line::address.text(line);
    let flagged = report.flagged.iter().find(|other| other.line == line.line);
    let name = flagged.filter(|own| is_told(own)).map(|own| &*own.kind);
    let several = name.and_then(|name| Some((name, kinds.get(name)?)));
    if let Some((name, kind)) = several.filter(|(_, kind)| kind.line_count > 1) {
        let share = share(kind.lost_cycles, report.totals.lost_cycles) * 100.0;
        let count = grouped(kind.line_count);
        return say::on_lines(format!("{share:.1}%"), loss, count, brief(name), address);
    }
    let name = line.brief_name();
    // Memory of several processes has no address that all of them know.
    let at = match name == address || line.address == 0 {
        true => String::new(),
        false => say::at(address),
    };
    say::on_line(line::lost_share.text(line), loss, name, at)
}

fn elsewhere(report: &Report) -> String {
    let handed = &report.handed;
    let first = handed.objects.iter().find(|row| !row.name.is_empty());
    match first.filter(|_| handed.run_share >= WORTH_SHARE_MIN) {
        Some(row) => say::passing(grouped(handed.line_count), &row.name),
        None if !report.flagged.is_empty() => say::no_own_line(),
        None => say::nowhere(),
    }
}

fn reason(report: &Report, line: &LineReport) -> String {
    let mut verdict = line.verdict_text.clone();
    if let Some(first) = verdict.get(..1) {
        verdict.replace_range(..1, &first.to_uppercase());
    }
    let evidence = match report.is_sampled() {
        true => say::hitms(
            grouped(line.counts.remote_hitm()),
            grouped(line.counts.local_hitm()),
        ),
        false => hand_overs(&line.counts),
    };
    say::because(verdict, line::thread_count.text(line), evidence)
}

/// Hand-overs of a line from CPU to CPU, and the accesses that made them: `3 hand-overs (1 load, 2 stores)`.
fn hand_overs(counts: &AccessCounts) -> String {
    let fetched = |sources: &SourceCounts| sources.contended() - upgrades_of(sources);
    let kinds = [
        (fetched(&counts.loads), "load"),
        (fetched(&counts.stores), "store"),
        (fetched(&counts.locked), "locked operation"),
        (counts.upgrades(), "upgrade"),
    ];
    let all = kinds.iter().map(|(count, _)| count).sum();
    let some = kinds.into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, kind)| counted(count, kind)).collect();
    match some.as_slice() {
        [] => counted(all, "hand-over"),
        some => say::handed_over(counted(all, "hand-over"), some.join(", ")),
    }
}

/// The command that says most about the costliest line.
fn next(
    report: &Report,
    line: Option<&LineReport>,
    is_waiting: bool,
    structures: &[Structure],
    input: &Path,
) -> String {
    let input = quoted(&input.display().to_string());
    let by = |names: &str| format!("hitm report -i {input} --by {names}");
    let Some(line) = line else {
        return by("object,function");
    };
    if is_waiting {
        return by("function,source");
    }
    if let Some(structure) = structures.iter().find(|one| one.ranks.contains(&line.rank)) {
        return format!(
            "hitm layout advise {} -i {} -p {input}",
            quoted(&structure.inputs.type_name),
            quoted(&structure.inputs.input.display().to_string()),
        );
    }
    // What no layout ends costs less where threads are near to each other.
    match report.is_sampled() || line.verdict.is_curable_by_layout() {
        true => by("function,source"),
        false => format!("hitm whatif -i {input} --threads-to compact"),
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_name_as_one_word() {
        assert_eq!(quoted("/tmp/a.hitm"), "/tmp/a.hitm");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("x'; rm -rf /"), "'x'\\''; rm -rf /'");
        assert_eq!(quoted(""), "''");
    }
}
