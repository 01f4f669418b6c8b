//! Architectures whose programs can be recorded: all that the recorder must know of one is a value of
//! [`Architecture`], in a file of its own. It is looked up once, at the start.

mod aarch64;
mod system_calls;
pub(crate) mod x86_64;

use std::ops::{Range, RangeInclusive};

use crate::api::{Api, InsnBytes, Tb};

pub(crate) use system_calls::SystemCalls;

/// A guest's architecture.
#[derive(Debug)]
pub(crate) struct Architecture {
    /// QEMU's name of it.
    pub(crate) name: &'static str,
    /// Its number in ELF files (elf(5), `e_machine`).
    pub(crate) elf_machine: u16,
    pub(crate) instructions: Instructions,
    pub(crate) registers: RegisterFile,
    /// The counter that programs read without asking the kernel, where it is answered.
    pub(crate) counter: Option<Counter>,
    /// Registers as unwind information names them, where that is read. Else stacks are walked by frame pointers.
    pub(crate) unwinding: Option<UnwindRegisters>,
    pub(crate) calls: SystemCalls,
}

/// All architectures whose programs can be recorded.
const ALL: [&Architecture; 2] = [&x86_64::X86_64, &aarch64::AARCH64];

impl Architecture {
    /// The architecture that QEMU calls `name`.
    pub(crate) fn of_target(name: &str) -> Result<&'static Architecture, String> {
        let found = ALL.into_iter().find(|one| one.name == name);
        found.ok_or_else(|| {
            let expected = ALL.map(|one| one.name).join(" or ");
            format!("found a {name} program, expected {expected}")
        })
    }
}

/// An instruction set: each function takes the bytes of an instruction.
#[derive(Debug)]
pub(crate) struct Instructions {
    pub(crate) ordering: fn(&[u8]) -> Ordering,
    /// A locked operation gives the program a value; without, it is a store. Takes the instructions behind it in its
    /// block, too.
    pub(crate) is_asked_for: fn(&[u8], &mut dyn Iterator<Item = InsnBytes>) -> bool,
    pub(crate) flow: fn(&[u8]) -> Flow,
    /// If the instruction writes to memory, that is its thread's stack.
    pub(crate) writes_stack: fn(&[u8]) -> bool,
    /// The instruction makes a loop that waits slower.
    pub(crate) pauses: fn(&[u8]) -> bool,
    /// Bytes that a call may have.
    pub(crate) call_bytes: RangeInclusive<u64>,
}

impl Instructions {
    /// Returns true if the program may go by what a locked operation finds: that of these bytes, at `index` of its block.
    pub(crate) fn gives_value(&self, api: &Api, tb: *mut Tb, bytes: &[u8], index: u16) -> bool {
        let following = api.insns(tb).skip(usize::from(index) + 1);
        let mut following = following.map(|insn| api.insn_bytes(insn));
        (self.is_asked_for)(bytes, &mut following)
    }
}

/// Effect of an instruction on the order of memory accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// Loads and stores only.
    Plain,
    /// Reads and writes one location as one step.
    LockedRmw,
    /// The same, and several in any order have one sum: an addition.
    LockedAdd,
    /// Waits for older stores to be visible.
    Fence,
}

impl Ordering {
    pub(crate) fn is_locked(self) -> bool {
        matches!(self, Ordering::LockedRmw | Ordering::LockedAdd)
    }
}

/// Effect of an instruction on the shadow stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// None of the below.
    Other,
    /// Calls a function.
    Call,
    /// Returns from one.
    Return,
    /// Takes the stack pointer from a register or from memory, as longjmp and swapcontext do.
    SetsStack,
    /// Takes the stack pointer that holds after the function's return, as setjmp does.
    SavesStack,
}

/// The general registers: where QEMU has them, and the numbers of those that have a use.
#[derive(Debug)]
pub(crate) struct RegisterFile {
    /// Words before the first in the state of a virtual CPU (QEMU: `target/*/cpu.h`).
    pub(crate) first_word: usize,
    pub(crate) count: usize,
    /// Arguments of functions of C and of Go.
    pub(crate) arguments: [usize; 6],
    pub(crate) go_arguments: [usize; 6],
    pub(crate) result: usize,
    pub(crate) stack: usize,
    /// The frame pointer: it leads to its caller's, and to the return address behind that.
    pub(crate) frame: usize,
    /// Go's `g`.
    pub(crate) goroutine: usize,
    /// Register that has a call's return address; none if calls push it.
    pub(crate) link: Option<usize>,
}

impl RegisterFile {
    /// The most general registers that an architecture has.
    pub(crate) const COUNT_MAX: usize = 32;

    /// Returns true if a call writes its return address to the stack, and a return reads it there.
    pub(crate) fn returns_by_stack(&self) -> bool {
        self.link.is_none()
    }

    /// Bytes that a call pushes.
    pub(crate) fn return_address_bytes(&self) -> u64 {
        match self.link {
            None => 8,
            Some(_) => 0,
        }
    }
}

/// A counter of time that an instruction reads.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) is_read_by: fn(&[u8]) -> bool,
    /// Puts a count into the state of a virtual CPU, where the instruction before has put one.
    pub(crate) put: unsafe fn(state: *mut u64, count: u64),
}

/// Numbers of registers in unwind information (DWARF).
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnwindRegisters {
    pub(crate) stack: gimli::Register,
    pub(crate) frame: gimli::Register,
    pub(crate) return_address: gimli::Register,
}

/// A whole machine's kernel: how it uses addresses, in 48 bits, and instructions that only machines run.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The lowest address of the kernel's half.
    pub(crate) kernel_half: u64,
    /// Start of the direct map of all physical memory.
    pub(crate) direct_map: u64,
    /// Addresses at which device registers may be mapped.
    pub(crate) devices: [Range<u64>; 2],
    /// Instructions that start and stop a recording. They do nothing, and no compiler makes them.
    pub(crate) mark_start: &'static [u8],
    pub(crate) mark_stop: &'static [u8],
    /// Tells the instruction with which a kernel returns from an interrupt.
    pub(crate) returns_from_interrupt: fn(&[u8]) -> bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_found_by_the_name_of_qemu() {
        for one in ALL {
            assert_eq!(Architecture::of_target(one.name).unwrap().name, one.name);
            assert!(one.registers.count <= RegisterFile::COUNT_MAX);
        }
        assert_eq!(
            Architecture::of_target("m68k").unwrap_err(),
            "found a m68k program, expected x86_64 or aarch64"
        );
    }
}
