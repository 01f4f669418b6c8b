//! The guest's registers, at the beginning of a translated block.
//!
//! QEMU shows plugins registers since version 9 only. At the beginning of a block all of them are in memory,
//! in the state of the virtual CPU (`CPUX86State`, `CPUARMState`: `target/*/cpu.h`), and a register of the
//! host that functions keep (`TCG_AREG0`: `tcg/*/tcg-target.h`) has its address while translated code runs.
//! So a callback's first instructions find it. Where a QEMU has it otherwise, the return address that is
//! read this way follows no call, and nothing is taken from it.

use std::ffi::{c_uint, c_void};

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

/// The guest's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    pub(crate) fn of_target(target: &str) -> Architecture {
        match target {
            "x86_64" => Architecture::X86_64,
            _ => Architecture::Aarch64,
        }
    }
}

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

    pub(super) fn of(self, architecture: Architecture) -> Read {
        // General registers are the first members: 16 of x86-64; on aarch64 32, after 16 words of its
        // 32-bit mode.
        let mut registers = [0; 32];
        let (first, count) = match architecture {
            Architecture::X86_64 => (0, 16),
            Architecture::Aarch64 => (8, 32),
        };
        for (index, register) in registers.iter_mut().enumerate().take(count) {
            // SAFETY: the state lives as long as the callback, and is larger by far.
            *register = unsafe { *self.0.add(first + index) };
        }
        Read {
            architecture,
            registers,
        }
    }
}

/// The guest's registers, by the architecture's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    architecture: Architecture,
    registers: [u64; 32],
}

/// Numbers of registers. C: System V ABI for x86-64, section 3.2.3; AAPCS64, section 6.4. Go: abi-internal,
/// "amd64 architecture" and "arm64 architecture".
const X86_C: [u8; 6] = [7, 6, 2, 1, 8, 9];
const X86_GO: [u8; 6] = [0, 3, 1, 7, 6, 8];
const X86_STACK: usize = 4;
const X86_FRAME: usize = 5;
const X86_G: usize = 14;
const A64_FRAME: usize = 29;
const A64_LINK: usize = 30;
const A64_STACK: usize = 31;
const A64_G: usize = 28;

impl Read {
    /// Argument of a function, by its number from 1 to 6.
    pub(super) fn argument(&self, abi: Abi, number: u8) -> u64 {
        let index = usize::from(number).clamp(1, X86_C.len()) - 1;
        let register = match (self.architecture, abi) {
            (Architecture::X86_64, Abi::C) => X86_C[index].into(),
            (Architecture::X86_64, Abi::Go) => X86_GO[index].into(),
            (Architecture::Aarch64, _) => index,
        };
        self.registers[register]
    }

    /// Result of a function: x86-64's RAX, aarch64's X0.
    pub(super) fn result(&self) -> u64 {
        self.registers[0]
    }

    /// Return address of a function that begins here.
    pub(super) fn return_address(&self, walker: &mut Walker) -> Option<u64> {
        match self.architecture {
            Architecture::X86_64 => walker.word(self.stack()),
            Architecture::Aarch64 => Some(self.registers[A64_LINK]),
        }
    }

    pub(super) fn stack(&self) -> u64 {
        self.registers[match self.architecture {
            Architecture::X86_64 => X86_STACK,
            Architecture::Aarch64 => A64_STACK,
        }]
    }

    /// Stack pointer that the function had which returned here.
    pub(super) fn stack_before_call(&self) -> u64 {
        self.stack().wrapping_sub(self.return_address_bytes())
    }

    /// Bytes that a call pushes.
    pub(super) fn return_address_bytes(&self) -> u64 {
        match self.architecture {
            Architecture::X86_64 => 8,
            Architecture::Aarch64 => 0,
        }
    }

    /// The frame pointer, if there is one.
    pub(super) fn frame(&self) -> u64 {
        self.registers[match self.architecture {
            Architecture::X86_64 => X86_FRAME,
            Architecture::Aarch64 => A64_FRAME,
        }]
    }

    /// Go's `g`.
    pub(super) fn goroutine(&self) -> u64 {
        self.registers[match self.architecture {
            Architecture::X86_64 => X86_G,
            Architecture::Aarch64 => A64_G,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_lie_where_qemu_has_them() {
        let state: Vec<u64> = (0..64).collect();
        // SAFETY: the vector outlives the use.
        let registers = unsafe { Registers::new(state.as_ptr()) };
        let x86 = registers.of(Architecture::X86_64);
        assert_eq!((x86.stack(), x86.frame(), x86.result()), (4, 5, 0));
        let arguments = |abi| [1, 2, 3].map(|number| x86.argument(abi, number));
        assert_eq!(arguments(Abi::C), [7, 6, 2]);
        assert_eq!(arguments(Abi::Go), [0, 3, 1]);
        let a64 = registers.of(Architecture::Aarch64);
        assert_eq!((a64.result(), a64.argument(Abi::C, 2)), (8, 9));
        assert_eq!(a64.return_address(&mut Walker::default()), Some(8 + 30));
        assert_eq!((a64.stack(), a64.frame()), (8 + 31, 8 + 29));
    }
}
