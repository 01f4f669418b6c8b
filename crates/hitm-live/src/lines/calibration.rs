//! This host's answers that samples and watches hang on, measured by a thread of our own.
//!
//! The instruction that a clock finds a thread at, and the price of an event, differ by CPU and by what is below the
//! kernel. Each figure takes a few milliseconds, and a busy host changes none: CPU time alone counts, or the least of
//! several times.

mod hits;
mod loops;
mod setting;
mod stands;
mod switches;

use std::io;

use serde::{Deserialize, Serialize};

/// Place of a sample that stands for an access that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stand {
    /// At the instruction of the access.
    At,
    /// At the instruction behind it.
    Behind,
    /// At one of the two, or not known.
    Either,
}

impl Stand {
    /// Returns true if a sample may stand for an access whose instruction ran before it, or is the one that it is at.
    pub const fn allows(self, is_before: bool) -> bool {
        match self {
            Stand::At => !is_before,
            Stand::Behind => is_before,
            Stand::Either => true,
        }
    }
}

/// Places of samples, and costs of clocks and watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Samples of a load that waits for its line.
    pub load: Stand,
    /// Samples of a store that waits for room in the store buffer.
    pub store: Stand,
    /// Samples of a locked operation.
    pub locked: Stand,
    /// Picoseconds of a locked operation that nobody fights for.
    pub locked_ps: u64,
    /// True if a watch of reads and writes sees both.
    pub watches_all: bool,
    /// True if a watch of writes sees them, and no reads.
    pub watches_writes: bool,
    /// Nanoseconds that an access to a watched word takes.
    pub hit_ns: u64,
    /// Nanoseconds between the moment from which on a watch of a thread that runs counts and the thread's first hit, if
    /// the thread does nothing else.
    pub armed_ns: u64,
    /// The same of a thread that begins to run under a watch, with what is behind the hit that ended it.
    pub begun_ns: u64,
    /// Nanoseconds that a thread's clock adds to a switch of threads.
    pub clock_switch_ns: u64,
    /// Nanoseconds that a thread's watches add to one, four of them.
    pub watches_switch_ns: u64,
}

/// A calibration, and how much of it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibrated {
    /// The figures; those that could not be measured are assumed.
    pub figures: Calibration,
    /// True if none is assumed.
    pub is_whole: bool,
}

impl Calibration {
    /// Figures of a host where none can be measured: those of most x86-64 CPUs, in a virtual machine.
    pub const ASSUMED: Calibration = Calibration {
        load: Stand::Behind,
        store: Stand::At,
        locked: Stand::Behind,
        // Nothing is taken off for what nobody fights for.
        locked_ps: 0,
        watches_all: true,
        watches_writes: true,
        // 1 to 12 us.
        hit_ns: 4_000,
        // Nothing is taken off for what setting a watch takes.
        armed_ns: 0,
        begun_ns: 0,
        // 1 to 20 us: in a virtual machine its host has a part in it.
        clock_switch_ns: 10_000,
        watches_switch_ns: 10_000,
    };

    /// Measures this host, some 100 ms.
    ///
    /// # Errors
    /// The kernel allows no clock of an own thread, or the thread cannot start.
    pub fn measure() -> io::Result<Calibrated> {
        // Events are of the thread that opens them.
        let measured = std::thread::Builder::new().spawn(measure)?;
        let ended = measured.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the thread that measures ended early")))
    }
}

fn measure() -> io::Result<Calibrated> {
    let mut figures = Calibration::ASSUMED;
    let stands = stands::measure()?;
    let mut is_whole = stands.is_some();
    if let Some(found) = stands {
        figures.load = found.load;
        figures.store = found.store;
        figures.locked = found.locked;
        figures.locked_ps = found.locked_ps;
    }
    match hits::measure() {
        Ok(found) => {
            figures.watches_all = found.watches_all;
            figures.watches_writes = found.watches_writes;
            figures.hit_ns = found.hit_ns.unwrap_or(figures.hit_ns);
        }
        // Others may have the debug registers now.
        Err(_) => is_whole = false,
    }
    match setting::measure() {
        Ok(found) => {
            figures.armed_ns = found.armed_ns;
            figures.begun_ns = found.begun_ns;
        }
        Err(_) => is_whole = false,
    }
    match switches::measure() {
        Ok(found) => {
            figures.clock_switch_ns = found.clock_ns;
            figures.watches_switch_ns = found.watches_ns;
        }
        Err(_) => is_whole = false,
    }
    Ok(Calibrated { figures, is_whole })
}

#[cfg(test)]
mod tests;
