//! A machine model as QEMU's command line: the guest sees its packages, cores and NUMA nodes.
//!
//! QEMU numbers the hardware threads of a core side by side, package by package; a model may number
//! its CPUs otherwise. [`GuestCpus::order`] maps each virtual CPU to its CPU of the model.
//!
//! Each die is a socket of the guest, so that its cores share a cache, as on the machine. QEMU 10.0
//! aborts when a guest with several dies a socket has such caches. NUMA nodes and their distances
//! show which sockets are one package.
//!
//! Not passed on: clusters, which QEMU cannot give an x86 guest.

use hitm_base::{CpuId, CpuPlace, Machine};

/// Highest number of an interrupt controller that interrupts reach without remapping; 255 is the
/// broadcast.
const XAPIC_NUMBER_MAX: usize = 254;

/// Remapping that lets interrupts reach controllers with higher numbers (x2APIC). Without it Linux
/// leaves their CPUs off.
const INTERRUPT_REMAPPING: &str = "intel-iommu,intremap=on,eim=on";

/// The part of a machine that a guest gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestCpus {
    /// The model's CPU behind each virtual CPU.
    pub(super) order: Vec<CpuId>,
    /// Dies of the model.
    sockets: usize,
    cores: usize,
    threads: usize,
    /// Virtual CPUs of each NUMA node, first and last.
    nodes: Vec<(usize, usize)>,
    /// `distances[a][b]` in the units of ACPI: 10 is local.
    distances: Vec<Vec<u64>>,
}

impl GuestCpus {
    /// Chooses `count` CPUs of the machine: as many of each package, from as few dies as possible,
    /// and as many of each die. `None` when the machine has no such even part.
    pub(super) fn choose(machine: &Machine, count: usize) -> Option<GuestCpus> {
        let topology = &machine.topology;
        let packages = topology.package_count();
        // A count that the packages cannot share evenly comes from one of them.
        let packages = if count.is_multiple_of(packages) {
            packages
        } else {
            1
        };
        let per_package = count / packages;
        let mut order: Vec<CpuId> = Vec::with_capacity(count);
        let mut dies = 0;
        for package in 0..packages {
            let of_dies = even_part(&dies_of(machine, package), per_package)?;
            dies = of_dies.len();
            order.extend(of_dies.into_iter().flatten());
        }
        let mut cores: Vec<u64> = order[..per_package]
            .iter()
            .map(|&cpu| core_key(&topology.place(cpu)))
            .collect();
        cores.dedup();
        let threads = per_package / cores.len();
        // QEMU takes one number of cores a socket and one of threads a core.
        if !cores.len().is_multiple_of(dies) || threads * cores.len() != per_package {
            return None;
        }
        let mut guest = GuestCpus {
            order,
            sockets: packages * dies,
            cores: cores.len() / dies,
            threads,
            nodes: Vec::new(),
            distances: Vec::new(),
        };
        guest.find_nodes(machine);
        Some(guest)
    }

    fn find_nodes(&mut self, machine: &Machine) {
        let topology = &machine.topology;
        let mut nodes: Vec<(u16, usize, usize)> = Vec::new();
        for (index, &cpu) in self.order.iter().enumerate() {
            let node = topology.node_of(cpu);
            match nodes.last_mut() {
                Some((last, _, end)) if *last == node => *end = index,
                _ => nodes.push((node, index, index)),
            }
        }
        let dram = &machine.dram;
        let distance = |a: u16, b: u16| {
            let latency = if a == b {
                dram.local
            } else if topology.package_of_node(a) == topology.package_of_node(b) {
                dram.package
            } else {
                dram.remote
            };
            // In ACPI 10 is local, and 255 is out of reach.
            (latency.0 * 10 / dram.local.0.max(1)).clamp(10, 254)
        };
        self.distances = nodes
            .iter()
            .map(|a| nodes.iter().map(|b| distance(a.0, b.0)).collect())
            .collect();
        self.nodes = nodes
            .iter()
            .map(|&(_, first, last)| (first, last))
            .collect();
    }

    /// QEMU's options for a guest of `memory_mib` MiB.
    pub(super) fn arguments(&self, memory_mib: u64) -> Vec<String> {
        let mut arguments = vec!["-smp".into(), self.smp()];
        arguments.extend(["-m".into(), format!("{memory_mib}M")]);
        if self.last_apic_number() > XAPIC_NUMBER_MAX {
            arguments.extend(["-device".into(), INTERRUPT_REMAPPING.into()]);
        }
        let node_count = self.nodes.len() as u64;
        for (index, (first, last)) in self.nodes.iter().enumerate() {
            // Differences of rounded sums, so that the nodes' shares add up to all of the memory.
            let before = memory_mib * index as u64 / node_count;
            let share = memory_mib * (index as u64 + 1) / node_count - before;
            arguments.extend([
                "-object".into(),
                format!("memory-backend-ram,id=node{index},size={share}M"),
                "-numa".into(),
                format!("node,nodeid={index},memdev=node{index},cpus={first}-{last}"),
            ]);
        }
        for (a, row) in self.distances.iter().enumerate() {
            for (b, distance) in row.iter().enumerate() {
                arguments.push("-numa".into());
                arguments.push(format!("dist,src={a},dst={b},val={distance}"));
            }
        }
        arguments
    }

    fn smp(&self) -> String {
        let count = self.order.len();
        let GuestCpus {
            sockets,
            cores,
            threads,
            ..
        } = self;
        format!("{count},sockets={sockets},cores={cores},threads={threads}")
    }

    /// Highest number of an interrupt controller: socket, core and thread take whole bits each.
    fn last_apic_number(&self) -> usize {
        let cores = self.cores.next_power_of_two();
        let threads = self.threads.next_power_of_two();
        ((self.sockets - 1) * cores + self.cores - 1) * threads + self.threads - 1
    }
}

/// The CPUs of each die of a package, hardware threads of a core side by side.
fn dies_of(machine: &Machine, package: usize) -> Vec<Vec<CpuId>> {
    let topology = &machine.topology;
    let is_inside = |&cpu: &CpuId| usize::from(topology.package_of(cpu)) == package;
    let mut cpus: Vec<CpuId> = topology.cpus().filter(is_inside).collect();
    cpus.sort_by_key(|&cpu| place_key(topology.place(cpu)));
    let die = |cpu: CpuId| topology.place(cpu).die;
    cpus.chunk_by(|&a, &b| die(a) == die(b))
        .map(<[CpuId]>::to_vec)
        .collect()
}

/// Picks `count` CPUs, the same number from each of as few dies as possible.
fn even_part(dies: &[Vec<CpuId>], count: usize) -> Option<Vec<Vec<CpuId>>> {
    let fits = |&used: &usize| {
        let share = count / used;
        count.is_multiple_of(used) && dies[..used].iter().all(|die| share <= die.len())
    };
    let used = (1..=dies.len()).find(fits).filter(|_| count > 0)?;
    let share = dies[..used].iter().map(|die| die[..count / used].to_vec());
    Some(share.collect())
}

/// Sort key of a place: outer levels first, hardware threads of a core side by side.
fn place_key(place: CpuPlace) -> u64 {
    core_key(&place) << 8 | u64::from(place.thread)
}

/// Like [`place_key`], without the hardware thread.
fn core_key(place: &CpuPlace) -> u64 {
    [
        place.half,
        place.package,
        place.die,
        place.node,
        place.llc,
        place.cluster,
        place.core,
    ]
    .iter()
    .fold(0, |key, &level| key << 8 | u64::from(level))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(preset: &str, count: usize, expected: Expect) {
        let text = hitm_base::machine::preset(preset).expect("a preset");
        let machine = Machine::from_toml(text, preset).expect("presets are sound");
        let text = match GuestCpus::choose(&machine, count) {
            None => "none".to_owned(),
            Some(guest) => {
                let order: Vec<u16> = guest.order.iter().map(|cpu| cpu.0).take(6).collect();
                format!("{order:?} {}", guest.arguments(1000).join(" "))
            }
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn guests_get_an_even_part_of_the_machine() {
        check(
            "icelake-2s",
            8,
            expect![
                "[0, 64, 1, 65, 32, 96] -smp 8,sockets=2,cores=2,threads=2 -m 1000M -object memory-backend-ram,id=node0,size=500M -numa node,nodeid=0,memdev=node0,cpus=0-3 -object memory-backend-ram,id=node1,size=500M -numa node,nodeid=1,memdev=node1,cpus=4-7 -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=16 -numa dist,src=1,dst=0,val=16 -numa dist,src=1,dst=1,val=10"
            ],
        );
        check("icelake-2s", 3, expect!["none"]);
        check(
            "kunpeng920-96",
            96,
            expect![
                "[0, 1, 2, 3, 4, 5] -smp 96,sockets=4,cores=24,threads=1 -m 1000M -object memory-backend-ram,id=node0,size=250M -numa node,nodeid=0,memdev=node0,cpus=0-23 -object memory-backend-ram,id=node1,size=250M -numa node,nodeid=1,memdev=node1,cpus=24-47 -object memory-backend-ram,id=node2,size=250M -numa node,nodeid=2,memdev=node2,cpus=48-71 -object memory-backend-ram,id=node3,size=250M -numa node,nodeid=3,memdev=node3,cpus=72-95 -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=13 -numa dist,src=0,dst=2,val=22 -numa dist,src=0,dst=3,val=22 -numa dist,src=1,dst=0,val=13 -numa dist,src=1,dst=1,val=10 -numa dist,src=1,dst=2,val=22 -numa dist,src=1,dst=3,val=22 -numa dist,src=2,dst=0,val=22 -numa dist,src=2,dst=1,val=22 -numa dist,src=2,dst=2,val=10 -numa dist,src=2,dst=3,val=13 -numa dist,src=3,dst=0,val=22 -numa dist,src=3,dst=1,val=22 -numa dist,src=3,dst=2,val=13 -numa dist,src=3,dst=3,val=10"
            ],
        );
        check("icelake-2s", 1000, expect!["none"]);
    }

    #[test]
    fn high_numbers_need_remapped_interrupts() {
        let guest = |count| {
            let text = hitm_base::machine::preset("xeon-480").expect("a preset");
            let machine = Machine::from_toml(text, "xeon-480").expect("presets are sound");
            let guest = GuestCpus::choose(&machine, count).expect("an even part");
            let arguments = guest.arguments(4096).join(" ");
            (
                guest.last_apic_number(),
                arguments.contains(INTERRUPT_REMAPPING),
            )
        };
        // A die of 40 cores has 80 CPUs. One die a package holds 48, two hold 120, three 240. 24,
        // 30 and 40 cores of two threads take 6, 6 and 7 bits.
        assert_eq!(guest(96), (64 + 47, false));
        assert_eq!(guest(240), (3 * 64 + 59, false));
        assert_eq!(guest(480), (5 * 128 + 79, true));
    }
}
