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
use crate::{Report, WORTH_SHARE_MIN};

fields! {
    /// A sentence of the summary.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SummaryLine in summary {
        /// The question: Lost, Where, Why, Do or Next.
        pub label: &'static str => label "";
        /// The answer.
        pub text: String => label "";
        /// Whether the answer is a command to type.
        pub is_command: bool => label "";
    }
}

/// The summary of a report. `structures` are those on its falsely shared lines
/// ([`Pictures::structures`](crate::pictures::Pictures::structures)), `input` is the path of the recording.
pub fn of(report: &Report, structures: &[Structure], input: &Path) -> Vec<SummaryLine> {
    let sentence = |label, text| SummaryLine {
        label,
        text,
        is_command: false,
    };
    let [place, reason, advice] = match (waits::waited_for(report), subject(report)) {
        (Some(wait), _) => [
            waits::place(wait),
            waits::reason(report, wait),
            waits::advice(wait),
        ],
        (None, Some(line)) => [
            place(report, line),
            reason(report, line),
            line.advice.clone(),
        ],
        (None, None) => [
            elsewhere(report),
            quiet::reason(report),
            quiet::advice(report).to_owned(),
        ],
    };
    vec![
        sentence("Lost", lost(report)),
        sentence("Where", place),
        sentence("Why", reason),
        sentence("Do", advice),
        SummaryLine {
            label: "Next",
            text: next(report, structures, input),
            is_command: true,
        },
    ]
}

fn lost(report: &Report) -> String {
    let totals = &report.totals;
    let figure = |field: Field<_>| field.text(totals);
    let lines = match totals.flagged_line_count {
        0 => "no line is contended".to_owned(),
        1 => "1 line is contended".to_owned(),
        count => format!("{} lines are contended", grouped(count)),
    };
    match &report.run.sampled {
        Some(_) if report.has_no_address() => {
            "Cannot tell: no sample has a data address.".to_owned()
        }
        Some(_) => format!("{} samples: {lines}.", figure(totals::access_count)),
        None if report.waiting.first().is_some() => waits::lost(report),
        None => format!(
            "{} of the threads' time, {} of {} cycles: {lines}.",
            figure(totals::run_share),
            figure(totals::lost_cycles),
            figure(totals::thread_cycles),
        ),
    }
}

/// Part of the threads' time from which on a line of the C library or of a runtime is worth a word. Assumed: to
/// start and to end its threads costs a short program less.
const RUNTIME_SHARE_MIN: f64 = 0.05;

/// The contended lines that are worth a word here.
fn told(report: &Report) -> impl Iterator<Item = (usize, &Flagged)> {
    let flagged = report.flagged.iter().enumerate();
    flagged.filter(|(_, line)| !line.is_runtime || line.run_share >= RUNTIME_SHARE_MIN)
}

/// The line that the summary is about: the costliest one of the kind of objects whose lines cost most together.
fn subject(report: &Report) -> Option<&LineReport> {
    let mut kinds: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (index, line) in told(report) {
        let kind = kinds.entry(&line.kind).or_insert((0, index));
        kind.0 = kind.0.saturating_add(line.lost_cycles);
    }
    // Lines without a name have nothing in common.
    let nameless = told(report).find(|(_, line)| line.kind.is_empty());
    if let Some((index, line)) = nameless {
        kinds.insert("", (line.lost_cycles, index));
    }
    let dearest = kinds
        .into_values()
        .max_by_key(|(lost, index)| (*lost, Reverse(*index)));
    let (_, index) = dearest?;
    report.lines.get(index).or(report.lines.first())
}

fn place(report: &Report, line: &LineReport) -> String {
    let what = match &report.run.sampled {
        Some(_) => "the sampled latency",
        None => "it",
    };
    let address = line::address.text(line);
    let kind = told(report).find(|(_, flagged)| flagged.line == line.line);
    let kind = kind.map_or("", |(_, flagged)| flagged.kind.as_str());
    let of_kind = told(report).filter(|(_, flagged)| flagged.kind == kind && !kind.is_empty());
    let lines: Vec<u64> = of_kind.map(|(_, flagged)| flagged.lost_cycles).collect();
    if lines.len() > 1 {
        let lost = lines
            .iter()
            .fold(0_u64, |all, lost| all.saturating_add(*lost));
        let share = share(lost, report.totals.lost_cycles) * 100.0;
        let (count, kind) = (grouped(lines.len() as u64), brief(kind));
        return format!(
            "{share:.1}% of {what} on {count} lines of {kind}, the costliest at {address}."
        );
    }
    let share = line::lost_share.text(line);
    let name = line.brief_name();
    // Memory of several processes has no address that all of them know.
    let at = match name == address || line.address == 0 {
        true => String::new(),
        false => format!(" at {address}"),
    };
    format!("{share} of {what} on {name}{at}.")
}

fn elsewhere(report: &Report) -> String {
    let handed = &report.handed;
    let first = handed.objects.iter().find(|row| !row.name.is_empty());
    match first.filter(|_| handed.run_share >= WORTH_SHARE_MIN) {
        Some(row) => format!(
            "{} lines that pass from CPU to CPU, most of all {}.",
            grouped(handed.line_count),
            row.name
        ),
        None if !report.flagged.is_empty() => "On no line of the program's own.".to_owned(),
        None => "On no line in particular.".to_owned(),
    }
}

fn reason(report: &Report, line: &LineReport) -> String {
    let threads = line::thread_count.text(line);
    let mut text = line.verdict_text.clone();
    if let Some(first) = text.get(..1) {
        text.replace_range(..1, &first.to_uppercase());
    }
    let evidence = match report.run.sampled {
        Some(_) => {
            let (remote, local) = (
                grouped(line.counts.remote_hitm()),
                grouped(line.counts.local_hitm()),
            );
            format!("{remote} remote and {local} local HITMs")
        }
        None => hand_overs(&line.counts),
    };
    format!("{text}: {threads} threads, {evidence}.")
}

/// How often a line went from CPU to CPU, and by what: `3 hand-overs (1 load, 2 stores)`.
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
        some => format!("{} ({})", counted(all, "hand-over"), some.join(", ")),
    }
}

/// The command that says most about the costliest line.
fn next(report: &Report, structures: &[Structure], input: &Path) -> String {
    let input = quoted(&input.display().to_string());
    let Some(line) = subject(report) else {
        return format!("hitm report -i {input} --by object,function");
    };
    if waits::waited_for(report).is_some() {
        return format!("hitm report -i {input} --by function,source");
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
        true => format!("hitm report -i {input} --by function,source"),
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
