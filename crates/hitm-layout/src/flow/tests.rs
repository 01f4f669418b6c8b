//! Instructions and what they do to pointers, in golden lists. Encodings are llvm-mc's (LLVM 14).

use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::insn::{Effect, Insn, Next, Place, SCRATCH, ZERO};
use super::{aarch64, x86};

fn place(place: Place) -> String {
    let mut text = place
        .base
        .map_or("here".to_owned(), |base| format!("r{base}"));
    if let Some((index, scale)) = place.index {
        let _ = write!(text, " + r{index}*{scale}");
    }
    format!("[{text} {:+}]", place.offset)
}

fn reg(reg: u8) -> String {
    match reg {
        ZERO => "zero".into(),
        SCRATCH => "scratch".into(),
        reg => format!("r{reg}"),
    }
}

fn effect(effect: Effect) -> String {
    match effect {
        Effect::Copy { to, from, add } => format!("{} = {} {add:+}", reg(to), reg(from)),
        Effect::Constant { to, value } => format!("{} = {value:#x}", reg(to)),
        Effect::Address { to, place: at } => format!("{} = &{}", reg(to), place(at)),
        Effect::Step {
            to,
            from,
            by,
            scale,
        } => format!("{} = {} + {} * {scale}", reg(to), reg(from), reg(by)),
        Effect::Scale { to, from, factor } => format!("{} = {} * {factor}", reg(to), reg(from)),
        Effect::MultiplyAdd {
            to,
            add,
            one,
            other,
        } => format!("{} = {} + {} * {}", reg(to), reg(add), reg(one), reg(other)),
        Effect::Select { to, one, other } => {
            format!("{} = {} or {}", reg(to), reg(one), reg(other))
        }
        Effect::Load { to, place: at } => format!("{} = {}", reg(to), place(at)),
        Effect::Own { to, own } => format!("{} = the CPU's {own:?}", reg(to)),
        Effect::Store { place: at, from } => format!("{} = {}", place(at), reg(from)),
        Effect::Spoil { place: at } => format!("{} = ?", place(at)),
        Effect::Clobber { to } => format!("{} = ?", reg(to)),
    }
}

fn describe(insn: &Insn) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(access) = insn.access {
        parts.push(format!("{} bytes at {}", access.bytes, place(access.place)));
    }
    parts.extend(insn.effects.iter().map(|one| effect(*one)));
    match insn.next {
        Next::Follow => {}
        Next::Jump(to) => parts.push(format!("to {to:#x}")),
        Next::Branch(to) => parts.push(format!("perhaps to {to:#x}")),
        Next::Call(_) => parts.push("Call".to_owned()),
        other => parts.push(format!("{other:?}")),
    }
    parts.join("; ")
}

fn check(code: &[(&str, &[u8])], decode: fn(&[u8], u64, usize) -> Vec<Insn>, expected: &Expect) {
    let mut text = String::new();
    for (source, bytes) in code {
        let insns = decode(bytes, 0x1000, 8);
        assert_eq!(insns.len(), 1, "{source}");
        let line = format!("{source:34} {}", describe(&insns[0]));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    expected.assert_eq(&text);
}

/// Instructions of x86-64.
const X86_64: &[(&str, &[u8])] = &[
    ("movq %rdi, %rbx", &[0x48, 0x89, 0xfb]),
    ("leaq 8(%rdi), %rax", &[0x48, 0x8d, 0x47, 0x08]),
    ("leaq (%rsi,%rsi,4), %rdx", &[0x48, 0x8d, 0x14, 0xb6]),
    (
        "leaq 256(%rip), %rax",
        &[0x48, 0x8d, 0x05, 0x00, 0x01, 0x00, 0x00],
    ),
    ("addq $24, %rbx", &[0x48, 0x83, 0xc3, 0x18]),
    ("addq (%rdi), %rax", &[0x48, 0x03, 0x07]),
    ("addq %rsi, %rax", &[0x48, 0x01, 0xf0]),
    ("subq %rsi, %rax", &[0x48, 0x29, 0xf0]),
    (
        "movq 16(%rdi,%rsi,8), %rax",
        &[0x48, 0x8b, 0x44, 0xf7, 0x10],
    ),
    ("movq %rax, -8(%rbp)", &[0x48, 0x89, 0x45, 0xf8]),
    ("movl (%rdi), %eax", &[0x8b, 0x07]),
    ("movups (%r11), %xmm0", &[0x41, 0x0f, 0x10, 0x03]),
    ("imulq $88, (%rsp), %rcx", &[0x48, 0x6b, 0x0c, 0x24, 0x58]),
    ("imulq $88, %rcx, %rcx", &[0x48, 0x6b, 0xc9, 0x58]),
    ("shlq $3, %rax", &[0x48, 0xc1, 0xe0, 0x03]),
    ("xorl %eax, %eax", &[0x31, 0xc0]),
    ("movl $7, %eax", &[0xb8, 0x07, 0x00, 0x00, 0x00]),
    ("pushq %rbx", &[0x53]),
    ("popq %rbx", &[0x5b]),
    ("leave", &[0xc9]),
    ("cmoveq %rdx, %rax", &[0x48, 0x0f, 0x44, 0xc2]),
    (
        "lock  addq $1, 40(%rsi)",
        &[0xf0, 0x48, 0x83, 0x46, 0x28, 0x01],
    ),
    ("cmpxchgq %rcx, (%rdx)", &[0x48, 0x0f, 0xb1, 0x0a]),
    ("xchgq %rax, (%rdi)", &[0x48, 0x87, 0x07]),
    (
        "movq %fs:40, %rax",
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00],
    ),
    ("cmpq $0, 8(%rax)", &[0x48, 0x83, 0x78, 0x08, 0x00]),
    ("callq *16(%rax)", &[0xff, 0x50, 0x10]),
    ("jmpq *%rax", &[0xff, 0xe0]),
    ("retq", &[0xc3]),
    ("ud2", &[0x0f, 0x0b]),
];

#[test]
fn x86_64() {
    check(
        X86_64,
        x86::decode,
        &expect![[r#"
        movq %rdi, %rbx                    r3 = r5 +0
        leaq 8(%rdi), %rax                 r0 = &[r5 +8]
        leaq (%rsi,%rsi,4), %rdx           r1 = &[r4 + r4*4 +0]
        leaq 256(%rip), %rax               r0 = &[here +4359]
        addq $24, %rbx                     r3 = r3 +24
        addq (%rdi), %rax                  8 bytes at [r5 +0]; scratch = [r5 +0]; r0 = r0 + scratch * 1
        addq %rsi, %rax                    r0 = r0 + r4 * 1
        subq %rsi, %rax                    r0 = r0 + r4 * -1
        movq 16(%rdi,%rsi,8), %rax         8 bytes at [r5 + r4*8 +16]; r0 = [r5 + r4*8 +16]
        movq %rax, -8(%rbp)                8 bytes at [r6 -8]; [r6 -8] = r0
        movl (%rdi), %eax                  4 bytes at [r5 +0]; r0 = ?
        movups (%r11), %xmm0               16 bytes at [r11 +0]
        imulq $88, (%rsp), %rcx            8 bytes at [r7 +0]; r2 = ?; r2 = r2 * 88
        imulq $88, %rcx, %rcx              r2 = r2 * 88
        shlq $3, %rax                      r0 = r0 * 8
        xorl %eax, %eax                    r0 = 0x0
        movl $7, %eax                      r0 = 0x7
        pushq %rbx                         r7 = r7 -8; [r7 +0] = r3
        popq %rbx                          r3 = [r7 +0]; r7 = r7 +8
        leave                              r7 = r6 +0; r6 = [r7 +0]; r7 = r7 +8
        cmoveq %rdx, %rax                  r0 = r0 or r1
        lock  addq $1, 40(%rsi)            8 bytes at [r4 +40]; [r4 +40] = ?
        cmpxchgq %rcx, (%rdx)              8 bytes at [r1 +0]; [r1 +0] = ?; r0 = ?
        xchgq %rax, (%rdi)                 8 bytes at [r5 +0]; [r5 +0] = ?; r0 = ?
        movq %fs:40, %rax                  r0 = ?
        cmpq $0, 8(%rax)                   8 bytes at [r0 +8]
        callq *16(%rax)                    8 bytes at [r0 +16]; Call
        jmpq *%rax                         Elsewhere
        retq                               r7 = ?; Return
        ud2                                Stop
    "#]],
    );
}

/// Instructions of aarch64.
const AARCH64: &[(&str, &[u8])] = &[
    ("mov x1, x2", &[0xe1, 0x03, 0x02, 0xaa]),
    ("add x1, sp, #16", &[0xe1, 0x43, 0x00, 0x91]),
    ("sub sp, sp, #1, lsl #12", &[0xff, 0x07, 0x40, 0xd1]),
    ("adrp x3, #20480", &[0x23, 0x00, 0x00, 0xb0]),
    ("add x1, x2, x3, lsl #3", &[0x41, 0x0c, 0x03, 0x8b]),
    ("add x1, x2, w3, sxtw #2", &[0x41, 0xc8, 0x23, 0x8b]),
    ("sub x1, x2, x3", &[0x41, 0x00, 0x03, 0xcb]),
    ("lsl x9, x1, #3", &[0x29, 0xf0, 0x7d, 0xd3]),
    ("madd x1, x2, x3, x4", &[0x41, 0x10, 0x03, 0x9b]),
    ("csel x1, x2, x3, eq", &[0x41, 0x00, 0x83, 0x9a]),
    ("ldr x1, [x2, #24]", &[0x41, 0x0c, 0x40, 0xf9]),
    ("ldr w1, [x2, #8]", &[0x41, 0x08, 0x40, 0xb9]),
    ("ldr q1, [x2, #32]", &[0x41, 0x08, 0xc0, 0x3d]),
    ("str x1, [x2, #24]", &[0x41, 0x0c, 0x00, 0xf9]),
    ("ldur x1, [x2, #-8]", &[0x41, 0x80, 0x5f, 0xf8]),
    ("ldr x1, [x2], #8", &[0x41, 0x84, 0x40, 0xf8]),
    ("str x1, [sp, #-16]!", &[0xe1, 0x0f, 0x1f, 0xf8]),
    ("ldr x1, [x2, x3, lsl #3]", &[0x41, 0x78, 0x63, 0xf8]),
    ("ldp x2, x3, [x2, #16]", &[0x42, 0x0c, 0x41, 0xa9]),
    ("stp x29, x30, [sp, #-32]!", &[0xfd, 0x7b, 0xbe, 0xa9]),
    ("ldp x29, x30, [sp], #32", &[0xfd, 0x7b, 0xc2, 0xa8]),
    ("ldar x1, [x2]", &[0x41, 0xfc, 0xdf, 0xc8]),
    ("stlr x1, [x2]", &[0x41, 0xfc, 0x9f, 0xc8]),
    ("ldxr x1, [x2]", &[0x41, 0x7c, 0x5f, 0xc8]),
    ("stxr w3, x1, [x2]", &[0x41, 0x7c, 0x03, 0xc8]),
    ("cas x1, x3, [x2]", &[0x43, 0x7c, 0xa1, 0xc8]),
    ("ldadd x1, x3, [x2]", &[0x43, 0x00, 0x21, 0xf8]),
    ("fmov x1, d0", &[0x01, 0x00, 0x66, 0x9e]),
    ("fmov d0, #1.00000000", &[0x00, 0x10, 0x6e, 0x1e]),
    ("mov x1, #88", &[0x01, 0x0b, 0x80, 0xd2]),
    ("bl #16", &[0x04, 0x00, 0x00, 0x94]),
    ("b #16", &[0x04, 0x00, 0x00, 0x14]),
    ("cbz x1, #16", &[0x81, 0x00, 0x00, 0xb4]),
    ("tbz w1, #3, #16", &[0x81, 0x00, 0x18, 0x36]),
    ("b.ne #16", &[0x81, 0x00, 0x00, 0x54]),
    ("ret", &[0xc0, 0x03, 0x5f, 0xd6]),
    ("br x1", &[0x20, 0x00, 0x1f, 0xd6]),
    ("blr x1", &[0x20, 0x00, 0x3f, 0xd6]),
    ("and sp, x1, #0xfffffffffffffff0", &[0x3f, 0xec, 0x7c, 0x92]),
    ("and x1, x2, x3", &[0x41, 0x00, 0x03, 0x8a]),
];

#[test]
fn aarch64() {
    check(
        AARCH64,
        aarch64::decode,
        &expect![[r#"
        mov x1, x2                         r1 = r2 +0
        add x1, sp, #16                    r1 = r31 +16
        sub sp, sp, #1, lsl #12            r31 = r31 -4096
        adrp x3, #20480                    r3 = 0x6000
        add x1, x2, x3, lsl #3             r1 = r2 + r3 * 8
        add x1, x2, w3, sxtw #2            r1 = r2 + r3 * 4
        sub x1, x2, x3                     r1 = r2 + r3 * -1
        lsl x9, x1, #3                     r9 = r1 * 8
        madd x1, x2, x3, x4                r1 = r4 + r2 * r3
        csel x1, x2, x3, eq                r1 = r2 or r3
        ldr x1, [x2, #24]                  8 bytes at [r2 +24]; r1 = [r2 +24]
        ldr w1, [x2, #8]                   4 bytes at [r2 +8]; r1 = ?
        ldr q1, [x2, #32]                  16 bytes at [r2 +32]
        str x1, [x2, #24]                  8 bytes at [r2 +24]; [r2 +24] = r1
        ldur x1, [x2, #-8]                 8 bytes at [r2 -8]; r1 = [r2 -8]
        ldr x1, [x2], #8                   8 bytes at [r2 +0]; r1 = [r2 +0]; r2 = r2 +8
        str x1, [sp, #-16]!                8 bytes at [r31 -16]; r31 = r31 -16; [r31 +0] = r1
        ldr x1, [x2, x3, lsl #3]           8 bytes at [r2 + r3*8 +0]; r1 = [r2 + r3*8 +0]
        ldp x2, x3, [x2, #16]              16 bytes at [r2 +16]; r3 = [r2 +24]; r2 = [r2 +16]
        stp x29, x30, [sp, #-32]!          16 bytes at [r31 -32]; [r31 -32] = r29; [r31 -24] = r30; r31 = r31 -32
        ldp x29, x30, [sp], #32            16 bytes at [r31 +0]; r29 = [r31 +0]; r30 = [r31 +8]; r31 = r31 +32
        ldar x1, [x2]                      8 bytes at [r2 +0]; r1 = [r2 +0]
        stlr x1, [x2]                      8 bytes at [r2 +0]; [r2 +0] = ?
        ldxr x1, [x2]                      8 bytes at [r2 +0]; r1 = [r2 +0]
        stxr w3, x1, [x2]                  8 bytes at [r2 +0]; [r2 +0] = ?; r1 = ?; zero = ?; r3 = ?
        cas x1, x3, [x2]                   8 bytes at [r2 +0]; [r2 +0] = ?; r3 = ?; zero = ?; r1 = ?
        ldadd x1, x3, [x2]                 8 bytes at [r2 +0]; [r2 +0] = ?; r3 = ?
        fmov x1, d0                        r1 = ?
        fmov d0, #1.00000000
        mov x1, #88                        r1 = 0x58
        bl #16                             Call
        b #16                              to 0x1010
        cbz x1, #16                        perhaps to 0x1010
        tbz w1, #3, #16                    perhaps to 0x1010
        b.ne #16                           perhaps to 0x1010
        ret                                Return
        br x1                              Elsewhere
        blr x1                             Call
        and sp, x1, #0xfffffffffffffff0    r31 = ?
        and x1, x2, x3                     r1 = ?
    "#]],
    );
}
