//! Hand-overs by giver and taker, at the finest level of the machine that is bounded.

use hitm_fields::{fields, words};
use std::collections::BTreeMap;

use hitm_base::{CpuId, Topology};
use hitm_coherence::stats::{Giving, Transfers};

words! {
    /// A level of the machine whose parts hand lines to each other.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub enum Level {
        /// Logical CPUs.
        #[default]
        Cpu = "cpu",
        /// Cores.
        Core = "core",
        /// Last-level caches.
        Llc = "llc",
        /// NUMA nodes.
        Node = "node",
        /// Packages.
        Package = "package",
    }
}

impl Level {
    /// Number of the part that holds a CPU.
    pub fn of(self, topology: &Topology, cpu: CpuId) -> u64 {
        match self {
            Level::Cpu => cpu.0.into(),
            Level::Core => topology.core_of(cpu).into(),
            Level::Llc => topology.llc_of(cpu).into(),
            Level::Node => topology.node_of(cpu).into(),
            Level::Package => topology.package_of(cpu).into(),
        }
    }
}

/// Hand-overs between parts of one level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferTable {
    /// The level.
    pub level: Level,
    /// By giver, then taker.
    pub pairs: Vec<TransferPair>,
    /// Hand-overs whose giver is not known.
    pub unknown: Transfers,
}

fields! {
    /// Hand-overs from one part to another.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TransferPair in transfer {
        /// Number of the CPU, core, LLC, node or package that had the line.
        pub giver: u64 => number "from";
        /// Number of the one that took it.
        pub taker: u64 => number "to";
        /// The hand-overs.
        pub transfers: Transfers;
        /// Accesses whose data, or whose right to write, came from there.
        count => count "hand-overs", |pair| pair.transfers.count;
        ..TransferSums: hitm_count, lost_cycles;
    }
}

fields! {
    /// Hand-overs whose giver is not known.
    pub unknown for Transfers {
        /// Accesses that took a line whose users before were not recorded.
        count => count "hand-overs";
        ..TransferSums: hitm_count, lost_cycles;
    }
}

/// Whatever sums hand-overs up.
trait Summed {
    /// The sums.
    fn transfers(&self) -> &Transfers;
}

impl Summed for Transfers {
    fn transfers(&self) -> &Transfers {
        self
    }
}

impl Summed for TransferPair {
    fn transfers(&self) -> &Transfers {
        &self.transfers
    }
}

fields! {
    /// Sums of hand-overs.
    TransferSums for T: Summed {
        /// The part of them that found the line modified.
        hitm_count => count "HITM", |item| item.transfers().hitm_count;
        /// Cycles that the takers lost by them.
        lost_cycles => cycles "lost cycles", |item| item.transfers().lost.0;
    }
}

impl TransferTable {
    /// Hand-overs at the finest level with at most `pairs_max` pairs.
    pub(super) fn fold(giving: &Giving, topology: &Topology, pairs_max: usize) -> TransferTable {
        let mut table = TransferTable::default();
        for level in Level::ALL {
            table = TransferTable::at(level, giving, topology);
            if table.pairs.len() <= pairs_max {
                break;
            }
        }
        table
    }

    /// A recording may name CPUs that its machine does not have: they have no place.
    fn at(level: Level, giving: &Giving, topology: &Topology) -> TransferTable {
        let mut pairs: BTreeMap<(u64, u64), Transfers> = BTreeMap::new();
        let mut unknown = giving.unknown;
        for ((giver, taker), transfers) in &giving.pairs {
            let are_known = [giver, taker]
                .iter()
                .all(|cpu| cpu.index() < topology.cpu_count());
            let sum = match are_known {
                true => {
                    let pair = (level.of(topology, *giver), level.of(topology, *taker));
                    pairs.entry(pair).or_default()
                }
                false => &mut unknown,
            };
            sum.merge(transfers);
        }
        let pairs = pairs.into_iter();
        TransferTable {
            level,
            pairs: pairs
                .map(|((giver, taker), transfers)| TransferPair {
                    giver,
                    taker,
                    transfers,
                })
                .collect(),
            unknown,
        }
    }
}
