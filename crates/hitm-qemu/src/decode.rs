//! Locked operations and fences: all that the recorder must know about the guest's instruction set.

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

/// Classifies an x86-64 instruction from its bytes.
///
/// Locked: the LOCK prefix, and XCHG (86, 87) with a memory operand, which locks without it.
/// Fences: MFENCE (0F AE /6 without prefix, register form). SFENCE and LFENCE do not wait for the
/// store buffer. Additions: ADD, SUB, INC, DEC and XADD.
pub(crate) fn x86_64(bytes: &[u8]) -> Ordering {
    let (mut rest, mut is_locked) = (bytes, false);
    while let [prefix, tail @ ..] = rest {
        match prefix {
            0xf0 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf2 | 0xf3 => {
                is_locked |= *prefix == 0xf0;
                rest = tail;
            }
            0x40..=0x4f => {
                rest = tail;
                break; // REX is the last prefix.
            }
            _ => break,
        }
    }
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
pub(crate) fn aarch64(bytes: &[u8]) -> Ordering {
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
    fn the_time_stamp_counter_is_read_by_two_instructions() {
        assert!(reads_time_stamp(&[0x0f, 0x31]));
        assert!(reads_time_stamp(&[0x0f, 0x01, 0xf9]));
        assert!(reads_time_stamp(&[0xf3, 0x48, 0x0f, 0x31]));
        assert!(!reads_time_stamp(&[0x0f, 0x01, 0xd0]), "xgetbv");
        let loads_address = [0x48, 0x8d, 0x05, 0x01, 0x00, 0x0f, 0x31];
        assert!(!reads_time_stamp(&loads_address), "the same bytes");
    }
}
