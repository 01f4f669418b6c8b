//! The tightest domain with room: the part of a machine for a group of threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hitm_base::{CpuId, CpuPlace, Topology};

use crate::Need;

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
        /// A half of a machine that is glued together from two.
        Half = "half",
        /// Everything.
        Machine = "machine",
    }
}

impl Level {
    /// The part at this level that holds a place: levels below it are cleared.
    fn part(self, place: CpuPlace) -> CpuPlace {
        let mut part = place;
        let below: [(Level, &mut u8); 8] = [
            (Level::Core, &mut part.thread),
            (Level::Cluster, &mut part.core),
            (Level::Llc, &mut part.cluster),
            (Level::Node, &mut part.llc),
            (Level::Die, &mut part.node),
            (Level::Package, &mut part.die),
            (Level::Half, &mut part.package),
            (Level::Machine, &mut part.half),
        ];
        for (level, index) in below {
            if level <= self {
                *index = 0;
            }
        }
        part
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A CPU as a group of threads finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The CPU.
    pub cpu: CpuId,
    /// Set if all of the group may run there.
    pub is_open: bool,
    /// Set if another group has it.
    pub is_taken: bool,
    /// Tasks of others that run there.
    pub others: usize,
    /// Threads of the group that are there already.
    pub inside: usize,
}

/// A part of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its level; the tightest of those with the same CPUs.
    pub level: Level,
    /// All of its CPUs, core by core.
    pub all: Vec<CpuId>,
    /// CPUs that the group gets, of these.
    pub cpus: Vec<CpuId>,
    /// Set if that is no choice: the whole, and in it all CPUs on which the group may run anyway.
    pub is_everything: bool,
}

/// A domain with room, and what decides between it and others, the least first.
struct Candidate {
    rank: (usize, usize, Reverse<usize>, Option<CpuId>),
    level: Level,
    spots: Vec<Spot>,
}

impl Candidate {
    /// None without room.
    fn of(level: Level, spots: Vec<Spot>, need: Need) -> Option<Candidate> {
        let sum = |count: fn(&Spot) -> usize| spots.iter().map(count).sum::<usize>();
        let open = sum(|spot| usize::from(spot.is_open));
        if open < need.least || spots.iter().any(|spot| spot.is_taken) {
            return None;
        }
        let first = spots.iter().map(|spot| spot.cpu).min();
        let (others, inside) = (sum(|spot| spot.others), sum(|spot| spot.inside));
        Some(Candidate {
            rank: (spots.len(), others, Reverse(inside), first),
            level,
            spots,
        })
    }
}

/// Chooses the tightest domain that a group fits into, of the CPUs that `spots` has, if there is one.
///
/// It has enough open CPUs and none of another group's. Of equal ones it is the one with the fewest
/// other tasks, then the one with most of the threads, then that of the lowest CPU. The group gets
/// all of its open CPUs, but no more than quotas are worth.
pub fn tightest(topology: &Topology, spots: &[Spot], need: Need) -> Option<Domain> {
    let halves: BTreeSet<u8> = spots
        .iter()
        .map(|spot| topology.place(spot.cpu).half)
        .collect();
    let levels = Level::ALL.into_iter();
    let levels = levels.filter(|level| *level != Level::Half || halves.len() > 1);
    let domains = levels.flat_map(|level| {
        let parts = parts(topology, spots, level).into_values();
        parts.filter_map(move |part| Candidate::of(level, part, need))
    });
    // Of equal ones the first is taken: a wider level with the same CPUs is the same domain.
    let best = domains.min_by_key(|candidate| candidate.rank)?;
    let open = |spots: &[Spot]| -> Vec<CpuId> {
        let open = spots.iter().filter(|spot| spot.is_open);
        open.map(|spot| spot.cpu).collect()
    };
    let mut cpus = open(&best.spots);
    cpus.truncate(need.most);
    Some(Domain {
        level: best.level,
        is_everything: best.spots.len() == spots.len() && cpus.len() == open(spots).len(),
        all: best.spots.iter().map(|spot| spot.cpu).collect(),
        cpus,
    })
}

/// All parts of a level, each with its CPUs core by core.
fn parts(topology: &Topology, spots: &[Spot], level: Level) -> BTreeMap<CpuPlace, Vec<Spot>> {
    let mut parts: BTreeMap<CpuPlace, Vec<Spot>> = BTreeMap::new();
    for spot in spots {
        let part = level.part(topology.place(spot.cpu));
        parts.entry(part).or_default().push(*spot);
    }
    for part in parts.values_mut() {
        part.sort_unstable_by_key(|spot| topology.place(spot.cpu));
    }
    parts
}

#[cfg(test)]
mod tests {
    use hitm_base::{Numbering, TopologyShape};
    use proptest::prelude::*;

    use super::*;

    /// Two packages of two LLCs of two clusters of two cores, with two threads each.
    fn topology() -> Topology {
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
        topology.unwrap()
    }

    /// All CPUs, where the group may run on those of the list, or everywhere.
    fn spots(open: &[u16]) -> Vec<Spot> {
        let cpus = topology().cpus();
        let spot = |cpu: CpuId| Spot {
            cpu,
            is_open: open.is_empty() || open.contains(&cpu.0),
            is_taken: false,
            others: 0,
            inside: 0,
        };
        cpus.map(spot).collect()
    }

    fn chosen(of_use: usize, spots: &[Spot]) -> Option<Domain> {
        tightest(&topology(), spots, Need::new(of_use, None))
    }

    fn numbers(domain: &Domain) -> Vec<u16> {
        domain.cpus.iter().map(|cpu| cpu.0).collect()
    }

    #[test]
    fn the_number_of_cpus_decides_the_level() {
        let level = |of_use| {
            let found = chosen(of_use, &spots(&[]));
            found.map(|found| (found.level, found.cpus.len()))
        };
        assert_eq!(level(1), Some((Level::Core, 2)));
        assert_eq!(level(3), Some((Level::Cluster, 4)));
        assert_eq!(level(5), Some((Level::Llc, 8)));
        assert_eq!(level(9), Some((Level::Node, 16)));
        assert_eq!(level(17), Some((Level::Machine, 32)));
        assert_eq!(level(33), None);
    }

    #[test]
    fn all_that_is_open_anyway_is_no_choice() {
        let is_everything = |need: Need, open: &[u16]| {
            let found = tightest(&topology(), &spots(open), need);
            found.unwrap().is_everything
        };
        assert!(is_everything(Need::new(17, None), &[]));
        assert!(is_everything(Need::new(2, None), &[0, 8]));
        assert!(!is_everything(Need::new(17, Some(17)), &[]));
        assert!(!is_everything(Need::new(2, None), &[]));
    }

    #[test]
    fn the_quietest_of_equal_ones_then_the_nearest_then_the_first() {
        let mut spots = spots(&[]);
        assert_eq!(numbers(&chosen(2, &spots).unwrap()), [0, 16]);
        (spots[5].inside, spots[21].inside, spots[0].inside) = (1, 1, 1);
        assert_eq!(numbers(&chosen(2, &spots).unwrap()), [5, 21]);
        spots[21].others = 2;
        assert_eq!(numbers(&chosen(2, &spots).unwrap()), [0, 16]);
        spots[16].is_taken = true;
        assert_eq!(numbers(&chosen(2, &spots).unwrap()), [1, 17]);
    }

    proptest! {
        #[test]
        fn no_fitting_part_is_smaller(
            of_use in 0usize..34,
            quota in prop::option::of(0usize..34),
            closed in prop::collection::btree_set(0usize..32, 0..32),
            taken in prop::collection::btree_set(0usize..32, 0..6),
        ) {
            let (topology, need) = (topology(), Need::new(of_use, quota));
            let mut spots = spots(&[]);
            closed.iter().for_each(|cpu| spots[*cpu].is_open = false);
            taken.iter().for_each(|cpu| spots[*cpu].is_taken = true);
            let parts = Level::ALL.into_iter().flat_map(|level| parts(&topology, &spots, level));
            let fits = |part: &Vec<Spot>| {
                part.iter().filter(|spot| spot.is_open).count() >= need.least
                    && !part.iter().any(|spot| spot.is_taken)
            };
            let least = parts.map(|part| part.1).filter(fits).map(|part| part.len()).min();
            let found = tightest(&topology, &spots, need);
            prop_assert_eq!(found.as_ref().map(|domain| domain.all.len()), least);
            if let Some(found) = found {
                prop_assert!(found.cpus.iter().all(|cpu| !closed.contains(&cpu.index())));
                prop_assert!(found.cpus.iter().all(|cpu| found.all.contains(cpu)));
                prop_assert!((need.least..=need.most).contains(&found.cpus.len()));
            }
        }
    }
}
