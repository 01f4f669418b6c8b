//! Workloads of a scenario, before it is known on which machine they run.

use super::ScenarioError;
use super::groups::{ScenarioGroup, by_name};
use super::reader::{self as read, Table, needed};
use crate::kernel::Policy;
use crate::workload::{KINDS, WorkloadKind};

/// A workload of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name: what its metrics begin with.
    pub name: String,
    /// The group of its threads, by number; the root when absent.
    pub group: Option<usize>,
    /// Its program, with the options.
    pub kind: WorkloadKind,
}

impl Workload {
    /// Loads that are a variant each; none where it has one load.
    pub(super) fn loads(&self) -> &[u64] {
        self.kind.program().loads()
    }
}

/// Reads a workload.
pub(super) fn workload(
    table: &Table<'_, '_, '_>,
    groups: &[ScenarioGroup],
) -> Result<Workload, ScenarioError> {
    let kind = table.one_of("kind", KINDS)?;
    let found = needed(table, "kind", "the kind of workload", kind)?;
    let stated = table.words("name")?;
    let kind = (found.read)(table)?;
    let group = group_of(table, &kind, groups)?;
    table.finish()?;
    let name = stated.unwrap_or_else(|| found.default_name.to_owned());
    let name = read::metric_name(table, name)?;
    Ok(Workload { name, group, kind })
}

/// The group that a workload's threads are put in, for kinds that leave the choice.
fn group_of(
    table: &Table<'_, '_, '_>,
    kind: &WorkloadKind,
    groups: &[ScenarioGroup],
) -> Result<Option<usize>, ScenarioError> {
    let Some(policy) = kind.program().grouped() else {
        return Ok(None);
    };
    let group = by_name(table, "group", groups)?;
    match policy {
        Policy::Fifo(_) | Policy::Rr(_) if group.is_some() => {
            let expected = "policy \"normal\": no quota binds real-time threads";
            Err(table.error("group", "a real-time policy", expected))
        }
        Policy::Own(_) if group.is_some() => {
            let expected = "policy \"normal\": no quota binds threads of other classes";
            Err(table.error("group", "a policy with a class of its own", expected))
        }
        _ => Ok(group),
    }
}
