//! The tightest domain with room: the part of the machine for a group of threads.
//!
//! `hitm_policy` has the rule, which the simulator's lock-aware placement follows as well.

use std::collections::BTreeMap;

use hitm_base::{CpuId, Topology};
use hitm_fields::fields;
pub use hitm_policy::Level;
use hitm_policy::{Need, Spot};

use super::cpus::CpuSet;

/// The machine: its tree, and the kernel's number of each of its CPUs.
#[derive(Debug, Clone)]
pub struct Machine {
    topology: Topology,
    numbers: Vec<u16>,
}

impl Machine {
    /// A machine whose online CPUs, by number, are those of `topology`. `None` when the counts
    /// differ.
    pub fn new(topology: Topology, online: &CpuSet) -> Option<Machine> {
        let numbers: Vec<u16> = online.iter().collect();
        (numbers.len() == topology.cpu_count()).then_some(Machine { topology, numbers })
    }

    /// Every CPU.
    pub fn cpus(&self) -> CpuSet {
        self.numbers.iter().copied().collect()
    }
}

fields! {
    /// A part of the machine.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Domain in domain_of_cpus {
        /// Its level; the tightest of those with the same CPUs.
        pub level: Level;
        /// Its level; the tightest of those with the same CPUs.
        level => label "level", |domain| domain.level.id();
        /// All of its CPUs.
        pub all_cpus: CpuSet => label "all CPUs";
        /// CPUs that the group gets.
        pub cpus: CpuSet => label "CPUs";
    }
}

/// A wish for a domain.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// CPUs that are of use to the group.
    pub of_use: usize,
    /// CPUs on which all of the group may run.
    pub allowed: CpuSet,
    /// CPUs of other groups.
    pub reserved: CpuSet,
    /// CPUs that the group's quotas are worth.
    pub quota_cpus: Option<usize>,
    /// Running tasks of others, by CPU.
    pub others: BTreeMap<u16, usize>,
    /// The CPU that each thread of the group ran on last.
    pub seats: Vec<u16>,
}

impl Wish {
    /// The CPUs that the group asks for.
    pub fn need(&self) -> Need {
        Need::new(self.of_use, self.quota_cpus)
    }

    /// A CPU of this number as the group finds it.
    fn spot(&self, cpu: CpuId, number: u16) -> Spot {
        Spot {
            cpu,
            is_open: self.allowed.contains(number),
            is_taken: self.reserved.contains(number),
            others: self.others.get(&number).copied().unwrap_or_default(),
            inside: self.seats.iter().filter(|seat| **seat == number).count(),
        }
    }
}

/// Returns the tightest domain that a wish fits into, if there is one, and whether that is all CPUs
/// that the group may use anyway.
pub fn tightest(machine: &Machine, wish: &Wish) -> Option<Found> {
    let numbers = machine.numbers.iter().zip(0..);
    let spots: Vec<Spot> = numbers
        .map(|(number, index)| wish.spot(CpuId(index), *number))
        .collect();
    let found = hitm_policy::tightest(&machine.topology, &spots, wish.need())?;
    let set = |cpus: &[CpuId]| {
        cpus.iter()
            .map(|cpu| machine.numbers[cpu.index()])
            .collect()
    };
    Some(Found {
        domain: Domain {
            level: found.level,
            all_cpus: set(&found.all),
            cpus: set(&found.cpus),
        },
        is_everything: found.is_everything,
    })
}

/// A domain with room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The domain.
    pub domain: Domain,
    /// Set if it is the machine, with all CPUs on which the group may run.
    pub is_everything: bool,
}

#[cfg(test)]
mod tests {
    use hitm_base::{Numbering, TopologyShape};

    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    #[test]
    fn numbers_of_offline_cpus_are_skipped() {
        let shape = TopologyShape {
            halves: 1,
            packages: 1,
            dies: 1,
            nodes: 1,
            llcs: 1,
            clusters: 2,
            cores: 2,
            threads: 1,
            numbering: Numbering::CoresFirst,
        };
        let topology = Topology::from_shape(shape).unwrap();
        assert!(Machine::new(topology.clone(), &set("0-4")).is_none());
        let machine = Machine::new(topology, &set("0,2,5-6")).unwrap();
        let mut wish = Wish {
            of_use: 2,
            allowed: set("2,5-6"),
            ..Wish::default()
        };
        let found = tightest(&machine, &wish).unwrap().domain;
        assert_eq!((found.level, found.cpus), (Level::Cluster, set("5-6")));
        wish.reserved = set("6");
        assert_eq!(tightest(&machine, &wish), None);
        wish.reserved = CpuSet::EMPTY;
        wish.of_use = 3;
        assert!(tightest(&machine, &wish).unwrap().is_everything);
        wish.quota_cpus = Some(2);
        wish.seats = vec![5];
        wish.others = BTreeMap::from([(6, 1)]);
        let found = tightest(&machine, &wish).unwrap();
        assert_eq!(
            (found.domain.cpus, found.is_everything),
            (set("5-6"), false)
        );
    }
}
