//! Hashes over all accesses of a run, in the order in which they are answered.
//!
//! One of them reads the address of each access's line, which nothing else reads. It is made for a block of accesses
//! together, so that the host fetches their addresses at once.

use hitm_base::{Cycles, Fnv1a, LineAddr};
use hitm_coherence::directory::LineId;

use super::log::{Answered, BLOCK};

/// The hashes, and what functions count as in them.
#[derive(Debug)]
pub(super) struct Hashes {
    events: u64,
    timing: u64,
    /// By number of the function: a hash of its name.
    functions: Box<[u64]>,
    /// Accesses that are not part of `timing` yet.
    block: Vec<Timed>,
}

/// An access whose address is its line's, and what is known of the rest.
#[derive(Debug, Clone, Copy)]
struct Timed {
    line: LineId,
    /// Of the place in the line, function and CPU.
    what: u64,
    when: u64,
}

impl Hashes {
    /// Of no access yet, by the functions of these names.
    pub(super) fn new(sites: &[&str]) -> Hashes {
        let of_name = |name: &&str| Fnv1a::EMPTY.with(name.as_bytes()).value();
        Hashes {
            events: Fnv1a::EMPTY.value(),
            timing: Fnv1a::EMPTY.value(),
            functions: sites.iter().map(of_name).collect(),
            block: Vec::with_capacity(BLOCK),
        }
    }

    /// Over every access with its word, function, CPU, clock, latency and value.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Over every access up to the last [`Hashes::settle`] with its address, function, CPU, clock and latency:
    /// nothing that renaming or reordering declarations changes.
    pub(super) fn timing(&self) -> u64 {
        self.timing
    }

    /// Makes an access part of the hashes; returns whether a block is full now, and has to be settled.
    #[inline(always)]
    #[must_use]
    pub(super) fn add(&mut self, access: Answered, latency: Cycles) -> bool {
        let Answered {
            cpu,
            at,
            place,
            site,
            value,
        } = access;
        let when = at.0 ^ latency.0.rotate_left(32);
        let word = u64::from(place.word) << 32 | u64::from(site.0) << 16 | cpu as u64;
        self.events = mixed(self.events, word, when ^ value.rotate_left(17));
        let function = self.functions[usize::from(site.0)];
        self.block.push(Timed {
            line: place.line,
            what: u64::from(place.offset).rotate_left(16) ^ function ^ cpu as u64,
            when,
        });
        self.block.len() >= BLOCK
    }

    /// Makes the accesses of the block part of the hash over times, by the addresses of their lines.
    pub(super) fn settle(&mut self, addr: impl Fn(LineId) -> LineAddr) {
        for timed in self.block.drain(..) {
            let what = addr(timed.line).first_byte().rotate_left(16) ^ timed.what;
            self.timing = mixed(self.timing, what, timed.when);
        }
    }
}

#[inline]
fn mixed(hash: u64, what: u64, when: u64) -> u64 {
    let mixed = (hash ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed.rotate_left(29) ^ when).wrapping_mul(0xff51_afd7_ed55_8ccd)
}
