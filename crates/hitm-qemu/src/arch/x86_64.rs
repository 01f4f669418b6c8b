//! x86-64.

mod results;

use super::{
    Architecture, Counter, Flow, Instructions, Machine, Ordering, RegisterFile, SystemCalls,
    UnwindRegisters,
};

/// Numbers of registers, as instructions have them.
const RSP: u8 = 4;
const RBP: u8 = 5;

pub(crate) const X86_64: Architecture = Architecture {
    name: "x86_64",
    elf_machine: hitm_base::Architecture::X86_64.elf_machine(),
    instructions: Instructions {
        ordering,
        is_asked_for: results::is_asked_for,
        flow,
        writes_stack,
        pauses,
        // The opcode and ModRM, at most with a prefix, two bytes for the address and four for a displacement.
        call_bytes: 2..=8,
    },
    // System V ABI for x86-64, section 3.2.3. Go: abi-internal, "amd64 architecture".
    registers: RegisterFile {
        first_word: 0,
        count: 16,
        arguments: [7, 6, 2, 1, 8, 9],
        go_arguments: [0, 3, 1, 7, 6, 8],
        result: 0,
        stack: RSP as usize,
        frame: RBP as usize,
        goroutine: 14,
        link: None,
    },
    counter: Some(Counter {
        is_read_by: reads_time_stamp,
        put: put_time_stamp,
    }),
    unwinding: Some(UnwindRegisters {
        stack: gimli::X86_64::RSP,
        frame: gimli::X86_64::RBP,
        return_address: gimli::X86_64::RA,
    }),
    calls: CALLS,
};

const CALLS: SystemCalls = SystemCalls {
    clone: 56,
    clone3: 435,
    fork: Some(57),
    vfork: Some(58),
    clone_word: 3,
    execve: 59,
    execveat: 322,
    exit: 60,
    exit_group: 231,
    unshare: 272,
    prctl: 157,
    futex: 202,
    sched_setaffinity: 203,
    sched_getaffinity: 204,
    getcpu: 309,
    rt_sigaction: 13,
    rt_sigreturn: 15,
    mmap: 9,
    munmap: 11,
    mremap: 25,
    shmat: 30,
    shmdt: 67,
    open: Some(2),
    openat: 257,
    openat2: 437,
    clock_gettime: 228,
    gettimeofday: 96,
    time: Some(201),
    times: 100,
    getrusage: 98,
    timers: &[36, 37, 38, 222, 223, 224, 225, 226, 283, 286, 287],
    nanosleep: 35,
    clock_nanosleep: 230,
    poll: Some(7),
    ppoll: 271,
    select: Some(23),
    pselect6: 270,
    epoll_wait: Some(232),
    epoll_pwait: 281,
    rt_sigtimedwait: 128,
    semtimedop: 220,
    mq_timedsend: 242,
    mq_timedreceive: 243,
    short: &[
        3, 4, 5, 6, 8, 10, 12, 14, 21, 24, 28, 32, 33, 39, 63, 79, 89, 97, 102, 104, 107, 108, 131,
        158, 186, 218, 229, 262, 273, 302, 318, 332, 334,
    ],
};

/// Linux with four page-table levels and without address randomisation (Documentation/arch/x86/x86_64/mm.rst).
pub(crate) const MACHINE: Machine = Machine {
    kernel_half: 1 << 47,
    // 0xffff888000000000
    direct_map: 0x8880_0000_0000,
    // ioremap in the vmalloc area, and the fixed mappings at the top.
    devices: [
        0xc900_0000_0000..0xe900_0000_0000,
        0xffff_ff00_0000..0xffff_ffff_ffff,
    ],
    // `xchg %rbx,%rbx` and `xchg %rcx,%rcx`. Assemblers and compilers have no reason to make either; the one-byte
    // no-operation exchanges other registers.
    mark_start: &[0x48, 0x87, 0xdb],
    mark_stop: &[0x48, 0x87, 0xc9],
    returns_from_interrupt,
};

/// The beginning of an instruction, taken apart.
struct Parts<'a> {
    /// From the opcode on.
    rest: &'a [u8],
    /// It has the LOCK prefix.
    is_locked: bool,
    rex: u8,
}

impl Parts<'_> {
    fn of(bytes: &[u8]) -> Parts<'_> {
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
        Parts {
            rest,
            is_locked: prefixes.contains(&0xf0),
            rex,
        }
    }

    /// REX.W: the operands have 64 bits.
    fn is_long(&self) -> bool {
        self.rex & 8 != 0
    }

    /// REX.R: the first register is one of r8 to r15.
    fn has_high_register(&self) -> bool {
        self.rex & 4 != 0
    }

    /// REX.B: the base register, or the second one, is one of r8 to r15.
    fn has_high_base(&self) -> bool {
        self.rex & 1 != 0
    }
}

/// Effect of an instruction on the order of accesses.
///
/// Locked: the LOCK prefix, and XCHG (86, 87) with a memory operand, which locks without it.
/// Fences: MFENCE (0F AE /6 without prefix, register form). SFENCE and LFENCE do not wait for the
/// store buffer. Additions: ADD, SUB, INC, DEC and XADD.
fn ordering(bytes: &[u8]) -> Ordering {
    let Parts {
        rest, is_locked, ..
    } = Parts::of(bytes);
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

/// Effect of an instruction on the shadow stack.
///
/// A stack pointer that comes from RBP is that of the same function, and so is one that is moved by a
/// constant.
fn flow(bytes: &[u8]) -> Flow {
    let parts = Parts::of(bytes);
    match parts.rest {
        [0xe8, ..] => Flow::Call,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Flow::Call,
        [0xc3 | 0xc2, ..] => Flow::Return,
        [0x5c, ..] if !parts.has_high_base() => Flow::SetsStack,
        [0x94, ..] if parts.is_long() && !parts.has_high_base() => Flow::SetsStack,
        [opcode @ (0x87 | 0x89 | 0x8b | 0x8d), operands @ ..] if parts.is_long() => {
            flow_of_move(&parts, *opcode, operands)
        }
        _ => Flow::Other,
    }
}

/// XCHG, MOV to register or memory, MOV from one, LEA.
fn flow_of_move(parts: &Parts<'_>, opcode: u8, operands: &[u8]) -> Flow {
    let Some(modrm) = operands.first() else {
        return Flow::Other;
    };
    let high_base = u8::from(parts.has_high_base()) << 3;
    let reg = (modrm >> 3 & 7) | u8::from(parts.has_high_register()) << 3;
    let is_register = modrm >> 6 == 3;
    let rm = (modrm & 7) | high_base;
    // The base of an address: with RSP's number it stands in the next byte.
    let base = match (modrm & 7, operands.get(1)) {
        (RSP, Some(sib)) if !is_register => (sib & 7) | high_base,
        _ => rm,
    };
    let has_base = modrm >> 6 != 0 || base & 7 != RBP;
    match opcode {
        0x87 if reg == RSP || (is_register && rm == RSP) => Flow::SetsStack,
        0x89 if is_register && rm == RSP && reg != RBP => Flow::SetsStack,
        0x8b if reg == RSP && !(is_register && rm == RBP) => Flow::SetsStack,
        0x8d if reg == RSP && !(has_base && matches!(base, RSP | RBP)) => Flow::SetsStack,
        // lea 8(%rsp), register
        0x8d if reg != RSP
            && modrm >> 6 == 1
            && operands.get(1..3) == Some(&[0x24, 8])
            && !parts.has_high_base() =>
        {
            Flow::SavesStack
        }
        _ => Flow::Other,
    }
}

/// Returns true if an instruction that writes to memory writes to its thread's stack: a push, a call, or a
/// store to a place relative to rsp, or below rbp (above it, rbp may be any pointer).
fn writes_stack(bytes: &[u8]) -> bool {
    let parts = Parts::of(bytes);
    let operands = match parts.rest {
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
        [modrm, ..] if modrm >> 6 == 3 || parts.has_high_base() => false,
        [modrm, sib, displacement @ ..] if modrm & 7 == 4 => match sib & 7 {
            4 => true,
            5 => is_negative(displacement, modrm >> 6),
            _ => false,
        },
        [modrm, displacement @ ..] if modrm & 7 == 5 => is_negative(displacement, modrm >> 6),
        _ => false,
    }
}

/// Returns true for PAUSE.
fn pauses(bytes: &[u8]) -> bool {
    matches!(bytes, [0xf3, 0x90, ..])
}

/// Returns true for rdtsc and rdtscp, with any prefixes.
fn reads_time_stamp(bytes: &[u8]) -> bool {
    matches!(Parts::of(bytes).rest, [0x0f, 0x31] | [0x0f, 0x01, 0xf9])
}

/// Puts a count into edx and eax, as rdtsc does.
///
/// # Safety
/// `state` is that of a virtual CPU, which begins with rax, rcx and rdx.
unsafe fn put_time_stamp(state: *mut u64, count: u64) {
    const LOW: u64 = u32::MAX as u64;
    // SAFETY: as the caller says; QEMU has written both registers for the instruction before, and reads them again.
    unsafe {
        state.write(count & LOW);
        state.add(2).write(count >> 32);
    }
}

/// Returns true for IRETQ: a kernel's return from an interrupt.
fn returns_from_interrupt(bytes: &[u8]) -> bool {
    bytes == [0x48, 0xcf]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_operations_and_fences() {
        // Each as the GNU assembler encodes it.
        assert_eq!(ordering(&[0xf0, 0x48, 0xff, 0x07]), Ordering::LockedAdd); // lock incq (%rdi)
        assert_eq!(ordering(&[0xf0, 0x0f, 0xb1, 0x17]), Ordering::LockedRmw); // lock cmpxchg
        assert_eq!(ordering(&[0x64, 0xf0, 0xff, 0x00]), Ordering::LockedAdd); // lock incl %fs:(%rax)
        assert_eq!(ordering(&[0xf0, 0x0f, 0xc1, 0x07]), Ordering::LockedAdd); // lock xadd %eax,(%rdi)
        assert_eq!(
            ordering(&[0xf0, 0x48, 0x83, 0x2f, 0x01]),
            Ordering::LockedAdd
        ); // lock subq $1,(%rdi)
        assert_eq!(ordering(&[0xf0, 0x83, 0x0f, 0x01]), Ordering::LockedRmw); // lock orl $1,(%rdi)
        assert_eq!(ordering(&[0x87, 0x07]), Ordering::LockedRmw); // xchg %eax,(%rdi)
        assert_eq!(ordering(&[0x48, 0x87, 0x07]), Ordering::LockedRmw); // xchg %rax,(%rdi)
        assert_eq!(ordering(&[0x48, 0x87, 0xdb]), Ordering::Plain); // xchg %rbx,%rbx
        assert_eq!(ordering(&[0x0f, 0xae, 0xf0]), Ordering::Fence); // mfence
        assert_eq!(ordering(&[0x0f, 0xae, 0xf8]), Ordering::Plain); // sfence
        assert_eq!(ordering(&[0x66, 0x0f, 0xae, 0x37]), Ordering::Plain); // clwb (%rdi)
        assert_eq!(ordering(&[0xff, 0x07]), Ordering::Plain); // incl (%rdi)
        assert_eq!(ordering(&[]), Ordering::Plain);
    }

    #[test]
    fn stores_to_the_stack() {
        assert!(writes_stack(&[0x55])); // push %rbp
        assert!(writes_stack(&[0x41, 0x54])); // push %r12
        assert!(writes_stack(&[0xe8, 0, 0, 0, 0])); // call
        assert!(writes_stack(&[0xff, 0x50, 0x10])); // call *16(%rax)
        assert!(writes_stack(&[0xff, 0x75, 0xe8])); // push -24(%rbp)
        assert!(writes_stack(&[0x89, 0x44, 0x24, 0x0c])); // mov %eax,12(%rsp)
        assert!(writes_stack(&[0x48, 0x89, 0x04, 0x24])); // mov %rax,(%rsp)
        assert!(writes_stack(&[0x83, 0x45, 0xfc, 0x01])); // addl $1,-4(%rbp)
        assert!(writes_stack(&[0x0f, 0x29, 0x44, 0x24, 0x10])); // movaps %xmm0,16(%rsp)
        assert!(!writes_stack(&[0x89, 0x45, 0x08])); // mov %eax,8(%rbp)
        assert!(!writes_stack(&[0x89, 0x07])); // mov %eax,(%rdi)
        assert!(!writes_stack(&[0x89, 0x05, 0, 0, 0, 0xff])); // mov %eax,(%rip)
        assert!(!writes_stack(&[0x41, 0x89, 0x04, 0x24])); // mov %eax,(%r12)
        assert!(!writes_stack(&[0x89, 0xec])); // mov %ebp,%esp
        assert!(!writes_stack(&[0xff, 0x07])); // incl (%rdi)
        assert!(!writes_stack(&[]));
    }

    #[test]
    fn calls_and_returns() {
        // Each as the GNU assembler encodes it.
        assert_eq!(flow(&[0xe8, 0, 0, 0, 0]), Flow::Call);
        assert_eq!(flow(&[0x67, 0xe8, 0, 0, 0, 0]), Flow::Call); // addr32 call
        assert_eq!(flow(&[0xff, 0xd0]), Flow::Call); // call *%rax
        assert_eq!(flow(&[0x41, 0xff, 0x54, 0x24, 8]), Flow::Call); // call *8(%r12)
        assert_eq!(flow(&[0x3e, 0xff, 0xd0]), Flow::Call); // notrack call *%rax
        assert_eq!(flow(&[0xff, 0xe0]), Flow::Other); // jmp *%rax
        assert_eq!(flow(&[0xff, 0x07]), Flow::Other); // incl (%rdi)
        assert_eq!(flow(&[0xc3]), Flow::Return);
        assert_eq!(flow(&[0xf3, 0xc3]), Flow::Return); // repz ret
        assert_eq!(flow(&[0xc2, 8, 0]), Flow::Return); // ret $8
        assert_eq!(flow(&[0xc9]), Flow::Other); // leave
        assert_eq!(flow(&[]), Flow::Other);
        assert_eq!(flow(&[0x48, 0x8b]), Flow::Other);
    }

    #[test]
    fn stack_pointers() {
        assert_eq!(flow(&[0x4c, 0x89, 0xc4]), Flow::SetsStack); // mov %r8,%rsp
        assert_eq!(flow(&[0x48, 0x89, 0xec]), Flow::Other); // mov %rbp,%rsp
        assert_eq!(flow(&[0x48, 0x89, 0xe5]), Flow::Other); // mov %rsp,%rbp
        assert_eq!(flow(&[0x49, 0x89, 0xe4]), Flow::Other); // mov %rsp,%r12
        assert_eq!(flow(&[0x4c, 0x89, 0xec]), Flow::SetsStack); // mov %r13,%rsp
        let from_memory = [0x48, 0x8b, 0xa2, 0xa0, 0, 0, 0]; // mov 0xa0(%rdx),%rsp
        assert_eq!(flow(&from_memory), Flow::SetsStack);
        assert_eq!(flow(&[0x48, 0x89, 0x24, 0x24]), Flow::Other); // mov %rsp,(%rsp)
        assert_eq!(flow(&[0x48, 0x8d, 0x65, 0xd8]), Flow::Other); // lea -0x28(%rbp),%rsp
        assert_eq!(flow(&[0x48, 0x8d, 0x64, 0x24, 8]), Flow::Other); // lea 8(%rsp),%rsp
        assert_eq!(flow(&[0x48, 0x8d, 0x60, 8]), Flow::SetsStack); // lea 8(%rax),%rsp
        assert_eq!(flow(&[0x48, 0x87, 0xe0]), Flow::SetsStack); // xchg %rsp,%rax
        assert_eq!(flow(&[0x48, 0x94]), Flow::SetsStack); // xchg %rax,%rsp
        assert_eq!(flow(&[0x5c]), Flow::SetsStack); // pop %rsp
        assert_eq!(flow(&[0x41, 0x5c]), Flow::Other); // pop %r12
        assert_eq!(flow(&[0x48, 0x8d, 0x54, 0x24, 8]), Flow::SavesStack); // lea 8(%rsp),%rdx
        assert_eq!(flow(&[0x48, 0x8d, 0x54, 0x24, 16]), Flow::Other);
        assert_eq!(flow(&[0x49, 0x8d, 0x54, 0x24, 8]), Flow::Other); // lea 8(%r12),%rdx
        assert_eq!(flow(&[0x48, 0x83, 0xec, 8]), Flow::Other); // sub $8,%rsp
    }

    #[test]
    fn pause_pauses() {
        assert!(pauses(&[0xf3, 0x90]));
        assert!(!pauses(&[0x90]));
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
