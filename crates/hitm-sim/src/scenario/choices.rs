//! Choices of `[kernel]` that stand for one number or one protocol: costs, idle states, locks.

use std::ops::RangeInclusive;
use std::time::Duration;

use hitm_base::machine::MachineCost;

use super::ScenarioError;
use super::reader::{Reader, Table, quantity, span};
use crate::kernel::{
    CostOverrides, IdleGovernor, IdleWake, KernelConfig, KernelCost, OsqKind, SpinlockKind,
    cost_parameters,
};

/// Times between two reports of a load.
const LOAD_AVG_INTERVAL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);

/// Reads the choices of `[kernel]`.
pub(super) fn choices(
    reader: &Reader<'_>,
    table: &Table<'_, '_, '_>,
    kernel: &mut KernelConfig,
) -> Result<(), ScenarioError> {
    kernel.idle = table
        .one_of("idle", &IdleGovernor::WORDS)?
        .unwrap_or(kernel.idle);
    let wake = table.one_of("idle_wake", &IdleWake::WORDS)?;
    kernel.idle_wake = wake.unwrap_or(kernel.idle_wake);
    let spinlock = table.one_of("spinlock", &SpinlockKind::WORDS)?;
    kernel.spinlock = spinlock.unwrap_or(kernel.spinlock);
    kernel.osq = table.one_of("osq", &OsqKind::WORDS)?.unwrap_or(kernel.osq);
    let interval = kernel.load_avg_interval;
    kernel.load_avg_interval = span(table, "load_avg_interval", LOAD_AVG_INTERVAL, interval)?;
    if let Some(value) = table.get("costs") {
        let costs = Table::of(reader, value, table.path("costs"))?;
        for parameter in cost_parameters() {
            if let Some(value) = quantity(&costs, parameter.name, parameter.dimension)? {
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
        let Some(value) = quantity(table, parameter.name, parameter.dimension)? else {
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
