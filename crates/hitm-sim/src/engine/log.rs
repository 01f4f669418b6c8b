//! The accesses that happened last, kept until there is a block of them to count.
//!
//! A run touches thousands of counters in no order, so that each would wait for the host's memory.
//! A block is counted in steps, each of which prefetches what the next one reads, for all of its
//! accesses together.

use hitm_base::{AccessOp, Cycles, DataSource};

use super::memory::{Place, Site};

/// Accesses of a block: few, because they push other things out of the host's nearest cache.
pub(super) const BLOCK: usize = 64;

/// Properties of an access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) op: AccessOp,
    pub(super) source: DataSource,
    pub(super) latency: Cycles,
    pub(super) queued: Cycles,
    /// Set if a core of another NUMA node had modified the line.
    pub(super) other_node: bool,
}

/// An access that has its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// The CPU, and its clock.
    pub(super) cpu: usize,
    pub(super) at: Cycles,
    pub(super) place: Place,
    pub(super) site: Site,
    /// The value loaded or stored; that before a locked operation.
    pub(super) value: u64,
}

/// An access that nobody else is part of.
pub(super) const fn hit(op: AccessOp, source: DataSource, latency: Cycles) -> Sample {
    Sample {
        op,
        source,
        latency,
        queued: Cycles::ZERO,
        other_node: false,
    }
}

/// Place in the statistics at which an access is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Its member, function and kind ([`super::profile::Profile::key`]).
    pub(super) cell: u32,
    pub(super) cpu: u16,
    /// True for a hit in the L1 in its usual time, of which nothing else has to be known.
    pub(super) is_plain_hit: bool,
}

/// A block that fills.
#[derive(Debug)]
pub(super) struct Log {
    keys: Box<[Key; BLOCK]>,
    samples: Box<[Sample; BLOCK]>,
    count: usize,
}

impl Log {
    pub(super) fn new() -> Log {
        let nothing = Key {
            cell: 0,
            cpu: 0,
            is_plain_hit: true,
        };
        let sample = hit(AccessOp::Load, DataSource::L1, Cycles::ZERO);
        Log {
            keys: Box::new([nothing; BLOCK]),
            samples: Box::new([sample; BLOCK]),
            count: 0,
        }
    }

    /// Adds an access; returns whether the block is full now, and has to be counted and cleared.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, key: Key, sample: Sample) -> bool {
        self.keys[self.count % BLOCK] = key;
        self.samples[self.count % BLOCK] = sample;
        self.count += 1;
        self.count >= BLOCK
    }

    /// Keys of the block's accesses, and their samples.
    pub(super) fn accesses(&self) -> (&[Key], &[Sample]) {
        (&self.keys[..self.count], &self.samples[..self.count])
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}
