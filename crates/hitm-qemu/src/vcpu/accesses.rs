//! Accesses of a guest thread: which are counted alone, which are recorded, and which are looks of one that may wait.

use std::ffi::c_void;

use hitm_base::{AccessOp, AddrRange, CodeAddr, LINE_SIZE, LineAddr, ThreadId};
use hitm_trace::Adoption;
use hitm_weave::ThreadEvent;

use super::Vcpu;
use crate::first_touch::{Near, Touch};
use crate::spins::{LAST_STORES, Look, Place};

/// Read-shared lines that a thread remembers to have read; a power of two.
pub(super) const READ_LINES: usize = 4096;

/// Pairs of instructions that a thread remembers to have looked with; a power of two.
pub(super) const LAST_LOOKS: usize = 8;

/// Accesses at the start of a window, and behind an interrupt, that are all looked at: the thread may wait at a line
/// that is its own, where loads are not seen otherwise. Assumed 32 (16 to 64): three rounds of the longest loops.
const GLIMPSE_ACCESSES: u32 = 32;

/// A load of shared memory: by which instruction, of which word, after how many stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LastLook {
    code: CodeAddr,
    word: u64,
    stores: u64,
}

/// An access of the guest's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestAccess {
    pub(crate) addr: u64,
    pub(crate) op: AccessOp,
    /// Bytes.
    pub(crate) size: u64,
}

/// One instruction that touches memory, made when its block is translated.
#[derive(Debug)]
pub(crate) struct MemInsn {
    pub(crate) code: CodeAddr,
    /// Position in its translation block.
    pub(crate) index: u16,
    pub(crate) locked: bool,
    /// The program gets the value that was there: it may wait for it.
    pub(crate) is_look: bool,
    /// Bytes of the instruction.
    pub(crate) len: u8,
    /// It is the heap observer's.
    pub(crate) is_observers: bool,
}

impl MemInsn {
    /// The instruction as a callback's argument: its address, and whether it is locked in the lowest
    /// bit.
    pub(crate) fn into_argument(self) -> *const c_void {
        let locked = usize::from(self.locked);
        const { assert!(align_of::<MemInsn>() > 1, "the lowest bit is free") };
        // Kept for ever: translated code holds the pointer for as long as QEMU keeps the code.
        let insn: *const MemInsn = Box::leak(Box::new(self));
        insn.cast::<c_void>().wrapping_byte_add(locked)
    }

    /// The instruction of a callback's argument.
    ///
    /// # Safety
    /// The argument is one that [`MemInsn::into_argument`] made.
    #[inline(always)]
    pub(crate) unsafe fn of_argument(argument: *const c_void) -> &'static MemInsn {
        let insn = argument.map_addr(|addr| addr & !1).cast::<MemInsn>();
        // SAFETY: the caller's promise; such an instruction lives for ever.
        unsafe { &*insn }
    }
}

/// Kind of access of the instruction behind a callback's argument; none for the read of a locked
/// operation, which comes before its write. The instruction itself is not looked at: it is seldom in
/// the host's cache, and a private access needs no more of it.
#[inline(always)]
pub(crate) fn op_of(argument: *const c_void, is_store: bool) -> Option<AccessOp> {
    match (is_store, argument.addr() & 1 == 1) {
        (false, false) => Some(AccessOp::Load),
        (true, false) => Some(AccessOp::Store),
        (true, true) => Some(AccessOp::LockedRmw),
        (false, true) => None,
    }
}

impl Vcpu {
    /// The next accesses go the slow way, each.
    pub(super) fn begin_glimpse(&mut self) {
        self.glimpse = GLIMPSE_ACCESSES;
        self.near = Near::default();
    }

    /// All accesses made.
    pub(crate) fn accesses(&self) -> u64 {
        self.stores + self.others
    }

    /// Counts an access; true if that is all that is to be done about it.
    #[inline(always)]
    pub(crate) fn count(&mut self, addr: u64, op: AccessOp, size: u64) -> bool {
        if self.is_paused {
            return true;
        }
        match op {
            AccessOp::Store => self.stores += 1,
            _ => self.others += 1,
        }
        self.near.is_private(addr, self.toucher, op.is_write()) && is_in_line(addr, size)
    }

    /// A store that is about to be counted, on the thread's stack or elsewhere.
    #[inline(always)]
    pub(crate) fn note_store(&mut self, addr: u64, is_on_stack: bool) {
        match is_on_stack {
            true => self.stack_stores += 1,
            false => self.last_stores[self.stores as usize % LAST_STORES] = addr,
        }
    }

    /// An access; `value` is asked for what is there now.
    pub(crate) fn access(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        value: impl FnOnce() -> Option<u64>,
    ) {
        if !self.count(access.addr, access.op, access.size) {
            self.access_slowly(insn, access, value);
        }
    }

    /// Returns true if the thread has read the line before, since that epoch; from now on it has.
    fn has_read(&mut self, line: LineAddr, since: u32) -> bool {
        // Never 0, and no two lines of a place are alike in it.
        let read = (line.0 + 1) << 16 | u64::from(since);
        let place = &mut self.read[line.0 as usize % READ_LINES];
        std::mem::replace(place, read) == read
    }

    /// An access that may be recorded, or that may straddle two lines.
    pub(crate) fn access_slowly(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        value: impl FnOnce() -> Option<u64>,
    ) {
        let GuestAccess { addr, op, size } = access;
        let touch = self.first_touch.touch(addr, self.toucher, op.is_write());
        let is_glimpse = self.glimpse > 0;
        match is_glimpse {
            true => self.glimpse -= 1,
            false => self.near = self.first_touch.near(addr),
        }
        let is_private = touch == Touch::Private;
        let may_look = || is_glimpse || self.spins.are_at(addr, self.far_stores());
        let is_look = match is_private {
            true => op == AccessOp::Load && may_look(),
            false => touch != Touch::OutOfRange,
        };
        if is_private && !is_look && is_in_line(addr, size) || !self.is_of_program(insn) {
            return;
        }
        if is_look {
            let shared = match touch {
                // Other processes know the word by this address.
                Touch::Foreign => self.first_touch.shared_addr(addr),
                _ => None,
            };
            let addr = shared.unwrap_or(addr);
            self.look(insn, GuestAccess { addr, ..access }, is_private, value);
        }
        if is_private && is_in_line(addr, size) {
            return;
        }
        let mut touch = Some(touch);
        for (addr, size) in hitm_coherence::core::split_by_line(addr, size) {
            let touch = touch
                .take()
                .unwrap_or_else(|| self.first_touch.touch(addr, self.toucher, op.is_write()));
            match touch {
                Touch::Private => continue,
                Touch::OutOfRange => {
                    self.out_of_range += 1;
                    continue;
                }
                Touch::Recorded => self.note_locked(op, addr),
                Touch::Foreign => {
                    self.note_locked(op, addr);
                    let Some(addr) = self.first_touch.shared_addr(addr) else {
                        self.out_of_range += 1;
                        continue;
                    };
                    self.push_event(insn, addr, size, op);
                    continue;
                }
                Touch::ReadShared(since) => {
                    if self.has_read(LineAddr::of(addr), since) {
                        continue;
                    }
                }
                Touch::TakenFrom(former) => {
                    self.note_locked(op, addr);
                    self.taken.push(Adoption {
                        line: LineAddr::of(addr),
                        owner: ThreadId(former.owner.first_thread()),
                        is_written: former.written,
                    });
                }
            }
            self.push_event(insn, addr, size, op);
        }
    }

    /// Stores elsewhere than on its stack.
    fn far_stores(&self) -> u64 {
        self.stores.wrapping_sub(self.stack_stores)
    }

    /// Progress of the thread at an instruction of its block.
    fn place_of(&self, insn: &MemInsn) -> Place {
        Place {
            insn: self.block_start + u64::from(insn.index),
            stores: self.far_stores(),
            pauses: self.pauses,
            loads: self.others,
        }
    }

    /// The instruction returns from an interrupt.
    pub(crate) fn return_from_interrupt(&mut self, insn: &MemInsn) {
        self.spins.returned(self.place_of(insn));
        self.begin_glimpse();
    }

    /// Returns true if the instruction looked at the word last, and the thread has written nothing since: most
    /// loads are over with that.
    fn looks_again(&mut self, insn: &MemInsn, word: u64) -> bool {
        let look = LastLook {
            code: insn.code,
            word,
            stores: self.far_stores(),
        };
        let spread = insn.code.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let pair = &mut self.last_looks[spread as usize % LAST_LOOKS];
        if pair[0].code != insn.code {
            pair.swap(0, 1);
        }
        // Loops look with several instructions: one that goes makes place for another.
        if pair[0].code != insn.code {
            pair.swap(0, 1);
            pair[1] = pair[0];
        }
        std::mem::replace(&mut pair[0], look) == look
    }

    /// Keeps the access in mind: the thread may wait for the word to change.
    fn look(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        is_private: bool,
        value: impl FnOnce() -> Option<u64>,
    ) {
        let GuestAccess { addr, op, .. } = access;
        if op == AccessOp::Store {
            return self.spins.end(self.far_stores());
        }
        if !insn.is_look {
            return self.spins.write(addr, self.place_of(insn));
        }
        let is_again = op == AccessOp::LockedRmw
            || self.looks_again(insn, addr)
            || is_private && self.spins.are_at(addr, self.far_stores());
        let Some(value) = is_again.then(value).flatten() else {
            return;
        };
        let look = Look {
            addr,
            code: insn.code,
            is_locked: op == AccessOp::LockedRmw,
            is_private,
            value,
            at: self.place_of(insn),
        };
        self.spins.look(look, &self.last_stores);
    }

    /// The lines of a range that nobody has touched are the thread's.
    pub(crate) fn own_untouched(&self, range: AddrRange) {
        self.first_touch.own_untouched(range, self.toucher);
    }

    /// Returns false for accesses of QEMU's own. It writes and reads signal frames by helpers, for which it keeps
    /// the callback of the last instruction that had any, in this block or one before.
    fn is_of_program(&self, insn: &MemInsn) -> bool {
        let index = u64::from(insn.index);
        let is_in_block = index < self.block_insns() && self.insns != self.left_block_at;
        is_in_block && self.block_start + index >= self.last_event
    }

    fn note_locked(&mut self, op: AccessOp, addr: u64) {
        if op == AccessOp::LockedRmw {
            self.turns.note_locked(LineAddr::of(addr));
        }
    }

    pub(super) fn push_event(&mut self, insn: &MemInsn, addr: u64, size: u8, op: AccessOp) {
        let position = self.block_start + u64::from(insn.index);
        // This store itself is counted already.
        let stores = self.stores - u64::from(op == AccessOp::Store);
        let code = insn.code;
        self.last_event = position;
        self.events.push(ThreadEvent {
            insn: position,
            stores,
            addr,
            code,
            size,
            op,
        });
        if let Some(callers) = &mut self.callers {
            let path = callers.path();
            callers.paths.push(path);
        }
    }

    /// A full fence.
    pub(crate) fn fence(&mut self, insn: &MemInsn) {
        // Without a shared access since the last barrier there is nothing to wait for.
        if !self.events.is_empty() {
            self.push_event(insn, 0, 0, AccessOp::Fence);
        }
    }

    /// A full fence by the system call that ends the block.
    pub(crate) fn fence_in_syscall(&mut self) {
        self.fence(&MemInsn {
            code: CodeAddr(0),
            index: self.block_insns().saturating_sub(1) as u16,
            locked: false,
            is_look: false,
            len: 0,
            is_observers: false,
        });
    }
}

/// Returns true if an access of `size` bytes straddles no two lines.
#[inline(always)]
fn is_in_line(addr: u64, size: u64) -> bool {
    addr % LINE_SIZE + size <= LINE_SIZE
}
