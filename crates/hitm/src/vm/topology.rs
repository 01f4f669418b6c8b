//! A machine model as QEMU's command line: the guest sees its packages, cores and NUMA nodes.
//!
//! QEMU numbers virtual CPUs with the hardware threads of a core side by side, package by package;
//! a model may number its CPUs otherwise. [`GuestCpus::order`] says which CPU of the model each
//! virtual CPU is.
//!
//! Not passed on: clusters, which QEMU cannot give an x86 guest.

use hitm_base::{CpuId, CpuPlace, Machine};

/// The part of a machine that a guest gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestCpus {
    /// The model's CPU behind each virtual CPU.
    pub(super) order: Vec<CpuId>,
    packages: usize,
    dies: usize,
    cores: usize,
    threads: usize,
    /// Virtual CPUs of each NUMA node, first and last.
    nodes: Vec<(usize, usize)>,
    /// `distances[a][b]` in the units of ACPI: 10 is local.
    distances: Vec<Vec<u64>>,
}

impl GuestCpus {
    /// Takes `count` CPUs of the machine: as many of each package, side by side in it. None when
    /// the machine has no such even part.
    pub(super) fn choose(machine: &Machine, count: usize) -> Option<GuestCpus> {
        let topology = &machine.topology;
        let mut cpus: Vec<CpuId> = topology.cpus().collect();
        cpus.sort_by_key(|&cpu| place_key(topology.place(cpu)));
        let packages = topology.package_count();
        let packages = if count.is_multiple_of(packages) {
            packages
        } else {
            1
        };
        let per_package = count / packages;
        let order: Vec<CpuId> = (0..packages)
            .flat_map(|package| {
                let of_package = cpus
                    .iter()
                    .filter(move |&&cpu| usize::from(topology.package_of(cpu)) == package);
                of_package.copied().take(per_package)
            })
            .collect();
        if order.len() != count || count == 0 {
            return None;
        }
        let of_first: Vec<CpuPlace> = order[..per_package]
            .iter()
            .map(|&cpu| topology.place(cpu))
            .collect();
        let distinct = |key: &dyn Fn(&CpuPlace) -> u64| {
            let mut keys: Vec<u64> = of_first.iter().map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.len()
        };
        let cores = distinct(&core_key);
        // Only an even cut can be said on QEMU's command line.
        let dies = distinct(&|place| u64::from(place.die));
        let dies = if cores.is_multiple_of(dies) { dies } else { 1 };
        let threads = per_package / cores;
        if threads * cores != per_package {
            return None;
        }
        let mut guest = GuestCpus {
            order,
            packages,
            dies,
            cores: cores / dies,
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

    /// The options of QEMU, for a guest of `memory_mib` MiB.
    pub(super) fn arguments(&self, memory_mib: u64) -> Vec<String> {
        let mut arguments = vec!["-smp".into(), self.smp()];
        arguments.extend(["-m".into(), format!("{memory_mib}M")]);
        let node_count = self.nodes.len() as u64;
        for (index, (first, last)) in self.nodes.iter().enumerate() {
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
            packages,
            dies,
            cores,
            threads,
            ..
        } = self;
        format!("{count},sockets={packages},dies={dies},cores={cores},threads={threads}")
    }
}

/// A place as a number: outer levels first, hardware threads of a core side by side.
fn place_key(place: CpuPlace) -> u64 {
    core_key(&place) << 8 | u64::from(place.thread)
}

/// The same without the hardware thread.
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
                "[0, 64, 1, 65, 32, 96] -smp 8,sockets=2,dies=1,cores=2,threads=2 -m 1000M -object memory-backend-ram,id=node0,size=500M -numa node,nodeid=0,memdev=node0,cpus=0-3 -object memory-backend-ram,id=node1,size=500M -numa node,nodeid=1,memdev=node1,cpus=4-7 -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=16 -numa dist,src=1,dst=0,val=16 -numa dist,src=1,dst=1,val=10"
            ],
        );
        check("icelake-2s", 3, expect!["none"]);
        check(
            "kunpeng920-96",
            96,
            expect![
                "[0, 1, 2, 3, 4, 5] -smp 96,sockets=2,dies=2,cores=24,threads=1 -m 1000M -object memory-backend-ram,id=node0,size=250M -numa node,nodeid=0,memdev=node0,cpus=0-23 -object memory-backend-ram,id=node1,size=250M -numa node,nodeid=1,memdev=node1,cpus=24-47 -object memory-backend-ram,id=node2,size=250M -numa node,nodeid=2,memdev=node2,cpus=48-71 -object memory-backend-ram,id=node3,size=250M -numa node,nodeid=3,memdev=node3,cpus=72-95 -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=13 -numa dist,src=0,dst=2,val=22 -numa dist,src=0,dst=3,val=22 -numa dist,src=1,dst=0,val=13 -numa dist,src=1,dst=1,val=10 -numa dist,src=1,dst=2,val=22 -numa dist,src=1,dst=3,val=22 -numa dist,src=2,dst=0,val=22 -numa dist,src=2,dst=1,val=22 -numa dist,src=2,dst=2,val=10 -numa dist,src=2,dst=3,val=13 -numa dist,src=3,dst=0,val=22 -numa dist,src=3,dst=1,val=22 -numa dist,src=3,dst=2,val=13 -numa dist,src=3,dst=3,val=10"
            ],
        );
        check("icelake-2s", 1000, expect!["none"]);
    }
}
