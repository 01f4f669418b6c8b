//! Instructions that call, return, or put the stack elsewhere: all that a shadow stack must know about the
//! guest's instruction set.

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

/// Number of RSP and of RBP.
const RSP: u8 = 4;
const RBP: u8 = 5;

/// Classifies an x86-64 instruction from its bytes.
///
/// A stack pointer that comes from RBP is that of the same function, and so is one that is moved by a
/// constant.
pub(crate) fn x86_64(bytes: &[u8]) -> Flow {
    let mut rest = bytes;
    let mut rex = 0;
    while let [prefix, tail @ ..] = rest {
        match prefix {
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf2 | 0xf3 => rest = tail,
            0x40..=0x4f => {
                rex = *prefix;
                rest = tail;
                break;
            }
            _ => break,
        }
    }
    let is_long = rex & 8 != 0;
    match rest {
        [0xe8, ..] => Flow::Call,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Flow::Call,
        [0xc3 | 0xc2, ..] => Flow::Return,
        [0x5c, ..] if rex & 1 == 0 => Flow::SetsStack,
        [0x94, ..] if is_long && rex & 1 == 0 => Flow::SetsStack,
        [opcode @ (0x87 | 0x89 | 0x8b | 0x8d), operands @ ..] if is_long => {
            x86_move(*opcode, operands, rex)
        }
        _ => Flow::Other,
    }
}

/// XCHG, MOV to register or memory, MOV from one, LEA.
fn x86_move(opcode: u8, operands: &[u8], rex: u8) -> Flow {
    let Some(modrm) = operands.first() else {
        return Flow::Other;
    };
    let reg = (modrm >> 3 & 7) | (rex & 4) << 1;
    let is_register = modrm >> 6 == 3;
    let rm = (modrm & 7) | (rex & 1) << 3;
    // The base of an address: with RSP's number it stands in the next byte.
    let base = match (modrm & 7, operands.get(1)) {
        (RSP, Some(sib)) if !is_register => (sib & 7) | (rex & 1) << 3,
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
            && rex & 1 == 0 =>
        {
            Flow::SavesStack
        }
        _ => Flow::Other,
    }
}

/// Classifies an A64 instruction from its little-endian bytes.
///
/// Calls: BL, BLR and its forms with authentication; returns: RET and those of it. A stack pointer that
/// comes from X29 is that of the same function.
///
/// Source: Arm ARM DDI 0487, C4.1 "Branches, Exception Generating and System instructions" and
/// "Data Processing -- Immediate".
pub(crate) fn aarch64(bytes: &[u8]) -> Flow {
    const FRAME: u32 = 29;
    let Some(word) = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_calls_and_returns() {
        // Each as the GNU assembler encodes it.
        assert_eq!(x86_64(&[0xe8, 0, 0, 0, 0]), Flow::Call);
        assert_eq!(x86_64(&[0x67, 0xe8, 0, 0, 0, 0]), Flow::Call); // addr32 call
        assert_eq!(x86_64(&[0xff, 0xd0]), Flow::Call); // call *%rax
        assert_eq!(x86_64(&[0x41, 0xff, 0x54, 0x24, 8]), Flow::Call); // call *8(%r12)
        assert_eq!(x86_64(&[0x3e, 0xff, 0xd0]), Flow::Call); // notrack call *%rax
        assert_eq!(x86_64(&[0xff, 0xe0]), Flow::Other); // jmp *%rax
        assert_eq!(x86_64(&[0xff, 0x07]), Flow::Other); // incl (%rdi)
        assert_eq!(x86_64(&[0xc3]), Flow::Return);
        assert_eq!(x86_64(&[0xf3, 0xc3]), Flow::Return); // repz ret
        assert_eq!(x86_64(&[0xc2, 8, 0]), Flow::Return); // ret $8
        assert_eq!(x86_64(&[0xc9]), Flow::Other); // leave
        assert_eq!(x86_64(&[]), Flow::Other);
        assert_eq!(x86_64(&[0x48, 0x8b]), Flow::Other);
    }

    #[test]
    fn x86_stack_pointers() {
        assert_eq!(x86_64(&[0x4c, 0x89, 0xc4]), Flow::SetsStack); // mov %r8,%rsp
        assert_eq!(x86_64(&[0x48, 0x89, 0xec]), Flow::Other); // mov %rbp,%rsp
        assert_eq!(x86_64(&[0x48, 0x89, 0xe5]), Flow::Other); // mov %rsp,%rbp
        assert_eq!(x86_64(&[0x49, 0x89, 0xe4]), Flow::Other); // mov %rsp,%r12
        assert_eq!(x86_64(&[0x4c, 0x89, 0xec]), Flow::SetsStack); // mov %r13,%rsp
        let from_memory = [0x48, 0x8b, 0xa2, 0xa0, 0, 0, 0]; // mov 0xa0(%rdx),%rsp
        assert_eq!(x86_64(&from_memory), Flow::SetsStack);
        assert_eq!(x86_64(&[0x48, 0x89, 0x24, 0x24]), Flow::Other); // mov %rsp,(%rsp)
        assert_eq!(x86_64(&[0x48, 0x8d, 0x65, 0xd8]), Flow::Other); // lea -0x28(%rbp),%rsp
        assert_eq!(x86_64(&[0x48, 0x8d, 0x64, 0x24, 8]), Flow::Other); // lea 8(%rsp),%rsp
        assert_eq!(x86_64(&[0x48, 0x8d, 0x60, 8]), Flow::SetsStack); // lea 8(%rax),%rsp
        assert_eq!(x86_64(&[0x48, 0x87, 0xe0]), Flow::SetsStack); // xchg %rsp,%rax
        assert_eq!(x86_64(&[0x48, 0x94]), Flow::SetsStack); // xchg %rax,%rsp
        assert_eq!(x86_64(&[0x5c]), Flow::SetsStack); // pop %rsp
        assert_eq!(x86_64(&[0x41, 0x5c]), Flow::Other); // pop %r12
        assert_eq!(x86_64(&[0x48, 0x8d, 0x54, 0x24, 8]), Flow::SavesStack); // lea 8(%rsp),%rdx
        assert_eq!(x86_64(&[0x48, 0x8d, 0x54, 0x24, 16]), Flow::Other);
        assert_eq!(x86_64(&[0x49, 0x8d, 0x54, 0x24, 8]), Flow::Other); // lea 8(%r12),%rdx
        assert_eq!(x86_64(&[0x48, 0x83, 0xec, 8]), Flow::Other); // sub $8,%rsp
    }

    #[test]
    fn a64_calls_returns_and_stack_pointers() {
        let classify = |word: u32| aarch64(&word.to_le_bytes());
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
        assert_eq!(aarch64(&[1]), Flow::Other);
    }
}
