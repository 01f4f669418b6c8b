//! A report beside its baseline.

use super::Tolerance;
use crate::fields::Field;
use hitm_fields::{fields, words};

/// A report beside its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The baseline's label.
    pub baseline: String,
    /// Runs of the baseline.
    pub baseline_run_count: usize,
    /// Runs of the report.
    pub run_count: usize,
    /// Allowed growth of each member's cost.
    pub tolerance: Tolerance,
    /// The members that matter, the costliest first.
    pub rows: Vec<Compared>,
}

words! {
    /// Outcome of comparing a member with the baseline.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Change {
        /// As dear as it may be, or cheaper.
        Within = "within",
        /// Dearer than allowed.
        Dearer = "dearer",
        /// It lost nothing in the baseline.
        New = "new",
    }
}

fields! {
    /// A member and what it lost in both runs.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Compared in compared {
        /// Object and member, without numbers of elements and lines in the source.
        pub name: String => label "member";
        /// `within`: as dear as it may be; `dearer`: by more than allowed; `new`: lost nothing in the baseline.
        pub change: Change => label "change", |row| row.change.id();
        /// Cycles that threads lost to other CPUs' use of the lines, of several runs the median.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// lost_cycles as a part of all threads' time.
        pub run_share: f64 => share "run";
        /// The same of the baseline, null when it has no such member.
        pub baseline_lost_cycles: Option<u64> => cycles "before";
        /// The largest less the least of the baseline's runs, null when it has no such member.
        pub baseline_spread_cycles: Option<u64> => cycles "spread";
        /// The most that the member may lose: by the tolerance, or by the spread of the baseline's runs.
        pub allowed_cycles: u64 => cycles "allowed";
        /// lost_cycles beyond those of the baseline.
        pub added_cycles: u64 => cycles "added";
        /// added_cycles as a part of baseline_lost_cycles, null when that is nothing.
        added_share => share "added", |row| row.added_share();
    }
}

impl Compared {
    /// Cycles as a part of the baseline's; none when that lost nothing.
    fn part_of_baseline(&self, cycles: u64) -> Option<f64> {
        let before = self.baseline_lost_cycles.filter(|before| *before > 0)?;
        Some(crate::model::share(cycles, before))
    }

    /// `added_cycles` as a part of the baseline's; none when that lost nothing.
    pub fn added_share(&self) -> Option<f64> {
        self.part_of_baseline(self.added_cycles)
    }

    /// Allowed growth as a part of the baseline's cycles; none when that lost nothing.
    fn allowed_share(&self) -> Option<f64> {
        let before = self.baseline_lost_cycles.unwrap_or(0);
        self.part_of_baseline(self.allowed_cycles.saturating_sub(before))
    }

    /// `baseline_spread_cycles` as a part of the baseline's cycles; none when that lost nothing.
    fn spread_share(&self) -> Option<f64> {
        self.part_of_baseline(self.baseline_spread_cycles.unwrap_or(0))
    }
}

impl Comparison {
    /// The members that are new or too dear, the costliest first. Empty: the gate holds.
    pub fn regressions(&self) -> impl Iterator<Item = &Compared> {
        let rows = self.rows.iter();
        rows.filter(|row| row.change != Change::Within)
    }

    /// One sentence about a member.
    pub fn text(&self, row: &Compared) -> String {
        let figure = |field: Field<_>| field.text(row);
        let lost = format!(
            "{} lost {} cycles{}, {} of the run",
            row.name,
            figure(compared::lost_cycles),
            median_text(self.run_count),
            figure(compared::run_share)
        );
        let before = format!(
            "{} in {}{}",
            figure(compared::baseline_lost_cycles),
            self.baseline,
            median_text(self.baseline_run_count)
        );
        let allowed = self.allowed_text(row);
        match (row.change, row.baseline_lost_cycles) {
            (Change::New, _) | (Change::Within, None) => {
                format!("{lost}: it lost nothing in {}", self.baseline)
            }
            (Change::Within, Some(_)) => format!("{lost}: {before}"),
            (Change::Dearer, _) => match row.added_share() {
                Some(_) => {
                    let more = figure(compared::added_share);
                    format!("{lost}: {more} more than the {before}, {allowed}")
                }
                None => format!("{lost}: {before}, {allowed}"),
            },
        }
    }

    /// The tolerance that decided: the one asked for, or the spread of the runs.
    fn allowed_text(&self, row: &Compared) -> String {
        let before = row.baseline_lost_cycles.unwrap_or(0);
        if row.allowed_cycles <= self.tolerance.ceiling(before) {
            return format!("tolerance {}", self.tolerance);
        }
        let runs = self.baseline_run_count;
        match (row.allowed_share(), row.spread_share()) {
            (Some(allowed), Some(spread)) => format!(
                "tolerance {:.1}%: spread of {runs} runs {:.1}%",
                allowed * 100.0,
                spread * 100.0
            ),
            _ => format!(
                "tolerance {} cycles: spread of {runs} runs {} cycles",
                compared::allowed_cycles.text(row),
                compared::baseline_spread_cycles.text(row)
            ),
        }
    }
}

/// Says that cycles are those of several runs.
fn median_text(run_count: usize) -> String {
    match run_count {
        1 => String::new(),
        runs => format!(" (median of {runs} runs)"),
    }
}
