//! The sentences of replays: what the first finding's remedy gains, and what the run would lose on this host.

use hitm_advise::{RecordedAdvice, gain};
use hitm_base::{counted, grouped};
use hitm_coherence::stats::Holds;
use hitm_whatif::{Change, Took};

use super::SummaryLine;
use crate::Report;
use crate::fields::finding;
use crate::layout_advice::plan;
use crate::model::Finding;
use crate::names::brief;
use crate::sentences::summary as say;

/// A remedy that was tried.
#[derive(Debug)]
pub enum Tried<'a> {
    /// Other layouts of the structure.
    Layouts(&'a RecordedAdvice),
    /// The elements of an array of plain values, padded to lines.
    Padded(Change<Took>),
    /// The threads on CPUs that are near to each other.
    Near(Change<Took>),
    /// Nothing: it is not known how, or takes too long.
    Nothing,
}

/// Says what a remedy gains.
pub fn of(of: &Finding, tried: &Tried<'_>) -> SummaryLine {
    let most = finding::run_share.text(of);
    let text = match tried {
        Tried::Layouts(advice) => layouts(advice, most),
        Tried::Padded(change) => say::gains_by_padding(percent(gain(change)), brief(&of.name)),
        Tried::Near(change) => say::gains_near(percent(gain(change)), most),
        Tried::Nothing => say::gains_at_most(most),
    };
    SummaryLine {
        label: "Gain",
        text,
        is_command: false,
    }
}

fn layouts(advice: &RecordedAdvice, most: String) -> String {
    let now = &advice.now;
    let best = advice.best();
    let proof = best.and_then(|best| best.proof.as_ref()?.as_ref().ok());
    let (Some(best), Some(proof)) = (best, proof) else {
        let count = advice.answer.tried.map_or(0, |tried| tried.replayed);
        return match count {
            0 => say::gains_at_most(most),
            count => say::gains_nothing(&now.name, count, most),
        };
    };
    say::gains_by_layout(
        percent(gain(proof)),
        &now.name,
        plan(&best.candidate.plan),
        grouped(now.size_bytes),
        grouped(best.candidate.layout.size_bytes),
    )
}

/// Says what the run would lose on the machine that shows it, which has so many CPUs.
pub fn here(report: &Report, took: Took, cpu_count: usize) -> SummaryLine {
    let share = took.lost.0 as f64 / took.cycles.0.max(1) as f64;
    // A replay knows no other waits than those for lines.
    let lost = match report.waiting.first() {
        Some(_) => "lost for lines",
        None => "lost",
    };
    SummaryLine {
        label: "Here",
        text: say::here(percent(share), lost, counted(cpu_count as u64, "CPU")),
        is_command: false,
    }
}

/// Says how long a lock was held; nothing where that is not known.
pub fn held(holds: &Holds) -> Option<SummaryLine> {
    let share = holds.share()?;
    Some(SummaryLine {
        label: "Held",
        text: say::held(
            counted(holds.count, "time"),
            grouped(holds.cycles.0 / holds.count),
            percent(share),
        ),
        is_command: false,
    })
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
