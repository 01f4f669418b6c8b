//! The tree of a machine: half > package > die > NUMA node > LLC > cluster > core > thread.
//!
//! A CPU's place is eight small numbers, each the index within its parent. Packed into one integer,
//! most significant level first, the distance of two CPUs is the first byte in which they differ.

use std::ops::RangeInclusive;

use thiserror::Error;

use crate::CpuId;

/// Reads a part of a list of CPUs, `8` or `0-3`. None for any other text, and for numbers that no topology has.
pub fn cpu_range(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = text.parse().ok().filter(|_| is_number)?;
        (usize::from(number) < Topology::CPUS_MAX).then_some(number)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first)?..=number(last)?;
    (!range.is_empty()).then_some(range)
}

crate::numbered! {
    /// Distance of two CPUs: the innermost part of the machine that holds both.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Distance {
        /// The same CPU.
        Same,
        /// Another thread of the same core.
        Smt,
        /// Another core of the same cluster (cores that share an L2 or an L3 tag).
        Cluster,
        /// Another core under the same last-level cache.
        Llc,
        /// Another last-level cache on the same die.
        Die,
        /// Another die of the same package.
        Package,
        /// Another package, directly linked.
        Remote,
        /// Another package in the other half of the machine, behind a node controller.
        FarRemote,
    }
}

impl Distance {
    /// The distance as an index into a table of [`Distance::COUNT`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns true if the two CPUs sit in different packages.
    pub const fn is_remote(self) -> bool {
        matches!(self, Distance::Remote | Distance::FarRemote)
    }
}

/// Place of one CPU: at each level the index within its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuPlace {
    /// Half of a machine that is glued together from two.
    pub half: u8,
    /// Package (socket) in the half.
    pub package: u8,
    /// Die in the package.
    pub die: u8,
    /// NUMA node in the die.
    pub node: u8,
    /// Last-level cache in the node.
    pub llc: u8,
    /// Cluster under the last-level cache.
    pub cluster: u8,
    /// Core in the cluster.
    pub core: u8,
    /// Hardware thread in the core.
    pub thread: u8,
}

impl CpuPlace {
    const fn packed(self) -> u64 {
        u64::from_be_bytes([
            self.half,
            self.package,
            self.die,
            self.node,
            self.llc,
            self.cluster,
            self.core,
            self.thread,
        ])
    }
}

/// Order in which CPU numbers run through a uniform tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// First threads of all cores, then second threads of all cores: what Linux does on x86.
    CoresFirst,
    /// The threads of one core have neighbouring numbers.
    ThreadsAdjacent,
}

/// A machine in which every part of one level looks the same. It has the count of each level's
/// parts in its parent, every count at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyShape {
    /// Halves of the machine; 1 but for machines behind a node controller.
    pub halves: u8,
    /// Packages in each half.
    pub packages: u8,
    /// Dies in each package.
    pub dies: u8,
    /// NUMA nodes in each die.
    pub nodes: u8,
    /// Last-level caches in each node.
    pub llcs: u8,
    /// Clusters under each last-level cache.
    pub clusters: u8,
    /// Cores in each cluster.
    pub cores: u8,
    /// Threads in each core.
    pub threads: u8,
    /// Order of the CPU numbers.
    pub numbering: Numbering,
}

/// Reason for which a list of places is no topology.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// No CPU at all.
    #[error("a machine needs at least one CPU")]
    Empty,
    /// More CPUs, or more last-level caches, than the engine's tables hold.
    #[error("{found} {what}, at most {max} can be modelled")]
    TooMany {
        /// Name of the parts in excess.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Two CPUs claim one place.
    #[error("CPU {second} has the same place as CPU {first}")]
    SamePlace {
        /// The CPU that comes first.
        first: usize,
        /// The CPU that repeats it.
        second: usize,
    },
}

/// The CPUs of a machine, their places, and for each CPU the machine-wide number of every part that
/// it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    places: Vec<CpuPlace>,
    packed: Vec<u64>,
    core: Vec<u16>,
    llc: Vec<u16>,
    node: Vec<u16>,
    package: Vec<u16>,
    package_of_node: Vec<u16>,
    llc_of_core: Vec<u16>,
    core_count: usize,
    llc_count: usize,
    node_count: usize,
    package_count: usize,
}

impl Topology {
    /// The most CPUs that a topology may have.
    pub const CPUS_MAX: usize = 8192;
    /// The most last-level caches: the engine keeps one bit for each in a word.
    pub const LLCS_MAX: usize = 64;

    /// A topology from the place of each CPU, in order of CPU number.
    pub fn from_places(places: Vec<CpuPlace>) -> Result<Topology, TopologyError> {
        if places.is_empty() {
            return Err(TopologyError::Empty);
        }
        limit("CPUs", places.len(), Topology::CPUS_MAX)?;
        let packed: Vec<u64> = places.iter().map(|place| place.packed()).collect();
        reject_same_place(&packed)?;
        let (core, core_count) = number_parts(&packed, 1);
        let (llc, llc_count) = number_parts(&packed, 3);
        let (node, node_count) = number_parts(&packed, 4);
        let (package, package_count) = number_parts(&packed, 6);
        limit("last-level caches", llc_count, Topology::LLCS_MAX)?;
        let mut package_of_node = vec![0; node_count];
        for (node, package) in node.iter().zip(&package) {
            package_of_node[usize::from(*node)] = *package;
        }
        let mut llc_of_core = vec![0; core_count];
        for (core, llc) in core.iter().zip(&llc) {
            llc_of_core[usize::from(*core)] = *llc;
        }
        Ok(Topology {
            places,
            packed,
            core,
            llc,
            node,
            package,
            package_of_node,
            llc_of_core,
            core_count,
            llc_count,
            node_count,
            package_count,
        })
    }

    /// The topology of a uniform machine.
    pub fn from_shape(shape: TopologyShape) -> Result<Topology, TopologyError> {
        let mut places = Vec::new();
        for half in 0..shape.halves {
            for package in 0..shape.packages {
                for die in 0..shape.dies {
                    for node in 0..shape.nodes {
                        for llc in 0..shape.llcs {
                            for cluster in 0..shape.clusters {
                                for core in 0..shape.cores {
                                    for thread in 0..shape.threads {
                                        places.push(CpuPlace {
                                            half,
                                            package,
                                            die,
                                            node,
                                            llc,
                                            cluster,
                                            core,
                                            thread,
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        if shape.numbering == Numbering::CoresFirst {
            places.sort_by_key(|place| place.thread); // Stable: cores keep their order.
        }
        Topology::from_places(places)
    }

    /// Number of logical CPUs.
    pub fn cpu_count(&self) -> usize {
        self.places.len()
    }

    /// Number of physical cores.
    pub fn core_count(&self) -> usize {
        self.core_count
    }

    /// Number of last-level caches.
    pub fn llc_count(&self) -> usize {
        self.llc_count
    }

    /// Number of NUMA nodes.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// Number of packages.
    pub fn package_count(&self) -> usize {
        self.package_count
    }

    /// Every CPU, in order of number.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.places.len() as u16).map(CpuId)
    }

    /// Returns the place of `cpu`.
    pub fn place(&self, cpu: CpuId) -> CpuPlace {
        self.places[cpu.index()]
    }

    /// Machine-wide number of the core of `cpu`.
    #[inline]
    pub fn core_of(&self, cpu: CpuId) -> u16 {
        self.core[cpu.index()]
    }

    /// Machine-wide number of the last-level cache of `cpu`.
    #[inline]
    pub fn llc_of(&self, cpu: CpuId) -> u16 {
        self.llc[cpu.index()]
    }

    /// Machine-wide number of the NUMA node of `cpu`.
    #[inline]
    pub fn node_of(&self, cpu: CpuId) -> u16 {
        self.node[cpu.index()]
    }

    /// Machine-wide number of the package of `cpu`.
    #[inline]
    pub fn package_of(&self, cpu: CpuId) -> u16 {
        self.package[cpu.index()]
    }

    /// Machine-wide number of the package of NUMA node `node`.
    #[inline]
    pub fn package_of_node(&self, node: u16) -> u16 {
        self.package_of_node[usize::from(node)]
    }

    /// Machine-wide number of the last-level cache of core `core`.
    #[inline]
    pub fn llc_of_core(&self, core: u16) -> u16 {
        self.llc_of_core[usize::from(core)]
    }

    /// Returns the distance of `a` and `b`.
    #[inline]
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        let differing = self.packed[a.index()] ^ self.packed[b.index()];
        distance_of_first_difference(differing)
    }
}

/// The distance of two packed places from their exclusive or.
#[inline]
const fn distance_of_first_difference(differing: u64) -> Distance {
    // A table: the branches of a match would be mispredicted.
    const BY_EQUAL_BYTES: [Distance; 9] = [
        Distance::FarRemote,
        Distance::Remote,
        Distance::Package,
        Distance::Die,
        Distance::Die,
        Distance::Llc,
        Distance::Cluster,
        Distance::Smt,
        Distance::Same,
    ];
    BY_EQUAL_BYTES[differing.leading_zeros() as usize / 8]
}

fn limit(what: &'static str, found: usize, max: usize) -> Result<(), TopologyError> {
    if found > max {
        Err(TopologyError::TooMany { what, found, max })
    } else {
        Ok(())
    }
}

fn reject_same_place(packed: &[u64]) -> Result<(), TopologyError> {
    let mut order: Vec<usize> = (0..packed.len()).collect();
    order.sort_by_key(|&cpu| (packed[cpu], cpu));
    for pair in order.windows(2) {
        if packed[pair[0]] == packed[pair[1]] {
            return Err(TopologyError::SamePlace {
                first: pair[0],
                second: pair[1],
            });
        }
    }
    Ok(())
}

/// Numbers the parts of one level machine-wide, in the order of their places. `levels_below` is how
/// many bytes of a packed place lie below that level.
fn number_parts(packed: &[u64], levels_below: u32) -> (Vec<u16>, usize) {
    let mut parts: Vec<u64> = packed
        .iter()
        .map(|place| place >> (8 * levels_below))
        .collect();
    parts.sort_unstable();
    parts.dedup();
    let number_of = |place: &u64| {
        let part = place >> (8 * levels_below);
        parts
            .binary_search(&part)
            .expect("every place is in the list of its own parts") as u16
    };
    (packed.iter().map(number_of).collect(), parts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SOCKET_SMT: TopologyShape = TopologyShape {
        halves: 1,
        packages: 2,
        dies: 1,
        nodes: 1,
        llcs: 2,
        clusters: 1,
        cores: 4,
        threads: 2,
        numbering: Numbering::CoresFirst,
    };

    #[test]
    fn linux_numbers_the_second_threads_after_all_first_threads() {
        let topology = Topology::from_shape(TWO_SOCKET_SMT).unwrap();
        assert_eq!(topology.cpu_count(), 32);
        assert_eq!(topology.core_count(), 16);
        assert_eq!(topology.llc_count(), 4);
        assert_eq!(topology.distance(CpuId(0), CpuId(16)), Distance::Smt);
        assert_eq!(topology.distance(CpuId(0), CpuId(1)), Distance::Cluster);
        assert_eq!(topology.distance(CpuId(0), CpuId(4)), Distance::Die);
        assert_eq!(topology.distance(CpuId(0), CpuId(8)), Distance::Remote);
        assert_eq!(topology.distance(CpuId(5), CpuId(5)), Distance::Same);
        assert_eq!(topology.package_of(CpuId(24)), 1);
    }

    #[test]
    fn two_cpus_in_one_place_are_an_error() {
        let place = CpuPlace::default();
        assert_eq!(
            Topology::from_places(vec![place, place]),
            Err(TopologyError::SamePlace {
                first: 0,
                second: 1
            })
        );
        assert_eq!(Topology::from_places(vec![]), Err(TopologyError::Empty));
    }
}
