//! Results of locked operations: whether the program goes by them. One that nobody asks for is a store: compilers make
//! an XCHG of a store of C++ or Rust that is sequentially consistent.
//!
//! Source: Intel SDM, volume 2, appendix A, opcode maps.

use super::Parts;
use crate::api::InsnBytes;

/// Instructions behind an XCHG in which its result has a use. Assumed 8 (4 to 16): a test comes next, or behind a copy.
const FOLLOWING_MAX: usize = 8;

/// An instruction's effect on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Reads,
    Overwrites,
    Ends,
    None,
}

/// Returns false if a locked operation gives the program no value: it has no register for it, as OR, AND, XOR, NOT and
/// NEG, or nobody reads the register in the rest of the block.
pub(super) fn is_asked_for(bytes: &[u8], following: &mut dyn Iterator<Item = InsnBytes>) -> bool {
    let parts = Parts::of(bytes);
    match *parts.rest {
        [0x08 | 0x09 | 0x20 | 0x21 | 0x30 | 0x31, ..] => false,
        [0x80 | 0x81 | 0x83, modrm, ..] => !matches!(modrm >> 3 & 7, 1 | 4 | 6),
        [0xf6 | 0xf7, ..] => false,
        [opcode @ (0x86 | 0x87), modrm, ..] => {
            let has_high_bytes = opcode == 0x86 && parts.rex == 0 && modrm >> 3 & 7 >= 4;
            let result = register(&parts, modrm);
            has_high_bytes || is_read(result, following)
        }
        _ => true,
    }
}

fn is_read(register: u8, following: &mut dyn Iterator<Item = InsnBytes>) -> bool {
    for (bytes, len) in following.take(FOLLOWING_MAX) {
        match use_of(register, &bytes[..len]) {
            Use::Reads => return true,
            Use::Overwrites | Use::Ends => return false,
            Use::None => {}
        }
    }
    false
}

/// The register of ModRM.reg.
fn register(parts: &Parts<'_>, modrm: u8) -> u8 {
    modrm >> 3 & 7 | u8::from(parts.has_high_register()) << 3
}

/// Any instruction that is not known may read any register.
fn use_of(register: u8, bytes: &[u8]) -> Use {
    let parts = Parts::of(bytes);
    let is_of_opcode = |opcode: u8| opcode & 7 | u8::from(parts.has_high_base()) << 3 == register;
    let of = |is_it: bool, how: Use| if is_it { how } else { Use::None };
    match *parts.rest {
        [0x90, ..] | [0x0f, 0x1f, ..] => Use::None,
        [0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => Use::Ends,
        [0xc2 | 0xc3, ..] => of(register == 0, Use::Reads),
        [opcode @ 0x50..=0x57, ..] => of(is_of_opcode(opcode), Use::Reads),
        [opcode @ (0x58..=0x5f | 0xb0..=0xbf), ..] => of(is_of_opcode(opcode), Use::Overwrites),
        [0x3c | 0x3d | 0xa8 | 0xa9, ..] => of(register == 0, Use::Reads),
        [0x8a | 0x8b | 0x8d | 0x63, modrm, ..] | [0x0f, 0xb6 | 0xb7 | 0xbe | 0xbf, modrm, ..] => {
            use_of_move(register, &parts, modrm)
        }
        [0x88 | 0x89, modrm, ..] if self::register(&parts, modrm) == register => Use::Reads,
        [0x88 | 0x89 | 0xc6 | 0xc7, modrm, ..] => match has_operand(register, &parts, modrm) {
            true if modrm >> 6 == 0b11 => Use::Overwrites,
            true => Use::Reads,
            false => Use::None,
        },
        [
            opcode @ (0x00..=0x03
            | 0x08..=0x0b
            | 0x20..=0x23
            | 0x28..=0x2b
            | 0x30..=0x33
            | 0x38..=0x3b
            | 0x84
            | 0x85),
            modrm,
            ..,
        ] => {
            let [is_first, is_second] = [
                self::register(&parts, modrm) == register,
                has_operand(register, &parts, modrm),
            ];
            let is_zeroing = matches!(opcode, 0x30..=0x33) && modrm >> 6 == 0b11;
            match is_first && is_second && is_zeroing {
                true => Use::Overwrites,
                false => of(is_first || is_second, Use::Reads),
            }
        }
        [
            0x80 | 0x81 | 0x83 | 0xc0 | 0xc1 | 0xd0 | 0xd1 | 0xf6 | 0xf7,
            modrm,
            ..,
        ] => of(has_operand(register, &parts, modrm), Use::Reads),
        _ => Use::Reads,
    }
}

/// A move to the register of ModRM.reg.
fn use_of_move(register: u8, parts: &Parts<'_>, modrm: u8) -> Use {
    if has_operand(register, parts, modrm) {
        Use::Reads
    } else if self::register(parts, modrm) == register {
        Use::Overwrites
    } else {
        Use::None
    }
}

/// Returns true if the operand of ModRM.rm is the register, or memory whose address may have it.
fn has_operand(register: u8, parts: &Parts<'_>, modrm: u8) -> bool {
    let base = modrm & 7 | u8::from(parts.has_high_base()) << 3;
    match (modrm >> 6, modrm & 7) {
        (0b11, _) => base == register,
        // An SIB byte: any two registers.
        (_, 4) => true,
        // Relative to the instruction.
        (0, 5) => false,
        _ => base == register,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(insns: &[&[u8]]) -> bool {
        let insn = |bytes: &&[u8]| {
            let mut padded = InsnBytes::default();
            padded.0[..bytes.len()].copy_from_slice(bytes);
            padded.1 = bytes.len();
            padded
        };
        let mut following = insns[1..].iter().map(insn);
        is_asked_for(insns[0], &mut following)
    }

    const XCHG: &[u8] = &[0x86, 0x15, 0x20, 0x2b, 0x00, 0x00]; // xchg %dl,0x2b20(%rip)
    const JMP: &[u8] = &[0xeb, 0xdd];
    const JNE: &[u8] = &[0x75, 0xf0];

    #[test]
    fn bits_that_are_set_give_no_value() {
        assert!(!asks(&[&[0xf0, 0x48, 0x09, 0x07]])); // lock or %rax,(%rdi)
        assert!(!asks(&[&[0xf0, 0x83, 0x0f, 0x01]])); // lock orl $1,(%rdi)
        assert!(!asks(&[&[0xf0, 0x80, 0x27, 0xfe]])); // lock andb $-2,(%rdi)
        assert!(!asks(&[&[0xf0, 0xf7, 0x17]])); // lock notl (%rdi)
        assert!(asks(&[&[0xf0, 0x0f, 0xba, 0x2f, 0x08]])); // lock btsl $8,(%rdi)
        assert!(asks(&[&[0xf0, 0x0f, 0xb1, 0x17]])); // lock cmpxchg %edx,(%rdi)
        assert!(asks(&[&[0xf0, 0x83, 0x2f, 0x01]])); // lock subl $1,(%rdi)
    }

    #[test]
    fn an_exchange_whose_register_nobody_reads_is_a_store() {
        let load = [0x4c, 0x8b, 0x47, 0x10]; // mov 0x10(%rdi),%r8
        assert!(!asks(&[XCHG, &load, JMP]));
        let moved = [0xba, 0x01, 0x00, 0x00, 0x00]; // mov $1,%edx
        let tested = [0x84, 0xd2]; // test %dl,%dl
        assert!(!asks(&[XCHG, &moved, &tested, JNE]));
        let zeroed = [0x31, 0xd2]; // xor %edx,%edx
        assert!(!asks(&[XCHG, &zeroed, &tested, JNE]));
        let loaded = [0x8b, 0x55, 0xfc]; // mov -4(%rbp),%edx
        assert!(!asks(&[XCHG, &loaded, &tested, JNE]));
    }

    #[test]
    fn an_exchange_whose_register_is_tested_or_kept_is_a_look() {
        assert!(asks(&[XCHG, &[0x84, 0xd2], JNE])); // test %dl,%dl
        assert!(asks(&[XCHG, &[0x0f, 0xb6, 0xc2], JNE])); // movzbl %dl,%eax
        assert!(asks(&[XCHG, &[0x88, 0x55, 0xff], JMP])); // mov %dl,-1(%rbp)
        assert!(asks(&[XCHG, &[0x83, 0xfa, 0x01], JNE])); // cmp $1,%edx
        assert!(asks(&[XCHG, &[0x8b, 0x02], JMP])); // mov (%rdx),%eax
        assert!(asks(&[XCHG, &[0x0f, 0x28, 0xc1], JMP])); // movaps %xmm1,%xmm0: not known
        let eax: &[u8] = &[0x87, 0x07]; // xchg %eax,(%rdi)
        assert!(asks(&[eax, &[0xc3]])); // ret
        assert!(!asks(&[XCHG, &[0xc3]]));
        let high: &[u8] = &[0x86, 0x37]; // xchg %dh,(%rdi)
        assert!(asks(&[high, JMP]));
        let r9: &[u8] = &[0x44, 0x87, 0x0f]; // xchg %r9d,(%rdi)
        assert!(asks(&[r9, &[0x45, 0x85, 0xc9], JNE])); // test %r9d,%r9d
        assert!(!asks(&[r9, &[0x85, 0xc9], JNE])); // test %ecx,%ecx
    }
}
