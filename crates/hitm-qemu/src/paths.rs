//! Callers in QEMU's world: which instructions tell of calls, and what they tell when they run.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::CodeAddr;
use hitm_weave::PathId;
use hitm_weave::board::pack_paths;

use crate::arch::{Flow, SystemCalls};
use crate::callers::{Called, Callers};
use crate::guest_memory;
use crate::vcpu::{MemInsn, Vcpu};

/// Bits of a block's word that hold its number of instructions; QEMU's blocks have 512 at most.
const COUNT_BITS: u32 = 11;
const HANDLER_BIT: usize = 1 << COUNT_BITS;
const ADDS_BIT: usize = HANDLER_BIT << 1;
const ADDR_SHIFT: u32 = COUNT_BITS + 2;

/// A block of the program, as callbacks need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Address of its first instruction.
    pub(crate) addr: CodeAddr,
    pub(crate) insn_count: u64,
    /// A signal handler begins with it.
    pub(crate) is_handler: bool,
    /// Its locked operations are additions.
    pub(crate) adds: bool,
}

impl Block {
    /// The block as a callback's argument. User space has at most 48 bits of addresses.
    pub(crate) fn into_argument(self) -> usize {
        let handler = if self.is_handler { HANDLER_BIT } else { 0 };
        let adds = if self.adds { ADDS_BIT } else { 0 };
        (self.addr.0 as usize) << ADDR_SHIFT | handler | adds | self.insn_count as usize
    }

    #[inline(always)]
    pub(crate) fn of_argument(argument: *mut c_void) -> Block {
        let word = argument.addr();
        Block {
            addr: CodeAddr((word >> ADDR_SHIFT) as u64),
            insn_count: (word & (HANDLER_BIT - 1)) as u64,
            is_handler: word & HANDLER_BIT != 0,
            adds: word & ADDS_BIT != 0,
        }
    }
}

/// First instructions of the program's signal handlers. Takes no lock, which a fork could leave
/// held.
#[derive(Debug)]
pub(crate) struct Handlers {
    /// 0: free.
    addrs: [AtomicU64; Handlers::MAX],
}

impl Handlers {
    /// Signals that a program can have handlers for; it may change them, so there are more places.
    const MAX: usize = 256;

    pub(crate) fn new() -> Handlers {
        Handlers {
            addrs: [const { AtomicU64::new(0) }; Handlers::MAX],
        }
    }

    /// Notes what a system call says about signals.
    pub(crate) fn system_call(
        &self,
        calls: &SystemCalls,
        callers: &mut Callers,
        number: i64,
        args: &[u64; 6],
    ) {
        if number == calls.rt_sigreturn {
            callers.signal_returns();
        } else if number == calls.rt_sigaction && args[1] != 0 {
            // The handler is the first word of the kernel's structure on all architectures.
            self.add(guest_memory::read_word(args[1]).unwrap_or(0));
        }
    }

    /// Adds one. `SIG_DFL` (0) and `SIG_IGN` (1) are none.
    fn add(&self, addr: u64) {
        if addr <= 1 {
            return;
        }
        for known in &self.addrs {
            let order = Ordering::Relaxed;
            match known.compare_exchange(0, addr, order, order) {
                Err(other) if other != addr => {}
                _ => return,
            }
        }
    }

    pub(crate) fn contains(&self, addr: u64) -> bool {
        let addrs = self.addrs.iter().map(|known| known.load(Ordering::Relaxed));
        addrs
            .take_while(|known| *known != 0)
            .any(|known| known == addr)
    }
}

impl MemInsn {
    /// The call that the instruction makes.
    fn call(&self) -> Called {
        Called {
            returns_to: CodeAddr(self.code.0 + u64::from(self.len)),
            is_hidden: self.is_observers,
        }
    }
}

impl Vcpu {
    /// A call or a return touched memory at `addr`.
    #[inline(always)]
    pub(crate) fn stack_accessed(&mut self, insn: &MemInsn, addr: u64, is_call: bool) {
        if self.is_aside() {
            return;
        }
        if let Some(callers) = &mut self.callers {
            match is_call {
                true => callers.called(insn.call(), addr),
                false => callers.returned(addr, guest_memory::read_word),
            }
        }
    }

    /// An instruction is about to run that touches no stack.
    pub(crate) fn flows(&mut self, insn: &MemInsn, flow: Flow) {
        if self.is_aside() {
            return;
        }
        let Some(callers) = &mut self.callers else {
            return;
        };
        match flow {
            Flow::Call => callers.called_by_link(insn.call()),
            Flow::Return => callers.returns_by_link(),
            Flow::SetsStack => callers.stack_moves(),
            Flow::SavesStack => callers.context_saved(),
            Flow::Other => {}
        }
    }

    /// A block begins; it may be a signal handler's first.
    pub(crate) fn block_begins(&mut self, block: CodeAddr, is_handler: bool) {
        if self.is_aside() {
            return;
        }
        if let Some(callers) = &mut self.callers {
            callers.block_begins(block, is_handler);
        }
    }

    /// Call chains of the thread's events; none when they are not recorded.
    pub(crate) fn take_paths(&mut self) -> Vec<PathId> {
        let callers = self.callers.as_mut();
        callers.map_or(Vec::new(), |callers| std::mem::take(&mut callers.paths))
    }

    /// Gives back the memory of chains that were said.
    pub(crate) fn reuse_paths(&mut self, mut paths: Vec<PathId>) {
        if let Some(callers) = &mut self.callers {
            paths.clear();
            callers.paths = paths;
        }
    }

    /// Callers of a thread that continues in a forked child.
    pub(crate) fn take_callers(&mut self) -> Option<Box<Callers>> {
        let callers = self.callers.take()?;
        Some(Box::new(callers.forked()))
    }
}

/// Adds call chains to the accesses of packed work; the chains of later ones.
pub(crate) fn add_paths<'a>(
    bytes: &mut [u8],
    lines: usize,
    paths: &'a [PathId],
    accesses: usize,
) -> &'a [PathId] {
    let (now, later) = paths.split_at(accesses.min(paths.len()));
    if !now.is_empty() {
        pack_paths(bytes, lines, now);
    }
    later
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86_64::X86_64;

    #[test]
    fn a_block_is_told_by_a_word() {
        let block = |addr, insn_count, is_handler, adds| Block {
            addr: CodeAddr(addr),
            insn_count,
            is_handler,
            adds,
        };
        let blocks = [
            block(0x7fff_ffff_fff0, 512, false, true),
            block(0x40_1000, 1, true, false),
        ];
        for block in blocks {
            let argument = std::ptr::without_provenance_mut(block.into_argument());
            assert_eq!(Block::of_argument(argument), block);
        }
    }

    #[test]
    fn handlers_are_known_once_they_are_told() {
        let handlers = Handlers::new();
        let mut callers = Callers::default();
        let act = [0x40_1000u64, 0, 0, 0];
        let mut call = |number, handler: &[u64; 4]| {
            let args = [10, handler.as_ptr() as u64, 0, 8, 0, 0];
            handlers.system_call(&X86_64.calls, &mut callers, number, &args);
        };
        call(14, &act);
        assert!(!handlers.contains(act[0]));
        call(13, &act);
        call(13, &[1, 0, 0, 0]);
        call(13, &[0x50_0000, 0, 0, 0]);
        assert!(handlers.contains(act[0]) && handlers.contains(0x50_0000));
        assert!(!handlers.contains(1) && !handlers.contains(0));
    }
}
