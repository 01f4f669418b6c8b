//! The coherence engine's prices for the advisor.

use hitm_base::{CpuId, Machine};
use hitm_coherence::price::{Fetch, Price, Prices as Engine, Service};
use hitm_layout::advise::{Prices, Toll};

/// The engine's prices of one machine. A line's home is the node of its owner: a profile does not
/// know where the kernel puts a page.
#[derive(Debug, Clone)]
pub struct EnginePrices(Engine);

impl EnginePrices {
    /// Builds an engine of `machine`.
    pub fn new(machine: Machine) -> EnginePrices {
        EnginePrices(Engine::new(machine))
    }

    fn home_of(&self, cpu: CpuId) -> u16 {
        self.0.machine().topology.node_of(cpu)
    }
}

fn toll(price: Price) -> Toll {
    Toll {
        latency: price.latency.0 as f64,
        occupancy: price.occupancy.0 as f64,
    }
}

impl Prices for EnginePrices {
    fn machine(&self) -> &Machine {
        self.0.machine()
    }

    fn dirty(&self, cpu: CpuId, owner: CpuId) -> Toll {
        let home = self.home_of(owner);
        let quote = self.0.owned(Fetch {
            cpu,
            owner,
            home,
            is_dirty: true,
            exclusive: false,
        });
        toll(quote.price)
    }

    fn shared(&self, cpu: CpuId, holder: CpuId) -> Toll {
        let topology = &self.0.machine().topology;
        if topology.llc_of(cpu) == topology.llc_of(holder) {
            return toll(self.0.llc_hit(Service::InTurn));
        }
        toll(
            self.0
                .shared_read(topology.distance(cpu, holder), Service::InTurn),
        )
    }

    fn invalidate(&self, cpu: CpuId, holder: CpuId) -> Toll {
        toll(
            self.0
                .invalidate(self.0.machine().topology.distance(cpu, holder)),
        )
    }
}
