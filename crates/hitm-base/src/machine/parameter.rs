//! Numbers that a model needs and a file may state: default, range and origin, declared once.
//!
//! [`Parameter`] is the declaration. [`MachineCost`] has those of a machine beyond its memory: what
//! interrupts, idle states and the ways into the kernel cost there. A machine file states them in the
//! table `costs`; a probe measures some of them.

use super::quantity::{Dimension, Quantity};

/// Declaration of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Key in its table.
    pub name: &'static str,
    /// Its meaning, for tables.
    pub meaning: &'static str,
    /// The kind of number.
    pub dimension: Dimension,
    /// Value where no file states one.
    pub default: Quantity,
    /// Least value that a machine may have.
    pub low: Quantity,
    /// Largest value that a machine may have.
    pub high: Quantity,
    /// Origin of default and range, and the effect of a wrong value. Begins with "assumed" where
    /// nobody has measured the default.
    pub origin: &'static str,
}

crate::numbered! {
    /// A cost of the machine beyond its memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MachineCost {
        /// The write that sends an interrupt to another CPU.
        IpiSend,
        /// From that write to the handler's first instruction.
        IpiDelivery,
        /// Entry to and exit from a handler.
        IrqEntry,
        /// From the time that a timer is set to, to the handler's first instruction.
        TimerDelivery,
        /// Leaving the loop of an idle CPU that polls.
        PollExit,
        /// Exit latency of the shallow idle state.
        IdleExit,
        /// Exit latency of the deep idle state.
        DeepIdleExit,
        /// Idle time from which the deep state is worth it.
        DeepIdleResidency,
        /// Entry to and exit from a system call.
        Syscall,
        /// Switching address space, stack and registers.
        ContextSwitch,
    }
}

const fn time(nanos: u64) -> Quantity {
    Quantity::Picos(nanos * 1_000)
}

const fn cost(
    name: &'static str,
    meaning: &'static str,
    [default, low, high]: [u64; 3],
    origin: &'static str,
) -> Parameter {
    Parameter {
        name,
        meaning,
        dimension: Dimension::Time,
        default: time(default),
        low: time(low),
        high: time(high),
        origin,
    }
}

/// Declarations, in the order of [`MachineCost::ALL`].
const COSTS: [Parameter; MachineCost::COUNT] = [
    cost(
        "ipi_send",
        "the sender's write to the interrupt controller, with the fence before it",
        [80, 40, 500],
        "assumed: a write to a model-specific register behind a fence; adds to whoever wakes or kicks \
         another CPU",
    ),
    cost(
        "ipi_delivery",
        "from the write to the interrupt controller to the handler's first instruction",
        [700, 300, 2_000],
        "assumed: bare metal with x2APIC; sets how far a pushed task lags",
    ),
    cost(
        "irq_entry",
        "entry to and exit from an interrupt handler",
        [400, 200, 1_000],
        "assumed: by mitigations and the timer's reprogramming; adds to whoever is interrupted",
    ),
    cost(
        "timer_delivery",
        "from the time that a timer is set to, to the handler's first instruction",
        [0, 0, 1_000],
        "assumed: the timer is in the core, so less than an interrupt from another one; adds to the \
         lateness of timed wake-ups",
    ),
    cost(
        "poll_exit",
        "leaving the loop of an idle CPU that polls its flags",
        [50, 10, 200],
        "assumed: a mispredicted branch and the way out of the loop; adds to wake-ups of CPUs that poll",
    ),
    cost(
        "idle_exit",
        "exit latency of the shallow idle state",
        [1_000, 300, 4_000],
        "C1 of every recent Xeon in drivers/idle/intel_idle.c (v6.12); gnr_cstates has 4 us for C1E. \
         Adds to wake-ups of idle CPUs",
    ),
    cost(
        "deep_idle_exit",
        "exit latency of the deep idle state",
        [170_000, 50_000, 290_000],
        "C6 of gnr_cstates in drivers/idle/intel_idle.c; spr_cstates has 290 us. Adds to wake-ups after \
         long idle times",
    ),
    cost(
        "deep_idle_residency",
        "idle time from which the deep state is chosen",
        [650_000, 300_000, 1_000_000],
        "target residency of C6 of gnr_cstates in drivers/idle/intel_idle.c; spr_cstates has 800 us. \
         Decides how often a CPU sleeps deeply",
    ),
    cost(
        "syscall",
        "entry to and exit from a system call",
        [120, 50, 400],
        "assumed: by mitigations; adds to the kernel's share",
    ),
    cost(
        "context_switch",
        "switch_mm and switch_to, with the refill of a few L1 and TLB entries",
        [800, 400, 2_000],
        "assumed: lmbench's lat_ctx with two processes and no working set gives about 1 to 2 us on \
         servers, wake-up and both schedules included; adds to every wake-up latency",
    ),
];

impl MachineCost {
    /// The declaration.
    pub const fn parameter(self) -> &'static Parameter {
        &COSTS[self as usize]
    }
}

impl Parameter {
    /// True if nobody has measured the default.
    pub fn is_assumed(&self) -> bool {
        self.origin.starts_with("assumed")
    }

    /// The row of a table in a document: key, default, range, meaning, origin.
    pub fn row(&self) -> String {
        format!(
            "| `{}` | {} | {} to {} | {} | {} |",
            self.name, self.default, self.low, self.high, self.meaning, self.origin
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_lies_in_its_range_and_has_an_origin() {
        for (index, cost) in MachineCost::ALL.into_iter().enumerate() {
            let parameter = cost.parameter();
            assert_eq!(cost as usize, index);
            let (low, high) = (parameter.low.raw(), parameter.high.raw());
            assert!((low..=high).contains(&parameter.default.raw()) && low < high);
            assert!(parameter.dimension.admits(parameter.high));
            assert!(!parameter.origin.is_empty());
        }
    }

    #[test]
    fn the_document_has_the_table_of_costs() {
        let document = include_str!("../../../../docs/formats/machine.md");
        for cost in MachineCost::ALL {
            let row = cost.parameter().row();
            assert!(
                document.contains(&row),
                "docs/formats/machine.md lacks\n{row}"
            );
        }
    }
}
