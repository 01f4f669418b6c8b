//! The machine model: topology, clock, caches, and what each kind of transfer costs.
//!
//! [`Machine`] is the resolved form that the engine uses: everything in cycles, nothing optional.
//! [`MachineFile`] is the TOML form, in which every number names its source; [`preset`] has those
//! that come with hitm.

mod file;
mod item;
mod parameter;
mod parse;
mod preset;
mod quantity;
mod write;

#[cfg(test)]
mod tests;

pub use file::{MachineError, MachineFile, Origin, Sourced, TopologySpec, present_distances};
pub use item::{
    CacheLevel, CachePart, ContentionPart, CorePart, DramPart, Home, Item, Reach, TransferPart,
    distance_key,
};
pub use parameter::{MachineCost, Parameter};
pub use preset::{preset, preset_names};
pub use quantity::{Dimension, Quantity};

use crate::{Clock, Cycles, Distance, Topology};

crate::words! {
    /// Coherence protocol: the copies of a line that may answer for it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Protocol {
        /// A modified line that is read goes back to the LLC and both copies become shared.
        Mesi = "mesi",
        /// As MESI, and one clean copy answers reads from other packages (Intel).
        Mesif = "mesif",
        /// A modified line that is read stays dirty in its owner, which continues to answer (AMD, Arm).
        Moesi = "moesi",
    }
}

/// Size, associativity and hit latency of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Load-to-use latency of a hit.
    pub latency: Cycles,
}

/// The caches of a machine: L1 and L2 per core, the LLC per group of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// First-level data cache of a core.
    pub l1: CacheShape,
    /// Second-level cache of a core.
    pub l2: CacheShape,
    /// Last-level cache.
    pub llc: CacheShape,
}

/// Cost of getting a line from another core at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// A clean copy, with nobody waiting.
    pub clean: Cycles,
    /// A line modified there, with nobody waiting.
    pub dirty: Cycles,
    /// The service time: this transfer occupies the line for so long, and the next one of the same
    /// line waits. At most `dirty`; the rest of the latency overlaps with others.
    pub occupancy: Cycles,
}

/// A contended line: how long its owner holds it, which waiter is served next, and how long a reader
/// takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contention {
    /// Share of a hand-over, in thousandths, for which the owner still hits the line: until the
    /// next requester's snoop reaches it.
    pub hold_milli: u32,
    /// Share of the hold, in thousandths, by which single holds are longer or shorter.
    pub jitter_milli: u32,
    /// Requests served in one visit to a last-level cache before the oldest waiter of all is. At 1
    /// the line is first come, first served; `None` serves each waiter that was there when the
    /// visit began.
    pub visit: Option<u16>,
    /// Share of a read's latency, in thousandths, for which it keeps the line taken when it waited
    /// behind others. At 0 it takes a pass through the home, as a read that found the line free.
    pub read_milli: u32,
}

impl Contention {
    /// The model of machine files without a table `contention`.
    pub const NEAR_FIRST: Contention = Contention {
        hold_milli: 0,
        jitter_milli: 0,
        visit: None,
        read_milli: 0,
    };
}

/// Latency of taking a shared line over the clean transfer, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradeRatio {
    /// The farthest copy is in the writer's package.
    pub package_milli: u32,
    /// It is in another package.
    pub remote_milli: u32,
}

impl UpgradeRatio {
    /// Taking a shared line costs what a clean transfer does.
    pub const ONE: UpgradeRatio = UpgradeRatio {
        package_milli: 1_000,
        remote_milli: 1_000,
    };
}

/// Memory latencies, from issue to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dram {
    /// The CPU's own NUMA node.
    pub local: Cycles,
    /// Another node of the same package.
    pub package: Cycles,
    /// Another package, directly linked.
    pub remote: Cycles,
    /// The other half of the machine.
    pub far_remote: Cycles,
}

/// The properties of a core that decide how much of a latency it can hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreModel {
    /// Cycles per instruction of code that hits the L1, in thousandths.
    pub cpi_milli: u32,
    /// Stores that can wait for their line.
    pub store_buffer_entries: u16,
    /// Instructions that may issue past a load that has not completed (the reorder buffer).
    pub load_window_insns: u16,
    /// Line misses that a core can have under way at once (fill buffers).
    pub fill_buffers: u16,
    /// A locked operation on a line that the core owns.
    pub locked_hit: Cycles,
    /// Instructions that retire in a cycle at most.
    pub retire_width: u16,
    /// From a memory-ordering clear to the second issue of the load that lost its line; `None` where
    /// loads keep their data.
    pub ordering_clear: Option<Cycles>,
}

impl CoreModel {
    /// Instructions that retire in a cycle where a machine file does not say: four in Intel cores
    /// from Ivy Bridge to Cascade Lake (github.com/andreas-abel/uiCA, microArchConfigs.py).
    pub const RETIRE_WIDTH: u16 = 4;
}

/// Costs of interrupts, idle states and the ways into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineCosts([Cycles; MachineCost::COUNT]);

impl MachineCosts {
    /// The defaults at a clock.
    pub fn defaults(clock: Clock) -> MachineCosts {
        MachineCosts(MachineCost::ALL.map(|cost| cost.parameter().default.cycles(clock)))
    }

    /// Returns one cost, in cycles.
    pub const fn get(&self, cost: MachineCost) -> Cycles {
        self.0[cost as usize]
    }

    /// Replaces one cost.
    pub const fn set(&mut self, cost: MachineCost, cycles: Cycles) {
        self.0[cost as usize] = cycles;
    }
}

/// A machine, resolved to cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Short name: a preset's file name.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Frequency of the virtual clock.
    pub clock: Clock,
    /// The CPUs and their places.
    pub topology: Topology,
    /// Coherence protocol.
    pub protocol: Protocol,
    /// The caches.
    pub caches: Caches,
    /// Transfers by `Distance::index()`; the entry for `Same` is zero and unused.
    pub transfers: [Transfer; Distance::COUNT],
    /// The same when neither side is in the package of the line's home node (2-socket EPYC: the
    /// home decides). Equal to `transfers` where a machine has no such rule.
    pub transfers_away_from_home: [Transfer; Distance::COUNT],
    /// A line that several CPUs wait for.
    pub contention: Contention,
    /// Price of taking a shared line.
    pub upgrade: UpgradeRatio,
    /// Share of the lines that come into an L2, in thousandths, with which the other line of their aligned pair
    /// of 128 bytes comes too. 0 where nobody says that the machine does it.
    pub adjacent_line_milli: u32,
    /// Memory latencies.
    pub dram: Dram,
    /// Properties of the cores.
    pub core: CoreModel,
    /// Interrupts, idle states and the ways into the kernel.
    pub costs: MachineCosts,
}
