//! The accesses that happened last, kept until there is a block of them to count.
//!
//! A run touches thousands of counters in no order, so that each would wait for the host's memory. A
//! block is counted in steps, each of which asks for what the next one reads, for all of its accesses
//! together.

use hitm_base::{AccessOp, Cycles, DataSource};

use super::memory::Site;

/// Accesses of a block: few, because they push other things out of the host's nearest cache.
pub(super) const BLOCK: usize = 64;

/// What an access was like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) op: AccessOp,
    pub(super) source: DataSource,
    pub(super) latency: Cycles,
    pub(super) queued: Cycles,
}

/// An access that nobody else is part of.
pub(super) fn hit(op: AccessOp, source: DataSource, latency: Cycles) -> Sample {
    Sample {
        op,
        source,
        latency,
        queued: Cycles::ZERO,
    }
}

/// One access, as it is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) sample: Sample,
    pub(super) member: u16,
    pub(super) site: Site,
    pub(super) cpu: u16,
}

/// A block that fills.
#[derive(Debug)]
pub(super) struct Log {
    accesses: Box<[Counted; BLOCK]>,
    count: usize,
}

impl Log {
    pub(super) fn new() -> Log {
        let nothing = Counted {
            sample: hit(AccessOp::Load, DataSource::L1, Cycles::ZERO),
            member: 0,
            site: Site(0),
            cpu: 0,
        };
        Log {
            accesses: Box::new([nothing; BLOCK]),
            count: 0,
        }
    }

    /// Adds an access; returns whether the block is full now, and has to be counted and cleared.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, access: Counted) -> bool {
        self.accesses[self.count % BLOCK] = access;
        self.count += 1;
        self.count >= BLOCK
    }

    /// What is in the block.
    pub(super) fn accesses(&self) -> &[Counted] {
        &self.accesses[..self.count]
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}
