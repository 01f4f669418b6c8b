//! Callbacks of each instruction: chosen when its block is translated.

use std::ffi::c_void;
use std::sync::atomic::Ordering as MemoryOrdering;

use hitm_base::CodeAddr;

use crate::allocators::{self, Rule};
use crate::api::{ExecCb, Insn, MemCb, Tb};
use crate::arch::{Flow, Ordering};
use crate::guest_memory;
use crate::paths::Block;
use crate::vcpu::MemInsn;

use super::Recorder;
use super::callbacks::{
    block_begins, block_begins_on_path, call_runs, context_is_saved, fence_runs,
    locking_block_begins, locking_block_begins_on_path, memory_accessed, nobody_asks,
    observer_accesses_stack, pause_runs, return_runs, stack_accessed, stack_moves,
};
use super::time::counter_is_read;

/// Callbacks of calls and returns by the stack: of the program, and of the heap observer.
const ON_STACK: [MemCb; 2] = [stack_accessed::<true>, stack_accessed::<false>];
const OBSERVER_ON_STACK: [MemCb; 2] = [
    observer_accesses_stack::<true>,
    observer_accesses_stack::<false>,
];

impl Recorder {
    pub(super) fn instrument(&self, tb: *mut Tb) {
        let mut addrs = self.api.insns(tb).map(|insn| self.api.insn_vaddr(insn));
        if addrs
            .next()
            .is_some_and(|addr| self.observer.contains(addr))
        {
            // Neither its accesses nor its time are the program's; what it calls is.
            if self.launch.has_callers {
                self.api
                    .insns(tb)
                    .for_each(|insn| self.follow_observer(insn));
            }
            return;
        }
        let (mut insn_count, mut has_locked, mut adds) = (0, false, true);
        let mut reads_counter = false;
        for (index, insn) in self.api.insns(tb).enumerate() {
            insn_count += 1;
            reads_counter = self.watch_counter(insn, reads_counter);
            let ordering = self.instrument_insn(tb, insn, index as u16);
            has_locked |= ordering.is_locked();
            adds &= ordering != Ordering::LockedRmw;
        }
        let [begins, begins_on_path]: [ExecCb; 2] = match has_locked {
            true => [locking_block_begins, locking_block_begins_on_path],
            false => [block_begins, block_begins_on_path],
        };
        let first = self.api.insns(tb).next();
        let first = first.map(|insn| self.api.insn_vaddr(insn));
        match first {
            Some(addr) if self.launch.has_callers || has_locked => {
                let block = Block {
                    addr: CodeAddr(addr),
                    insn_count: insn_count as u64,
                    is_handler: self.launch.has_callers && self.handlers.contains(addr),
                    adds,
                };
                let begins = match self.launch.has_callers {
                    true => begins_on_path,
                    false => begins,
                };
                self.api.on_tb_exec(tb, begins, block.into_argument());
            }
            _ => self.api.on_tb_exec(tb, begins, insn_count),
        }
        if let Some(addr) = first {
            self.watch_allocators(tb, addr);
        }
    }

    /// Registers the answer to the instruction before, if that `has_read` the counter of time; true if this one
    /// reads it. A block that ends with such an instruction gets the host's count: compilers put others behind it.
    fn watch_counter(&self, insn: *mut Insn, has_read: bool) -> bool {
        let (Some(counter), Some(_)) = (&self.architecture.counter, self.link.clock()) else {
            return false;
        };
        if has_read {
            self.api
                .on_insn_exec(insn, counter_is_read, std::ptr::null());
        }
        let (bytes, len) = self.api.insn_bytes(insn);
        (counter.is_read_by)(&bytes[..len])
    }

    /// Registers what tells of allocators at the block's beginning.
    fn watch_allocators(&self, tb: *mut Tb, addr: u64) {
        if let Some(rule) = self.allocators.function_at(addr) {
            let rule: *const Rule = rule;
            self.api
                .on_tb_exec(tb, allocators::function_entered, rule.expose_provenance());
        }
        if self.allocators.is_site(addr) {
            self.api
                .on_tb_exec(tb, allocators::function_returned, addr as usize);
        }
    }

    /// Follows the calls of the heap observer.
    fn follow_observer(&self, insn: *mut Insn) {
        let (bytes, len) = self.api.insn_bytes(insn);
        let flow = (self.architecture.instructions.flow)(&bytes[..len]);
        if flow == Flow::Other {
            // QEMU 7.2 keeps the callback of a block's last instruction for what helpers access later,
            // until an instruction has one of its own: it would be taken for a call.
            self.api.on_mem(insn, nobody_asks, std::ptr::null());
            return;
        }
        let data = MemInsn {
            code: self.link.code_addr(self.api.insn_vaddr(insn)),
            index: 0,
            locked: false,
            is_look: false,
            len: len as u8,
            is_observers: true,
        }
        .into_argument();
        self.follow(insn, flow, data, OBSERVER_ON_STACK);
    }

    /// Registers what tells of an instruction's flow. True if it calls or returns by the stack: those have
    /// callbacks of their own.
    fn follow(
        &self,
        insn: *mut Insn,
        flow: Flow,
        data: *const c_void,
        [calls, returns]: [MemCb; 2],
    ) -> bool {
        let on_stack = match flow {
            Flow::Call => Some(calls),
            Flow::Return => Some(returns),
            _ => None,
        };
        let is_by_stack = self.architecture.registers.returns_by_stack();
        if let Some(callback) = on_stack.filter(|_| is_by_stack) {
            self.api.on_mem(insn, callback, data);
            return true;
        }
        let callback = match flow {
            Flow::Call => call_runs,
            Flow::Return => return_runs,
            Flow::SetsStack => stack_moves,
            Flow::SavesStack => context_is_saved,
            Flow::Other => return false,
        };
        self.api.on_insn_exec(insn, callback, data);
        false
    }

    /// Registers what tells of an instruction; true if it is a locked operation.
    fn instrument_insn(&self, tb: *mut Tb, insn: *mut Insn, index: u16) -> Ordering {
        let addr = self.api.insn_vaddr(insn);
        if self.is_new.swap(false, MemoryOrdering::Relaxed) {
            guest_memory::learn_base(addr, self.api.insn_haddr(insn));
        }
        if self.company.is_none() {
            return Ordering::Plain;
        }
        let (bytes, len) = self.api.insn_bytes(insn);
        let bytes = &bytes[..len];
        let instructions = &self.architecture.instructions;
        let ordering = (instructions.ordering)(bytes);
        let locked = ordering.is_locked();
        let code = self.link.code_addr(addr);
        let is_look = !locked || instructions.gives_value(&self.api, tb, bytes, index);
        let data = MemInsn {
            code,
            index,
            locked,
            is_look,
            len: len as u8,
            is_observers: false,
        }
        .into_argument();
        if self.launch.has_callers {
            let flow = (instructions.flow)(bytes);
            if self.follow(insn, flow, data, ON_STACK) {
                return Ordering::Plain;
            }
        }
        if ordering == Ordering::Fence {
            self.api.on_insn_exec(insn, fence_runs, data);
            return ordering;
        }
        if (instructions.pauses)(bytes) {
            self.api.on_insn_exec(insn, pause_runs, std::ptr::null());
        }
        let accessed: MemCb = match (instructions.writes_stack)(bytes) {
            true => memory_accessed::<true>,
            false => memory_accessed::<false>,
        };
        self.api.on_mem(insn, accessed, data);
        ordering
    }
}
