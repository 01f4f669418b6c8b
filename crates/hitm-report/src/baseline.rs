//! `--baseline`: compares a report with an earlier one, member by member.
//!
//! Members are told apart by name, as in [`SideBySide`](crate::SideBySide), without lines in the
//! source. Addresses, elements and edits elsewhere in a file change from build to build.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

use crate::by::{By, TotalKind};
use crate::fields::{COMPARED_FIELDS, by_id};
use crate::{RUN_SHARE_MIN, Report, SCHEMA};

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

/// Allowed growth of a member's cost over the baseline, in thousandths of a per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerance(u64);

impl Tolerance {
    /// Two recordings of a program that sleeps on no lock differ by up to this much on one host.
    pub const DEFAULT: Tolerance = Tolerance(5_000);
    /// A hundred times.
    const MAX: u64 = 10_000_000;

    /// The most that a member may lose.
    fn ceiling(self, cycles: u64) -> u64 {
        let more = u128::from(cycles) * u128::from(self.0) / 100_000;
        cycles.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// A text that is no tolerance.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is no tolerance, expected per cent with at most three decimals, such as 5%")]
pub struct NoTolerance(String);

impl FromStr for Tolerance {
    type Err = NoTolerance;

    fn from_str(text: &str) -> Result<Tolerance, NoTolerance> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let legal = !whole.is_empty() && decimals.len() <= 3 && are_digits(whole);
        let thousandths = format!("{whole}{decimals:0<3}").parse();
        match (legal && are_digits(decimals), thousandths) {
            (true, Ok(thousandths)) if thousandths <= Tolerance::MAX => Ok(Tolerance(thousandths)),
            _ => Err(NoTolerance(text.to_owned())),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.0 / 1000, format!("{:03}", self.0 % 1000));
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            decimals => write!(f, "{whole}.{decimals}%"),
        }
    }
}

/// The earlier run: what each member lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    label: String,
    machine: String,
    filters: Vec<String>,
    lost: BTreeMap<String, u64>,
}

/// The parts of a report in JSON that a baseline needs.
#[derive(Deserialize)]
struct ReportJson {
    schema: u64,
    run: RunJson,
    sampled_events: Option<serde::de::IgnoredAny>,
    filtered: Option<FilteredJson>,
    #[serde(default)]
    totals_by: Vec<TotalsJson>,
}

#[derive(Deserialize)]
struct RunJson {
    machine: String,
}

#[derive(Deserialize)]
struct FilteredJson {
    filters: Vec<String>,
}

#[derive(Deserialize)]
struct TotalsJson {
    by: String,
    rows: Vec<RowJson>,
}

#[derive(Deserialize)]
struct RowJson {
    name: String,
    kind: String,
    #[serde(default)]
    lost_cycles: u64,
}

impl Baseline {
    /// The baseline that a report with totals by member makes; `label` names it in messages.
    ///
    /// # Errors
    /// The report has no such totals, or is about samples.
    pub fn of_report(label: &str, report: &Report) -> Result<Baseline, BaselineError> {
        let label = label.to_owned();
        if report.run.sampled.is_some() {
            return Err(BaselineError::Samples { label });
        }
        let rows = members(report).ok_or_else(|| BaselineError::NoMembers {
            label: label.clone(),
        })?;
        let mut lost = BTreeMap::new();
        for row in rows.iter().filter(|row| row.kind != TotalKind::Rest) {
            add(&mut lost, &row.name, row.lost_cycles);
        }
        Ok(Baseline {
            label,
            machine: report.run.machine.clone(),
            filters: filters(report).to_vec(),
            lost,
        })
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
        let mut tables = report.totals_by.into_iter();
        let Some(members) = tables.find(|table| table.by == By::Member.id()) else {
            return Err(BaselineError::NoMembers { label });
        };
        let mut lost = BTreeMap::new();
        for row in members.rows {
            if row.kind != TotalKind::Rest.id() {
                add(&mut lost, &row.name, row.lost_cycles);
            }
        }
        Ok(Baseline {
            label,
            machine: report.run.machine,
            filters: report.filtered.map_or_else(Vec::new, |one| one.filters),
            lost,
        })
    }

    /// Compares the members of a report with the baseline's, the costliest first. Members that lose less
    /// than [`RUN_SHARE_MIN`] of the run are not among them.
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
        let thread_cycles = report.totals.thread_cycles;
        let share = |cycles: u64| crate::model::share(cycles, thread_cycles);
        // A recording that was cut short may not know how long its threads ran.
        let matters = |cycles| thread_cycles == 0 || share(cycles) >= RUN_SHARE_MIN;
        let rows = now.lost.iter().map(|(name, lost_cycles)| {
            let before = self.lost.get(name).copied();
            let added_cycles = lost_cycles.saturating_sub(before.unwrap_or(0));
            let exceeds = *lost_cycles > tolerance.ceiling(before.unwrap_or(0));
            Compared {
                name: name.clone(),
                lost_cycles: *lost_cycles,
                run_share: share(*lost_cycles),
                baseline_lost_cycles: before,
                added_cycles,
                change: match (exceeds && matters(added_cycles), before) {
                    (false, _) => Change::Within,
                    (true, Some(before)) if before > 0 => Change::Dearer,
                    (true, _) => Change::New,
                },
            }
        });
        let mut rows: Vec<Compared> = rows.filter(|row| matters(row.lost_cycles)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.lost_cycles));
        Ok(Comparison {
            baseline: self.label.clone(),
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

fn add(lost: &mut BTreeMap<String, u64>, name: &str, cycles: u64) {
    let sum = lost.entry(stable_name(name)).or_default();
    *sum = sum.saturating_add(cycles);
}

fn members(report: &Report) -> Option<&[crate::by::TotalRow]> {
    let mut tables = report.totals_by.iter();
    let members = tables.find(|table| table.by == By::Member)?;
    Some(&members.rows)
}

fn filters(report: &Report) -> &[String] {
    report.filtered.as_ref().map_or(&[], |one| &one.filters)
}

/// The name without lines in the source: `heap block of 64 B from main.c:12` without `:12`.
pub(crate) fn stable_name(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(':') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let behind = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_line = behind.len() < after.len() && before.ends_with(|c: char| c != ':');
        kept.push_str(before);
        if !is_line {
            kept.push(':');
        }
        rest = if is_line { behind } else { after };
    }
    kept.push_str(rest);
    kept
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_read_and_written_alike() {
        for text in ["0%", "5%", "0.5%", "12.345%", "250%"] {
            assert_eq!(text.parse::<Tolerance>().unwrap().to_string(), text);
        }
        assert_eq!("5".parse(), Ok(Tolerance::DEFAULT));
        for text in ["", "%", "-5%", "5.%x", "1.2345%", "1e3", "10001%", ".5"] {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_tolerance_is_rounded_down_and_does_not_wrap() {
        let five = Tolerance::DEFAULT;
        assert_eq!((five.ceiling(100), five.ceiling(119)), (105, 124));
        assert_eq!(five.ceiling(u64::MAX), u64::MAX);
        assert_eq!("0%".parse::<Tolerance>().unwrap().ceiling(7), 7);
    }

    #[test]
    fn lines_in_the_source_are_left_out_of_names() {
        let of = stable_name;
        assert_eq!(
            of("heap block of 64 B from main.c:12+0x8"),
            "heap block of 64 B from main.c+0x8"
        );
        assert_eq!(of("std::vector::x"), "std::vector::x");
        assert_eq!(of("a::1b"), "a::1b");
        assert_eq!(of("f.x:"), "f.x:");
    }
}
