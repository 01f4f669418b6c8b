//! The guest's registers, at the beginning of a translated block.
//!
//! QEMU shows plugins registers since version 9 only. At the beginning of a block all of them are in memory,
//! in the state of the virtual CPU (`CPUX86State`, `CPUARMState`: `target/*/cpu.h`), and a register of the
//! host that functions keep (`TCG_AREG0`: `tcg/*/tcg-target.h`) has its address while translated code runs.
//! So a callback's first instructions find it. Where a QEMU has it otherwise, the return address that is
//! read this way follows no call, and nothing is taken from it.

use std::ffi::{c_uint, c_void};

use crate::arch::RegisterFile;

use super::rules::Abi;
use super::unwind::Walker;

/// Defines a callback that passes the host register on, as one more argument.
macro_rules! with_registers {
    ($(#[$doc:meta])* $name:ident, $inner:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// QEMU calls it from translated code.
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name(index: c_uint, data: *mut c_void) {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("mov rdx, rbp", "jmp {inner}", inner = sym $inner);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("mov x2, x19", "b {inner}", inner = sym $inner);
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            compile_error!("the recorder runs on x86-64 and aarch64");
        }
    };
}

pub(crate) use with_registers;

with_registers!(
    /// The first block of a function.
    function_entered,
    crate::recorder::allocator_entered
);
with_registers!(
    /// The block after a call.
    function_returned,
    crate::recorder::allocator_returned
);

/// State of a virtual CPU, as a callback got it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers(*const u64);

impl Registers {
    /// # Safety
    /// `state` is the host's register in a callback at the beginning of a block, and the result is used by
    /// that callback only.
    pub(crate) unsafe fn new(state: *const u64) -> Registers {
        Registers(state)
    }

    pub(crate) fn of(self, file: &'static RegisterFile) -> Read {
        let mut registers = [0; RegisterFile::COUNT_MAX];
        for (index, register) in registers.iter_mut().enumerate().take(file.count) {
            // SAFETY: the state lives as long as the callback, and is larger by far.
            *register = unsafe { *self.0.add(file.first_word + index) };
        }
        Read { file, registers }
    }
}

/// The guest's registers, by the architecture's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(super) file: &'static RegisterFile,
    registers: [u64; RegisterFile::COUNT_MAX],
}

impl Read {
    /// Argument of a function, by its number from 1 to 6.
    pub(crate) fn argument(&self, abi: Abi, number: u8) -> u64 {
        let arguments = match abi {
            Abi::C => &self.file.arguments,
            Abi::Go => &self.file.go_arguments,
        };
        self.registers[arguments[usize::from(number).clamp(1, arguments.len()) - 1]]
    }

    /// Result of a function.
    pub(super) fn result(&self) -> u64 {
        self.registers[self.file.result]
    }

    /// Return address of a function that begins here.
    pub(super) fn return_address(&self, walker: &mut Walker) -> Option<u64> {
        match self.file.link {
            None => walker.word(self.stack()),
            Some(link) => Some(self.registers[link]),
        }
    }

    pub(crate) fn stack(&self) -> u64 {
        self.registers[self.file.stack]
    }

    /// Stack pointer that the function had which returned here.
    pub(super) fn stack_before_call(&self) -> u64 {
        self.stack().wrapping_sub(self.file.return_address_bytes())
    }

    /// The frame pointer, if there is one.
    pub(super) fn frame(&self) -> u64 {
        self.registers[self.file.frame]
    }

    /// Go's `g`.
    pub(super) fn goroutine(&self) -> u64 {
        self.registers[self.file.goroutine]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Architecture;

    #[test]
    fn registers_lie_where_qemu_has_them() {
        let state: Vec<u64> = (0..64).collect();
        let file = |target| &Architecture::of_target(target).unwrap().registers;
        // SAFETY: the vector outlives the use.
        let registers = unsafe { Registers::new(state.as_ptr()) };
        let x86 = registers.of(file("x86_64"));
        assert_eq!((x86.stack(), x86.frame(), x86.result()), (4, 5, 0));
        let arguments = |abi| [1, 2, 3].map(|number| x86.argument(abi, number));
        assert_eq!(arguments(Abi::C), [7, 6, 2]);
        assert_eq!(arguments(Abi::Go), [0, 3, 1]);
        let a64 = registers.of(file("aarch64"));
        assert_eq!((a64.result(), a64.argument(Abi::C, 2)), (8, 9));
        assert_eq!(a64.return_address(&mut Walker::default()), Some(8 + 30));
        assert_eq!((a64.stack(), a64.frame()), (8 + 31, 8 + 29));
    }
}
