//! What kernel code costs beside its shared accesses.
//!
//! Shared accesses have their price from the machine. What is left is instructions on private data
//! and fixed hardware costs; both stand here, each with its source or "assumed" with a range and
//! what it moves. None is fitted to a result.

use hitm_base::{Clock, Cycles, Nanos};

/// Fixed costs, in cycles of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// `switch_mm` and `switch_to`, with the refill of a few L1 and TLB entries.
    /// Assumed 800 ns (400 to 2000 ns: lmbench's `lat_ctx` with two processes and no working set
    /// gives about 1 to 2 us on servers, the wake-up and both schedules included). Adds to every
    /// wake-up latency and to the kernel's share.
    pub context_switch: Cycles,
    /// Entry to and exit from a system call.
    /// Assumed 120 ns (50 to 400 ns, by mitigations). Adds to the kernel's share.
    pub syscall: Cycles,
    /// Entry to and exit from an interrupt handler.
    /// Assumed 400 ns (200 to 1000 ns, by mitigations and the timer's reprogramming).
    pub irq_entry: Cycles,
    /// From the write to the interrupt controller to the handler's first instruction.
    /// Assumed 700 ns (300 to 2000 ns on bare metal with x2APIC). Sets how far a pushed task lags.
    pub ipi_delivery: Cycles,
    /// The write to the interrupt controller.
    /// Assumed 80 ns (40 to 200 ns).
    pub ipi_send: Cycles,
    /// From the write that wakes an idle CPU to its next instruction.
    /// Assumed 1 us: the exit latency of C1 on every recent Xeon in drivers/idle/intel_idle.c (v6.12);
    /// for Granite Rapids (`gnr_cstates`) it has 4 us for C1E and 170 us for C6. Adds to the wake-up latency of idle CPUs.
    pub idle_exit: Cycles,
    /// A scheduler function's own instructions: between 20 and 150 in most of them.
    /// Assumed 40 cycles (15 to 120). With about 25 such calls in a wake-up and block, 1000 cycles of
    /// kernel time that do not depend on contention.
    pub function: Cycles,
}

impl Costs {
    /// The costs at this clock.
    pub fn new(clock: Clock) -> Costs {
        Costs {
            context_switch: clock.cycles(Nanos(800.0)),
            syscall: clock.cycles(Nanos(120.0)),
            irq_entry: clock.cycles(Nanos(400.0)),
            ipi_delivery: clock.cycles(Nanos(700.0)),
            ipi_send: clock.cycles(Nanos(80.0)),
            idle_exit: clock.cycles(Nanos(1000.0)),
            function: Cycles(40),
        }
    }
}
