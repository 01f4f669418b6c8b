//! `[kernel.costs]` and the idle states of a scenario.

use super::reader::{Reader, Table};
use super::{KernelSpec, ScenarioError};
use crate::kernel::{CostOverrides, IdleGovernor, IdleWake, KernelCost, cost_parameters};
use hitm_base::machine::MachineCost;

const IDLE: [(&str, IdleGovernor); 3] = [
    ("shallow", IdleGovernor::Shallow),
    ("poll", IdleGovernor::Poll),
    ("menu", IdleGovernor::Menu),
];
const IDLE_WAKE: [(&str, IdleWake); 2] = [
    ("write", IdleWake::Write),
    ("interrupt", IdleWake::Interrupt),
];

/// Reads the costs and the idle states of `[kernel]`.
pub(super) fn costs(
    reader: &Reader<'_>,
    table: &Table<'_, '_, '_>,
    kernel: &mut KernelSpec,
) -> Result<(), ScenarioError> {
    if let Some(idle) = table.one_of("idle", &IDLE)? {
        kernel.idle = idle;
    }
    if let Some(wake) = table.one_of("idle_wake", &IDLE_WAKE)? {
        kernel.idle_wake = wake;
    }
    if let Some(value) = table.get("costs") {
        let costs = reader.table(value, table.path("costs"))?;
        for parameter in cost_parameters() {
            if let Some(value) = costs.quantity(parameter.name, parameter.dimension)? {
                kernel.costs.set(parameter, value);
            }
        }
        costs.finish()?;
    }
    older_keys(table, &mut kernel.costs)
}

/// Two costs are keys of `[kernel]` as well: they were before there was a table.
fn older_keys(table: &Table<'_, '_, '_>, costs: &mut CostOverrides) -> Result<(), ScenarioError> {
    let older = [
        MachineCost::IdleExit.parameter(),
        KernelCost::VisitInstructions.parameter(),
    ];
    for parameter in older {
        let Some(value) = table.quantity(parameter.name, parameter.dimension)? else {
            continue;
        };
        if costs.get(parameter).is_some() {
            let found = "the key and `costs` with the same cost";
            return Err(table.error(parameter.name, found, "one of them"));
        }
        costs.set(parameter, value);
    }
    Ok(())
}
