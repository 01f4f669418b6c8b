//! The tightest domain with room: the part of the machine for a group of threads.
//!
//! The rule is that of the simulator's lock-aware placement (`hitm_sim::kernel::lock_affinity`). Of
//! the parts with enough CPUs it takes the one with the fewest. Ties go to the fewest other tasks,
//! then to most of the group's threads already there.

use std::collections::BTreeMap;
use std::fmt;

use hitm_base::{CpuId, CpuPlace, Topology};
use hitm_fields::{Reported, Value, fields};

use super::cpus::CpuSet;

hitm_base::words! {
    /// Levels of a machine, the tightest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        /// Threads of one core.
        Core = "core",
        /// Cores that share an L2 cache or an L3 tag.
        Cluster = "cluster",
        /// Cores under one last-level cache.
        Llc = "LLC",
        /// A NUMA node.
        Node = "node",
        /// A die.
        Die = "die",
        /// A package.
        Package = "package",
        /// Everything.
        Machine = "machine",
    }
}

impl Level {
    /// The part at this level that holds a place: levels below it are cleared.
    fn part(self, place: CpuPlace) -> CpuPlace {
        let mut part = place;
        let below: [(Level, &mut u8); 7] = [
            (Level::Core, &mut part.thread),
            (Level::Cluster, &mut part.core),
            (Level::Llc, &mut part.cluster),
            (Level::Node, &mut part.llc),
            (Level::Die, &mut part.node),
            (Level::Package, &mut part.die),
            (Level::Machine, &mut part.package),
        ];
        for (level, index) in below {
            if level <= self {
                *index = 0;
            }
        }
        if self == Level::Machine {
            part.half = 0;
        }
        part
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

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

    /// All parts of a level, each with its CPUs, in the order of their places.
    fn parts(&self, level: Level) -> BTreeMap<CpuPlace, CpuSet> {
        let mut parts: BTreeMap<CpuPlace, Vec<u16>> = BTreeMap::new();
        for (index, number) in self.numbers.iter().enumerate() {
            let place = self.topology.place(CpuId(index as u16));
            parts.entry(level.part(place)).or_default().push(*number);
        }
        let sets = parts.into_iter();
        sets.map(|(part, cpus)| (part, cpus.into_iter().collect()))
            .collect()
    }

    /// At most `count` CPUs of `cpus`, core by core.
    fn first_cores(&self, cpus: &CpuSet, count: usize) -> CpuSet {
        let indexes = self.numbers.iter().enumerate();
        let mut places: Vec<(CpuPlace, u16)> = indexes
            .filter(|(_, number)| cpus.contains(**number))
            .map(|(index, number)| (self.topology.place(CpuId(index as u16)), *number))
            .collect();
        places.sort_unstable();
        places.into_iter().take(count).map(|(_, cpu)| cpu).collect()
    }
}

impl Reported for Level {
    fn value(&self) -> Value {
        self.id().value()
    }
}

fields! {
    /// A part of the machine.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Domain in domain_of_cpus {
        /// Its level; the tightest of those with the same CPUs.
        pub level: Level => label "level";
        /// All of its CPUs.
        pub all_cpus: CpuSet => label "all CPUs";
        /// CPUs that the group gets.
        pub cpus: CpuSet => label "CPUs";
    }
}

/// A wish for a domain.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// CPUs that the group needs.
    pub needed: usize,
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

/// Returns the tightest domain that a wish fits into, if there is one.
///
/// It has only allowed CPUs, at least as many as are needed, and no more than quotas are worth.
pub fn tightest(machine: &Machine, wish: &Wish) -> Option<Domain> {
    let quota = wish.quota_cpus.unwrap_or(usize::MAX).max(1);
    let needed = wish.needed.min(quota).max(1);
    let mut found: Vec<Domain> = Vec::new();
    for level in Level::ALL {
        for all in machine.parts(level).into_values() {
            let open = all.intersection(&wish.allowed);
            let is_free = all.intersection(&wish.reserved).is_empty();
            // A wider level with the same CPUs is the same domain.
            if is_free && open.len() >= needed && found.iter().all(|domain| domain.all_cpus != all)
            {
                let cpus = machine.first_cores(&open, quota);
                found.push(Domain {
                    level,
                    all_cpus: all,
                    cpus,
                });
            }
        }
    }
    let rank = |domain: &Domain| {
        let others = domain
            .all_cpus
            .iter()
            .filter_map(|cpu| wish.others.get(&cpu));
        let seats = wish.seats.iter();
        let inside = seats.filter(|cpu| domain.all_cpus.contains(**cpu)).count();
        let others: usize = others.sum();
        (domain.all_cpus.len(), others, std::cmp::Reverse(inside))
    };
    found.into_iter().min_by_key(rank)
}

#[cfg(test)]
mod tests {
    use hitm_base::{Numbering, TopologyShape};
    use proptest::prelude::*;

    use super::*;

    /// Two packages of two LLCs of two clusters of four cores, with two threads each.
    fn machine() -> Machine {
        let topology = Topology::from_shape(TopologyShape {
            halves: 1,
            packages: 2,
            dies: 1,
            nodes: 1,
            llcs: 2,
            clusters: 2,
            cores: 2,
            threads: 2,
            numbering: Numbering::CoresFirst,
        });
        let topology = topology.unwrap();
        let online = (0..topology.cpu_count() as u16).collect();
        Machine::new(topology, &online).unwrap()
    }

    fn set(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    fn wish(needed: usize, allowed: &str) -> Wish {
        Wish {
            needed,
            allowed: set(allowed),
            ..Wish::default()
        }
    }

    fn check(wish: &Wish, expected: Option<(Level, &str)>) {
        let found = tightest(&machine(), wish);
        let expected = expected.map(|(level, list)| (level, set(list)));
        assert_eq!(found.map(|domain| (domain.level, domain.cpus)), expected);
    }

    #[test]
    fn the_number_of_cpus_decides_the_level() {
        check(&wish(1, "0-31"), Some((Level::Core, "0,16")));
        check(&wish(2, "0-31"), Some((Level::Core, "0,16")));
        check(&wish(3, "0-31"), Some((Level::Cluster, "0-1,16-17")));
        check(&wish(5, "0-31"), Some((Level::Llc, "0-3,16-19")));
        check(&wish(9, "0-31"), Some((Level::Node, "0-7,16-23")));
        check(&wish(17, "0-31"), Some((Level::Machine, "0-31")));
        check(&wish(33, "0-31"), None);
    }

    #[test]
    fn masks_and_other_groups_are_kept_to() {
        check(&wish(2, "1,2,5,6"), Some((Level::Llc, "1-2")));
        let mut wish = wish(2, "0-31");
        wish.reserved = set("0,17,18");
        check(&wish, Some((Level::Core, "3,19")));
    }

    #[test]
    fn a_quota_bounds_the_cpus() {
        let mut wish = wish(3, "0-31");
        wish.quota_cpus = Some(3);
        check(&wish, Some((Level::Cluster, "0-1,16")));
        wish.quota_cpus = Some(1);
        check(&wish, Some((Level::Core, "0")));
    }

    #[test]
    fn of_equal_domains_the_quietest_is_taken_then_the_nearest() {
        let mut wish = wish(2, "0-31");
        wish.seats = vec![5, 21, 0];
        check(&wish, Some((Level::Core, "5,21")));
        wish.others = BTreeMap::from([(21, 2), (0, 1)]);
        check(&wish, Some((Level::Core, "1,17")));
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
        let found = tightest(&machine, &wish(2, "2,5-6")).unwrap();
        assert_eq!((found.level, found.cpus), (Level::Cluster, set("5-6")));
    }

    /// By hand: every part of the machine is a range of four numbers' bits.
    fn parts() -> Vec<CpuSet> {
        let machine = machine();
        let levels = Level::ALL.into_iter();
        levels
            .flat_map(|level| machine.parts(level).into_values())
            .collect()
    }

    proptest! {
        #[test]
        fn never_wider_than_allowed_and_always_the_smallest(
            needed in 1usize..34,
            allowed in prop::collection::btree_set(0u16..32, 0..33),
            reserved in prop::collection::btree_set(0u16..32, 0..6),
            quota_cpus in prop::option::of(0usize..34),
        ) {
            let allowed: CpuSet = allowed.into_iter().collect();
            let reserved: CpuSet = reserved.into_iter().collect();
            let wish = Wish { needed, allowed: allowed.clone(), reserved: reserved.clone(), quota_cpus, ..Wish::default() };
            let wanted = needed.min(quota_cpus.unwrap_or(needed)).max(1);
            let fits = |part: &CpuSet| {
                part.intersection(&reserved).is_empty() && part.intersection(&allowed).len() >= wanted
            };
            let smallest = parts().into_iter().filter(fits).map(|part| part.len()).min();
            let found = tightest(&machine(), &wish);
            prop_assert_eq!(found.as_ref().map(|domain| domain.all_cpus.len()), smallest);
            if let Some(domain) = found {
                prop_assert!(domain.cpus.is_subset(&allowed));
                prop_assert!(domain.cpus.is_subset(&domain.all_cpus));
                prop_assert!(domain.cpus.len() >= wanted);
                prop_assert!(domain.cpus.len() <= quota_cpus.unwrap_or(32).max(1));
            }
        }
    }
}
