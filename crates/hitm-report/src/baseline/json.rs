//! The parts of a report in JSON that a baseline needs.

use serde::Deserialize;

use super::keys::Keys;

#[derive(Deserialize)]
pub(super) struct ReportJson {
    pub(super) schema: u64,
    pub(super) run: RunJson,
    pub(super) sampled_events: Option<serde::de::IgnoredAny>,
    pub(super) filtered: Option<FilteredJson>,
    #[serde(default)]
    pub(super) totals_by: Vec<TotalsJson>,
    #[serde(default)]
    processes: Vec<ProcessJson>,
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
pub(super) struct TotalsJson {
    pub(super) by: String,
    pub(super) rows: Vec<RowJson>,
}

#[derive(Deserialize)]
pub(super) struct RowJson {
    pub(super) name: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) lost_cycles: u64,
}

#[derive(Deserialize)]
struct ProcessJson {
    program: Option<String>,
}

impl ReportJson {
    /// The keys of its names.
    pub(super) fn keys(&self) -> Keys {
        let processes = self.processes.iter();
        let programs = processes.filter_map(|one| one.program.as_deref());
        let command = self.run.command.first().map(String::as_str);
        Keys::new(command.into_iter().chain(programs))
    }
}
