//! The last users of each line: givers of its next hand-over ([`LineUsers`]).

use hitm_base::{CpuId, Cycles, LineUse, LineUsers};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Lines whose users are remembered: some 30 MiB of them.
const LINES_MAX: usize = 1 << 18;

/// A CPU's use of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) cpu: CpuId,
    pub(crate) thread: u32,
    /// End of its last access.
    pub(crate) at: Cycles,
    /// Number of the stall in which the CPU got the line; 0 when it did not stall.
    pub(crate) stall: u64,
}

impl LineUse for Touch {
    fn cpu(&self) -> CpuId {
        self.cpu
    }
}

/// The CPUs that touched each line last.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    lines: IndexMap<u64, LineUsers<Touch>, FxBuildHasher>,
    /// Accesses to lines beyond [`LINES_MAX`].
    pub(crate) forgotten: u64,
}

/// Place of a line among those whose users are remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot(usize);

impl Holders {
    /// Returns the place of a line, None for one beyond [`LINES_MAX`].
    #[inline]
    pub(crate) fn slot(&mut self, line: u64) -> Option<Slot> {
        if self.lines.len() < LINES_MAX {
            let entry = self.lines.entry(line);
            let slot = Slot(entry.index());
            entry.or_default();
            return Some(slot);
        }
        let known = self.lines.get_index_of(&line).map(Slot);
        self.forgotten += u64::from(known.is_none());
        known
    }

    /// Returns the last use of the line by the CPU that gives it to `taker`.
    #[inline]
    pub(crate) fn giver(&self, slot: Slot, taker: CpuId, is_hitm: bool) -> Option<Touch> {
        self.lines[slot.0].giver(taker, is_hitm)
    }

    /// Notes a use; `is_taken` when the CPU did not have the line before.
    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot, mut touch: Touch, is_write: bool, is_taken: bool) {
        let users = &mut self.lines[slot.0];
        let last = users.last().filter(|last| last.cpu == touch.cpu);
        if let Some(last) = last.filter(|_| !is_taken) {
            // It still has the line from then.
            touch.stall = last.stall;
        }
        users.touch(touch, is_write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(cpu: u16, at: u64, stall: u64) -> Touch {
        Touch {
            cpu: CpuId(cpu),
            thread: cpu.into(),
            at: Cycles(at),
            stall,
        }
    }

    #[test]
    fn the_writer_gives_what_is_modified_and_the_last_other_user_the_rest() {
        let mut holders = Holders::default();
        let line = holders.slot(1).expect("it is the first");
        assert_eq!(holders.giver(line, CpuId(0), true), None);
        holders.touch(line, touch(0, 10, 5), true, true);
        holders.touch(line, touch(0, 20, 0), false, false);
        assert_eq!(holders.giver(line, CpuId(1), true), Some(touch(0, 10, 5)));
        assert_eq!(holders.giver(line, CpuId(1), false), Some(touch(0, 20, 5)));
        assert_eq!(holders.giver(line, CpuId(0), false), None);
        holders.touch(line, touch(1, 30, 6), false, true);
        assert_eq!(holders.giver(line, CpuId(1), false), Some(touch(0, 20, 5)));
        assert_eq!(holders.giver(line, CpuId(0), false), Some(touch(1, 30, 6)));
    }
}
