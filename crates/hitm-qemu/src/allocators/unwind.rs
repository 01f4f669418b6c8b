//! Callers of an allocation: the guest's stack, read from outside.
//!
//! A frame's layout is the same each time code returns to one place, so it is looked up once a place in the
//! file's unwind information (DWARF; gimli reads it). Code without such information is walked by its frame pointers,
//! which Go and some architectures' compilers keep.

use std::collections::HashMap;

use hitm_base::{AddrRange, CodeAddr};

use crate::{guest_memory, mappings};

use super::module::Frame;
use super::registers::Read;

/// Return addresses kept of a stack, as `hitm-heap` keeps.
const DEPTH_MAX: usize = 16;

/// Bytes between a function's stack pointer and its frame pointer; a register that points elsewhere has
/// another use. Assumed, from 64 KiB to 8 MiB, the usual size of a stack.
const FRAME_MAX: u64 = 1 << 20;

/// Knowledge of a thread about code and stacks.
#[derive(Debug, Default)]
pub(super) struct Walker {
    /// By return address: none of what is no code, and then none where there is no unwind information.
    frames: HashMap<u64, Option<Option<Frame>>>,
    memory: StackMemory,
}

impl Walker {
    pub(super) fn forget_code(&mut self) {
        self.frames.clear();
    }

    pub(super) fn forget_memory(&mut self) {
        self.memory = StackMemory::default();
    }

    /// The word at an address on the thread's stack.
    pub(super) fn word(&mut self, addr: u64) -> Option<u64> {
        self.memory.word(addr)
    }

    /// Return addresses of a function that has just been called from before `site`, innermost first.
    /// `frame_at` says whether an address is code, and what frame its function has there.
    pub(super) fn walk(
        &mut self,
        registers: &Read,
        site: u64,
        frame_at: impl Fn(u64) -> Option<Option<Frame>>,
    ) -> Vec<CodeAddr> {
        let mut place = Place {
            site,
            stack: registers.stack() + registers.file.return_address_bytes(),
            frame: registers.frame(),
        };
        let mut sites = Vec::with_capacity(DEPTH_MAX);
        while sites.len() < DEPTH_MAX {
            let frames = &mut self.frames;
            let look = || frame_at(place.site.wrapping_sub(1));
            let Some(frame) = *frames.entry(place.site).or_insert_with(look) else {
                break;
            };
            sites.push(CodeAddr(place.site));
            let next = match frame {
                Some(frame) => place.up_by(frame, &mut self.memory),
                None => place.up_by_frame_pointer(&mut self.memory),
            };
            match next {
                Some(next) => place = next,
                None => break,
            }
        }
        sites
    }
}

/// A frame that is being walked: where its callee returns to, and its registers then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    site: u64,
    stack: u64,
    frame: u64,
}

impl Place {
    fn up_by(self, frame: Frame, memory: &mut StackMemory) -> Option<Place> {
        let base = match frame.is_by_frame_pointer {
            true => self.frame,
            false => self.stack,
        };
        let top = base.checked_add_signed(frame.offset)?;
        // Stacks grow down: anything else goes in circles.
        (top > self.stack || !frame.is_by_frame_pointer).then_some(())?;
        let kept = frame.kept.and_then(|at| top.checked_add_signed(at));
        Some(Place {
            site: memory.word(top.checked_sub(8)?)?,
            stack: top,
            frame: match kept {
                Some(at) => memory.word(at)?,
                None => self.frame,
            },
        })
    }

    /// The frame pointer leads to the caller's and to the return address behind it.
    fn up_by_frame_pointer(self, memory: &mut StackMemory) -> Option<Place> {
        // Go for arm64 keeps it just below the stack pointer.
        let above = self.frame.checked_add(8)?.checked_sub(self.stack)?;
        (self.frame.is_multiple_of(8) && above <= FRAME_MAX).then_some(())?;
        Some(Place {
            site: memory.word(self.frame.checked_add(8)?)?,
            stack: self.frame.checked_add(16)?,
            frame: memory.word(self.frame)?,
        })
    }
}

/// The guest's stacks. A call of the system for each word would take longer than all else, so what is known
/// to be mapped is read as it is; the recorder begins anew when something is unmapped.
#[derive(Debug, Default)]
struct StackMemory {
    /// Mappings that were read, the last one first.
    known: Vec<AddrRange>,
}

/// Mappings that a thread remembers: Go's stacks lie in several.
const MAPPINGS_MAX: usize = 8;

impl StackMemory {
    fn word(&mut self, addr: u64) -> Option<u64> {
        addr.is_multiple_of(8).then_some(())?;
        if !self.known.iter().any(|known| known.contains(addr)) {
            let found = mappings::readable_at(addr)?;
            self.known.truncate(MAPPINGS_MAX - 1);
            self.known.insert(0, found);
        }
        // SAFETY: the mapping around is readable, and an aligned word lies in one page.
        Some(unsafe { guest_memory::read_mapped(addr) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lead_to_return_addresses() {
        // A frame of four words: locals, the kept frame pointer, the return address.
        let stack: [u64; 8] = [1, 2, 0xf00, 0x401000, 5, 0xabc, 0x402000, 8];
        let at = |index: usize| stack.as_ptr() as u64 + index as u64 * 8;
        let mut memory = StackMemory::default();
        let place = Place {
            site: 0x400100,
            stack: at(0),
            frame: at(5),
        };
        let by_stack = Frame {
            is_by_frame_pointer: false,
            offset: 32,
            kept: Some(-16),
        };
        let up = place.up_by(by_stack, &mut memory).unwrap();
        assert_eq!((up.site, up.stack, up.frame), (0x401000, at(4), 0xf00));
        let by_frame = Frame {
            is_by_frame_pointer: true,
            offset: 16,
            kept: None,
        };
        let up = place.up_by(by_frame, &mut memory).unwrap();
        assert_eq!((up.site, up.stack, up.frame), (0x402000, at(7), at(5)));
        let up = place.up_by_frame_pointer(&mut memory).unwrap();
        assert_eq!((up.site, up.stack, up.frame), (0x402000, at(7), 0xabc));
        assert_eq!(up.up_by_frame_pointer(&mut memory), None, "no frame");
    }

    #[test]
    fn a_stack_without_memory_has_no_callers() {
        let place = Place {
            site: 1,
            stack: 16,
            frame: 32,
        };
        assert_eq!(place.up_by_frame_pointer(&mut StackMemory::default()), None);
    }
}
