//! The machine as the advisor sees it. The prices are the coherence engine's own, handed in by the
//! crate that knows that engine, so that advice and replay cannot drift apart.

use std::ops::{Add, Div, Mul};

use hitm_base::{CpuId, Machine};

/// The cost of one transfer, in cycles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Toll {
    /// From issue to use when nobody else wants the line.
    pub latency: f64,
    /// The part of it during which the line can serve nobody else.
    pub occupancy: f64,
}

impl Toll {
    pub(super) const ZERO: Toll = Toll {
        latency: 0.0,
        occupancy: 0.0,
    };
}

impl Add for Toll {
    type Output = Toll;

    fn add(self, other: Toll) -> Toll {
        Toll {
            latency: self.latency + other.latency,
            occupancy: self.occupancy + other.occupancy,
        }
    }
}

impl Mul<f64> for Toll {
    type Output = Toll;

    fn mul(self, by: f64) -> Toll {
        Toll {
            latency: self.latency * by,
            occupancy: self.occupancy * by,
        }
    }
}

impl Div<f64> for Toll {
    type Output = Toll;

    fn div(self, by: f64) -> Toll {
        Toll {
            latency: self.latency / by,
            occupancy: self.occupancy / by,
        }
    }
}

/// The prices of one machine.
pub trait Prices {
    /// Returns the machine that the prices are for.
    fn machine(&self) -> &Machine;
    /// `cpu` takes a line that `owner` has modified.
    fn dirty(&self, cpu: CpuId, owner: CpuId) -> Toll;
    /// `cpu` reads a line of which `holder` has a clean copy.
    fn shared(&self, cpu: CpuId, holder: CpuId) -> Toll;
    /// `cpu` invalidates the copy of `holder` before it writes.
    fn invalidate(&self, cpu: CpuId, holder: CpuId) -> Toll;
}
