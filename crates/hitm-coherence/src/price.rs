//! Prices: what a transfer costs between any two CPUs of a machine, precomputed so that the
//! directory looks up and never searches.

use hitm_base::machine::{Contention, Machine, Transfer};
use hitm_base::{CpuId, Cycles, DataSource, Distance};

/// Cycles for which a read that finds its line free keeps the next request waiting at the home: a
/// pass through the LLC slice's pipeline.
///
/// Assumed (range 2 to 16). Lines that are only read see nothing else, and wait for hardly anything.
pub const PASS: Cycles = Cycles(4);

/// Cost of one request, given the state of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// From issue to use when nobody else wants the line.
    pub latency: Cycles,
    /// The last part of `latency`, during which the line can serve nobody else.
    pub occupancy: Cycles,
}

/// The price of a request, and where the data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// Price of the request.
    pub price: Price,
    /// Place of the data.
    pub source: DataSource,
}

/// A request of a CPU for a line that another core has alone or answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The CPU that wants it.
    pub cpu: CpuId,
    /// A CPU of the core that has it.
    pub owner: CpuId,
    /// The line's NUMA node.
    pub home: u16,
    /// True if the copy is dirty.
    pub is_dirty: bool,
    /// True if it is wanted exclusively.
    pub exclusive: bool,
}

/// `[away][distance]`, where away is whether the home is in a third package.
type ByHome = [[Quote; Distance::COUNT]; 2];

/// The prices of one machine.
#[derive(Debug, Clone)]
pub struct Prices {
    machine: Machine,
    /// By CPU.
    parts: Vec<Parts>,
    /// `llcs_at[llc][distance]`: the last-level caches at that distance from `llc`, as bits.
    llcs_at: Vec<[u64; Distance::COUNT]>,
    /// One CPU of each NUMA node.
    cpu_of_node: Vec<CpuId>,
    /// `owned[exclusive][dirty]`: what another core's own copy costs.
    owned: [[ByHome; 2]; 2],
    /// By the distance of the farthest copy.
    invalidate: [Price; Distance::COUNT],
}

/// The way in which a line's home serves a read that no owner answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It found the line free, or behind such reads: one passes after the other.
    Passing,
    /// It waited behind a hand-over: requests of a line that is fought over are served one by one.
    InTurn,
}

/// The parts of the machine that one CPU belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) core: u16,
    pub(crate) llc: u16,
    pub(crate) node: u16,
    pub(crate) package: u16,
}

impl Prices {
    /// The prices of `machine`.
    pub fn new(machine: Machine) -> Prices {
        let topology = &machine.topology;
        let mut cpu_of_node = vec![CpuId(0); topology.node_count()];
        for cpu in topology.cpus() {
            cpu_of_node[usize::from(topology.node_of(cpu))] = cpu;
        }
        let parts = topology.cpus().map(|cpu| Parts {
            core: topology.core_of(cpu),
            llc: topology.llc_of(cpu),
            node: topology.node_of(cpu),
            package: topology.package_of(cpu),
        });
        Prices {
            parts: parts.collect(),
            llcs_at: llcs_by_distance(&machine),
            cpu_of_node,
            owned: [false, true].map(|exclusive| {
                [
                    by_home(&machine, clean_price, peer, exclusive),
                    by_home(&machine, dirty_price, hitm, exclusive),
                ]
            }),
            invalidate: Distance::ALL.map(|distance| upgrade_price(&machine, distance)),
            machine,
        }
    }

    /// The machine that the prices belong to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Time for which `owner` still hits a line after `cpu` has requested it: until the snoop
    /// reaches it. `moment` picks one of the lengths that the jitter allows.
    #[inline]
    pub(crate) fn hold(&self, cpu: CpuId, owner: CpuId, home: u16, moment: Cycles) -> Cycles {
        let Contention {
            hold_milli,
            jitter_milli,
            ..
        } = self.machine.contention;
        if hold_milli == 0 || self.parts(cpu).core == self.parts(owner).core {
            return Cycles::ZERO;
        }
        let Quote { price, .. } = self.owned(Fetch {
            cpu,
            owner,
            home,
            is_dirty: true,
            exclusive: false,
        });
        let jitter = u64::from(jitter_milli);
        let share = u64::from(hold_milli) * (1_000 - jitter + mix(cpu, moment) % (2 * jitter + 1));
        Cycles((price.occupancy.0 * share + 500_000) / 1_000_000)
    }

    /// Returns true if a line that comes to `cpu` at this moment brings the other line of its pair.
    #[inline]
    pub(crate) fn pulls_pair(&self, cpu: CpuId, moment: Cycles) -> bool {
        mix(cpu, moment) % 1_000 < u64::from(self.machine.adjacent_line_milli)
    }

    /// The parts of the machine that `cpu` belongs to.
    #[inline]
    pub(crate) fn parts(&self, cpu: CpuId) -> Parts {
        self.parts[cpu.index()]
    }

    /// The distances between the last-level cache `own` and those in the set `llcs`.
    #[inline]
    pub(crate) fn distances(&self, own: u16, llcs: u64) -> Distances {
        let mut found = 0;
        for (distance, at_distance) in self.llcs_at[usize::from(own)].iter().enumerate() {
            found |= u8::from(llcs & at_distance != 0) << distance;
        }
        Distances(found)
    }

    /// A line of another core, and the place of its data.
    #[inline]
    pub fn owned(&self, fetch: Fetch) -> Quote {
        let Fetch {
            cpu,
            owner,
            home,
            is_dirty,
            exclusive,
        } = fetch;
        let distance = self.machine.topology.distance(cpu, owner);
        let is_away = self.is_away(cpu, owner, home);
        let by_distance = &self.owned[usize::from(exclusive)][usize::from(is_dirty)];
        by_distance[usize::from(is_away)][distance.index()]
    }

    /// A copy in a cache at `distance`, read while the line stays shared.
    #[inline]
    pub fn shared_read(&self, distance: Distance, service: Service) -> Price {
        self.read(self.machine.transfers[distance.index()].clean, service)
    }

    /// The last-level cache next to the CPU.
    #[inline]
    pub fn llc_hit(&self, service: Service) -> Price {
        self.read(self.machine.caches.llc.latency, service)
    }

    #[inline]
    fn read(&self, latency: Cycles, service: Service) -> Price {
        let share = match service {
            Service::Passing => 0,
            Service::InTurn => u64::from(self.machine.contention.read_milli),
        };
        let occupancy = Cycles((latency.0 * share + 500) / 1_000);
        Price {
            latency,
            occupancy: occupancy.max(PASS).min(latency),
        }
    }

    /// Invalidation of copies, the farthest at `distance`: the writer waits for its answer.
    #[inline]
    pub fn invalidate(&self, distance: Distance) -> Price {
        self.invalidate[distance.index()]
    }

    /// Memory of the NUMA node `home`, and whether that is the CPU's own node.
    pub fn dram(&self, cpu: CpuId, home: u16, service: Service) -> (Price, bool) {
        let topology = &self.machine.topology;
        let dram = &self.machine.dram;
        let local = topology.node_of(cpu) == home;
        let latency = match topology.distance(cpu, self.cpu_of_node[usize::from(home)]) {
            _ if local => dram.local,
            Distance::FarRemote => dram.far_remote,
            Distance::Remote => dram.remote,
            _ => dram.package,
        };
        (self.read(latency, service), local)
    }

    /// Returns true if the home is in a third package, which has its own price.
    #[inline]
    fn is_away(&self, cpu: CpuId, owner: CpuId, home: u16) -> bool {
        let home = self.machine.topology.package_of_node(home);
        (home != self.parts(cpu).package) & (home != self.parts(owner).package)
    }
}

/// A set of distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Distances(u8);

impl Distances {
    #[inline]
    pub(crate) fn nearest(self) -> Option<Distance> {
        Distance::ALL.get(self.0.trailing_zeros() as usize).copied()
    }

    #[inline]
    pub(crate) fn farthest(self) -> Option<Distance> {
        let index = self.0.checked_ilog2()?;
        Distance::ALL.get(index as usize).copied()
    }
}

fn dirty_price(transfer: Transfer) -> Price {
    Price {
        latency: transfer.dirty,
        occupancy: transfer.occupancy,
    }
}

fn clean_price(transfer: Transfer) -> Price {
    Price {
        latency: transfer.clean,
        occupancy: transfer.occupancy.min(transfer.clean),
    }
}

/// Taking a shared line whose farthest copy is at `distance`.
fn upgrade_price(machine: &Machine, distance: Distance) -> Price {
    let ratio_milli = u64::from(if distance.is_remote() {
        machine.upgrade.remote_milli
    } else {
        machine.upgrade.package_milli
    });
    let scaled = |cycles: Cycles| Cycles((cycles.0 * ratio_milli + 500) / 1_000);
    let Price { latency, occupancy } = clean_price(machine.transfers[distance.index()]);
    Price {
        latency: scaled(latency),
        occupancy: scaled(occupancy),
    }
}

/// A number that looks random and is the same for the same request at the same time, however the
/// lines are partitioned into directories.
#[inline]
fn mix(cpu: CpuId, moment: Cycles) -> u64 {
    let mixed = (moment.0 ^ u64::from(cpu.0) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32
}

/// Prices of an owner's line by whether the home is in a third package, and by distance. Within a
/// last-level cache the home is not asked.
fn by_home(
    machine: &Machine,
    price_of: fn(Transfer) -> Price,
    source_of: fn(Distance) -> DataSource,
    exclusive: bool,
) -> ByHome {
    let near = machine.transfers;
    let mut away = machine.transfers_away_from_home;
    let inside = Distance::Llc.index() + 1;
    away[..inside].copy_from_slice(&near[..inside]);
    [near, away].map(|transfers| {
        Distance::ALL.map(|distance| {
            let data = Quote {
                price: price_of(transfers[distance.index()]),
                source: source_of(distance),
            };
            if !exclusive {
                return data;
            }
            // Copies are known by the last-level cache that is above them.
            let copy = distance.max(Distance::Llc);
            data.with_invalidation(clean_price(near[copy.index()]), copy)
        })
    })
}

impl Quote {
    /// A writer waits for its data and for the invalidation of the farthest copy, which is at `distance`.
    pub(crate) fn with_invalidation(self, invalidation: Price, distance: Distance) -> Quote {
        let Quote { price, source } = self;
        let is_slower = invalidation.latency > price.latency;
        Quote {
            price: if is_slower { invalidation } else { price },
            // Taking a shared line away from others is contention, wherever the data was.
            source: if source.is_hitm() {
                source
            } else {
                peer(distance)
            },
        }
    }
}

fn hitm(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemoteHitm
    } else {
        DataSource::LocalHitm
    }
}

/// Source of a write whose core has the data, with the farthest copy to invalidate at this
/// distance.
pub(crate) fn upgrade(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemoteUpgrade
    } else {
        DataSource::LocalUpgrade
    }
}

/// Source of a clean copy at this distance.
pub(crate) fn peer(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemotePeer
    } else {
        DataSource::LocalPeer
    }
}

fn llcs_by_distance(machine: &Machine) -> Vec<[u64; Distance::COUNT]> {
    let topology = &machine.topology;
    let mut representative = vec![CpuId(0); topology.llc_count()];
    for cpu in topology.cpus() {
        representative[usize::from(topology.llc_of(cpu))] = cpu;
    }
    let of_llc = |a: &CpuId| {
        let mut at = [0; Distance::COUNT];
        for (llc, b) in representative.iter().enumerate() {
            let distance = if a == b {
                Distance::Llc
            } else {
                topology.distance(*a, *b)
            };
            at[distance.index()] |= 1 << llc;
        }
        at
    };
    representative.iter().map(of_llc).collect()
}

#[cfg(test)]
mod tests {
    use hitm_base::machine::preset;

    use super::*;

    fn prices() -> Prices {
        let text = preset("xeon8176-8s").unwrap();
        Prices::new(Machine::from_toml(text, "xeon8176-8s").unwrap())
    }

    #[test]
    fn holds_vary_about_their_share_of_the_hand_over() {
        let prices = prices();
        let holds = (0..2_000).map(|moment| prices.hold(CpuId(0), CpuId(112), 0, Cycles(moment)).0);
        let holds: Vec<u64> = holds.collect();
        // 942 cycles x 0.125, half of it more or less.
        assert!(holds.iter().all(|hold| (59..=177).contains(hold)));
        assert!(holds.iter().any(|hold| *hold < 65) && holds.iter().any(|hold| *hold > 171));
        let mean = holds.iter().sum::<u64>() as f64 / holds.len() as f64;
        assert!((mean / 117.75 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn threads_of_a_core_take_no_line_from_each_other() {
        let prices = prices();
        let sibling =
            prices.machine().topology.cpus().find(|cpu| {
                *cpu != CpuId(0) && prices.parts(*cpu).core == prices.parts(CpuId(0)).core
            });
        let hold = prices.hold(sibling.unwrap(), CpuId(0), 0, Cycles(9));
        assert_eq!(hold, Cycles::ZERO);
    }

    #[test]
    fn taking_a_shared_line_across_packages_costs_the_upgrade() {
        let prices = prices();
        let clean = |distance: Distance| prices.machine().transfers[distance.index()].clean.0;
        let upgrade = |distance| prices.invalidate(distance).latency.0;
        assert_eq!(upgrade(Distance::Remote), 2 * clean(Distance::Remote));
        assert_eq!(
            upgrade(Distance::Llc),
            (clean(Distance::Llc) * 1_140 + 500) / 1_000
        );
    }
}
