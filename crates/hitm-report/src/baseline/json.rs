//! The parts of a report in JSON that a baseline needs.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::keys::Keys;
use super::sums;
use crate::by::{By, TotalKind};
use crate::runs::Spread;

#[derive(Deserialize)]
pub(super) struct ReportJson {
    pub(super) schema: u64,
    pub(super) run: RunJson,
    pub(super) sampled_events: Option<serde::de::IgnoredAny>,
    pub(super) filtered: Option<FilteredJson>,
    #[serde(default)]
    totals_by: Vec<TotalsJson>,
    #[serde(default)]
    processes: Vec<ProcessJson>,
    runs: Option<RunsJson>,
}

#[derive(Deserialize)]
pub(super) struct RunJson {
    #[serde(default)]
    command: Vec<String>,
    pub(super) machine: String,
}

#[derive(Deserialize)]
pub(super) struct FilteredJson {
    pub(super) filters: Vec<String>,
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

#[derive(Deserialize)]
struct ProcessJson {
    program: Option<String>,
}

#[derive(Deserialize)]
struct RunsJson {
    count: usize,
    #[serde(default)]
    members: Vec<MemberJson>,
}

#[derive(Deserialize)]
struct MemberJson {
    name: String,
    lost_cycles: Vec<u64>,
}

impl ReportJson {
    /// The keys of its names.
    fn keys(&self) -> Keys {
        let processes = self.processes.iter();
        let programs = processes.filter_map(|one| one.program.as_deref());
        let command = self.run.command.first().map(String::as_str);
        Keys::new(command.into_iter().chain(programs))
    }

    /// Cycles that each member lost, by key; none without totals by member.
    pub(super) fn members(&self) -> Option<BTreeMap<String, u64>> {
        let mut tables = self.totals_by.iter();
        let members = tables.find(|table| table.by == By::Member.id())?;
        let keys = self.keys();
        let rows = members.rows.iter();
        let rows = rows.filter(|row| row.kind != TotalKind::Rest.id());
        Some(sums(rows.map(|row| (keys.key(&row.name), row.lost_cycles))))
    }

    /// Number of runs, and the spread of each member; no members where there is one run.
    ///
    /// # Errors
    /// A member has not one number for each run.
    pub(super) fn several_runs(&self) -> Result<(usize, BTreeMap<String, Spread>), String> {
        let Some(runs) = &self.runs else {
            return Ok((1, BTreeMap::new()));
        };
        let mut spreads = BTreeMap::new();
        for member in &runs.members {
            if member.lost_cycles.len() != runs.count {
                return Err(format!(
                    "runs: found {} numbers of lost_cycles of {}, expected {}, one for each run",
                    member.lost_cycles.len(),
                    member.name,
                    runs.count
                ));
            }
            spreads.insert(member.name.clone(), Spread::of(&member.lost_cycles));
        }
        Ok((runs.count, spreads))
    }
}
