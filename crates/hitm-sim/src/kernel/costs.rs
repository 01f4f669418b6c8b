//! Costs of kernel code beside its shared accesses.
//!
//! Shared accesses have their price from the machine. What is left is instructions on private data
//! and fixed hardware costs. Those of the hardware and of the ways into the kernel are declared
//! with the machine ([`MachineCost`]) and may stand in its file. [`KernelCost`] declares those of
//! the code. A scenario overrides either in `[kernel.costs]`. None is fitted to a result.

use std::collections::BTreeMap;

use hitm_base::machine::{Dimension, MachineCost, MachineCosts, Parameter, Quantity};
use hitm_base::{Clock, Cycles, Machine};
use hitm_policy::Limits;

hitm_base::numbered! {
    /// A cost of kernel code.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum KernelCost {
        /// A scheduler function's own instructions.
        Function,
        /// A visit of a walk over task groups.
        VisitInstructions,
        /// A look at one CPU's load.
        Scan,
        /// CPUs that a wake-up looks at.
        IdleScan,
        /// Judging a lock.
        Judge,
        /// Waiters that make a lock worth a placement.
        LockCrowd,
        /// Waiters below which it is no more.
        LockCalm,
        /// Uses of a lock that make a mean.
        LockUses,
        /// For how long a NUMA-aware spinlock passes waiters of other nodes.
        CnaThreshold,
        /// Lines of its own that a task takes along to another CPU.
        TaskLines,
        /// A page fault's own instructions.
        PageFault,
        /// Clearing a page.
        ClearPage,
        /// Time by which a slice is extended.
        SliceExtension,
    }
}

const INSTRUCTIONS: Dimension = Dimension::Count("instructions", 1_000);
const CPUS: Dimension = Dimension::Count("CPUs", 8_192);
const LINES: Dimension = Dimension::Count("lines", 1_000);
const USES: Dimension = Dimension::Count("uses", 1_000);

const fn nanos(nanos: u64) -> Quantity {
    Quantity::Picos(nanos * 1_000)
}

/// Declarations, in the order of [`KernelCost::ALL`].
const COSTS: [Parameter; KernelCost::COUNT] = [
    Parameter {
        name: "function",
        meaning: "a scheduler function's own instructions, of which a wake-up and block have some 25",
        dimension: Dimension::Time,
        default: Quantity::Cycles(40),
        low: Quantity::Cycles(15),
        high: Quantity::Cycles(120),
        origin: "assumed: most have between 20 and 150 instructions; 1000 cycles of kernel time for a \
                 wake-up and block that do not depend on contention",
    },
    Parameter {
        name: "visit_instructions",
        meaning: "instructions of `walk_tg_tree_from` and its callback for one group",
        dimension: INSTRUCTIONS,
        default: Quantity::Count(60, "instructions"),
        low: Quantity::Count(40, "instructions"),
        high: Quantity::Count(120, "instructions"),
        origin: "assumed; decides how many visits a core overlaps",
    },
    Parameter {
        name: "scan",
        meaning: "a newly idle CPU's look at one CPU's load, beside its accesses",
        dimension: Dimension::Time,
        default: nanos(50),
        low: nanos(20),
        high: nanos(150),
        origin: "assumed; decides how often a newly idle CPU looks at others",
    },
    Parameter {
        name: "idle_scan",
        meaning: "CPUs of its cache that a fair wake-up looks at for an idle one, without domains",
        dimension: CPUS,
        default: Quantity::Count(8, "CPUs"),
        low: Quantity::Count(4, "CPUs"),
        high: Quantity::Count(32, "CPUs"),
        origin: "assumed: nr_idle_scan bounds it by load; decides how far woken tasks spread",
    },
    Parameter {
        name: "judge",
        meaning: "lock-aware placement: judging a contended lock, once a window",
        dimension: Dimension::Time,
        default: nanos(2_000),
        low: nanos(500),
        high: nanos(10_000),
        origin: "assumed: a walk over the lock's threads; a share of each window",
    },
    Parameter {
        name: "lock_crowd",
        meaning: "lock-aware placement: mean waiters that make a lock worth it",
        dimension: Dimension::Factor,
        default: Quantity::Milli(2_000),
        low: Quantity::Milli(1_000),
        high: Quantity::Milli(8_000),
        origin: "assumed: below, two CPUs and a queue of one are no crowd",
    },
    Parameter {
        name: "lock_calm",
        meaning: "lock-aware placement: mean waiters below which it is no more",
        dimension: Dimension::Share,
        default: Quantity::Milli(250),
        low: Quantity::Milli(50),
        high: Quantity::Milli(1_000),
        origin: "assumed: far from lock_crowd, so that groups do not flap",
    },
    Parameter {
        name: "lock_uses",
        meaning: "lock-aware placement: uses at one distance that make their mean worth something",
        dimension: USES,
        default: Quantity::Count(16, "uses"),
        low: Quantity::Count(8, "uses"),
        high: Quantity::Count(100, "uses"),
        origin: "assumed; how soon a lock is judged",
    },
    Parameter {
        name: "cna_threshold",
        meaning: "for how long a compact NUMA-aware spinlock passes waiters of other nodes",
        dimension: Dimension::Time,
        default: nanos(1_000_000),
        low: nanos(10_000),
        high: nanos(1_000_000),
        origin: "numa_spinlock_threshold_ns of version 15 of the patches; version 13 has 10 ms. Bounds how \
                 unfair the lock is",
    },
    Parameter {
        name: "task_lines",
        meaning: "lines of its own that a task takes along, one after the other, when it runs on another CPU: \
                  registers, kernel stack, thread_struct, the top of its stack",
        dimension: LINES,
        default: Quantity::Count(58, "lines"),
        low: Quantity::Count(20, "lines"),
        high: Quantity::Count(80, "lines"),
        origin: "measured: waits for a semaphore in Linux 6.12.95 ([calls](../accuracy/calls.md)); 20 if a \
                 core gets three at once. Adds to whoever is pushed, pulled or woken elsewhere",
    },
    Parameter {
        name: "page_fault",
        meaning: "a page fault that needs no disk: exception, search, accounting and return, beside its lines",
        dimension: Dimension::Time,
        default: nanos(500),
        low: nanos(250),
        high: nanos(2_000),
        origin: "assumed: some 1,000 to 2,000 instructions and an exception; how long a holder that touches \
                 fresh memory keeps its lock",
    },
    Parameter {
        name: "clear_page",
        meaning: "clearing 4 KiB of a page that nobody has touched",
        dimension: Dimension::Time,
        default: nanos(200),
        low: nanos(50),
        high: nanos(500),
        origin: "assumed: 8 to 80 GB/s; a huge page has 512 of them",
    },
    Parameter {
        name: "slice_extension",
        meaning: "time by which the slice of a thread that asks is extended",
        dimension: Dimension::Time,
        default: nanos(5_000),
        low: nanos(5_000),
        high: nanos(50_000),
        origin: "the least and default of slice_ext_nsec of 7.0; how long a critical section may be",
    },
];

impl KernelCost {
    /// The declaration.
    pub const fn parameter(self) -> &'static Parameter {
        &COSTS[self as usize]
    }
}

/// Every declared cost: the machine's, then the kernel's.
pub fn cost_parameters() -> impl Iterator<Item = &'static Parameter> {
    let machine = MachineCost::ALL.into_iter().map(MachineCost::parameter);
    machine.chain(KernelCost::ALL.into_iter().map(KernelCost::parameter))
}

/// Costs that a scenario states, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostOverrides(BTreeMap<&'static str, Quantity>);

impl CostOverrides {
    /// States a cost. A parameter that is no declared cost changes nothing.
    pub fn set(&mut self, parameter: &'static Parameter, value: Quantity) {
        self.0.insert(parameter.name, value);
    }

    /// The stated value.
    pub fn get(&self, parameter: &Parameter) -> Option<Quantity> {
        self.0.get(parameter.name).copied()
    }

    fn value(&self, cost: KernelCost) -> Quantity {
        let parameter = cost.parameter();
        self.get(parameter).unwrap_or(parameter.default)
    }
}

/// Costs of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Costs of the hardware and of the ways into the kernel.
    pub machine: MachineCosts,
    /// [`KernelCost::Function`].
    pub function: Cycles,
    /// [`KernelCost::VisitInstructions`].
    pub visit_instructions: u64,
    /// [`KernelCost::Scan`].
    pub scan: Cycles,
    /// [`KernelCost::IdleScan`].
    pub idle_scan: usize,
    /// [`KernelCost::CnaThreshold`].
    pub cna_threshold: Cycles,
    /// [`KernelCost::TaskLines`].
    pub task_lines: u64,
    /// [`KernelCost::PageFault`].
    pub page_fault: Cycles,
    /// [`KernelCost::ClearPage`].
    pub clear_page: Cycles,
    /// [`KernelCost::SliceExtension`].
    pub slice_extension: Cycles,
    /// Thresholds of lock-aware placement.
    pub lock: LockCosts,
}

/// Numbers of lock-aware placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockCosts {
    /// [`KernelCost::Judge`].
    pub judge: Cycles,
    /// [`KernelCost::LockCrowd`] and [`KernelCost::LockCalm`].
    pub limits: Limits,
    /// [`KernelCost::LockUses`].
    pub uses_min: u64,
}

impl Costs {
    /// The machine's costs and the kernel's defaults, except where `stated` has others.
    pub fn new(machine: &Machine, stated: &CostOverrides) -> Costs {
        let clock = machine.clock;
        let mut hardware = machine.costs;
        for cost in MachineCost::ALL {
            if let Some(stated) = stated.get(cost.parameter()) {
                hardware.set(cost, stated.cycles(clock));
            }
        }
        let time = |cost| stated.value(cost).cycles(clock);
        Costs {
            machine: hardware,
            function: time(KernelCost::Function),
            visit_instructions: stated.value(KernelCost::VisitInstructions).raw(),
            scan: time(KernelCost::Scan),
            idle_scan: stated.value(KernelCost::IdleScan).raw() as usize,
            cna_threshold: time(KernelCost::CnaThreshold),
            task_lines: stated.value(KernelCost::TaskLines).raw(),
            page_fault: time(KernelCost::PageFault),
            clear_page: time(KernelCost::ClearPage),
            slice_extension: time(KernelCost::SliceExtension),
            lock: LockCosts::new(clock, stated),
        }
    }
}

impl LockCosts {
    /// The defaults, except where `stated` has others.
    pub fn new(clock: Clock, stated: &CostOverrides) -> LockCosts {
        let share = |cost| stated.value(cost).raw() as f64 / 1e3;
        LockCosts {
            judge: stated.value(KernelCost::Judge).cycles(clock),
            limits: Limits {
                crowd: share(KernelCost::LockCrowd),
                calm: share(KernelCost::LockCalm),
            },
            uses_min: stated.value(KernelCost::LockUses).raw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cost_has_a_name_of_its_own_and_a_default_in_its_range() {
        let mut names = std::collections::BTreeSet::new();
        for parameter in cost_parameters() {
            assert!(names.insert(parameter.name), "{}", parameter.name);
            let (low, high) = (parameter.low.raw(), parameter.high.raw());
            assert!((low..=high).contains(&parameter.default.raw()) && low < high);
            for end in [parameter.low, parameter.default, parameter.high] {
                assert_eq!(parameter.dimension.parse(&end.to_string()), Some(end));
            }
        }
        for (index, cost) in KernelCost::ALL.into_iter().enumerate() {
            assert_eq!(cost as usize, index);
        }
    }

    #[test]
    fn the_document_has_the_table_of_costs() {
        let document = include_str!("../../../../docs/formats/scenario.md");
        for cost in KernelCost::ALL {
            let row = cost.parameter().row();
            assert!(
                document.contains(&row),
                "docs/formats/scenario.md lacks\n{row}"
            );
        }
    }

    #[test]
    fn a_scenario_says_more_than_the_machine() {
        let text = hitm_base::machine::preset("xeon-480").unwrap();
        let stated = "\n[costs]\nsyscall = { value = \"50ns\", source = \"test\" }\n\
                      ipi_send = { value = \"100ns\", source = \"test\" }\n";
        let machine = Machine::from_toml(&(text.to_owned() + stated), "x").unwrap();
        let mut overrides = CostOverrides::default();
        overrides.set(MachineCost::Syscall.parameter(), Quantity::Cycles(7));
        let costs = Costs::new(&machine, &overrides);
        // 100 ns at 3.2 GHz, and the default of 400 ns.
        let expected = [Cycles(7), Cycles(320), Cycles(1_280)];
        let some = [
            MachineCost::Syscall,
            MachineCost::IpiSend,
            MachineCost::IrqEntry,
        ];
        assert_eq!(some.map(|cost| costs.machine.get(cost)), expected);
    }
}
