//! Hashes over all accesses of a run, in the order in which they are answered.

use hitm_base::{Cycles, Fnv1a, LineAddr};

use super::log::Answered;

/// The hashes, and what lines and functions count as in them.
#[derive(Debug)]
pub(super) struct Hashes {
    events: u64,
    timing: u64,
    /// By number of the line: its address, whatever the order in which lines were registered.
    lines: Vec<u64>,
    /// By number of the function: a hash of its name.
    functions: Box<[u64]>,
}

impl Hashes {
    /// Of no access yet, by the functions of these names.
    pub(super) fn new(sites: &[&str]) -> Hashes {
        let of_name = |name: &&str| Fnv1a::EMPTY.with(name.as_bytes()).value();
        Hashes {
            events: Fnv1a::EMPTY.value(),
            timing: Fnv1a::EMPTY.value(),
            lines: Vec::new(),
            functions: sites.iter().map(of_name).collect(),
        }
    }

    /// Registers the line that has the next number.
    pub(super) fn add_line(&mut self, addr: LineAddr) {
        self.lines.push(addr.first_byte());
    }

    /// Over every access with its word, function, CPU, clock, latency and value.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Over every access with its address, function, CPU, clock and latency: nothing that renaming or
    /// reordering declarations changes.
    pub(super) fn timing(&self) -> u64 {
        self.timing
    }

    /// Makes an access part of the hashes.
    #[inline]
    pub(super) fn add(&mut self, access: Answered, latency: Cycles) {
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
        let addr = self.lines[place.line.index()] | u64::from(place.offset);
        let function = self.functions[usize::from(site.0)];
        let what = addr.rotate_left(16) ^ function ^ cpu as u64;
        self.timing = mixed(self.timing, what, when);
    }
}

#[inline]
fn mixed(hash: u64, what: u64, when: u64) -> u64 {
    let mixed = (hash ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed.rotate_left(29) ^ when).wrapping_mul(0xff51_afd7_ed55_8ccd)
}
