//! A report beside its baseline.

use super::Tolerance;
use crate::fields::{COMPARED_FIELDS, by_id};

/// A report beside its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The baseline's label.
    pub baseline: String,
    /// Allowed growth of each member's cost.
    pub tolerance: Tolerance,
    /// The members that matter, the costliest first.
    pub rows: Vec<Compared>,
}

/// Outcome of comparing a member with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// As dear as it may be, or cheaper.
    Within,
    /// Dearer by more than the tolerance.
    Dearer,
    /// It lost nothing in the baseline.
    New,
}

impl Change {
    /// The name in files.
    pub const fn id(self) -> &'static str {
        match self {
            Change::Within => "within",
            Change::Dearer => "dearer",
            Change::New => "new",
        }
    }
}

/// A member and what it lost in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Object and member, without numbers of elements and lines in the source.
    pub name: String,
    /// Cycles lost to contention.
    pub lost_cycles: u64,
    /// The same as a part of all threads' time, 0 to 1.
    pub run_share: f64,
    /// Cycles lost in the baseline; none when it has no such member.
    pub baseline_lost_cycles: Option<u64>,
    /// Cycles lost on top of the baseline's.
    pub added_cycles: u64,
    /// Outcome of the comparison.
    pub change: Change,
}

impl Compared {
    /// `added_cycles` as a part of the baseline's; none when that lost nothing.
    pub fn added_share(&self) -> Option<f64> {
        let before = self.baseline_lost_cycles.filter(|before| *before > 0)?;
        Some(crate::model::share(self.added_cycles, before))
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
        let figure = |id| by_id(COMPARED_FIELDS, id).text(row);
        let lost = format!(
            "{} lost {} cycles, {} of the run",
            row.name,
            figure("lost_cycles"),
            figure("run_share")
        );
        let before = || format!("{} in {}", figure("baseline_lost_cycles"), self.baseline);
        match row.change {
            Change::New => format!("{lost}: it lost nothing in {}", self.baseline),
            Change::Dearer => format!(
                "{lost}: {} more than the {}, tolerance {}",
                figure("added_share"),
                before(),
                self.tolerance
            ),
            Change::Within => match row.baseline_lost_cycles {
                Some(_) => format!("{lost}: {}", before()),
                None => format!("{lost}: it lost nothing in {}", self.baseline),
            },
        }
    }
}
