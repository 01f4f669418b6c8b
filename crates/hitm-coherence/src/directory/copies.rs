//! Copies of a line in cores and last-level caches: how it gets to a core and leaves it.

use hitm_base::machine::Protocol;
use hitm_base::{CpuId, Cycles, DataSource};

use super::{Capacity, Directory, LineId, State};
use crate::cache::Entered;
use crate::price::Parts;

/// The nearest of a core's caches that a line comes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The core has asked for it.
    L1,
    /// It comes beside another one.
    L2,
}

impl Directory {
    #[inline]
    pub(super) fn make_owner(&mut self, cpu: CpuId, line: LineId) {
        let entry = &mut self.lines[line.index()];
        self.latest.forget(entry.owner, line);
        entry.sharer_count = 1;
        entry.state = State::Modified;
        entry.owner = cpu;
    }

    /// The line leaves the states Exclusive and Modified for `state`: what was known of the owner
    /// alone is written down.
    pub(super) fn note_copies(&mut self, line: LineId, state: State) {
        let entry = &mut self.lines[line.index()];
        let Parts { core, llc, .. } = self.prices.parts(entry.owner);
        entry.state = state;
        self.latest.forget(entry.owner, line);
        let words = &mut self.copies[line.index() * self.words..][..self.words];
        words.fill(0);
        words[0] = 1 << llc;
        words[1 + usize::from(core) / 64] = 1 << (core % 64);
    }

    pub(super) fn add_reader(&mut self, cpu: CpuId, line: LineId) {
        let Parts { core, llc, .. } = self.prices.parts(cpu);
        // A core gets the line for itself where the last-level caches show no other user of it.
        // That is from memory, and from its own LLC after it has been evicted.
        let is_elsewhere = self.llcs(line) & !(1 << llc) != 0;
        let entry = &mut self.lines[line.index()];
        match entry.state {
            State::Invalid if !is_elsewhere => {
                entry.owner = cpu;
                entry.state = State::Exclusive;
                entry.sharer_count = 1;
                return;
            }
            State::Modified if self.prices.machine().protocol == Protocol::Moesi => {
                self.note_copies(line, State::Owned);
            }
            // A modified line is written back on the way: both last-level caches have it now.
            State::Modified | State::Exclusive => self.note_copies(line, State::Shared),
            State::Owned if self.prices.machine().protocol == Protocol::Moesi => {}
            _ => entry.state = State::Shared,
        }
        self.copies[line.index() * self.words] |= 1 << llc;
        self.set_sharer(line, core.into());
    }

    /// Brings the line into the core's caches, and evicts the lines that it displaces. Returns true if
    /// the core would have it still if others had not taken it: a copy that was invalidated keeps its
    /// place in the L2 until it would have been evicted.
    #[inline]
    pub(super) fn fill(&mut self, cpu: CpuId, line: LineId, level: Level) -> bool {
        let core = self.core(cpu);
        if self.capacity == Capacity::Infinite {
            let Some(seen) = &mut self.seen else {
                return false;
            };
            let word = &mut seen[line.index() * (self.words - 1) + core / 64];
            let before = *word;
            *word |= 1 << (core % 64);
            return *word == before;
        }
        let [l1_set, l2_set] = self.sets[line.index()];
        if level == Level::L1 {
            self.l1.enter(core, l1_set, line.0);
            self.latest.forget_core(cpu);
        }
        let entered = self.l2.enter(core, l2_set, line.0);
        if let Entered::Instead(victim) = entered {
            self.evict_from_core(cpu, core, LineId(victim));
        }
        entered == Entered::WasThere
    }

    fn evict_from_core(&mut self, cpu: CpuId, core: usize, victim: LineId) {
        if !self.is_sharer(victim, core) {
            return; // Invalidated long ago.
        }
        if self.lines[victim.index()].is_alone() {
            self.note_copies(victim, State::Shared);
        }
        self.clear_sharer(victim, core);
        let llc = self.prices.parts(cpu).llc;
        let owner_core = self.core(self.lines[victim.0 as usize].owner);
        let entry = &mut self.lines[victim.0 as usize];
        self.copies[victim.index() * self.words] |= 1 << llc;
        if entry.sharer_count == 0 {
            entry.state = State::Invalid;
        } else if entry.state == State::Owned && owner_core == core {
            entry.state = State::Shared; // The dirty copy went back to the LLC.
        }
        let set = self.backgrounds[victim.0 as usize].llc_set;
        if let Entered::Instead(gone) = self.llc.enter(usize::from(llc), set, victim.0) {
            self.drop_from_llc(LineId(gone), llc);
        }
    }

    /// Forgets the LLC's copy, unless a core above it still has one.
    fn drop_from_llc(&mut self, line: LineId, llc: u16) {
        let entry = &self.lines[line.index()];
        if entry.is_alone() {
            return; // Only the cache above the owner counts, and the owner is still there.
        }
        let topology = &self.prices.machine().topology;
        let still_above = entry.sharer_count > 0
            && self
                .sharers(line)
                .any(|core| topology.llc_of_core(core) == llc);
        if !still_above {
            self.copies[line.index() * self.words] &= !(1 << llc);
        }
    }

    /// Returns the finite cache of the CPU's core that has the copy, with its latency, and brings
    /// the copy into the L1.
    #[inline]
    pub(super) fn private_level(&mut self, cpu: CpuId, line: LineId) -> (DataSource, Cycles) {
        let core = self.core(cpu);
        let [l1_set, l2_set] = self.sets[line.index()];
        self.latest.forget_core(cpu);
        if self.l1.enter(core, l1_set, line.0) == Entered::WasThere {
            return (DataSource::L1, self.l1_latency);
        }
        // A core's copy is always in its L2: the copy goes when the L2 lets go of the line.
        let in_l2 = self.l2.enter(core, l2_set, line.0);
        assert_eq!(
            in_l2,
            Entered::WasThere,
            "a copy outlived its place in the L2"
        );
        (DataSource::L2, self.prices.machine().caches.l2.latency)
    }

    /// Returns true if the core of `cpu` has a valid copy. Unlike [`Directory::hit`] it uses nothing.
    pub fn has_line(&self, cpu: CpuId, line: LineId) -> bool {
        self.is_sharer(line, self.core(cpu))
    }

    #[inline]
    pub(super) fn is_sharer(&self, line: LineId, core: usize) -> bool {
        let entry = &self.lines[line.0 as usize];
        if entry.is_alone() {
            return core == self.core(entry.owner);
        }
        self.has_copy(line, core)
    }

    /// Returns true if a core has one of the copies of a line that is not its owner's alone.
    #[inline]
    pub(super) fn has_copy(&self, line: LineId, core: usize) -> bool {
        self.copies[line.index() * self.words + 1 + core / 64] >> (core % 64) & 1 == 1
    }

    /// Notes that a core has a valid copy.
    #[inline]
    fn set_sharer(&mut self, line: LineId, core: usize) {
        let word = &mut self.copies[line.index() * self.words + 1 + core / 64];
        let before = *word;
        *word |= 1 << (core % 64);
        self.lines[line.index()].sharer_count += u16::from(*word != before);
    }

    /// Notes that a core has lost its valid copy.
    fn clear_sharer(&mut self, line: LineId, core: usize) {
        self.copies[line.index() * self.words + 1 + core / 64] &= !(1 << (core % 64));
        self.lines[line.index()].sharer_count -= 1;
    }
}
