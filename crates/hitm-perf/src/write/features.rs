//! End of the file: the feature sections, which describe the machine and the mapped files.

use super::PerfDataWriter;
use super::attr::{ATTR_LEN, ATTRS, SampleForm, put_attr};
use super::put::{put_string, put32, put64};
use crate::format::{feature, misc, record};

/// A CPU of the described machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuInfo {
    /// Core within its package.
    pub core: u32,
    /// Package.
    pub package: u32,
    /// NUMA node.
    pub node: u32,
}

/// Contents of the feature sections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileInfo {
    /// Name of the machine.
    pub hostname: String,
    /// Version of the program that wrote the file.
    pub version: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// One line about the CPUs.
    pub cpu_description: String,
    /// CPUID in perf's form: vendor,family,model,stepping.
    pub cpuid: String,
    /// The recorded command.
    pub command: Vec<String>,
    /// The CPUs, by number.
    pub cpus: Vec<CpuInfo>,
    /// Facts of hitm's own, for which perf has no place.
    pub own: Vec<u8>,
}

/// The feature sections in the order of their bits.
pub(super) fn features<W>(writer: &PerfDataWriter<W>, info: &FileInfo) -> Vec<(u8, Vec<u8>)> {
    let text = |value: &str| {
        let mut out = Vec::new();
        put_string(&mut out, value);
        out
    };
    let mut times = Vec::new();
    put64(&mut times, writer.first_time_ns.min(writer.last_time_ns));
    put64(&mut times, writer.last_time_ns);
    let mut cpus = Vec::new();
    put32(&mut cpus, info.cpus.len() as u32);
    put32(&mut cpus, info.cpus.len() as u32);
    let mut command = Vec::new();
    put32(&mut command, info.command.len() as u32);
    info.command
        .iter()
        .for_each(|arg| put_string(&mut command, arg));
    let own = (!info.own.is_empty()).then(|| (feature::OWN, info.own.clone()));
    let described = [
        (feature::BUILD_ID, build_ids(&writer.files)),
        (feature::HOSTNAME, text(&info.hostname)),
        // A modelled machine has no kernel; perf wants a word here.
        (feature::OSRELEASE, text("modelled")),
        (feature::VERSION, text(&info.version)),
        (feature::ARCH, text(&info.arch)),
        (feature::NRCPUS, cpus),
        (feature::CPUDESC, text(&info.cpu_description)),
        (feature::CPUID, text(&info.cpuid)),
        (feature::CMDLINE, command),
        (feature::EVENT_DESC, event_descriptions(writer.form)),
        (feature::CPU_TOPOLOGY, cpu_topology(&info.cpus)),
        (feature::NUMA_TOPOLOGY, numa_topology(&info.cpus)),
        (feature::SAMPLE_TIME, times),
        (feature::MEM_TOPOLOGY, memory_topology(&info.cpus)),
    ];
    described.into_iter().chain(own).collect()
}

fn build_ids(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, build_id) in files.iter().filter(|(_, build_id)| !build_id.is_empty()) {
        let start = out.len();
        put32(&mut out, record::HEADER_BUILD_ID);
        out.extend_from_slice(&(misc::USER | misc::BUILD_ID_SIZE).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        put32(&mut out, u32::MAX); // any process
        let len = build_id.len().min(20);
        out.extend_from_slice(&build_id[..len]);
        out.resize(start + 32, 0);
        out.push(len as u8);
        out.resize(start + 36, 0);
        let name_len = path.len() + 1;
        out.extend_from_slice(path.as_bytes());
        out.resize(start + 36 + name_len.next_multiple_of(64), 0);
        let len = (out.len() - start) as u16;
        out[start + 6..start + 8].copy_from_slice(&len.to_le_bytes());
    }
    out
}

fn event_descriptions(form: SampleForm) -> Vec<u8> {
    let mut out = Vec::new();
    put32(&mut out, ATTRS.len() as u32);
    put32(&mut out, ATTR_LEN as u32);
    for attr in &ATTRS {
        put_attr(&mut out, attr, form);
        put32(&mut out, 1);
        put_string(&mut out, attr.name);
        put64(&mut out, attr.id);
    }
    out
}

fn cpu_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    let packages = groups(cpus, |cpu| (cpu.package, 0));
    let cores = groups(cpus, |cpu| (cpu.package, cpu.core));
    for lists in [packages, cores] {
        put32(&mut out, lists.len() as u32);
        lists
            .iter()
            .for_each(|(_, list)| put_string(&mut out, list));
    }
    for cpu in cpus {
        put32(&mut out, cpu.core);
        put32(&mut out, cpu.package);
    }
    out
}

fn numa_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    let nodes = groups(cpus, |cpu| (cpu.node, 0));
    put32(&mut out, nodes.len() as u32);
    for ((node, _), list) in &nodes {
        put32(&mut out, *node);
        put64(&mut out, 0); // memory in all, not modelled
        put64(&mut out, 0); // free memory
        put_string(&mut out, list);
    }
    out
}

/// Blocks of memory of each node. Our samples have no physical addresses to look up, but perf warns
/// without any block: one for each node.
fn memory_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    const VERSION: u64 = 1;
    const BLOCK_LEN: u64 = 128 << 20;
    let nodes = groups(cpus, |cpu| (cpu.node, 0));
    let mut out = Vec::new();
    for word in [VERSION, BLOCK_LEN, nodes.len() as u64] {
        put64(&mut out, word);
    }
    for (place, ((node, _), _)) in nodes.iter().enumerate() {
        let bit_count = place + 1;
        put64(&mut out, u64::from(*node));
        put64(&mut out, bit_count as u64);
        put64(&mut out, bit_count as u64);
        for word in 0..bit_count.div_ceil(64) {
            let is_here = place / 64 == word;
            put64(&mut out, if is_here { 1 << (place % 64) } else { 0 });
        }
    }
    out
}

/// The CPUs of each group, as lists in the kernel's form, by group.
fn groups(cpus: &[CpuInfo], group: fn(&CpuInfo) -> (u32, u32)) -> Vec<((u32, u32), String)> {
    let mut by_group: std::collections::BTreeMap<(u32, u32), Vec<usize>> = Default::default();
    for (number, cpu) in cpus.iter().enumerate() {
        by_group.entry(group(cpu)).or_default().push(number);
    }
    by_group
        .into_iter()
        .map(|(group, members)| (group, cpu_list(&members)))
        .collect()
}

/// `0-3,8` for ascending numbers.
fn cpu_list(numbers: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(number, next)| **number == *next)
            .count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_written_as_the_kernel_does() {
        assert_eq!(cpu_list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(cpu_list(&[]), "");
    }
}
