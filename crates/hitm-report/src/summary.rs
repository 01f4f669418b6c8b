//! A run in five sentences: what is lost, where, why, what to do, what to run next.

use std::path::Path;

use hitm_base::{counted, grouped};
use hitm_coherence::sharing::Verdict;
use hitm_coherence::stats::SourceCounts;

use hitm_trace::WaitKind;

use crate::Report;
use crate::fields::{
    LINE_FIELDS, TOTALS_FIELDS, WAIT_ROW_FIELDS, WAITING_FIELDS, by_id, kind_text,
};
use crate::handed::HANDED_SHARE_MIN;
use crate::model::{AccessCounts, LineReport, share, upgrades_of};
use crate::pictures::Structure;
use crate::waiting::{WAITING_SHARE_MIN, WaitRow};

/// Part of the waits of one kind from which on what most of them are for stands for all. Assumed 0.8.
const ONE_IS_ALL: f64 = 0.8;

/// A sentence of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryLine {
    /// The question that it answers, in a word.
    pub label: &'static str,
    /// The answer.
    pub text: String,
    /// True if it is a command to type.
    pub is_command: bool,
}

/// The summary of a report. `structures` are those on its falsely shared lines
/// ([`Pictures::structures`](crate::pictures::Pictures::structures)), `input` is the path of the recording.
pub fn of(report: &Report, structures: &[Structure], input: &Path) -> Vec<SummaryLine> {
    let sentence = |label, text| SummaryLine {
        label,
        text,
        is_command: false,
    };
    let [place, reason, advice] = match (waited_for(report), report.lines.first()) {
        (Some(wait), _) => [
            wait_place(wait),
            wait_reason(report, wait),
            wait_advice(wait),
        ],
        (None, Some(line)) => [
            place(report, line),
            reason(report, line),
            line.advice.clone(),
        ],
        (None, None) => [
            elsewhere(report),
            "No line has fights worth a verdict.".into(),
            "Nothing about cache lines.".into(),
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
    let figure = |id| by_id(TOTALS_FIELDS, id).text(totals);
    let lines = match totals.flagged_line_count {
        0 => "no line is contended".to_owned(),
        1 => "1 line is contended".to_owned(),
        count => format!("{} lines are contended", grouped(count)),
    };
    match &report.run.sampled {
        Some(_) => format!("{} samples: {lines}.", figure("access_count")),
        None if report.waiting.first().is_some() => waits(report),
        None => format!(
            "{} of the threads' time, {} of {} cycles: {lines}.",
            figure("run_share"),
            figure("lost_cycles"),
            figure("thread_cycles"),
        ),
    }
}

/// How the threads wait: `87.2% of the threads' time is waiting: 86.1% spinning for tail, 1.1% for lines.`
fn waits(report: &Report) -> String {
    let waiting = &report.waiting;
    let of_whole = |cycles| share(cycles, waiting.whole_cycles);
    let lines = report.totals.lost_cycles;
    let all = waiting.run_share() + of_whole(lines);
    let kinds = [
        (WaitKind::Spinning, waiting.spinning_cycles),
        (WaitKind::Asleep, waiting.asleep_cycles),
    ];
    let mut parts: Vec<String> = Vec::new();
    for (kind, cycles) in kinds {
        let of_kind = waiting.rows.iter().find(|row| row.kind == Some(kind));
        let Some(first) = of_kind.filter(|_| of_whole(cycles) >= WAITING_SHARE_MIN) else {
            continue;
        };
        // The first one stands for all if it is nearly all.
        let most = match first.cycles as f64 >= ONE_IS_ALL * cycles as f64 {
            true => "",
            false => "most of all ",
        };
        let (share, name) = (percent(of_whole(cycles)), &first.name);
        parts.push(format!("{share} {} {most}for {name}", kind_text(kind)));
    }
    parts.push(format!("{} for lines", percent(of_whole(lines))));
    format!(
        "{} of the threads' time is waiting: {}.",
        percent(all),
        parts.join(", ")
    )
}

/// What threads wait for longer than for all lines together.
fn waited_for(report: &Report) -> Option<&WaitRow> {
    let first = report.waiting.first();
    first.filter(|row| row.cycles > report.totals.lost_cycles)
}

fn wait_place(wait: &WaitRow) -> String {
    let figure = |id| by_id(WAIT_ROW_FIELDS, id).text(wait);
    let kind = figure("kind");
    let within = match wait.waiters.as_slice() {
        [] => String::new(),
        functions => format!(", in {}", functions.join(", ")),
    };
    let changed = match wait.releasers.as_slice() {
        [] => String::new(),
        functions => format!("; changed in {}", functions.join(", ")),
    };
    let (share, name, address) = (figure("run_share"), figure("name"), figure("address"));
    let at = match name == address {
        true => String::new(),
        false => format!(" at {address}"),
    };
    format!("{share} {kind} for {name}{at}{within}{changed}.")
}

fn wait_reason(report: &Report, wait: &WaitRow) -> String {
    let figure = |id| by_id(WAIT_ROW_FIELDS, id).text(wait);
    let busy = by_id(WAITING_FIELDS, "busy_threads_mean").text(&report.waiting);
    format!(
        "{} threads wait for it, {} of {} cycles; {busy} of {} get on at a time.",
        figure("thread_count"),
        counted(wait.wait_count, "time"),
        figure("cycles_mean"),
        report.threads.len()
    )
}

fn wait_advice(wait: &WaitRow) -> String {
    format!(
        "Do less until {} is let go, take it less often, or split what it guards; no layout helps.",
        wait.name
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn place(report: &Report, line: &LineReport) -> String {
    let share = by_id(LINE_FIELDS, "lost_share").text(line);
    let what = match &report.run.sampled {
        Some(_) => "the sampled latency",
        None => "it",
    };
    let address = by_id(LINE_FIELDS, "address").text(line);
    let name = line.name();
    let at = match name == address {
        true => String::new(),
        false => format!(" at {address}"),
    };
    format!("{share} of {what} on {name}{at}.")
}

fn elsewhere(report: &Report) -> String {
    let handed = &report.handed;
    let first = handed.objects.iter().find(|row| !row.name.is_empty());
    match first.filter(|_| handed.run_share >= HANDED_SHARE_MIN) {
        Some(row) => format!(
            "{} lines that pass from CPU to CPU, most of all {}.",
            grouped(handed.line_count),
            row.name
        ),
        None => "On no line in particular.".to_owned(),
    }
}

fn reason(report: &Report, line: &LineReport) -> String {
    let threads = by_id(LINE_FIELDS, "thread_count").text(line);
    let mut text = line.verdict_text.clone();
    if let Some(first) = text.get(..1) {
        text.replace_range(..1, &first.to_uppercase());
    }
    let evidence = match report.run.sampled {
        Some(_) => {
            let (remote, local) = (grouped(line.remote_hitm()), grouped(line.local_hitm()));
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
    let Some(line) = report.lines.first() else {
        return format!("hitm report -i {input} --by object,function");
    };
    if waited_for(report).is_some() {
        return format!("hitm report -i {input} --by function,source");
    }
    if let Some(structure) = structures.iter().find(|one| one.ranks.contains(&line.rank)) {
        return format!(
            "hitm layout advise {} -i {} -p {input}",
            quoted(&structure.inputs.type_name),
            quoted(&structure.inputs.input.display().to_string()),
        );
    }
    match (&report.run.sampled, line.verdict) {
        (None, Verdict::Lock | Verdict::TrueSharing) => {
            format!("hitm whatif -i {input} --threads-to compact")
        }
        _ => format!("hitm report -i {input} --by function,source"),
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
