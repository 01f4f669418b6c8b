//! Files of /sys about one CPU: its caches, its place and its clock, as the machine model has them.

use hitm_base::machine::CacheShape;
use hitm_base::{CpuId, LINE_SIZE, Machine, Topology};

use super::{list, words};
use crate::cpus::Cpus;

/// Folder of the CPUs.
const FOLDER: &str = "/sys/devices/system/cpu/cpu";

/// A cache, as Linux numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    L1Data,
    L1Code,
    L2,
    Llc,
}

/// CPUs that are told of together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Core,
    Llc,
    Package,
}

/// A fact about a CPU, each in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Level(Cache),
    Type(Cache),
    Size(Cache),
    Ways(Cache),
    Sets(Cache),
    LineSize,
    Package,
    Core,
    List(Group),
    Mask(Group),
    KiloHertz,
}

/// A file about one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OneCpu {
    cpu: CpuId,
    fact: Fact,
}

/// Names of these files, beside those that other files have too.
pub(super) const NAMES: [&[u8]; 23] = [
    b"level",
    b"type",
    b"size",
    b"ways_of_associativity",
    b"number_of_sets",
    b"coherency_line_size",
    b"shared_cpu_list",
    b"shared_cpu_map",
    b"physical_package_id",
    b"core_id",
    b"core_cpus",
    b"core_cpus_list",
    b"thread_siblings",
    b"thread_siblings_list",
    b"core_siblings",
    b"core_siblings_list",
    b"package_cpus",
    b"package_cpus_list",
    b"die_cpus",
    b"die_cpus_list",
    b"cpuinfo_max_freq",
    b"base_frequency",
    b"scaling_cur_freq",
];

impl OneCpu {
    pub(super) fn of_path(path: &str) -> Option<OneCpu> {
        let mut parts = path.strip_prefix(FOLDER)?.split('/');
        let cpu = CpuId(parts.next()?.parse().ok()?);
        let (folder, rest) = (parts.next()?, [parts.next()?, parts.next().unwrap_or("")]);
        if parts.next().is_some() {
            return None;
        }
        let fact = match (folder, rest) {
            ("cache", [index, name]) => of_cache(index, name)?,
            ("topology", [name, ""]) => of_place(name)?,
            (
                "cpufreq",
                [
                    "cpuinfo_max_freq" | "base_frequency" | "scaling_cur_freq",
                    "",
                ],
            ) => Fact::KiloHertz,
            _ => return None,
        };
        Some(OneCpu { cpu, fact })
    }

    /// The contents for the program; none of a CPU that the machine does not have.
    pub(super) fn contents(self, cpus: &Cpus) -> Option<String> {
        let machine = cpus.machine()?;
        let topology = &machine.topology;
        if self.cpu.index() >= topology.cpu_count() {
            return None;
        }
        let text = match self.fact {
            Fact::Level(Cache::L1Data | Cache::L1Code) => "1".to_owned(),
            Fact::Level(Cache::L2) => "2".to_owned(),
            Fact::Level(Cache::Llc) => "3".to_owned(),
            Fact::Type(Cache::L1Data) => "Data".to_owned(),
            Fact::Type(Cache::L1Code) => "Instruction".to_owned(),
            Fact::Type(Cache::L2 | Cache::Llc) => "Unified".to_owned(),
            Fact::Size(cache) => format!("{}K", cache.shape(machine).size_bytes / 1024),
            Fact::Ways(cache) => cache.shape(machine).ways.to_string(),
            Fact::Sets(cache) => sets(cache.shape(machine)).to_string(),
            Fact::LineSize => LINE_SIZE.to_string(),
            Fact::Package => topology.package_of(self.cpu).to_string(),
            Fact::Core => topology.core_of(self.cpu).to_string(),
            Fact::List(group) => list(&self.with(group, cpus, topology)),
            Fact::Mask(group) => words(&self.with(group, cpus, topology), cpus.possible_count()),
            Fact::KiloHertz => machine.clock.khz().to_string(),
        };
        Some(text + "\n")
    }

    /// The CPUs of its group that the program sees.
    fn with(self, group: Group, cpus: &Cpus, topology: &Topology) -> Vec<CpuId> {
        let online = cpus.online().iter().copied();
        let own = group.of(self.cpu, topology);
        let with = online.filter(|cpu| *cpu == self.cpu || group.of(*cpu, topology) == own);
        with.collect()
    }
}

impl Cache {
    fn shape(self, machine: &Machine) -> CacheShape {
        match self {
            // Caches of code are not modelled.
            Cache::L1Data | Cache::L1Code => machine.caches.l1,
            Cache::L2 => machine.caches.l2,
            Cache::Llc => machine.caches.llc,
        }
    }

    fn group(self) -> Group {
        match self {
            Cache::Llc => Group::Llc,
            _ => Group::Core,
        }
    }
}

impl Group {
    /// Number of a CPU's group.
    pub(super) fn of(self, cpu: CpuId, topology: &Topology) -> u16 {
        match self {
            Group::Core => topology.core_of(cpu),
            Group::Llc => topology.llc_of(cpu),
            Group::Package => topology.package_of(cpu),
        }
    }
}

fn sets(shape: CacheShape) -> u64 {
    (shape.size_bytes / LINE_SIZE)
        .checked_div(shape.ways.into())
        .unwrap_or(0)
}

fn of_cache(index: &str, name: &str) -> Option<Fact> {
    let cache = match index {
        "index0" => Cache::L1Data,
        "index1" => Cache::L1Code,
        "index2" => Cache::L2,
        "index3" => Cache::Llc,
        _ => return None,
    };
    Some(match name {
        "level" => Fact::Level(cache),
        "type" => Fact::Type(cache),
        "size" => Fact::Size(cache),
        "ways_of_associativity" => Fact::Ways(cache),
        "number_of_sets" => Fact::Sets(cache),
        "coherency_line_size" => Fact::LineSize,
        "shared_cpu_list" => Fact::List(cache.group()),
        "shared_cpu_map" => Fact::Mask(cache.group()),
        _ => return None,
    })
}

fn of_place(name: &str) -> Option<Fact> {
    Some(match name {
        "physical_package_id" => Fact::Package,
        "core_id" => Fact::Core,
        "thread_siblings" | "core_cpus" => Fact::Mask(Group::Core),
        "thread_siblings_list" | "core_cpus_list" => Fact::List(Group::Core),
        "core_siblings" | "package_cpus" | "die_cpus" => Fact::Mask(Group::Package),
        "core_siblings_list" | "package_cpus_list" | "die_cpus_list" => Fact::List(Group::Package),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::cpus;
    use super::*;

    fn contents(path: &str) -> Option<String> {
        OneCpu::of_path(&format!("{FOLDER}{path}"))?.contents(&cpus())
    }

    /// The program sees CPUs 0, 1, 2 and 24, and 70; 24 to a package.
    #[test]
    fn caches_and_places_are_the_machines() {
        let known = [
            ("0/cache/index0/size", "32K\n"),
            ("0/cache/index0/type", "Data\n"),
            ("1/cache/index1/type", "Instruction\n"),
            ("0/cache/index0/number_of_sets", "64\n"),
            ("0/cache/index0/shared_cpu_list", "0\n"),
            ("0/cache/index2/size", "256K\n"),
            ("0/cache/index3/size", "61440K\n"),
            ("0/cache/index3/level", "3\n"),
            ("0/cache/index3/shared_cpu_list", "0-2\n"),
            ("24/cache/index3/shared_cpu_list", "24\n"),
            ("24/topology/physical_package_id", "1\n"),
            ("1/topology/core_siblings_list", "0-2\n"),
            ("1/topology/thread_siblings_list", "1\n"),
            ("0/cpufreq/cpuinfo_max_freq", "2600000\n"),
        ];
        for (path, expected) in known {
            assert_eq!(contents(path).as_deref(), Some(expected), "{path}");
        }
        let mask = contents("0/cache/index3/shared_cpu_map").unwrap();
        assert!(mask.ends_with(",00000000,00000007\n"), "{mask}");
        for path in [
            "0/cache/index4/size",
            "0/cache",
            "0/topology/x",
            "192/topology/core_id",
            "x/y",
        ] {
            assert_eq!(contents(path), None, "{path}");
        }
    }

    #[test]
    fn all_files_are_known_by_their_names() {
        let paths = ["cache/index0/", "topology/", "cpufreq/"];
        for name in NAMES {
            let name = std::str::from_utf8(name).unwrap();
            let mut found = paths
                .iter()
                .map(|folder| format!("{FOLDER}0/{folder}{name}"));
            assert!(found.any(|path| OneCpu::of_path(&path).is_some()), "{name}");
        }
    }
}
