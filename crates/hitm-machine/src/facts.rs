//! From hwloc's or sysfs's description of a machine to a machine file.
//!
//! Both have the tree and the caches. Neither has latencies: those come from a known machine and
//! are marked as assumed, so that no reader takes them for this machine's.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::machine::{
    CacheLevel, CachePart, DramPart, Home, Item, MachineError, MachineFile, Origin, Quantity,
    Reach, Sourced, TopologySpec, TransferPart, present_distances, preset,
};
use hitm_base::{CpuPlace, Distance, LINE_SIZE, Numbering, Topology, TopologyShape};

/// Number of a group that the source lacks: all CPUs of the next outer level are in one.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// One CPU: its number, and the machine-wide number of its part at each level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuFacts {
    pub(super) number: u32,
    pub(super) package: u32,
    pub(super) die: u32,
    pub(super) node: u32,
    pub(super) llc: u32,
    /// [`UNKNOWN`] when every core is a cluster of its own.
    pub(super) cluster: u32,
    pub(super) core: u32,
}

/// One cache; 0 where the source has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CacheFacts {
    pub(super) size_bytes: u64,
    pub(super) ways: u64,
}

/// A machine without its latencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HardwareFacts {
    pub(super) name: String,
    pub(super) description: String,
    /// Source of every known number.
    pub(super) source: String,
    pub(super) cpus: Vec<CpuFacts>,
    /// L1, L2 and last level.
    pub(super) caches: [CacheFacts; 3],
    /// True if last-level caches of one package here are packages of the machine.
    pub(super) llcs_are_packages: bool,
    pub(super) clock_khz: Option<u64>,
    /// CPU vendor as CPUID or the kernel names it; empty when unknown.
    pub(super) vendor: String,
}

/// Builds the machine file of `facts`, with the latencies of `like`, or else of the preset nearest
/// to the vendor.
pub(super) fn machine_file(
    facts: &HardwareFacts,
    like: Option<&MachineFile>,
) -> Result<MachineFile, MachineError> {
    let nearest;
    let like = match like {
        Some(like) => like,
        None => {
            let name = nearest_preset(&facts.vendor);
            let text = preset(name).expect("the table above names presets");
            nearest = MachineFile::parse(text, name)?;
            &nearest
        }
    };
    let places = places(facts)?;
    let topology = Topology::from_places(places.clone()).map_err(|error| MachineError {
        origin: facts.source.clone(),
        line: None,
        key: None,
        found: error.to_string(),
        expected: "a tree of CPUs that can be modelled".into(),
    })?;
    let spec = uniform(&places).map_or(TopologySpec::Places(places), TopologySpec::Uniform);
    let mut file = MachineFile {
        name: words(&facts.name),
        description: words(&facts.description),
        topology: Sourced::from_source(spec, words(&facts.source)),
        protocol: borrowed(&like.protocol, like),
        items: BTreeMap::new(),
    };
    // The three left out depend on the tree: below, only those that it needs are copied.
    for (item, sourced) in &like.items {
        if !matches!(
            item,
            Item::Transfer(..) | Item::Dram(_) | Item::OccupancyRatio(_)
        ) {
            file.items.insert(*item, borrowed(sourced, like));
        }
    }
    let present = present_distances(&topology);
    borrow_transfers(&mut file, &present, facts.llcs_are_packages, like);
    borrow_dram(&mut file, &topology, like);
    insert_caches(&mut file, facts);
    if let Some(khz) = facts.clock_khz {
        let clock = Quantity::Kilohertz(khz);
        if Item::Clock.dimension().admits(clock) {
            file.items.insert(
                Item::Clock,
                Sourced::from_source(clock, words(&facts.source)),
            );
        }
    }
    file.resolve()?;
    Ok(file)
}

/// A known machine with a core and an interconnect of the same maker.
fn nearest_preset(vendor: &str) -> &'static str {
    match vendor {
        "AuthenticAMD" | "HygonGenuine" => "milan-2s",
        "GenuineIntel" => "icelake-2s",
        _ if cfg!(target_arch = "aarch64") => "kunpeng920-96",
        _ => "icelake-2s",
    }
}

/// Cleans a text: one line of at most 500 characters without control characters, never empty.
pub(super) fn words(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).take(400).collect();
    if clean.trim().is_empty() {
        "unknown".into()
    } else {
        clean.trim().to_owned()
    }
}

fn borrowed<T: Clone>(sourced: &Sourced<T>, like: &MachineFile) -> Sourced<T> {
    let origin = words(sourced.origin.text());
    let text = match &sourced.origin {
        Origin::Source(_) => format!("as on {}, not known here; there: {origin}", like.name),
        Origin::Assumed(_) => format!(
            "as on {}, not known here; there assumed: {origin}",
            like.name
        ),
    };
    Sourced {
        range: sourced.range.clone(),
        ..Sourced::assumed(sourced.value.clone(), text)
    }
}

/// Copies the transfers at the distances that the machine has.
fn borrow_transfers(
    file: &mut MachineFile,
    present: &BTreeSet<Distance>,
    llcs_are_packages: bool,
    like: &MachineFile,
) {
    for distance in present.iter().copied() {
        let lent = match distance {
            Distance::Die if llcs_are_packages => Distance::Remote,
            other => other,
        };
        let Some(known) = nearest_known(lent, like) else {
            continue;
        };
        for home in [Home::Near, Home::Away] {
            for part in TransferPart::ALL {
                if let Some(sourced) = like.items.get(&Item::Transfer(home, known, part)) {
                    file.items.insert(
                        Item::Transfer(home, distance, part),
                        borrowed(sourced, like),
                    );
                }
            }
        }
        let reach = if distance.is_remote() {
            Reach::Remote
        } else {
            Reach::Package
        };
        let item = Item::OccupancyRatio(reach);
        let ratio = like.items.get(&item).map(|sourced| borrowed(sourced, like));
        file.items.insert(item, ratio.unwrap_or_else(unknown_ratio));
    }
}

/// Returns the distance of `like` that stands for `distance`: itself, else the nearest nearer one
/// except the same core, else the nearest farther one.
fn nearest_known(distance: Distance, like: &MachineFile) -> Option<Distance> {
    let has = |distance: &Distance| {
        like.items
            .contains_key(&Item::Transfer(Home::Near, *distance, TransferPart::Dirty))
    };
    let nearer = |d: &Distance| *d == distance || (*d > Distance::Smt && *d < distance);
    let mut known = Distance::ALL.into_iter().filter(has);
    let farther = known.clone().find(|d| *d > distance);
    known.rfind(nearer).or(farther)
}

fn unknown_ratio() -> Sourced<Quantity> {
    let effect = "0.3 to 1.0; sets how steeply waiting grows with the number of CPUs on a line";
    Sourced::assumed(Quantity::Milli(1_000), effect)
}

/// Copies the memory latencies of the kinds of nodes that the machine has.
fn borrow_dram(file: &mut MachineFile, topology: &Topology, like: &MachineFile) {
    let mut nearer = None;
    for (part, needed) in [
        (DramPart::Local, true),
        (
            DramPart::Package,
            topology.node_count() > topology.package_count(),
        ),
        (DramPart::Remote, topology.package_count() > 1),
    ] {
        nearer = like.items.get(&Item::Dram(part)).or(nearer);
        if let Some(sourced) = nearer.filter(|_| needed) {
            file.items.insert(Item::Dram(part), borrowed(sourced, like));
        }
    }
}

/// Inserts the known caches. A size that fits no number of ways stays as on the model.
fn insert_caches(file: &mut MachineFile, facts: &HardwareFacts) {
    for (level, cache) in CacheLevel::ALL.into_iter().zip(facts.caches) {
        let size = Item::Cache(level, CachePart::Size);
        let quantity = Quantity::Bytes(cache.size_bytes);
        if !size.dimension().admits(quantity) || !cache.size_bytes.is_multiple_of(LINE_SIZE) {
            continue;
        }
        file.items
            .insert(size, Sourced::from_source(quantity, words(&facts.source)));
        let fits = |ways: u64| {
            (1..=1024).contains(&ways) && cache.size_bytes.is_multiple_of(ways * LINE_SIZE)
        };
        let ways = if fits(cache.ways) {
            Sourced::from_source(Quantity::Count(cache.ways, ""), words(&facts.source))
        } else {
            let ways = (1..=16).rev().find(|ways| fits(*ways)).unwrap_or(1);
            let effect = "4 to 20, not told by this source; hardly any effect";
            Sourced::assumed(Quantity::Count(ways, ""), effect)
        };
        file.items.insert(Item::Cache(level, CachePart::Ways), ways);
    }
}

/// Returns the place of every CPU, by CPU number: at each level the rank among the parts of the
/// same parent. A part that spans several parents is split, one for each.
fn places(facts: &HardwareFacts) -> Result<Vec<CpuPlace>, MachineError> {
    const LEVELS: [&str; 7] = [
        "packages",
        "dies",
        "NUMA nodes",
        "LLCs",
        "clusters",
        "cores",
        "threads",
    ];
    let mut cpus = facts.cpus.clone();
    cpus.sort_by_key(|cpu| cpu.number);
    let paths: Vec<[u32; 7]> = cpus
        .iter()
        .map(|cpu| {
            // Without clusters, each core is one of its own.
            let cluster = if cpu.cluster == UNKNOWN {
                cpu.core
            } else {
                cpu.cluster
            };
            [
                cpu.package,
                cpu.die,
                cpu.node,
                cpu.llc,
                cluster,
                cpu.core,
                cpu.number,
            ]
        })
        .collect();
    let mut places = vec![CpuPlace::default(); cpus.len()];
    for (depth, level) in LEVELS.into_iter().enumerate() {
        // By the whole path above, so that a part in several parents is split.
        let mut parts: BTreeMap<&[u32], BTreeMap<u32, u8>> = BTreeMap::new();
        for path in &paths {
            parts
                .entry(&path[..depth])
                .or_default()
                .insert(path[depth], 0);
        }
        for children in parts.values_mut() {
            if children.len() > 256 {
                return Err(MachineError {
                    origin: facts.source.clone(),
                    line: None,
                    key: None,
                    found: format!("{} {level} in one part", children.len()),
                    expected: "at most 256".into(),
                });
            }
            for (rank, index) in children.values_mut().enumerate() {
                *index = rank as u8;
            }
        }
        for (path, place) in paths.iter().zip(&mut places) {
            let index = parts[&path[..depth]][&path[depth]];
            *level_of(place, depth) = index;
        }
    }
    Ok(places)
}

fn level_of(place: &mut CpuPlace, depth: usize) -> &mut u8 {
    match depth {
        0 => &mut place.package,
        1 => &mut place.die,
        2 => &mut place.node,
        3 => &mut place.llc,
        4 => &mut place.cluster,
        5 => &mut place.core,
        _ => &mut place.thread,
    }
}

/// Returns the shape of the tree, when all of its parts are alike and Linux numbered it in a known
/// way.
fn uniform(places: &[CpuPlace]) -> Option<TopologyShape> {
    let count = |level: fn(&CpuPlace) -> u8| {
        let most = places.iter().map(level).max().unwrap_or(0);
        most.checked_add(1)
    };
    let mut shape = TopologyShape {
        halves: 1,
        packages: count(|place| place.package)?,
        dies: count(|place| place.die)?,
        nodes: count(|place| place.node)?,
        llcs: count(|place| place.llc)?,
        clusters: count(|place| place.cluster)?,
        cores: count(|place| place.core)?,
        threads: count(|place| place.thread)?,
        numbering: Numbering::CoresFirst,
    };
    let counts = [
        shape.packages,
        shape.dies,
        shape.nodes,
        shape.llcs,
        shape.clusters,
        shape.cores,
        shape.threads,
    ];
    let cpus: u64 = counts.iter().map(|count| u64::from(*count)).product();
    if cpus != places.len() as u64 {
        return None;
    }
    [Numbering::CoresFirst, Numbering::ThreadsAdjacent]
        .into_iter()
        .find_map(|numbering| {
            shape.numbering = numbering;
            let topology = Topology::from_shape(shape).ok()?;
            let alike = topology
                .cpus()
                .zip(places)
                .all(|(cpu, place)| topology.place(cpu) == *place);
            alike.then_some(shape)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(number: u32, package: u32, llc: u32, cluster: u32, core: u32) -> CpuFacts {
        CpuFacts {
            number,
            package,
            die: 0,
            node: UNKNOWN,
            llc,
            cluster,
            core,
        }
    }

    fn machine(cpus: Vec<CpuFacts>, vendor: &str) -> MachineFile {
        let facts = HardwareFacts {
            name: "box".into(),
            description: "a box".into(),
            source: "a test".into(),
            cpus,
            caches: [
                CacheFacts {
                    size_bytes: 48 << 10,
                    ways: 12,
                },
                CacheFacts {
                    size_bytes: 1_280 << 10,
                    ways: 0,
                },
                CacheFacts {
                    size_bytes: 1_000_003,
                    ways: 16,
                },
            ],
            llcs_are_packages: false,
            clock_khz: Some(3_000_000),
            vendor: vendor.into(),
        };
        machine_file(&facts, None).unwrap()
    }

    #[test]
    fn numbers_that_nobody_knows_are_marked_as_assumed() {
        let file = machine(vec![cpu(0, 0, 0, UNKNOWN, 0), cpu(1, 0, 0, UNKNOWN, 1)], "");
        let assumed = |item: Item| file.items[&item].origin.is_assumed();
        assert!(assumed(Item::Transfer(
            Home::Near,
            Distance::Llc,
            TransferPart::Dirty
        )));
        assert!(assumed(Item::Cache(CacheLevel::L1, CachePart::Latency)));
        assert!(!assumed(Item::Cache(CacheLevel::L1, CachePart::Size)));
        assert!(!assumed(Item::Clock));
        // An unknown associativity becomes one that fits; a size that is no multiple of a line is
        // not copied.
        let ways = Item::Cache(CacheLevel::L2, CachePart::Ways);
        assert_eq!(file.get(ways), Some(Quantity::Count(16, "")));
        assert!(assumed(ways));
        assert!(assumed(Item::Cache(CacheLevel::Llc, CachePart::Size)));
        assert_eq!(
            MachineFile::parse(&file.to_toml(), "box.toml").unwrap(),
            file
        );
    }

    #[test]
    fn a_distance_that_the_lender_does_not_have_takes_the_next_nearer_one() {
        // icelake-2s has no clusters, and two threads of one core would be too near to stand in.
        let cpus = vec![cpu(0, 0, 0, 7, 0), cpu(1, 0, 0, 7, 1), cpu(2, 0, 1, 8, 2)];
        let machine = machine(cpus, "GenuineIntel").resolve().unwrap();
        let dirty = |distance: Distance| machine.transfers[distance.index()].dirty.0;
        assert_eq!(
            machine
                .topology
                .distance(hitm_base::CpuId(0), hitm_base::CpuId(2)),
            Distance::Die
        );
        assert_eq!(dirty(Distance::Cluster), 154); // 51.2 ns at 3 GHz
        assert_eq!(dirty(Distance::Die), 154);
    }

    #[test]
    fn linux_numbering_is_recognised() {
        let shape = |cpus: Vec<CpuFacts>| match machine(cpus, "").topology.value {
            TopologySpec::Uniform(shape) => Some((shape.clusters, shape.threads, shape.numbering)),
            TopologySpec::Places(_) => None,
        };
        let smt = |cores: [u32; 4]| {
            (0..4)
                .map(|number| cpu(number, 0, 0, UNKNOWN, cores[number as usize]))
                .collect()
        };
        assert_eq!(
            shape(smt([0, 1, 0, 1])),
            Some((2, 2, Numbering::CoresFirst))
        );
        assert_eq!(
            shape(smt([0, 0, 1, 1])),
            Some((2, 2, Numbering::ThreadsAdjacent))
        );
        assert_eq!(shape(smt([0, 1, 1, 0])), None);
        assert_eq!(shape(smt([0, 0, 0, 1])), None);
    }

    #[test]
    fn a_level_with_too_many_parts_is_an_error() {
        let cpus = (0..300)
            .map(|number| cpu(number, 0, 0, UNKNOWN, number))
            .collect();
        let facts = HardwareFacts {
            name: String::new(),
            description: String::new(),
            source: "a test".into(),
            cpus,
            caches: [CacheFacts::default(); 3],
            llcs_are_packages: false,
            clock_khz: None,
            vendor: String::new(),
        };
        let error = machine_file(&facts, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a test: found 300 clusters in one part, expected at most 256"
        );
    }
}
