//! View of `hitm review`: lines of both layouts on each machine, and what gets worse in words.

use hitm::advise::review::{LineReport, MachineCost, TypeReview, Worse, WorseKind};
use hitm_base::grouped;

/// Version of the JSON; docs/formats/review.md describes it.
pub const REVIEW_SCHEMA: u64 = 1;

/// Names of the two layouts.
pub const LAYOUTS: [&str; 2] = ["before", "after"];

/// A touched line of one layout on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewLine {
    /// Name of the machine.
    pub machine: String,
    /// `before` or `after`.
    pub layout: &'static str,
    /// The line.
    pub line: LineReport,
}

/// Returns the touched lines of both layouts on all machines of a type.
pub fn lines(review: &TypeReview) -> Vec<ReviewLine> {
    let of_layout = |cost: &MachineCost, side: usize| -> Vec<ReviewLine> {
        let lines = cost.weighed[side].per_line.iter();
        lines
            .map(|line| ReviewLine {
                machine: cost.machine.clone(),
                layout: LAYOUTS[side],
                line: line.clone(),
            })
            .collect()
    };
    let costs = review.costs.iter();
    costs
        .flat_map(|cost| [of_layout(cost, 0), of_layout(cost, 1)].concat())
        .collect()
}

/// Growth as a share; none from nothing.
pub(crate) fn growth(before: f64, after: f64) -> Option<f64> {
    (before > 0.0).then(|| after / before - 1.0)
}

/// Growth in text, with its sign.
pub(crate) fn growth_text(before: f64, after: f64) -> String {
    match growth(before, after) {
        Some(share) => format!("{:+.1}%", share * 100.0),
        None if after > 0.0 => "new".to_owned(),
        None => "-".to_owned(),
    }
}

/// Says what gets worse, in one sentence without a full stop.
pub(crate) fn words(worse: &Worse) -> String {
    let (before, after) = (grouped(worse.before), grouped(worse.after));
    let growth = growth_text(worse.before as f64, worse.after as f64);
    let cycles = format!("{before} -> {after} cycles ({growth})");
    match worse.kind {
        WorseKind::Machine => format!("on {} the type costs more: {cycles}", worse.name),
        WorseKind::Line => format!(
            "line {} costs more than the lines that its members were on: {cycles}{}",
            worse.name,
            on(worse)
        ),
        WorseKind::Member => format!(
            "{} is on lines that cost more than before: {cycles}{}",
            worse.name,
            on(worse)
        ),
        WorseKind::Memory => format!(
            "{} takes {} more bytes: {before} -> {after} ({growth})",
            worse.name,
            grouped(worse.after - worse.before)
        ),
        WorseKind::Straddle => {
            format!("{} lies in {after} lines and would fit in one", worse.name)
        }
    }
}

/// The machines of a rise.
fn on(worse: &Worse) -> String {
    match worse.machines.as_slice() {
        [] => String::new(),
        [one] => format!(" on {one}"),
        [first, rest @ ..] => format!(" on {first}, also on {}", rest.join(", ")),
    }
}
