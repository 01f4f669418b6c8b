//! The machine that a perf.data file describes: its CPUs, packages and nodes.

use hitm_base::Machine;
use hitm_base::machine::MachineError;
use hitm_perf::read::FileFacts;

use super::facts::{CacheFacts, CpuFacts, HardwareFacts, UNKNOWN, machine_file};

/// Returns the machine and its text. A perf.data file has no caches and latencies: they are the
/// nearest preset's, marked as assumed, and price no sample.
pub fn of_perf_data(facts: &FileFacts, cpu_count: u32) -> Result<(Machine, String), MachineError> {
    let whole = hardware(facts, cpu_count.max(1), true);
    // Without a tree that can be modelled, the CPUs remain.
    let file = machine_file(&whole, None)
        .or_else(|_| machine_file(&hardware(facts, cpu_count.max(1), false), None))?;
    Ok((file.resolve()?, file.to_toml()))
}

fn hardware(facts: &FileFacts, cpu_count: u32, with_tree: bool) -> HardwareFacts {
    let cpu = |number: u32| {
        let index = number as usize;
        let place = facts.cores.get(index).filter(|_| with_tree);
        let (core, package) = place.copied().unwrap_or((number, 0));
        let node = facts
            .nodes
            .get(index)
            .copied()
            .flatten()
            .filter(|_| with_tree);
        CpuFacts {
            number,
            package,
            die: package,
            node: node.unwrap_or(package),
            llc: package,
            cluster: UNKNOWN,
            core: package << 16 | core & 0xffff,
        }
    };
    let vendor = facts.cpuid.split(',').next().unwrap_or_default();
    HardwareFacts {
        name: "sampled".to_owned(),
        description: match facts.cpu_description.as_str() {
            "" => "the machine that was sampled".to_owned(),
            description => description.to_owned(),
        },
        source: "the header of perf.data".to_owned(),
        cpus: (0..cpu_count).map(cpu).collect(),
        caches: [CacheFacts::default(); 3],
        llcs_are_packages: false,
        clock_khz: None,
        vendor: vendor.to_owned(),
    }
}
