//! Accesses for which samples stand, in golden lists. Encodings are llvm-mc's (LLVM 14).

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use hitm_test::elf::{Elf, Symbol};
use proptest::prelude::*;

use super::{MayAccess, Operand};
use crate::{Bytes, Mapping, ObjectFile, Symbolizer};

/// The address of the first section's first byte.
const CODE: u64 = 0x1078;

/// The difference between addresses of the file and of the process.
const BIAS: u64 = 0x7000_0000;

/// A file with this code; `is_named` if a symbol says where the function begins.
fn elf(code: &[&[u8]], is_named: bool) -> Elf {
    let code = code.concat();
    let mut elf = Elf::default();
    if is_named {
        elf.symbol(Symbol {
            name: String::from("f"),
            info: 0x12,
            section: 1,
            address: CODE,
            size: code.len() as u64,
        });
    }
    elf.loaded(".text", 4, CODE, code);
    elf
}

fn operand(operand: &Operand) -> String {
    let mut text = operand
        .base
        .map_or("here".to_owned(), |base| format!("r{base}"));
    if let Some((index, scale)) = operand.index {
        let _ = write!(text, " + r{index}*{scale}");
    }
    let does = match (operand.reads, operand.writes) {
        (true, true) => "updates",
        (true, false) => "reads",
        _ => "writes",
    };
    let locked = if operand.is_locked { "locked, " } else { "" };
    let bytes = operand.bytes;
    match operand.is_address() {
        true => format!("{locked}{does} {bytes} at {:#x}", operand.offset),
        false => format!("{locked}{does} {bytes} at [{text} {:+}]", operand.offset),
    }
}

fn describe(access: &MayAccess) -> String {
    let mut text = operand(&access.operand);
    let notes = [
        (access.is_before, " before"),
        (!access.has_registers, ", registers lost"),
        (!access.is_certain, ", uncertain"),
    ];
    for (_, note) in notes.into_iter().filter(|note| note.0) {
        text.push_str(note);
    }
    text
}

/// Checks what samples at each instruction of a program may stand for.
fn check(code: &[(&str, &[u8])], elf: &Elf, expected: &Expect) {
    let file = elf.clone().finish();
    let mapping = Mapping {
        start: BIAS + 0x1000,
        end: BIAS + 0x9000,
        file_offset: 0,
        path: String::from("/f"),
        build_id: None,
    };
    let mut symbolizer = Symbolizer::new(vec![mapping], |_| Ok(Bytes::from(file.clone())));
    let mut text = String::new();
    let mut at = BIAS + CODE;
    let mut codes: Vec<(u64, &str)> = Vec::new();
    for (source, bytes) in code {
        codes.push((at, source));
        at += bytes.len() as u64;
    }
    for (index, (at, source)) in codes.iter().enumerate() {
        let found = symbolizer.operands(*at);
        let describe = |access: &MayAccess| {
            let place = codes.iter().position(|code| code.0 == access.code).unwrap();
            match (access.is_before, index.checked_sub(1)) {
                (false, _) => assert_eq!(place, index),
                (true, Some(before)) if place == before => {}
                (true, _) => return format!("{} by {}", describe(access), codes[place].1),
            }
            describe(access)
        };
        let found: Vec<String> = found.iter().map(describe).collect();
        let line = format!("{source:30} {}", found.join("; "));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    expected.assert_eq(&text);
}

fn check_function(code: &[(&str, &[u8])], is_aarch64: bool, expected: &Expect) {
    let bytes: Vec<&[u8]> = code.iter().map(|insn| insn.1).collect();
    let mut elf = elf(&bytes, true);
    elf.is_aarch64 = is_aarch64;
    check(code, &elf, expected);
}

#[test]
fn x86_64_one_after_the_other() {
    check_function(
        &[
            ("pushq %rbx", &[0x53]),
            ("pushq 8(%rsp)", &[0xff, 0x74, 0x24, 0x08]),
            ("popq 8(%rsp)", &[0x8f, 0x44, 0x24, 0x08]),
            ("lock addl $1, 40(%rsi)", &[0xf0, 0x83, 0x46, 0x28, 0x01]),
            ("movq (%rax), %rax", &[0x48, 0x8b, 0x00]),
            ("movl 8(%rdi,%rcx,4), %eax", &[0x8b, 0x44, 0x8f, 0x08]),
            ("movl %eax, (%rdx)", &[0x89, 0x02]),
            (
                "movq 256(%rip), %rcx",
                &[0x48, 0x8b, 0x0d, 0x00, 0x01, 0x00, 0x00],
            ),
            ("xchgq %rax, (%rdi)", &[0x48, 0x87, 0x07]),
            ("xchgq %rax, %rdi", &[0x48, 0x97]),
            ("cmpxchgq %rcx, (%rdx)", &[0x48, 0x0f, 0xb1, 0x0a]),
            ("lock cmpxchg16b (%rdi)", &[0xf0, 0x48, 0x0f, 0xc7, 0x0f]),
            ("lock xaddq %rdi, (%rdi)", &[0xf0, 0x48, 0x0f, 0xc1, 0x3f]),
            ("cmpq $0, 8(%rax)", &[0x48, 0x83, 0x78, 0x08, 0x00]),
            ("leaq 8(%rdi), %rdi", &[0x48, 0x8d, 0x7f, 0x08]),
            ("prefetcht0 (%rdi)", &[0x0f, 0x18, 0x0f]),
            ("pause", &[0xf3, 0x90]),
            ("rep movsb", &[0xf3, 0xa4]),
            (
                "movq %fs:40, %rax",
                &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00],
            ),
            ("callq *16(%rax)", &[0xff, 0x50, 0x10]),
            ("popq %rbx", &[0x5b]),
            ("popw %bx", &[0x66, 0x5b]),
            ("leave", &[0xc9]),
            ("retq", &[0xc3]),
            ("nop", &[0x90]),
        ],
        false,
        &expect![[r#"
            pushq %rbx                     writes 8 at [r7 -8]
            pushq 8(%rsp)                  writes 8 at [r7 +0] before; reads 8 at [r7 +8]
            popq 8(%rsp)                   reads 8 at [r7 +16] before; writes 8 at [r7 +16]
            lock addl $1, 40(%rsi)         writes 8 at [r7 +8] before; locked, updates 4 at [r4 +40]
            movq (%rax), %rax              locked, updates 4 at [r4 +40] before; reads 8 at [r0 +0]
            movl 8(%rdi,%rcx,4), %eax      reads 8 at [r0 +0] before, registers lost; reads 4 at [r5 + r2*4 +8]
            movl %eax, (%rdx)              reads 4 at [r5 + r2*4 +8] before; writes 4 at [r1 +0]
            movq 256(%rip), %rcx           writes 4 at [r1 +0] before; reads 8 at 0x70001196
            xchgq %rax, (%rdi)             reads 8 at 0x70001196 before; locked, updates 8 at [r5 +0]
            xchgq %rax, %rdi               locked, updates 8 at [r5 +0] before
            cmpxchgq %rcx, (%rdx)          updates 8 at [r1 +0]
            lock cmpxchg16b (%rdi)         updates 8 at [r1 +0] before; locked, updates 16 at [r5 +0]
            lock xaddq %rdi, (%rdi)        locked, updates 16 at [r5 +0] before; locked, updates 8 at [r5 +0]
            cmpq $0, 8(%rax)               locked, updates 8 at [r5 +0] before, registers lost; reads 8 at [r0 +8]
            leaq 8(%rdi), %rdi             reads 8 at [r0 +8] before
            prefetcht0 (%rdi)
            pause
            rep movsb                      writes 0 at [r5 +0]; reads 0 at [r4 +0]
            movq %fs:40, %rax              writes 0 at [r5 +0] before, registers lost; reads 0 at [r4 +0] before, registers lost
            callq *16(%rax)                reads 8 at [r0 +16]
            popq %rbx                      reads 8 at [r7 +0]
            popw %bx                       reads 8 at [r7 -8] before; reads 2 at [r7 +0]
            leave                          reads 2 at [r7 +0] before, registers lost; reads 8 at [r6 +0]
            retq                           reads 8 at [r7 -8] before; reads 8 at [r7 +0]
            nop
        "#]],
    );
}

#[test]
fn aarch64_one_after_the_other() {
    check_function(
        &[
            ("stp x29, x30, [sp, #-32]!", &[0xfd, 0x7b, 0xbe, 0xa9]),
            ("ldr x1, [x2], #8", &[0x41, 0x84, 0x40, 0xf8]),
            ("ldr x2, [x2, #24]", &[0x42, 0x0c, 0x40, 0xf9]),
            ("ldr x1, [x2, x3, lsl #3]", &[0x41, 0x78, 0x63, 0xf8]),
            ("ldr x1, [x2, w3, uxtw #3]", &[0x41, 0x58, 0x63, 0xf8]),
            ("str q1, [x2, #32]", &[0x41, 0x08, 0x80, 0x3d]),
            ("prfm pldl1keep, [x2]", &[0x40, 0x00, 0x80, 0xf9]),
            ("ldaddal w1, w3, [x2]", &[0x43, 0x00, 0xe1, 0xb8]),
            ("stadd w1, [x2]", &[0x5f, 0x00, 0x21, 0xb8]),
            ("swpal x1, x2, [x2]", &[0x42, 0x80, 0xe1, 0xf8]),
            ("ldapr x1, [x2]", &[0x41, 0xc0, 0xbf, 0xf8]),
            ("casal x1, x3, [x2]", &[0x43, 0xfc, 0xe1, 0xc8]),
            ("casp x4, x5, x6, x7, [x2]", &[0x46, 0x7c, 0x24, 0x48]),
            ("ldxr x1, [x2]", &[0x41, 0x7c, 0x5f, 0xc8]),
            ("ldaxp x1, x3, [x2]", &[0x41, 0x8c, 0x7f, 0xc8]),
            ("stlxr w3, w1, [x2]", &[0x41, 0xfc, 0x03, 0x88]),
            ("ldar w1, [x2]", &[0x41, 0xfc, 0xdf, 0x88]),
            ("stlr x1, [x2]", &[0x41, 0xfc, 0x9f, 0xc8]),
            ("ldr x1, #16", &[0x81, 0x00, 0x00, 0x58]),
            ("ldp x29, x30, [sp], #32", &[0xfd, 0x7b, 0xc2, 0xa8]),
            ("ret", &[0xc0, 0x03, 0x5f, 0xd6]),
            ("nop", &[0x1f, 0x20, 0x03, 0xd5]),
        ],
        true,
        &expect![[r#"
            stp x29, x30, [sp, #-32]!      writes 16 at [r31 -32]
            ldr x1, [x2], #8               writes 16 at [r31 +0] before; reads 8 at [r2 +0]
            ldr x2, [x2, #24]              reads 8 at [r2 -8] before; reads 8 at [r2 +24]
            ldr x1, [x2, x3, lsl #3]       reads 8 at [r2 +24] before, registers lost; reads 8 at [r2 + r3*8 +0]
            ldr x1, [x2, w3, uxtw #3]      reads 8 at [r2 + r3*8 +0] before; reads 8 at [r2 + r3*8 +0], registers lost
            str q1, [x2, #32]              reads 8 at [r2 + r3*8 +0] before, registers lost; writes 16 at [r2 +32]
            prfm pldl1keep, [x2]           writes 16 at [r2 +32] before
            ldaddal w1, w3, [x2]           locked, updates 4 at [r2 +0]
            stadd w1, [x2]                 locked, updates 4 at [r2 +0] before; locked, updates 4 at [r2 +0]
            swpal x1, x2, [x2]             locked, updates 4 at [r2 +0] before; locked, updates 8 at [r2 +0]
            ldapr x1, [x2]                 locked, updates 8 at [r2 +0] before, registers lost; reads 8 at [r2 +0]
            casal x1, x3, [x2]             reads 8 at [r2 +0] before; locked, updates 8 at [r2 +0]
            casp x4, x5, x6, x7, [x2]      locked, updates 8 at [r2 +0] before; locked, updates 16 at [r2 +0]
            ldxr x1, [x2]                  locked, updates 16 at [r2 +0] before; locked, reads 8 at [r2 +0]
            ldaxp x1, x3, [x2]             locked, reads 8 at [r2 +0] before; locked, reads 16 at [r2 +0]
            stlxr w3, w1, [x2]             locked, reads 16 at [r2 +0] before; locked, writes 4 at [r2 +0]
            ldar w1, [x2]                  locked, writes 4 at [r2 +0] before; reads 4 at [r2 +0]
            stlr x1, [x2]                  reads 4 at [r2 +0] before; writes 8 at [r2 +0]
            ldr x1, #16                    writes 8 at [r2 +0] before; reads 8 at 0x700010d0
            ldp x29, x30, [sp], #32        reads 8 at 0x700010d0 before; reads 16 at [r31 +0]
            ret                            reads 16 at [r31 -32] before
            nop
        "#]],
    );
}

#[test]
fn comparisons_are_found_where_their_branch_leads() {
    check_function(
        &[
            ("1: cmpl %eax, 8(%rdi)", &[0x39, 0x47, 0x08]),
            ("jne 1b", &[0x75, 0xfb]),
            ("cmpl $0, 8(%rdi)", &[0x83, 0x7f, 0x08, 0x00]),
            ("je 2f", &[0x74, 0x02]),
            ("addl (%rdi), %eax", &[0x03, 0x07]),
            ("2: js 3f", &[0x78, 0x00]),
            ("3: retq", &[0xc3]),
        ],
        false,
        &expect![[r#"
            1: cmpl %eax, 8(%rdi)          reads 4 at [r5 +8] before, uncertain by 1: cmpl %eax, 8(%rdi); reads 4 at [r5 +8], uncertain
            jne 1b                         reads 4 at [r5 +8] before
            cmpl $0, 8(%rdi)               reads 4 at [r5 +8] before by 1: cmpl %eax, 8(%rdi); reads 4 at [r5 +8]
            je 2f                          reads 4 at [r5 +8] before
            addl (%rdi), %eax              reads 4 at [r5 +0]
            2: js 3f                       reads 4 at [r5 +0] before, uncertain
            3: retq                        reads 4 at [r5 +0] before, uncertain by addl (%rdi), %eax; reads 8 at [r7 +0], uncertain
        "#]],
    );
}

#[test]
fn what_a_branch_leads_to_is_not_certain() {
    check_function(
        &[
            ("movl (%rdi), %eax", &[0x8b, 0x07]),
            ("1: addq $8, %rdi", &[0x48, 0x83, 0xc7, 0x08]),
            ("cmpl %eax, (%rdi)", &[0x39, 0x07]),
            ("jne 1b", &[0x75, 0xf8]),
            ("movl %eax, (%rsi)", &[0x89, 0x06]),
            ("jmp 2f", &[0xeb, 0x02]),
            ("movl (%rdx), %eax", &[0x8b, 0x02]),
            ("2: retq", &[0xc3]),
        ],
        false,
        &expect![[r#"
            movl (%rdi), %eax              reads 4 at [r5 +0]
            1: addq $8, %rdi               reads 4 at [r5 +0] before, uncertain; reads 4 at [r5 +0] before, uncertain by cmpl %eax, (%rdi)
            cmpl %eax, (%rdi)              reads 4 at [r5 +0]
            jne 1b                         reads 4 at [r5 +0] before
            movl %eax, (%rsi)              reads 4 at [r5 +0] before by cmpl %eax, (%rdi); writes 4 at [r4 +0]
            jmp 2f                         writes 4 at [r4 +0] before
            movl (%rdx), %eax              reads 4 at [r1 +0]
            2: retq                        reads 4 at [r1 +0] before, uncertain; reads 8 at [r7 +0], uncertain
        "#]],
    );
}

/// Code that decodes to the same end from most places.
const UNNAMED: &[(&str, &[u8])] = &[
    ("addl $1, (%rdi)", &[0x83, 0x07, 0x01]),
    ("movq %rax, (%rdi)", &[0x48, 0x89, 0x07]),
];

#[test]
fn without_a_function_the_instruction_before_is_likely_at_best() {
    let code: Vec<(&str, &[u8])> = (0..20).flat_map(|_| UNNAMED).copied().collect();
    let bytes: Vec<&[u8]> = code.iter().map(|insn| insn.1).collect();
    let mut file = parse(elf(&bytes, false));
    let found = file.operands(CODE + 99);
    let found: Vec<String> = found.iter().map(describe).collect();
    expect!["updates 4 at [r5 +0] before, uncertain; writes 8 at [r5 +0], uncertain"]
        .assert_eq(&found.join("; "));
    // Too close to the begin of what is loaded.
    assert_eq!(file.operands(0xfff), []);
    assert!(file.operands(CODE).iter().all(|access| !access.is_before));
}

#[test]
fn rows_for_unwinding_say_where_a_stripped_function_begins() {
    let code: Vec<&[u8]> = UNNAMED.iter().map(|insn| insn.1).collect();
    let mut elf = elf(&code, false);
    let code_bytes = code.concat().len() as u32;
    let mut frame: Vec<u8> = Vec::new();
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    // A common entry with no augmentation, and the entry of the function in full addresses.
    frame.extend(words(&[12, 0]));
    frame.extend([1, 0, 1, 0x78, 16, 0, 0, 0]);
    frame.extend(words(&[20, 20, CODE as u32, 0, code_bytes, 0]));
    frame.extend(words(&[0]));
    elf.loaded(".eh_frame", 0, CODE + u64::from(code_bytes), frame);
    let found = parse(elf).operands(CODE + 3);
    let found: Vec<String> = found.iter().map(describe).collect();
    expect!["updates 4 at [r5 +0] before; writes 8 at [r5 +0]"].assert_eq(&found.join("; "));
}

fn parse(elf: Elf) -> ObjectFile {
    ObjectFile::parse(Bytes::from(elf.finish()), "f").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Any bytes as code, with and without a symbol: each access is of the instruction or of one in the code.
    #[test]
    fn any_code_is_read(
        code in proptest::collection::vec(any::<u8>(), 1..300),
        is_named in any::<bool>(),
        is_aarch64 in any::<bool>(),
    ) {
        let mut made = elf(&[&code], is_named);
        made.is_aarch64 = is_aarch64;
        let mut file = parse(made);
        for address in (CODE - 8..CODE + 320).chain([0, u64::MAX]) {
            for access in file.operands(address) {
                prop_assert!(access.is_before || access.code == address);
                prop_assert!(access.code.abs_diff(address) < 300);
                let operand = access.operand;
                prop_assert!(operand.reads || operand.writes);
                let registers = [operand.base, operand.index.map(|index| index.0)];
                prop_assert!(registers.into_iter().flatten().all(|register| register < 32));
            }
        }
    }
}

/// Code in memory has no function and no file; what lies around the address is enough.
#[test]
#[cfg(target_arch = "x86_64")]
fn code_in_memory_is_decoded_around_the_address() {
    // 64 bytes of nop, then lock addl $1, (%rdi), then nops.
    let mut bytes = vec![0x90; 64];
    bytes.extend([0xf0, 0x83, 0x07, 0x01]);
    bytes.extend([0x90; 16]);
    let code = super::CodeBytes {
        begin: 0x1000,
        bytes: &bytes,
    };
    let found = code.operands(0x1044);
    let [access] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((access.code, access.operand.base), (0x1040, Some(5)));
    assert!(access.is_before && access.operand.is_locked && !access.is_certain);
    assert_eq!(code.operands(0x9000), []);
    assert_eq!(code.operands(0), []);
    let in_function = code.operands_in_function(0x1044);
    assert_eq!(in_function.len(), 1);
    assert!(in_function[0].is_certain && in_function[0].operand == access.operand);
    assert_eq!(code.operands_in_function(0x9000), []);
}

/// V8 maps its own code near to what it generates.
#[test]
fn a_part_of_a_file_may_be_mapped_once_more() {
    const AGAIN: u64 = 0x7f00_0000_0000;
    const SKIPPED: u64 = 0x2000;
    // nop; lock add %rax,(%rdi); nop
    let nops = [0x90; SKIPPED as usize];
    let file = elf(&[&nops, &[0xf0, 0x48, 0x01, 0x07], &[0x90]], true).finish();
    let mapping = |start, file_offset| Mapping {
        start,
        end: start + 0x9000,
        file_offset,
        path: String::from("/f"),
        build_id: None,
    };
    let mappings = vec![mapping(BIAS + 0x1000, 0), mapping(AGAIN, SKIPPED)];
    let mut symbolizer = Symbolizer::new(mappings, |_| Ok(Bytes::from(file.clone())));
    for code in [BIAS + CODE + SKIPPED, AGAIN + (CODE & 0xfff)] {
        let found = symbolizer.operands(code + 4);
        let found = found
            .iter()
            .find(|access| access.is_before)
            .expect("it adds");
        assert!(found.operand.is_locked);
        assert_eq!(found.code, code);
    }
}
