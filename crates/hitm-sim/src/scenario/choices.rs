//! Choices of `[kernel]` that stand for one number or one protocol: costs, idle states, locks.

use std::time::Duration;

use hitm_base::machine::MachineCost;

use super::reader::{Reader, ScenarioTable as _, Table};
use super::{KernelSpec, ScenarioError};
use crate::kernel::{
    CostOverrides, IdleGovernor, IdleWake, KernelCost, OsqKind, SpinlockKind, cost_parameters,
};

const IDLE: [(&str, IdleGovernor); 3] = [
    ("shallow", IdleGovernor::Shallow),
    ("poll", IdleGovernor::Poll),
    ("menu", IdleGovernor::Menu),
];
const IDLE_WAKE: [(&str, IdleWake); 2] = [
    ("write", IdleWake::Write),
    ("interrupt", IdleWake::Interrupt),
];

const SPINLOCK: [(&str, SpinlockKind); 4] = [
    ("queued", SpinlockKind::Queued),
    ("ticket", SpinlockKind::Ticket),
    ("mcs", SpinlockKind::Mcs),
    ("cna", SpinlockKind::Cna),
];
const OSQ: [(&str, OsqKind); 2] = [("global", OsqKind::Global), ("per-node", OsqKind::PerNode)];
/// The longest time between two reports of a load.
const LOAD_AVG_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Reads the choices of `[kernel]`.
pub(super) fn choices(
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
    if let Some(spinlock) = table.one_of("spinlock", &SPINLOCK)? {
        kernel.spinlock = spinlock;
    }
    if let Some(osq) = table.one_of("osq", &OSQ)? {
        kernel.osq = osq;
    }
    let interval = table.time("load_avg_interval", Duration::ZERO, LOAD_AVG_INTERVAL_MAX)?;
    kernel.load_avg_interval = interval.unwrap_or(kernel.load_avg_interval);
    if let Some(value) = table.get("costs") {
        let costs = Table::of(reader, value, table.path("costs"))?;
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
