//! Loops of machine code, sampled at each instruction. Encodings are GNU as's (binutils 2.40).

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{CodeBytes, Spin};

const BEGIN: u64 = 0x1000;

/// Checks at which instructions of a function a thread waits, and for which memory.
#[track_caller]
fn check(insns: &[(&str, &[u8])], expected: &Expect) {
    let bytes = insns.iter().map(|insn| insn.1).collect::<Vec<_>>().concat();
    let code = CodeBytes {
        begin: BEGIN,
        bytes: &bytes,
    };
    let mut text = String::new();
    let mut at = BEGIN;
    for (name, encoded) in insns {
        let found = match code.spin(at) {
            Some(Spin { operand: Some(at) }) => format!("waits for r{:?} {:+}", at.base, at.offset)
                .replace("rSome(", "r")
                .replace(')', ""),
            Some(Spin { operand: None }) => "waits".to_owned(),
            None => "works".to_owned(),
        };
        let _ = writeln!(text, "{name:<32}{found}");
        at += encoded.len() as u64;
    }
    expected.assert_eq(&text);
}

/// Glibc's pthread_spin_lock.
#[test]
fn spin_lock_of_glibc() {
    check(
        &[
            ("lock decl (%rdi)", &[0xf0, 0xff, 0x0f]),
            ("jne", &[0x75, 0x03]),
            ("xor %eax,%eax", &[0x31, 0xc0]),
            ("ret", &[0xc3]),
            ("pause", &[0xf3, 0x90]),
            ("cmpl $0x0,(%rdi)", &[0x83, 0x3f, 0x00]),
            ("jg", &[0x7f, 0xf1]),
            ("jmp", &[0xeb, 0xf7]),
        ],
        &expect![[r#"
            lock decl (%rdi)                waits for r5 +0
            jne                             waits for r5 +0
            xor %eax,%eax                   works
            ret                             works
            pause                           waits for r5 +0
            cmpl $0x0,(%rdi)                waits for r5 +0
            jg                              waits for r5 +0
            jmp                             waits for r5 +0
        "#]],
    );
}

/// A flag is looked at.
#[test]
fn flag() {
    check(
        &[
            ("mov (%rbx),%eax", &[0x8b, 0x03]),
            ("test %eax,%eax", &[0x85, 0xc0]),
            ("je", &[0x74, 0xfa]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov (%rbx),%eax                 waits for r3 +0
            test %eax,%eax                  waits for r3 +0
            je                              waits for r3 +0
            ret                             works
        "#]],
    );
}

/// Test and set.
#[test]
fn test_and_set() {
    check(
        &[
            ("mov %edx,%eax", &[0x89, 0xd0]),
            ("xchg %al,0x8(%rdi)", &[0x86, 0x47, 0x08]),
            ("test %al,%al", &[0x84, 0xc0]),
            ("jne", &[0x75, 0xf7]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov %edx,%eax                   waits for r5 +8
            xchg %al,0x8(%rdi)              waits for r5 +8
            test %al,%al                    waits for r5 +8
            jne                             waits for r5 +8
            ret                             works
        "#]],
    );
}

/// Compare and swap from 0.
#[test]
fn compare_and_swap() {
    check(
        &[
            ("xor %eax,%eax", &[0x31, 0xc0]),
            ("lock cmpxchg %edx,(%rdi)", &[0xf0, 0x0f, 0xb1, 0x17]),
            ("jne", &[0x75, 0xf8]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            xor %eax,%eax                   waits for r5 +0
            lock cmpxchg %edx,(%rdi)        waits for r5 +0
            jne                             waits for r5 +0
            ret                             works
        "#]],
    );
}

/// A sum by compare and swap.
#[test]
fn sum_by_compare_and_swap() {
    check(
        &[
            ("lea 0x1(%rax),%edx", &[0x8d, 0x50, 0x01]),
            ("lock cmpxchg %edx,(%rdi)", &[0xf0, 0x0f, 0xb1, 0x17]),
            ("jne", &[0x75, 0xf7]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            lea 0x1(%rax),%edx              works
            lock cmpxchg %edx,(%rdi)        works
            jne                             works
            ret                             works
        "#]],
    );
}

/// A maximum by compare and swap.
#[test]
fn maximum_by_compare_and_swap() {
    check(
        &[
            ("cmp %ecx,%eax", &[0x39, 0xc8]),
            ("jge", &[0x7d, 0x06]),
            ("lock cmpxchg %ecx,(%rdi)", &[0xf0, 0x0f, 0xb1, 0x0f]),
            ("jne", &[0x75, 0xf6]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            cmp %ecx,%eax                   works
            jge                             works
            lock cmpxchg %ecx,(%rdi)        works
            jne                             works
            ret                             works
        "#]],
    );
}

/// The end of a list.
#[test]
fn list() {
    check(
        &[
            ("mov 0x8(%rax),%rax", &[0x48, 0x8b, 0x40, 0x08]),
            ("test %rax,%rax", &[0x48, 0x85, 0xc0]),
            ("jne", &[0x75, 0xf7]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov 0x8(%rax),%rax              works
            test %rax,%rax                  works
            jne                             works
            ret                             works
        "#]],
    );
}

/// A sum of an array.
#[test]
fn sum_of_an_array() {
    check(
        &[
            ("add (%rdi,%rcx,8),%rax", &[0x48, 0x03, 0x04, 0xcf]),
            ("inc %rcx", &[0x48, 0xff, 0xc1]),
            ("cmp %rdx,%rcx", &[0x48, 0x39, 0xd1]),
            ("jne", &[0x75, 0xf4]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            add (%rdi,%rcx,8),%rax          works
            inc %rcx                        works
            cmp %rdx,%rcx                   works
            jne                             works
            ret                             works
        "#]],
    );
}

/// Counting up to a variable.
#[test]
fn bound() {
    check(
        &[
            ("inc %rcx", &[0x48, 0xff, 0xc1]),
            ("cmp (%rdi),%rcx", &[0x48, 0x3b, 0x0f]),
            ("jl", &[0x7c, 0xf8]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            inc %rcx                        works
            cmp (%rdi),%rcx                 works
            jl                              works
            ret                             works
        "#]],
    );
}

/// Counting what others count, too.
#[test]
fn count() {
    check(
        &[
            ("lock incl (%rdi)", &[0xf0, 0xff, 0x07]),
            ("cmpl $0x0,(%rsi)", &[0x83, 0x3e, 0x00]),
            ("je", &[0x74, 0xf8]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            lock incl (%rdi)                works
            cmpl $0x0,(%rsi)                works
            je                              works
            ret                             works
        "#]],
    );
}

/// A store in each round.
#[test]
fn stores() {
    check(
        &[
            ("mov %rax,(%rdi)", &[0x48, 0x89, 0x07]),
            ("cmpl $0x0,(%rsi)", &[0x83, 0x3e, 0x00]),
            ("je", &[0x74, 0xf8]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov %rax,(%rdi)                 works
            cmpl $0x0,(%rsi)                works
            je                              works
            ret                             works
        "#]],
    );
}

/// A lock that pauses for longer each time.
#[test]
fn backoff() {
    check(
        &[
            ("mov %esi,%ecx", &[0x89, 0xf1]),
            ("pause", &[0xf3, 0x90]),
            ("dec %ecx", &[0xff, 0xc9]),
            ("jne", &[0x75, 0xfa]),
            ("xor %eax,%eax", &[0x31, 0xc0]),
            ("lock cmpxchg %edx,(%rdi)", &[0xf0, 0x0f, 0xb1, 0x17]),
            ("jne", &[0x75, 0xf0]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov %esi,%ecx                   waits for r5 +0
            pause                           waits for r5 +0
            dec %ecx                        waits for r5 +0
            jne                             waits for r5 +0
            xor %eax,%eax                   waits for r5 +0
            lock cmpxchg %edx,(%rdi)        waits for r5 +0
            jne                             waits for r5 +0
            ret                             works
        "#]],
    );
}

/// A function is called in each round.
#[test]
fn calls() {
    check(
        &[
            ("call", &[0xe8, 0xc2, 0xff, 0xff, 0xff]),
            ("cmpl $0x0,(%rbx)", &[0x83, 0x3b, 0x00]),
            ("je", &[0x74, 0xf6]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            call                            works
            cmpl $0x0,(%rbx)                works
            je                              works
            ret                             works
        "#]],
    );
}

/// A flag by a pointer, not optimised.
#[test]
fn code_for_debugging() {
    check(
        &[
            ("mov -0x8(%rbp),%rax", &[0x48, 0x8b, 0x45, 0xf8]),
            ("mov (%rax),%eax", &[0x8b, 0x00]),
            ("mov %eax,-0xc(%rbp)", &[0x89, 0x45, 0xf4]),
            ("cmpl $0x0,-0xc(%rbp)", &[0x83, 0x7d, 0xf4, 0x00]),
            ("jne", &[0x75, 0xf1]),
            ("ret", &[0xc3]),
        ],
        &expect![[r#"
            mov -0x8(%rbp),%rax             waits
            mov (%rax),%eax                 waits
            mov %eax,-0xc(%rbp)             waits
            cmpl $0x0,-0xc(%rbp)            waits
            jne                             waits
            ret                             works
        "#]],
    );
}

/// A function that pauses once.
#[test]
fn pause_alone() {
    check(
        &[("pause", &[0xf3, 0x90]), ("ret", &[0xc3])],
        &expect![[r#"
            pause                           waits
            ret                             waits
        "#]],
    );
}

proptest! {
    /// Any bytes are code, and any address may be asked for.
    #[test]
    fn any_code_may_be_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..220u64) {
        let code = CodeBytes { begin: BEGIN, bytes: &bytes };
        for address in [BEGIN + at, at, u64::MAX - at] {
            if let Some(Spin { operand: Some(operand) }) = code.spin(address) {
                prop_assert!(operand.reads || operand.writes);
            }
        }
    }
}
