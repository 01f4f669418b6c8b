//! A run in a few sentences: what is lost, where, why, by whom, what to do, what to run next.

mod gain;
mod quiet;
mod waits;

use hitm_fields::fields;
use std::path::Path;

use hitm_base::{counted, grouped};
use hitm_coherence::stats::SourceCounts;

use crate::fields::{Field, finding, finding_place, totals, watched};
use crate::model::{AccessCounts, Finding, FindingKind, upgrades_of};
use crate::names::brief;
use crate::pictures::Structure;
use crate::sentences::summary as say;
use crate::{Report, WORTH_SHARE_MIN};
pub use gain::{Tried, held, here, of as gain};

fields! {
    /// A sentence of the summary.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SummaryLine in summary {
        /// The question: Lost (of samples Seen), Where, Why, By, Do or Next.
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
    let finding = report.first_finding();
    let mut lines = vec![answer(lost_label(report), lost(report, finding))];
    lines.extend(match finding {
        Some(finding) => of_finding(report, finding),
        None => vec![
            answer(WHERE, elsewhere(report)),
            answer("Why", quiet::reason(report)),
            answer("Do", quiet::advice(report)),
        ],
    });
    lines.push(answer(NEXT, next(report, finding, structures, input)));
    lines.retain(|line| !line.text.is_empty());
    lines
}

/// A finding in a few sentences: where it is, why it costs, by whom, and what to do.
pub fn of_finding(report: &Report, finding: &Finding) -> Vec<SummaryLine> {
    let mut lines = vec![
        answer(WHERE, place(report, finding)),
        answer("Why", reason(report, finding)),
        answer("By", by(finding)),
        answer("Do", finding.fix.clone()),
    ];
    lines.retain(|line| !line.text.is_empty());
    lines
}

fn answer(label: &'static str, text: String) -> SummaryLine {
    SummaryLine {
        label,
        text,
        is_command: label == NEXT,
    }
}

/// Label of the place, which a table of findings says too.
pub(crate) const WHERE: &str = "Where";

/// Label of the command to type.
const NEXT: &str = "Next";

/// Samples do not say what is lost.
fn lost_label(report: &Report) -> &'static str {
    match (report.is_sampled(), &report.watched) {
        (true, None) => "Seen",
        _ => "Lost",
    }
}

fn lost(report: &Report, finding: Option<&Finding>) -> String {
    let totals = &report.totals;
    let figure = |field: Field<_>| field.text(totals);
    let most = match finding {
        None => say::no_line(),
        Some(one) => say::causes(brief(&one.name), finding::lost_share.text(one)),
    };
    if let Some(seen) = &report.watched {
        return say::stands_at(
            watched::most_share.text(seen),
            watched::least_share.text(seen),
            watched::cpu_ns.text(seen),
            report.who().word(),
            most,
        );
    }
    match &report.run.sampled {
        Some(_) if report.has_no_address() => say::no_address(),
        Some(_) => say::samples(figure(totals::access_count), most),
        None if report.waiting.first().is_some() => waits::lost(report),
        None => say::lost(
            figure(totals::run_share),
            report.who().word(),
            figure(totals::lost_cycles),
            figure(totals::thread_cycles),
            most,
        ),
    }
}

fn place(report: &Report, finding: &Finding) -> String {
    let share = finding::lost_share.text(finding);
    let address = finding::address.text(finding);
    let name = brief(&finding.name);
    let loss = match report.is_sampled() && report.watched.is_none() {
        true => say::sampled_latency(),
        false => say::lost_time(),
    };
    match (finding.kind, &finding.wait) {
        (FindingKind::Waited(_), Some(wait)) => waits::place(wait),
        (FindingKind::HandedOver, _) => say::passing(grouped(finding.handed_line_count), name),
        _ if finding.line_count > 1 => {
            say::on_lines(share, loss, grouped(finding.line_count), name, address)
        }
        _ => {
            // Memory of several processes has no address that all of them know.
            let at = match finding.address.is_none_or(|at| at == 0) || name == address {
                true => String::new(),
                false => say::at(address),
            };
            say::on_line(share, loss, name, at)
        }
    }
}

fn elsewhere(report: &Report) -> String {
    let handed = &report.handed;
    let first = handed.objects.iter().find(|row| !row.name.is_empty());
    match first.filter(|_| handed.run_share >= WORTH_SHARE_MIN) {
        Some(row) => say::passing(grouped(handed.line_count), &row.name),
        None if !report.findings.is_empty() => say::no_own_line(),
        None => say::nowhere(),
    }
}

fn reason(report: &Report, finding: &Finding) -> String {
    if let (FindingKind::Waited(_), Some(wait)) = (finding.kind, &finding.wait) {
        return waits::reason(report, wait);
    }
    let is_by_samples = report
        .watched
        .as_ref()
        .is_some_and(|seen| seen.is_by_samples);
    let evidence = match (finding.bounds, report.is_sampled()) {
        (Some(_), _) if is_by_samples => say::candidate(),
        (Some(bounds), _) if bounds.change_rate_per_s == 0 => say::changes_unknown(),
        (Some(bounds), _) => say::changes(grouped(bounds.change_rate_per_s)),
        (None, true) => say::hitms(
            grouped(finding.counts.remote_hitm()),
            grouped(finding.counts.local_hitm()),
        ),
        (None, false) => hand_overs(&finding.counts),
    };
    if finding.kind == FindingKind::HandedOver {
        return say::handed_on(grouped(finding.handed_line_count));
    }
    let mut verdict = finding.verdict_text.clone();
    if let Some(first) = verdict.get(..1) {
        verdict.replace_range(..1, &first.to_uppercase());
    }
    let who = report.who().counted(finding.thread_count.unwrap_or(0));
    say::because(verdict, who, evidence)
}

/// Those who contend most: `deposit (dep.c:12) 62.1%, withdraw (dep.c:30) 37.9%`.
fn by(finding: &Finding) -> String {
    const BY_MAX: usize = 2;
    /// Share from which on a second place is worth a word.
    const SHARE_MIN: f64 = 0.01;
    let places = finding.places.iter().take(BY_MAX).enumerate();
    let places = places.filter(|(at, place)| *at == 0 || place.lost_share >= SHARE_MIN);
    let places = places.map(|(_, place)| {
        let share = finding_place::lost_share.text(place);
        match place.source_short.as_str() {
            "" => format!("{} {share}", place.function),
            source => format!("{} ({source}) {share}", place.function),
        }
    });
    places.collect::<Vec<_>>().join(", ")
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

/// The command that says most about the first finding.
fn next(
    report: &Report,
    finding: Option<&Finding>,
    structures: &[Structure],
    input: &Path,
) -> String {
    let input = quoted(&input.display().to_string());
    let by = |names: &str| format!("hitm report -i {input} --by {names}");
    let Some(finding) = finding else {
        return by("object,function");
    };
    let is_curable = match finding.kind {
        FindingKind::Contended(verdict) => verdict.is_curable_by_layout(),
        FindingKind::HandedOver => false,
        FindingKind::Waited(_) => return by("function,source"),
    };
    if let Some(structure) = structures.iter().find(|one| one.is_of(report, finding)) {
        return format!(
            "hitm layout advise {} -i {} -p {input}",
            quoted(&structure.inputs.type_name),
            quoted(&structure.inputs.input.display().to_string()),
        );
    }
    // What no layout ends costs less where threads are near to each other.
    match report.is_sampled() || is_curable {
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
