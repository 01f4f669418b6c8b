//! Pairs of functions that contend: who gave lines to whom, by finding and over all.
//!
//! Totals by function say who pays; here is also who makes them pay. The giver of a line is the last one that used it
//! before, see [`hitm_coherence::stats::Traffic`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::{CodeAddr, LineAddr};
use hitm_coherence::stats::{Traffic, TrafficPlan, Transfers};
use hitm_fields::fields;

use crate::model::{Finding, share};
use crate::{Names, Report};

/// Pairs that are listed for each finding, and for all lines together.
pub const PAIRS_MAX: usize = 10;

fields! {
    /// Hand-overs from one function to another.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Pair in pair {
        /// Number of the finding whose lines they are of; null for those of all lines.
        pub finding: Option<u64> => number "finding";
        /// Function that used the line before, null when unknown; several together where there are more.
        pub giver: String => known name "given by";
        /// Function that took the line.
        pub taker: String => known name "taken by";
        /// Accesses of the taker that took a line, or the right to write it, or that waited because of it.
        pub handover_count: u64 => count "hand-overs";
        /// Those that found the line modified.
        pub hitm_count: u64 => count "HITM";
        /// Cycles that the takers lost by them.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// lost_cycles as a part of those of the finding, or of all lines.
        pub lost_share: f64 => share "lost";
    }
}

/// Functions of the two sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sides {
    giver: String,
    taker: String,
}

type Sums = BTreeMap<Sides, Transfers>;

/// The lines to read once more, for the pairs of a report.
pub fn plan(report: &Report) -> TrafficPlan {
    let lines = report.findings.iter().flat_map(|one| &one.lines);
    TrafficPlan::new(lines.copied(), []).with_pairs()
}

/// The pairs that `traffic` counted by the [`plan`]: of all lines, then of each finding that is shown.
pub fn of(report: &Report, traffic: &Traffic, names: &dyn Names) -> Vec<Pair> {
    let mut known: BTreeMap<CodeAddr, String> = BTreeMap::new();
    let mut function = |code: CodeAddr| -> String {
        let name = known
            .entry(code)
            .or_insert_with(|| names.code(code).function);
        name.clone()
    };
    let mut all = Sums::new();
    let mut of_lines: BTreeMap<LineAddr, Sums> = BTreeMap::new();
    for (pair, transfers) in &traffic.pairs {
        let sides = Sides {
            giver: pair.giver.map_or_else(String::new, &mut function),
            taker: function(pair.taker),
        };
        if let Some(line) = pair.line {
            let of_line = of_lines.entry(line).or_default();
            of_line.entry(sides.clone()).or_default().merge(transfers);
        }
        all.entry(sides).or_default().merge(transfers);
    }
    let mut pairs = rows(None, all);
    for finding in report.findings.iter().filter(|one| one.is_shown) {
        pairs.extend(rows(Some(finding), sums_of(finding, &of_lines)));
    }
    pairs
}

fn sums_of(finding: &Finding, of_lines: &BTreeMap<LineAddr, Sums>) -> Sums {
    let mut sums = Sums::new();
    let lines = finding.lines.iter();
    for (sides, transfers) in lines.filter_map(|line| of_lines.get(line)).flatten() {
        sums.entry(sides.clone()).or_default().merge(transfers);
    }
    sums
}

/// The costliest pairs.
fn rows(finding: Option<&Finding>, sums: Sums) -> Vec<Pair> {
    let lost = sums.values().map(|one| one.lost.0);
    let all = lost.fold(0, u64::saturating_add);
    let mut sums: Vec<(Sides, Transfers)> = sums.into_iter().collect();
    // Stable: pairs of equal cost stay in the order of their names.
    sums.sort_by_key(|(_, one)| Reverse((one.lost, one.count)));
    let shown = sums.into_iter().take(PAIRS_MAX);
    let shown = shown.map(|(sides, transfers)| Pair {
        finding: finding.map(|one| one.number),
        giver: sides.giver,
        taker: sides.taker,
        handover_count: transfers.count,
        hitm_count: transfers.hitm_count,
        lost_cycles: transfers.lost.0,
        lost_share: share(transfers.lost.0, all),
    });
    shown.collect()
}
