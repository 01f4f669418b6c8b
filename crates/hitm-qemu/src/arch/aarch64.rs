//! AArch64.

use crate::api::InsnBytes;

use super::{Architecture, Flow, Instructions, Ordering, RegisterFile, SystemCalls};

/// Numbers of registers.
const X29: usize = 29;
const X30: usize = 30;
const SP: usize = 31;

pub(super) const AARCH64: Architecture = Architecture {
    name: "aarch64",
    elf_machine: hitm_base::Architecture::Aarch64.elf_machine(),
    instructions: Instructions {
        ordering,
        is_asked_for,
        flow,
        writes_stack,
        pauses,
        call_bytes: 4..=4,
    },
    // AAPCS64, section 6.4. Go: abi-internal, "arm64 architecture".
    registers: RegisterFile {
        // After 16 registers of 32 bits, of the 32-bit mode.
        first_word: 8,
        count: 32,
        arguments: [0, 1, 2, 3, 4, 5],
        go_arguments: [0, 1, 2, 3, 4, 5],
        result: 0,
        stack: SP,
        frame: X29,
        goroutine: 28,
        link: Some(X30),
    },
    counter: None,
    // Compilers keep frame pointers.
    unwinding: None,
    calls: CALLS,
};

/// The numbers of asm-generic/unistd.h, which newer architectures share.
const CALLS: SystemCalls = SystemCalls {
    clone: 220,
    clone3: 435,
    fork: None,
    vfork: None,
    clone_word: 4,
    execve: 221,
    execveat: 281,
    exit: 93,
    exit_group: 94,
    unshare: 97,
    prctl: 167,
    futex: 98,
    sched_setaffinity: 122,
    sched_getaffinity: 123,
    getcpu: 168,
    rt_sigaction: 134,
    rt_sigreturn: 139,
    mmap: 222,
    munmap: 215,
    mremap: 216,
    shmat: 196,
    shmdt: 197,
    open: None,
    openat: 56,
    openat2: 437,
    clock_gettime: 113,
    gettimeofday: 169,
    time: None,
    times: 153,
    getrusage: 165,
    timers: &[85, 86, 87, 102, 103, 107, 108, 109, 110, 111],
    nanosleep: 101,
    clock_nanosleep: 115,
    poll: None,
    ppoll: 73,
    select: None,
    pselect6: 72,
    epoll_wait: None,
    epoll_pwait: 22,
    rt_sigtimedwait: 137,
    semtimedop: 192,
    mq_timedsend: 182,
    mq_timedreceive: 183,
    short: &[
        17, 23, 24, 48, 57, 62, 78, 79, 80, 96, 99, 114, 124, 132, 135, 160, 163, 172, 174, 175,
        176, 177, 178, 214, 226, 233, 261, 278, 291, 293,
    ],
};

/// The instruction of these bytes, which are little-endian.
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns false if an LSE atomic gives its value to nobody: to register 31, as STSET and STCLR.
fn is_asked_for(bytes: &[u8], _: &mut dyn Iterator<Item = InsnBytes>) -> bool {
    let is_unread = |word: u32| is_atomic_memory(word) && word & 0x1f == 0x1f;
    !word(bytes).is_some_and(is_unread)
}

/// LD<op> and SWP.
fn is_atomic_memory(word: u32) -> bool {
    word & 0x3b20_0c00 == 0x3820_0000
}

/// Effect of an instruction on the order of accesses.
///
/// Locked: the LSE atomics (LD<op>, SWP, CAS, CASP) and the store half of an exclusive pair
/// (STXR, STLXR, STXP, STLXP). Additions: LDADD. Fence: DMB and DSB of all accesses.
///
/// Source: Arm ARM DDI 0487, C4.1 "Loads and Stores" and "Barriers".
fn ordering(bytes: &[u8]) -> Ordering {
    let Some(word) = word(bytes) else {
        return Ordering::Plain;
    };
    let atomic_memory = is_atomic_memory(word);
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

/// Effect of an instruction on the shadow stack.
///
/// Calls: BL, BLR and its forms with authentication; returns: RET and those of it. A stack pointer that
/// comes from X29 is that of the same function.
///
/// Source: Arm ARM DDI 0487, C4.1 "Branches, Exception Generating and System instructions" and
/// "Data Processing -- Immediate".
fn flow(bytes: &[u8]) -> Flow {
    const FRAME: u32 = X29 as u32;
    let Some(word) = word(bytes) else {
        return Flow::Other;
    };
    let is_call = word >> 26 == 0b10_0101
        || word & 0xffff_fc1f == 0xd63f_0000
        || word & 0xfeff_f800 == 0xd63f_0800;
    let is_return = word & 0xffff_fc1f == 0xd65f_0000 || word & 0xffff_fbff == 0xd65f_0bff;
    let (from, to) = (word >> 5 & 31, word & 31);
    if is_call {
        Flow::Call
    } else if is_return {
        Flow::Return
    } else if word & 0xffff_fc1f == 0x9100_001f && from != FRAME {
        Flow::SetsStack
    } else if word & 0xffff_ffe0 == 0x9100_03e0 && to != FRAME && to != 31 {
        Flow::SavesStack
    } else {
        Flow::Other
    }
}

/// Returns true if an instruction that writes to memory writes to a place relative to the stack pointer.
fn writes_stack(bytes: &[u8]) -> bool {
    word(bytes).is_some_and(|word| word >> 5 & 31 == SP as u32)
}

/// Returns true for what programs pause with: YIELD, WFE and ISB.
fn pauses(bytes: &[u8]) -> bool {
    matches!(word(bytes), Some(0xd503_203f | 0xd503_205f | 0xd503_3fdf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_without_a_result_are_stores() {
        let asks = |word: u32| is_asked_for(&word.to_le_bytes(), &mut std::iter::empty());
        assert!(asks(0xb820_3041)); // ldset w0, w1, [x2]
        assert!(!asks(0xb820_305f)); // stset w0, [x2]
        assert!(!asks(0xf8a0_805f)); // swpa x0, xzr, [x2]
        assert!(asks(0xf8e0_8041)); // swpal x0, x1, [x2]
        assert!(asks(0x8800_7c5f)); // stxr w0, wzr, [x2]
    }

    #[test]
    fn atomics_and_barriers() {
        let classify = |word: u32| ordering(&word.to_le_bytes());
        assert_eq!(classify(0xb820_0041), Ordering::LockedAdd); // ldadd w0, w1, [x2]
        assert_eq!(classify(0xf8e0_8041), Ordering::LockedRmw); // swpal x0, x1, [x2]
        assert_eq!(classify(0xc8e0_fc41), Ordering::LockedRmw); // casal x0, x1, [x2]
        assert_eq!(classify(0x8800_7c41), Ordering::LockedRmw); // stxr w0, w1, [x2]
        assert_eq!(classify(0x885f_7c41), Ordering::Plain); // ldxr w1, [x2]
        assert_eq!(classify(0xb940_0041), Ordering::Plain); // ldr w1, [x2]
        assert_eq!(classify(0xb860_6841), Ordering::Plain); // ldr w1, [x2, x0]
        assert_eq!(classify(0xd503_3bbf), Ordering::Fence); // dmb ish
        assert_eq!(classify(0xd503_3abf), Ordering::Plain); // dmb ishst
        assert_eq!(ordering(&[1, 2]), Ordering::Plain);
    }

    #[test]
    fn stores_to_the_stack() {
        let on_stack = |word: u32| writes_stack(&word.to_le_bytes());
        assert!(on_stack(0xb900_0fe0)); // str w0, [sp, 12]
        assert!(on_stack(0xa9bf_7bfd)); // stp x29, x30, [sp, -16]!
        assert!(!on_stack(0xb900_0c20)); // str w0, [x1, 12]
    }

    #[test]
    fn yield_pauses() {
        assert!(pauses(&0xd503_203f_u32.to_le_bytes()));
        assert!(!pauses(&0xd503_201f_u32.to_le_bytes()), "nop");
    }

    #[test]
    fn calls_returns_and_stack_pointers() {
        let classify = |word: u32| flow(&word.to_le_bytes());
        assert_eq!(classify(0x9400_0004), Flow::Call); // bl
        assert_eq!(classify(0xd63f_0020), Flow::Call); // blr x1
        assert_eq!(classify(0xd63f_0822), Flow::Call); // blraa-like with a key
        assert_eq!(classify(0xd65f_03c0), Flow::Return); // ret
        assert_eq!(classify(0xd65f_0bff), Flow::Return); // retaa
        assert_eq!(classify(0xd61f_0020), Flow::Other); // br x1
        assert_eq!(classify(0x9100_00bf), Flow::SetsStack); // mov sp, x5
        assert_eq!(classify(0x9100_03bf), Flow::Other); // mov sp, x29
        assert_eq!(classify(0x9100_03fd), Flow::Other); // mov x29, sp
        assert_eq!(classify(0x9100_03e4), Flow::SavesStack); // mov x4, sp
        assert_eq!(classify(0x1400_0004), Flow::Other); // b
        assert_eq!(flow(&[1]), Flow::Other);
    }
}
