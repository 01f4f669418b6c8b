//! Prices: what a transfer costs between any two CPUs of a machine, precomputed so that the
//! directory looks up and never searches.

use hitm_base::machine::{Machine, Transfer};
use hitm_base::{CpuId, Cycles, Distance};

/// Cycles for which one read of an already shared line keeps the next request waiting at its home:
/// a pass through the LLC slice's pipeline.
///
/// Assumed (range 2 to 16). It bounds how fast many CPUs can re-read a line after one write: with
/// 480 readers 4 cycles are 1,920 cycles, against about 48,000 if reads were served like ownership
/// transfers.
pub const SHARED_READ_OCCUPANCY: Cycles = Cycles(4);

/// Cost of one request, given the state of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// From issue to use when nobody else wants the line.
    pub latency: Cycles,
    /// The last part of `latency`, during which the line can serve nobody else.
    pub occupancy: Cycles,
}

/// The prices of one machine.
#[derive(Debug, Clone)]
pub struct Prices {
    machine: Machine,
    /// `llc_distance[a * llc_count + b]`.
    llc_distance: Vec<Distance>,
    llc_count: usize,
    /// One CPU of each NUMA node.
    cpu_of_node: Vec<CpuId>,
}

impl Prices {
    /// The prices of `machine`.
    pub fn new(machine: Machine) -> Prices {
        let llc_count = machine.topology.llc_count();
        let mut cpu_of_node = vec![CpuId(0); machine.topology.node_count()];
        for cpu in machine.topology.cpus() {
            cpu_of_node[usize::from(machine.topology.node_of(cpu))] = cpu;
        }
        Prices {
            llc_distance: llc_distances(&machine),
            llc_count,
            cpu_of_node,
            machine,
        }
    }

    /// The machine that the prices belong to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How far the last-level caches `a` and `b` are apart; `Llc` when they are the same.
    pub fn llc_distance(&self, a: u16, b: u16) -> Distance {
        self.llc_distance[usize::from(a) * self.llc_count + usize::from(b)]
    }

    /// A line modified in the cache of `owner`, fetched by `cpu`; `home` is the line's NUMA node.
    pub fn dirty(&self, cpu: CpuId, owner: CpuId, home: u16) -> Price {
        let distance = self.machine.topology.distance(cpu, owner);
        let transfer = self.transfer(distance, cpu, owner, home);
        Price {
            latency: transfer.dirty,
            occupancy: transfer.occupancy,
        }
    }

    /// A clean line held exclusively by `owner`, fetched by `cpu`.
    pub fn clean(&self, cpu: CpuId, owner: CpuId, home: u16) -> Price {
        let distance = self.machine.topology.distance(cpu, owner);
        let transfer = self.transfer(distance, cpu, owner, home);
        Price {
            latency: transfer.clean,
            occupancy: transfer.occupancy.min(transfer.clean),
        }
    }

    /// A copy in a cache at `distance`, read while the line stays shared.
    pub fn shared_read(&self, distance: Distance) -> Price {
        let latency = self.machine.transfers[distance.index()].clean;
        Price {
            latency,
            occupancy: SHARED_READ_OCCUPANCY.min(latency),
        }
    }

    /// The last-level cache next to the CPU.
    pub fn llc_hit(&self) -> Price {
        let latency = self.machine.caches.llc.latency;
        Price {
            latency,
            occupancy: SHARED_READ_OCCUPANCY.min(latency),
        }
    }

    /// Invalidation of copies, the farthest at `distance`: the writer waits for its answer.
    pub fn invalidate(&self, distance: Distance) -> Price {
        let transfer = self.machine.transfers[distance.index()];
        Price {
            latency: transfer.clean,
            occupancy: transfer.occupancy.min(transfer.clean),
        }
    }

    /// Memory of the NUMA node `home`, and whether that is the CPU's own node.
    pub fn dram(&self, cpu: CpuId, home: u16) -> (Price, bool) {
        let topology = &self.machine.topology;
        let dram = &self.machine.dram;
        if topology.node_of(cpu) == home {
            return (
                Price {
                    latency: dram.local,
                    occupancy: SHARED_READ_OCCUPANCY,
                },
                true,
            );
        }
        let latency = match topology.distance(cpu, self.cpu_of_node[usize::from(home)]) {
            Distance::FarRemote => dram.far_remote,
            Distance::Remote => dram.remote,
            _ => dram.package,
        };
        (
            Price {
                latency,
                occupancy: SHARED_READ_OCCUPANCY,
            },
            false,
        )
    }

    /// The transfer between `cpu` and `owner`, with the rule that a home in a third package costs
    /// its own price.
    fn transfer(&self, distance: Distance, cpu: CpuId, owner: CpuId, home: u16) -> Transfer {
        if distance <= Distance::Llc {
            return self.machine.transfers[distance.index()];
        }
        let topology = &self.machine.topology;
        let home_package = topology.package_of_node(home);
        let away =
            home_package != topology.package_of(cpu) && home_package != topology.package_of(owner);
        let table = if away {
            &self.machine.transfers_away_from_home
        } else {
            &self.machine.transfers
        };
        table[distance.index()]
    }
}

fn llc_distances(machine: &Machine) -> Vec<Distance> {
    let topology = &machine.topology;
    let count = topology.llc_count();
    let mut representative = vec![CpuId(0); count];
    for cpu in topology.cpus() {
        representative[usize::from(topology.llc_of(cpu))] = cpu;
    }
    let mut distances = vec![Distance::Llc; count * count];
    for a in 0..count {
        for b in 0..count {
            if a != b {
                distances[a * count + b] = topology.distance(representative[a], representative[b]);
            }
        }
    }
    distances
}
