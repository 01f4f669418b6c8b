//! `--baseline`: compares a report with an earlier one, member by member.
//!
//! Members are told apart by name, as in [`SideBySide`](crate::SideBySide), without what changes from run to
//! run and from build to build: addresses, elements, ids of threads, lines in the source and the
//! program's own name.

mod comparison;
mod json;
mod keys;
mod tolerance;

use std::collections::BTreeMap;

use thiserror::Error;

use crate::by::{By, TotalKind};
use crate::runs::Spread;
use crate::{RUN_SHARE_MIN, Report, SCHEMA, WORTH_SHARE_MIN};
pub use comparison::{Change, Compared, Comparison, compared};
use json::ReportJson;
pub(crate) use keys::Keys;
pub use tolerance::{NoTolerance, Tolerance};

/// Errors of a baseline: there is nothing to compare with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// It is no report in JSON.
    #[error("{label}: found no report in JSON: {reason}")]
    NoReport {
        /// The baseline.
        label: String,
        /// The parser's words.
        reason: String,
    },
    /// It is a report of another version.
    #[error("{label}: found schema {found}, expected {SCHEMA}")]
    Schema {
        /// The baseline.
        label: String,
        /// Its version.
        found: u64,
    },
    /// It does not say what each member lost.
    #[error(
        "{label}: found no totals by member, expected those of `hitm report --by member --format json`"
    )]
    NoMembers {
        /// The baseline.
        label: String,
    },
    /// It counts samples.
    #[error("{label}: found samples, expected a recording of every access")]
    Samples {
        /// The baseline, or the report.
        label: String,
    },
    /// It is priced on another machine.
    #[error("{label}: found a recording on {found}, expected one on {expected}")]
    Machine {
        /// The baseline.
        label: String,
        /// Its machine.
        found: String,
        /// That of the report.
        expected: String,
    },
    /// It is about other accesses.
    #[error("{label}: found {found}, expected {expected}")]
    Filters {
        /// The baseline.
        label: String,
        /// Its filters.
        found: String,
        /// Those of the report.
        expected: String,
    },
}

/// The earlier run, or several: what each member lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    label: String,
    machine: String,
    filters: Vec<String>,
    run_count: usize,
    lost: BTreeMap<String, Spread>,
}

impl Baseline {
    /// The baseline that a report with totals by member makes, with those of all its runs; `label` names it in
    /// messages.
    ///
    /// # Errors
    /// The report has no such totals, or is about samples.
    pub fn of_report(label: &str, report: &Report) -> Result<Baseline, BaselineError> {
        let label = label.to_owned();
        if report.run.sampled.is_some() {
            return Err(BaselineError::Samples { label });
        }
        let Some(members) = members(report) else {
            return Err(BaselineError::NoMembers { label });
        };
        let several = report.runs.iter().flat_map(|runs| &runs.members);
        let several = several.map(|member| (member.name.clone(), member.spread()));
        Ok(Baseline {
            label,
            machine: report.run.machine.clone(),
            filters: filters(report).to_vec(),
            run_count: report.runs.as_ref().map_or(1, |runs| runs.runs.len()),
            lost: or_single(several.collect(), members),
        })
    }

    /// Cycles that each member of a report's one run lost; none without totals by member.
    pub(crate) fn members_of(report: &Report) -> BTreeMap<String, u64> {
        members(report).unwrap_or_default()
    }

    /// The baseline in a report that was written as JSON.
    ///
    /// # Errors
    /// The text is no such report, or one without totals by member, or one of samples.
    pub fn of_json(label: &str, text: &str) -> Result<Baseline, BaselineError> {
        let label = label.to_owned();
        let report: ReportJson = match serde_json::from_str(text) {
            Ok(report) => report,
            Err(error) => {
                let reason = error.to_string();
                return Err(BaselineError::NoReport { label, reason });
            }
        };
        if report.schema != u64::from(SCHEMA) {
            let found = report.schema;
            return Err(BaselineError::Schema { label, found });
        }
        if report.sampled_events.is_some() {
            return Err(BaselineError::Samples { label });
        }
        let Some(members) = report.members() else {
            return Err(BaselineError::NoMembers { label });
        };
        let (run_count, several) = match report.several_runs() {
            Ok(several) => several,
            Err(reason) => return Err(BaselineError::NoReport { label, reason }),
        };
        Ok(Baseline {
            label,
            machine: report.run.machine,
            filters: report.filtered.map_or_else(Vec::new, |one| one.filters),
            run_count,
            lost: or_single(several, members),
        })
    }

    /// Compares the members of a report with the baseline's, the costliest first. Members that lose less
    /// than [`RUN_SHARE_MIN`] of the run are not among them. Members break the baseline that lose more than
    /// allowed and at least [`RUN_SHARE_MIN`] of the run on top of the baseline, and together at least
    /// [`WORTH_SHARE_MIN`]. Of several runs the medians count.
    ///
    /// # Errors
    /// The two are about different machines or different accesses, or the report is of samples.
    pub fn compare(
        &self,
        report: &Report,
        tolerance: Tolerance,
    ) -> Result<Comparison, BaselineError> {
        let now = Baseline::of_report("the report", report)?;
        self.check_same(&now)?;
        let run = RunTime(report.totals.thread_cycles);
        let rows = now.lost.iter().map(|(name, lost)| {
            let before = self.lost.get(name).copied();
            compared(name, lost.median, before, tolerance, run)
        });
        let mut rows: Vec<Compared> = rows.filter(|row| run.shows(row.lost_cycles)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.lost_cycles));
        forgive(&mut rows, run);
        Ok(Comparison {
            baseline: self.label.clone(),
            baseline_run_count: self.run_count,
            run_count: now.run_count,
            tolerance,
            rows,
        })
    }

    fn check_same(&self, now: &Baseline) -> Result<(), BaselineError> {
        let label = self.label.clone();
        if self.machine != now.machine {
            return Err(BaselineError::Machine {
                label,
                found: self.machine.clone(),
                expected: now.machine.clone(),
            });
        }
        let words = |filters: &[String]| match filters {
            [] => "no filter".to_owned(),
            filters => format!("the filter {}", filters.join(", ")),
        };
        match self.filters == now.filters {
            true => Ok(()),
            false => Err(BaselineError::Filters {
                label,
                found: words(&self.filters),
                expected: words(&now.filters),
            }),
        }
    }
}

/// Cycles of all threads. A recording that was cut short may not know them: it has 0.
#[derive(Debug, Clone, Copy)]
struct RunTime(u64);

impl RunTime {
    fn share(self, cycles: u64) -> f64 {
        crate::model::share(cycles, self.0)
    }

    /// Returns true if a member's cycles are worth showing.
    fn shows(self, cycles: u64) -> bool {
        self.0 == 0 || self.share(cycles) >= RUN_SHARE_MIN
    }

    /// Returns true if all members' cycles together are worth a change.
    fn is_worth(self, cycles: u64) -> bool {
        self.0 == 0 || self.share(cycles) >= WORTH_SHARE_MIN
    }
}

/// Compares one member's cycles with those that it lost before.
fn compared(
    name: &str,
    lost_cycles: u64,
    before: Option<Spread>,
    tolerance: Tolerance,
    run: RunTime,
) -> Compared {
    let spread = before.unwrap_or_default();
    let added_cycles = lost_cycles.saturating_sub(spread.median);
    let allowed_cycles = tolerance.ceiling(spread.median).max(spread.ceiling());
    let exceeds = lost_cycles > allowed_cycles && run.shows(added_cycles);
    Compared {
        name: name.to_owned(),
        lost_cycles,
        run_share: run.share(lost_cycles),
        baseline_lost_cycles: before.map(|spread| spread.median),
        baseline_spread_cycles: before.map(Spread::cycles),
        allowed_cycles,
        added_cycles,
        change: match (exceeds, spread.largest) {
            (false, _) => Change::Within,
            (true, 0) => Change::New,
            (true, _) => Change::Dearer,
        },
    }
}

/// Lets members pass that together add too little to the run, as `--fail-on false-sharing` does lines.
fn forgive(rows: &mut [Compared], run: RunTime) {
    let broken = rows.iter().filter(|row| row.change != Change::Within);
    let added = broken.fold(0_u64, |sum, row| sum.saturating_add(row.added_cycles));
    if !run.is_worth(added) {
        rows.iter_mut().for_each(|row| row.change = Change::Within);
    }
}

/// Members of one run as those of several, where there are no several.
fn or_single(
    several: BTreeMap<String, Spread>,
    single: BTreeMap<String, u64>,
) -> BTreeMap<String, Spread> {
    match several.is_empty() {
        true => {
            let single = single.into_iter();
            single
                .map(|(name, cycles)| (name, Spread::of(&[cycles])))
                .collect()
        }
        false => several,
    }
}

/// Sums by key.
fn sums(rows: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut lost: BTreeMap<String, u64> = BTreeMap::new();
    for (key, cycles) in rows {
        let sum = lost.entry(key).or_default();
        *sum = sum.saturating_add(cycles);
    }
    lost
}

fn members(report: &Report) -> Option<BTreeMap<String, u64>> {
    let mut tables = report.totals_by.iter();
    let members = tables.find(|table| table.by == By::Member)?;
    let keys = Keys::of(report);
    let rows = members.rows.iter();
    let rows = rows.filter(|row| row.kind != TotalKind::Rest);
    Some(sums(rows.map(|row| (keys.key(&row.name), row.lost_cycles))))
}

fn filters(report: &Report) -> &[String] {
    report.filtered.as_ref().map_or(&[], |one| &one.filters)
}
