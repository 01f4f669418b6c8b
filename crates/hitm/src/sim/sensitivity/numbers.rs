//! The assumed numbers of a scenario, its machine and its kernel.

use hitm_base::machine::{
    CachePart, CorePart, Item, MachineCost, MachineFile, Parameter, Quantity,
};
use hitm_sim::kernel::{
    IdleGovernor, KernelCost, LoadBalancing, Mechanism, Placement, SpinlockKind,
};
use hitm_sim::scenario::{Scenario, WorkloadKind};
use hitm_sim::workload::program_lock::ProgramLockConfig;

/// An assumed number, and its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// Its key: `machine.transfers.remote.dirty`, `kernel.costs.function`, `workload.0.runnable`.
    pub key: String,
    /// Its value in the scenario.
    pub value: Quantity,
    /// The least value.
    pub low: Quantity,
    /// The largest value.
    pub high: Quantity,
    pub(super) place: Place,
}

/// The place of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The machine file.
    Machine(Item),
    /// The scenario file, or `[kernel.costs]` where it may stand.
    Scenario,
}

/// The scenario's own assumed numbers.
pub(super) fn own_numbers(scenario: &Scenario) -> impl Iterator<Item = Number> {
    scenario.assumed.iter().map(|assumed| Number {
        key: assumed.key.clone(),
        value: assumed.value,
        low: assumed.low,
        high: assumed.high,
        place: Place::Scenario,
    })
}

/// Numbers that have a range, are measured nowhere and take part in the scenario: those of the
/// machine file in its order, then those of the kernel and of the scenario.
pub(crate) fn numbers_of(file: &MachineFile, scenario: &Scenario) -> Vec<Number> {
    let of_machine = file.items.iter().filter_map(|(item, sourced)| {
        let (low, high) = sourced.range.filter(|_| sourced.origin.is_assumed())?;
        takes_part(*item, scenario).then(|| Number {
            key: format!("machine.{}", item.path()),
            value: sourced.value,
            low,
            high,
            place: Place::Machine(*item),
        })
    });
    let of_machine: Vec<Number> = of_machine.collect();
    // A cost in the machine file is measured, or among its assumed numbers.
    let is_default = |cost: &MachineCost| file.get(Item::Cost(*cost)).is_none();
    let hardware = MachineCost::ALL.into_iter().filter(is_default);
    let hardware = hardware.filter(|cost| cost_takes_part(*cost, scenario));
    let code = KernelCost::ALL.into_iter();
    let code = code.filter(|cost| code_takes_part(*cost, scenario));
    let parameters = hardware.map(MachineCost::parameter);
    let parameters = parameters.chain(code.map(KernelCost::parameter));
    // A cost in the scenario is an input.
    let is_open = |parameter: &&Parameter| scenario.kernel.shared.costs.get(parameter).is_none();
    let of_kernel = parameters.filter(is_open).map(|parameter| Number {
        key: format!("kernel.costs.{}", parameter.name),
        value: parameter.default,
        low: parameter.low,
        high: parameter.high,
        place: Place::Scenario,
    });
    of_machine
        .into_iter()
        .chain(of_kernel)
        .chain(own_numbers(scenario))
        .collect()
}

fn takes_part(item: Item, scenario: &Scenario) -> bool {
    match item {
        // The simulator counts its own work in cycles.
        Item::Core(CorePart::Cpi) => false,
        Item::Cache(_, CachePart::Size | CachePart::Ways) => scenario.machine.finite_caches,
        Item::Cost(cost) => cost_takes_part(cost, scenario),
        _ => true,
    }
}

fn cost_takes_part(cost: MachineCost, scenario: &Scenario) -> bool {
    let governor = scenario.kernel.shared.idle;
    match cost {
        MachineCost::PollExit => governor != IdleGovernor::Shallow,
        MachineCost::IdleExit => governor != IdleGovernor::Poll,
        MachineCost::DeepIdleExit | MachineCost::DeepIdleResidency => {
            governor == IdleGovernor::Menu
        }
        _ => true,
    }
}

fn code_takes_part(cost: KernelCost, scenario: &Scenario) -> bool {
    let kernel = &scenario.kernel;
    let has_groups = || {
        if !scenario.groups.is_empty() {
            return true;
        }
        let mut kinds = scenario.workloads.iter().map(|workload| &workload.kind);
        kinds.any(|kind| {
            matches!(
                kind,
                WorkloadKind::CgroupHogs(_) | WorkloadKind::LockHolder(_)
            )
        })
    };
    let faults = |wanted: &dyn Fn(&ProgramLockConfig) -> bool| {
        let mut kinds = scenario.workloads.iter().map(|workload| &workload.kind);
        kinds.any(|kind| match kind {
            WorkloadKind::ProgramLock(placed) => {
                placed.config.touches > 0 && wanted(&placed.config)
            }
            _ => false,
        })
    };
    match cost {
        KernelCost::VisitInstructions => has_groups(),
        KernelCost::IdleScan => kernel.shared.load_balancing == LoadBalancing::NewlyIdle,
        KernelCost::Judge | KernelCost::LockCrowd | KernelCost::LockCalm | KernelCost::LockUses => {
            kernel.placement.contains(&Placement::LockAware)
        }
        KernelCost::CnaThreshold => kernel.shared.spinlock == SpinlockKind::Cna,
        KernelCost::PageFault => faults(&|_| true),
        KernelCost::ClearPage => faults(&|config| !config.initialised),
        KernelCost::SliceExtension => {
            let mut all = kernel.mechanisms.iter().flatten();
            all.any(|one| *one == Mechanism::SliceExtension)
        }
        KernelCost::Function | KernelCost::Scan | KernelCost::TaskLines => true,
    }
}
