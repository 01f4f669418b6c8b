//! Locked operations, fences, pauses and pushes: all that the recorder must know about the guest's instruction
//! set.

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

/// What is known of an instruction set: each function takes the bytes of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Isa {
    pub(crate) ordering: fn(&[u8]) -> Ordering,
    /// If the instruction writes to memory, that is its thread's stack.
    pub(crate) writes_stack: fn(&[u8]) -> bool,
    /// The instruction makes a loop that waits slower.
    pub(crate) pauses: fn(&[u8]) -> bool,
}

pub(crate) const X86_64: Isa = Isa {
    ordering: x86_64,
    writes_stack: x86_64_writes_stack,
    pauses: x86_64_pauses,
};

pub(crate) const AARCH64: Isa = Isa {
    ordering: aarch64,
    writes_stack: aarch64_writes_stack,
    pauses: aarch64_pauses,
};

/// Classifies an x86-64 instruction from its bytes.
///
/// Locked: the LOCK prefix, and XCHG (86, 87) with a memory operand, which locks without it.
/// Fences: MFENCE (0F AE /6 without prefix, register form). SFENCE and LFENCE do not wait for the
/// store buffer. Additions: ADD, SUB, INC, DEC and XADD.
fn x86_64(bytes: &[u8]) -> Ordering {
    let X86 {
        rest, is_locked, ..
    } = X86::of(bytes);
    let adds = match rest {
        [0x00 | 0x01 | 0x28 | 0x29, ..] | [0x0f, 0xc0 | 0xc1, ..] => true,
        // The operation is in the middle of ModRM: /0 is ADD or INC, /1 DEC, /5 SUB.
        [0x80 | 0x81 | 0x83, modrm, ..] => matches!(modrm >> 3 & 7, 0 | 5),
        [0xfe | 0xff, modrm, ..] => modrm >> 3 & 7 <= 1,
        _ => false,
    };
    match rest {
        _ if is_locked && adds => Ordering::LockedAdd,
        _ if is_locked => Ordering::LockedRmw,
        [0x86 | 0x87, modrm, ..] if modrm >> 6 != 0b11 => Ordering::LockedRmw,
        [0x0f, 0xae, modrm, ..] if modrm >> 3 == 0b11_110 && bytes[0] == 0x0f => Ordering::Fence,
        _ => Ordering::Plain,
    }
}

/// Classifies an A64 instruction from its little-endian bytes.
///
/// Locked: the LSE atomics (LD<op>, SWP, CAS, CASP) and the store half of an exclusive pair
/// (STXR, STLXR, STXP, STLXP). Additions: LDADD. Fence: DMB and DSB of all accesses.
///
/// Source: Arm ARM DDI 0487, C4.1 "Loads and Stores" and "Barriers".
fn aarch64(bytes: &[u8]) -> Ordering {
    let Some(word) = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
        return Ordering::Plain;
    };
    let atomic_memory = word & 0x3b20_0c00 == 0x3820_0000;
    let exclusive_class = word & 0x3f00_0000 == 0x0800_0000;
    let is_load = word >> 22 & 1 == 1;
    let o2 = word >> 23 & 1 == 1;
    let o1 = word >> 21 & 1 == 1;
    let compare_and_swap = exclusive_class && o1 && (o2 || word >> 31 == 0);
    let store_exclusive = exclusive_class && !o2 && !is_load && (!o1 || word >> 31 == 1);
    let barrier = word & 0xffff_f0ff == 0xd503_30bf || word & 0xffff_f0ff == 0xd503_309f;
    let of_all_accesses = word >> 8 & 0b11 == 0b11;
    let adds = word & 0xf000 == 0;
    if atomic_memory && adds {
        Ordering::LockedAdd
    } else if atomic_memory || compare_and_swap || store_exclusive {
        Ordering::LockedRmw
    } else if barrier && of_all_accesses {
        Ordering::Fence
    } else {
        Ordering::Plain
    }
}

/// The beginning of an x86-64 instruction, taken apart.
struct X86<'a> {
    /// From the opcode on.
    rest: &'a [u8],
    /// It has the LOCK prefix.
    is_locked: bool,
    /// REX.B: the base register is one of r8 to r15.
    has_high_base: bool,
}

impl X86<'_> {
    fn of(bytes: &[u8]) -> X86<'_> {
        let is_prefix = |byte: &u8| {
            matches!(
                byte,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
            )
        };
        let begin = bytes.iter().position(|byte| !is_prefix(byte));
        let (prefixes, rest) = bytes.split_at(begin.unwrap_or(bytes.len()));
        // REX is the last prefix.
        let (rex, rest) = match rest {
            [rex @ 0x40..=0x4f, rest @ ..] => (*rex, rest),
            _ => (0, rest),
        };
        X86 {
            rest,
            is_locked: prefixes.contains(&0xf0),
            has_high_base: rex & 1 == 1,
        }
    }
}

/// Returns true if an x86-64 instruction that writes to memory writes to its thread's stack: a push, a call, or a
/// store to a place relative to rsp, or below rbp (above it, rbp may be any pointer).
fn x86_64_writes_stack(bytes: &[u8]) -> bool {
    let X86 {
        rest,
        has_high_base,
        ..
    } = X86::of(bytes);
    let operands = match rest {
        [0x50..=0x57 | 0x68 | 0x6a | 0xe8, ..] => return true,
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 3 | 6) => return true,
        [0x0f, 0x38 | 0x3a, _, operands @ ..] | [0x0f, _, operands @ ..] | [_, operands @ ..] => {
            operands
        }
        [] => return false,
    };
    // Mode 0 has no displacement, and for rbp another meaning; 3 is a register.
    let is_negative = |displacement: &[u8], mode: u8| match mode {
        1 => displacement.first().is_some_and(|byte| byte >> 7 == 1),
        2 => displacement.get(3).is_some_and(|byte| byte >> 7 == 1),
        _ => false,
    };
    match operands {
        [modrm, ..] if modrm >> 6 == 3 || has_high_base => false,
        [modrm, sib, displacement @ ..] if modrm & 7 == 4 => match sib & 7 {
            4 => true,
            5 => is_negative(displacement, modrm >> 6),
            _ => false,
        },
        [modrm, displacement @ ..] if modrm & 7 == 5 => is_negative(displacement, modrm >> 6),
        _ => false,
    }
}

/// Returns true if an A64 instruction that writes to memory writes to a place relative to the stack pointer.
fn aarch64_writes_stack(bytes: &[u8]) -> bool {
    const SP: u32 = 31;
    let word = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    word.is_some_and(|word| word >> 5 & 31 == SP)
}

/// Returns true for PAUSE of x86-64.
fn x86_64_pauses(bytes: &[u8]) -> bool {
    matches!(bytes, [0xf3, 0x90, ..])
}

/// Returns true for IRETQ of x86-64: a kernel's return from an interrupt.
pub(crate) fn returns_from_interrupt(bytes: &[u8]) -> bool {
    bytes == [0x48, 0xcf]
}

/// Returns true for what A64 programs pause with: YIELD, WFE and ISB.
fn aarch64_pauses(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    matches!(word, Some(0xd503_203f | 0xd503_205f | 0xd503_3fdf))
}

/// Returns true for rdtsc and rdtscp of x86-64, with any prefixes.
pub(crate) fn reads_time_stamp(bytes: &[u8]) -> bool {
    let is_prefix = |byte: &u8| matches!(byte, 0x40..=0x4f | 0x66 | 0xf2 | 0xf3);
    let begin = bytes.iter().position(|byte| !is_prefix(byte));
    let opcode = &bytes[begin.unwrap_or(bytes.len())..];
    opcode == [0x0f, 0x31] || opcode == [0x0f, 0x01, 0xf9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_locked_operations_and_fences() {
        // Each as the GNU assembler encodes it.
        assert_eq!(x86_64(&[0xf0, 0x48, 0xff, 0x07]), Ordering::LockedAdd); // lock incq (%rdi)
        assert_eq!(x86_64(&[0xf0, 0x0f, 0xb1, 0x17]), Ordering::LockedRmw); // lock cmpxchg
        assert_eq!(x86_64(&[0x64, 0xf0, 0xff, 0x00]), Ordering::LockedAdd); // lock incl %fs:(%rax)
        assert_eq!(x86_64(&[0xf0, 0x0f, 0xc1, 0x07]), Ordering::LockedAdd); // lock xadd %eax,(%rdi)
        assert_eq!(x86_64(&[0xf0, 0x48, 0x83, 0x2f, 0x01]), Ordering::LockedAdd); // lock subq $1,(%rdi)
        assert_eq!(x86_64(&[0xf0, 0x83, 0x0f, 0x01]), Ordering::LockedRmw); // lock orl $1,(%rdi)
        assert_eq!(x86_64(&[0x87, 0x07]), Ordering::LockedRmw); // xchg %eax,(%rdi)
        assert_eq!(x86_64(&[0x48, 0x87, 0x07]), Ordering::LockedRmw); // xchg %rax,(%rdi)
        assert_eq!(x86_64(&[0x48, 0x87, 0xdb]), Ordering::Plain); // xchg %rbx,%rbx
        assert_eq!(x86_64(&[0x0f, 0xae, 0xf0]), Ordering::Fence); // mfence
        assert_eq!(x86_64(&[0x0f, 0xae, 0xf8]), Ordering::Plain); // sfence
        assert_eq!(x86_64(&[0x66, 0x0f, 0xae, 0x37]), Ordering::Plain); // clwb (%rdi)
        assert_eq!(x86_64(&[0xff, 0x07]), Ordering::Plain); // incl (%rdi)
        assert_eq!(x86_64(&[]), Ordering::Plain);
    }

    #[test]
    fn a64_atomics_and_barriers() {
        let classify = |word: u32| aarch64(&word.to_le_bytes());
        assert_eq!(classify(0xb820_0041), Ordering::LockedAdd); // ldadd w0, w1, [x2]
        assert_eq!(classify(0xf8e0_8041), Ordering::LockedRmw); // swpal x0, x1, [x2]
        assert_eq!(classify(0xc8e0_fc41), Ordering::LockedRmw); // casal x0, x1, [x2]
        assert_eq!(classify(0x8800_7c41), Ordering::LockedRmw); // stxr w0, w1, [x2]
        assert_eq!(classify(0x885f_7c41), Ordering::Plain); // ldxr w1, [x2]
        assert_eq!(classify(0xb940_0041), Ordering::Plain); // ldr w1, [x2]
        assert_eq!(classify(0xb860_6841), Ordering::Plain); // ldr w1, [x2, x0]
        assert_eq!(classify(0xd503_3bbf), Ordering::Fence); // dmb ish
        assert_eq!(classify(0xd503_3abf), Ordering::Plain); // dmb ishst
        assert_eq!(aarch64(&[1, 2]), Ordering::Plain);
    }

    #[test]
    fn stores_to_the_stack() {
        assert!(x86_64_writes_stack(&[0x55])); // push %rbp
        assert!(x86_64_writes_stack(&[0x41, 0x54])); // push %r12
        assert!(x86_64_writes_stack(&[0xe8, 0, 0, 0, 0])); // call
        assert!(x86_64_writes_stack(&[0xff, 0x50, 0x10])); // call *16(%rax)
        assert!(x86_64_writes_stack(&[0xff, 0x75, 0xe8])); // push -24(%rbp)
        assert!(x86_64_writes_stack(&[0x89, 0x44, 0x24, 0x0c])); // mov %eax,12(%rsp)
        assert!(x86_64_writes_stack(&[0x48, 0x89, 0x04, 0x24])); // mov %rax,(%rsp)
        assert!(x86_64_writes_stack(&[0x83, 0x45, 0xfc, 0x01])); // addl $1,-4(%rbp)
        assert!(x86_64_writes_stack(&[0x0f, 0x29, 0x44, 0x24, 0x10])); // movaps %xmm0,16(%rsp)
        assert!(!x86_64_writes_stack(&[0x89, 0x45, 0x08])); // mov %eax,8(%rbp)
        assert!(!x86_64_writes_stack(&[0x89, 0x07])); // mov %eax,(%rdi)
        assert!(!x86_64_writes_stack(&[0x89, 0x05, 0, 0, 0, 0xff])); // mov %eax,(%rip)
        assert!(!x86_64_writes_stack(&[0x41, 0x89, 0x04, 0x24])); // mov %eax,(%r12)
        assert!(!x86_64_writes_stack(&[0x89, 0xec])); // mov %ebp,%esp
        assert!(!x86_64_writes_stack(&[0xff, 0x07])); // incl (%rdi)
        assert!(!x86_64_writes_stack(&[]));
        let a64 = |word: u32| aarch64_writes_stack(&word.to_le_bytes());
        assert!(a64(0xb900_0fe0)); // str w0, [sp, 12]
        assert!(a64(0xa9bf_7bfd)); // stp x29, x30, [sp, -16]!
        assert!(!a64(0xb900_0c20)); // str w0, [x1, 12]
    }

    #[test]
    fn pauses() {
        assert!(x86_64_pauses(&[0xf3, 0x90]));
        assert!(!x86_64_pauses(&[0x90]));
        assert!(aarch64_pauses(&0xd503_203f_u32.to_le_bytes()));
        assert!(!aarch64_pauses(&0xd503_201f_u32.to_le_bytes()), "nop");
    }

    #[test]
    fn the_time_stamp_counter_is_read_by_two_instructions() {
        assert!(reads_time_stamp(&[0x0f, 0x31]));
        assert!(reads_time_stamp(&[0x0f, 0x01, 0xf9]));
        assert!(reads_time_stamp(&[0xf3, 0x48, 0x0f, 0x31]));
        assert!(!reads_time_stamp(&[0x0f, 0x01, 0xd0]), "xgetbv");
        let loads_address = [0x48, 0x8d, 0x05, 0x01, 0x00, 0x0f, 0x31];
        assert!(!reads_time_stamp(&loads_address), "the same bytes");
    }
}
