//! The machine this runs on, from sysfs.
//!
//! Source: Documentation/admin-guide/cputopology.rst and Documentation/ABI/stable/sysfs-devices-node
//! of Linux, and the cache directories of `/sys/devices/system/cpu`. All files are read below a root
//! directory, so that a tree in a temporary directory can stand for a machine.
//!
//! The model has the online CPUs, also those that a container or an affinity mask denies to this
//! process; the description has the number of usable ones. In a virtual machine sysfs shows the
//! hypervisor's choice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use hitm_base::machine::{MachineError, MachineFile};
use hitm_base::{Topology, cpu_range};

use super::Error;
use super::facts::{CacheFacts, CpuFacts, HardwareFacts, UNKNOWN, machine_file, words};

/// Longest file of sysfs that is read: CPU lists of the largest machines take a few kilobytes.
const SYSFS_BYTES_MAX: u64 = 64 << 10;
/// Longest start of `/proc/cpuinfo` that is read: the first processor is enough.
const CPUINFO_BYTES_MAX: u64 = 16 << 10;

/// A model of this host. Its tree, caches and clock are this machine's; its latencies are those of
/// the nearest preset and marked as assumed: `hitm machine probe` measures them.
pub fn host() -> Result<MachineFile, Error> {
    let usable = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut file = read_host(Path::new("/"))?;
    let online = file.resolve()?.topology.cpu_count();
    if usable < online {
        file.description += &format!("; this process may use {usable} of them");
    }
    Ok(file)
}

/// A model of the machine whose `sys` and `proc` lie below `root`.
pub fn read_host(root: &Path) -> Result<MachineFile, Error> {
    Ok(machine_file(&facts(root)?, None)?)
}

pub(super) fn facts(root: &Path) -> Result<HardwareFacts, MachineError> {
    let tree = Tree {
        cpus: root.join("sys/devices/system/cpu"),
        root: root.into(),
    };
    let online = tree.list(&tree.cpus.join("online"))?;
    let node_of = tree.nodes()?;
    let mut caches = [CacheFacts::default(); 3];
    let mut cpus = Vec::new();
    for number in online {
        let cpu = tree.cpu(number, &mut caches)?;
        cpus.push(CpuFacts {
            node: node_of.get(&number).copied().unwrap_or(UNKNOWN),
            ..cpu
        });
    }
    let cpuinfo = tree.cpuinfo();
    let of = |key: &str| cpuinfo.get(key).map(String::as_str).unwrap_or("");
    let model = [of("model name"), of("CPU part")]
        .into_iter()
        .find(|text| !text.is_empty());
    let model = words(model.unwrap_or("unknown CPU"));
    Ok(HardwareFacts {
        name: super::HOST.into(),
        description: format!("this host: {model}, {} CPUs online", cpus.len()),
        source: "sysfs of this host".into(),
        cpus,
        caches,
        llcs_are_packages: false,
        clock_khz: tree.clock_khz(of("cpu MHz")),
        vendor: of("vendor_id").into(),
    })
}

struct Tree {
    root: PathBuf,
    cpus: PathBuf,
}

impl Tree {
    fn cpu(&self, number: u32, caches: &mut [CacheFacts; 3]) -> Result<CpuFacts, MachineError> {
        let directory = self.cpus.join(format!("cpu{number}"));
        let topology = directory.join("topology");
        let siblings = ["core_cpus_list", "thread_siblings_list"]
            .iter()
            .find_map(|name| self.optional(&topology.join(name)));
        let core = match siblings {
            Some(text) => first_of(&topology, &text)?,
            None => number, // Kernels without topology: every CPU is a core.
        };
        let mut facts = CpuFacts {
            number,
            package: self.id(&topology.join("physical_package_id")),
            die: self.id(&topology.join("die_id")),
            node: UNKNOWN,
            llc: UNKNOWN,
            cluster: UNKNOWN,
            core,
        };
        // A cluster that is one core, or the whole package, adds no level.
        let cluster = self.optional(&topology.join("cluster_cpus_list"));
        let cores = self.optional(&topology.join("core_cpus_list"));
        if let Some(text) = cluster.filter(|_| self.id(&topology.join("cluster_id")) != UNKNOWN)
            && Some(&text) != cores.as_ref()
        {
            facts.cluster = first_of(&topology, &text)?;
        }
        self.caches_of(&directory, &mut facts, caches)?;
        Ok(facts)
    }

    /// Reads the cache directories of one CPU: keeps the largest size of a level, and notes the
    /// CPUs that share the L2 and the last level.
    fn caches_of(
        &self,
        cpu: &Path,
        facts: &mut CpuFacts,
        caches: &mut [CacheFacts; 3],
    ) -> Result<(), MachineError> {
        for index in 0..10 {
            let directory = cpu.join(format!("cache/index{index}"));
            let Some(level) = self.optional(&directory.join("level")) else {
                break;
            };
            let kind = self.optional(&directory.join("type")).unwrap_or_default();
            let slot = match (level.as_str(), kind.as_str()) {
                ("1" | "2" | "3", "Instruction") => continue,
                ("1", _) => 0,
                ("2", _) => 1,
                ("3", _) => 2,
                _ => continue,
            };
            let size_path = directory.join("size");
            let size_bytes = match self.optional(&size_path) {
                Some(text) => size(&size_path, &text)?,
                None => 0,
            };
            let ways = self.optional(&directory.join("ways_of_associativity"));
            let ways = ways.and_then(|text| text.parse().ok()).unwrap_or(0);
            if size_bytes > caches[slot].size_bytes {
                caches[slot] = CacheFacts { size_bytes, ways };
            }
            let list_path = directory.join("shared_cpu_list");
            let Some(shared) = self.optional(&list_path) else {
                continue;
            };
            let first = first_of(&list_path, &shared)?;
            let threads = self.optional(&cpu.join("topology/core_cpus_list"));
            match slot {
                // An L2 that several cores share makes them a cluster.
                1 if facts.cluster == UNKNOWN && threads.is_some_and(|list| list != shared) => {
                    facts.cluster = first;
                }
                2 => facts.llc = first,
                _ => {}
            }
        }
        Ok(())
    }

    /// NUMA node of each CPU; empty on kernels without NUMA.
    fn nodes(&self) -> Result<BTreeMap<u32, u32>, MachineError> {
        let directory = self.root.join("sys/devices/system/node");
        let mut node_of = BTreeMap::new();
        if !directory.join("online").exists() {
            return Ok(node_of);
        }
        for node in self.list(&directory.join("online"))? {
            let path = directory.join(format!("node{node}/cpulist"));
            if self.optional(&path).is_some_and(|text| !text.is_empty()) {
                node_of.extend(self.list(&path)?.into_iter().map(|cpu| (cpu, node)));
            }
        }
        Ok(node_of)
    }

    /// Base frequency where the kernel has it, else the highest, else the present one in
    /// `/proc/cpuinfo`.
    fn clock_khz(&self, cpuinfo_mhz: &str) -> Option<u64> {
        let cpufreq = self.cpus.join("cpu0/cpufreq");
        ["base_frequency", "cpuinfo_max_freq"]
            .iter()
            .find_map(|name| self.optional(&cpufreq.join(name))?.parse().ok())
            .or_else(|| {
                let khz = (cpuinfo_mhz.parse::<f64>().ok()? * 1_000.0).round();
                (khz >= 1.0).then_some(khz as u64)
            })
    }

    /// First processor of `/proc/cpuinfo`.
    fn cpuinfo(&self) -> BTreeMap<String, String> {
        let text = read_start(&self.root.join("proc/cpuinfo"), CPUINFO_BYTES_MAX);
        text.unwrap_or_default()
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect()
    }

    fn optional(&self, path: &Path) -> Option<String> {
        read_start(path, SYSFS_BYTES_MAX).map(|text| text.trim().to_owned())
    }

    /// Id in a file, or [`UNKNOWN`] where the kernel has none or writes -1.
    fn id(&self, path: &Path) -> u32 {
        self.optional(path)
            .and_then(|text| text.parse().ok())
            .unwrap_or(UNKNOWN)
    }

    fn list(&self, path: &Path) -> Result<Vec<u32>, MachineError> {
        let text = self
            .optional(path)
            .ok_or_else(|| wrong(path, "nothing to read", LIST))?;
        cpu_list(&text).ok_or_else(|| wrong(path, &format!("{text:?}"), LIST))
    }
}

const LIST: &str = "a list of numbers below 8192, such as \"0-3,8\"";

fn wrong(path: &Path, found: &str, expected: &str) -> MachineError {
    MachineError {
        origin: path.display().to_string(),
        line: None,
        key: None,
        found: found.chars().take(200).collect(),
        expected: expected.into(),
    }
}

fn read_start(path: &Path, max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(max)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the kernel's list format: `0-3,8`. Not empty.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        numbers.extend(cpu_range(range.trim())?.map(u32::from));
        if numbers.len() > Topology::CPUS_MAX {
            return None;
        }
    }
    Some(numbers)
}

fn first_of(path: &Path, list: &str) -> Result<u32, MachineError> {
    let first = cpu_list(list).and_then(|numbers| numbers.first().copied());
    first.ok_or_else(|| wrong(path, &format!("{list:?}"), LIST))
}

/// Parses a cache size: `32K`, `38M` or bytes.
fn size(path: &Path, text: &str) -> Result<u64, MachineError> {
    let (digits, factor) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let size = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    size.ok_or_else(|| wrong(path, &format!("{text:?}"), "a size such as \"32K\""))
}

#[cfg(test)]
mod tests;
