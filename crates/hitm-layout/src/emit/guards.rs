//! Others than the program's own code that depend on the layout of a structure: found in source by its words.
//!
//! A search by words sees no meaning: it may find too much, which asks for a look, and misses what a macro hides.

use std::collections::BTreeSet;

use super::names::bare;
use super::tokens::{Lexis, Tokens};
use super::{Source, is_go, is_rust};

/// Way in which a layout is promised to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardKind {
    /// Its members lie as they are declared, without gaps.
    Packed,
    /// An assertion holds its size or an offset.
    Asserted,
    /// Its bytes are written to a file or sent, or read.
    Written,
    /// Its bytes are mapped memory, which others may have too.
    Mapped,
    /// Its bytes are given to code of another language.
    Foreign,
}

impl GuardKind {
    /// The kind in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            GuardKind::Packed => "is packed",
            GuardKind::Asserted => "has an assertion on its size or offsets",
            GuardKind::Written => "is written or read as bytes",
            GuardKind::Mapped => "is mapped memory",
            GuardKind::Foreign => "has the layout of C, for other code",
        }
    }
}

/// A place that depends on the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The way.
    pub kind: GuardKind,
}

/// Functions that take or give bytes.
const OF_BYTES: [&str; 19] = [
    "fwrite",
    "fread",
    "write",
    "read",
    "pwrite",
    "pread",
    "writev",
    "readv",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "msgsnd",
    "msgrcv",
    "mq_send",
    "mq_receive",
    "Write",
];

/// Assertions of C, C++ and the kernel, and Rust's.
const ASSERTIONS: [&str; 6] = [
    "static_assert",
    "_Static_assert",
    "BUILD_BUG_ON",
    "BUILD_BUG_ON_MSG",
    "const_assert",
    "assert_eq_size",
];

/// Derived traits of Rust that make bytes of a value.
const OF_VALUES: [&str; 8] = [
    "Pod",
    "Zeroable",
    "AsBytes",
    "IntoBytes",
    "FromBytes",
    "TryFromBytes",
    "Unaligned",
    "KnownLayout",
];

/// Places in a file that depend on the layout of the structure `name`, by line.
pub fn guards(name: &str, source: Source<'_>) -> Vec<Guard> {
    let lexis = match source.file {
        file if is_rust(file) => Lexis::Rust,
        file if is_go(file) => Lexis::Go,
        _ => Lexis::C,
    };
    let name = bare(name);
    let name = name.rsplit('.').next().unwrap_or(name);
    // Most files of a tree do not know it.
    if name.is_empty() || !source.text.contains(name) {
        return Vec::new();
    }
    let tokens = Tokens::new(source.file, source.text, lexis);
    let of = Search {
        tokens: &tokens,
        name,
        variables: variables(&tokens, name),
    };
    let mut found: Vec<(usize, GuardKind)> = Vec::new();
    for at in 0..tokens.len() {
        found.extend(of.at(at, lexis).map(|kind| (tokens.line(at), kind)));
    }
    found.sort_unstable();
    found.dedup();
    let found = found.into_iter();
    let guards = found.map(|(line, kind)| Guard {
        file: source.file.to_owned(),
        line,
        kind,
    });
    guards.collect()
}

/// Words that are declared with the type: `struct name *word`, `name word`.
fn variables<'t>(tokens: &Tokens<'t>, name: &str) -> BTreeSet<&'t str> {
    let names = (0..tokens.len()).filter(|at| tokens.at(*at) == name);
    let words = names.filter_map(|at| {
        let mut next = at + 1;
        while matches!(tokens.at(next), "*" | "&" | "const") {
            next += 1;
        }
        tokens.is_word(next).then(|| tokens.at(next))
    });
    words.collect()
}

struct Search<'s, 't> {
    tokens: &'s Tokens<'t>,
    name: &'s str,
    variables: BTreeSet<&'t str>,
}

impl Search<'_, '_> {
    /// Dependence that a token begins.
    fn at(&self, at: usize, lexis: Lexis) -> Option<GuardKind> {
        let tokens = self.tokens;
        let word = tokens.at(at);
        let open = match tokens.at(at + 1) {
            "!" => at + 2,
            _ => at + 1,
        };
        let is_call = tokens.at(open) == "(" && tokens.close(open) > open;
        let call = || open..tokens.close(open);
        match word {
            _ if ASSERTIONS.contains(&word) && is_call => {
                let is_own =
                    call().any(|at| self.is_name(at)) && call().any(|at| is_size(tokens.at(at)));
                is_own.then_some(GuardKind::Asserted)
            }
            _ if OF_BYTES.contains(&word) && is_call => {
                let is_own = call().any(|at| self.is_size_of_it(at));
                is_own.then_some(GuardKind::Written)
            }
            "mmap" | "shmat" | "MapViewOfFile" if is_call => {
                self.statement_has_it(at).then_some(GuardKind::Mapped)
            }
            "struct" | "class" => self.declared(at, lexis),
            "Sizeof" | "Offsetof" if lexis == Lexis::Go && is_call => call()
                .any(|at| self.is_name(at))
                .then_some(GuardKind::Asserted),
            _ => None,
        }
    }

    fn is_name(&self, at: usize) -> bool {
        self.tokens.at(at) == self.name
    }

    fn is_own(&self, at: usize) -> bool {
        self.is_name(at) || self.variables.contains(self.tokens.at(at))
    }

    /// Returns true for `sizeof(struct name)`, `sizeof *it` and `size_of::<Name>()`.
    fn is_size_of_it(&self, at: usize) -> bool {
        let tokens = self.tokens;
        let near = (at + 1)..(at + 7).min(tokens.len());
        is_size(tokens.at(at))
            && near
                .take_while(|at| tokens.at(*at) != ",")
                .any(|at| self.is_own(at))
    }

    fn statement_has_it(&self, at: usize) -> bool {
        let tokens = self.tokens;
        let is_end = |at: &usize| matches!(tokens.at(*at), ";" | "{" | "}");
        let start = (0..at).rev().find(is_end).map_or(0, |end| end + 1);
        let end = (at..tokens.len()).find(is_end).unwrap_or(tokens.len());
        (start..end).any(|at| self.is_own(at))
    }

    /// Dependence that the declaration says.
    fn declared(&self, at: usize, lexis: Lexis) -> Option<GuardKind> {
        let tokens = self.tokens;
        let open = tokens.until(at + 1, &["{", ";", ")", "=", ","]);
        if tokens.at(open) == "{"
            && (at + 1..open).any(|at| self.is_name(at))
            && lexis != Lexis::Rust
        {
            let end = tokens.until(tokens.close(open) + 1, &[";"]);
            let around = (at..open).chain(tokens.close(open)..end.min(tokens.len()));
            let mut around = around.map(|at| tokens.at(at));
            let is_packed =
                around.any(|word| matches!(word, "packed" | "__packed" | "__packed__" | "PACKED"));
            return (is_packed || self.is_in_pragma(at)).then_some(GuardKind::Packed);
        }
        if lexis != Lexis::Rust || tokens.at(at + 1) != self.name {
            return None;
        }
        let mut start = at;
        while tokens.before(start) == "pub" || tokens.before(start) == ")" {
            start = tokens.open(start - 1);
        }
        let attributes = super::fields::attributes(tokens, start);
        let mut words = attributes
            .iter()
            .flat_map(|(from, end)| (*from..*end).map(|at| tokens.at(at)));
        words.find_map(|word| match word {
            "packed" => Some(GuardKind::Packed),
            "C" => Some(GuardKind::Foreign),
            _ => OF_VALUES.contains(&word).then_some(GuardKind::Written),
        })
    }

    /// Returns true if `#pragma pack` holds at a token.
    fn is_in_pragma(&self, at: usize) -> bool {
        let tokens = self.tokens;
        let directives = (0..at).rev().filter(|at| tokens.is_directive(*at));
        let mut packs = directives.map(|at| tokens.at(at)).filter(|text| {
            let text: String = text.split_whitespace().collect();
            text.contains("pragmapack(")
        });
        packs
            .next()
            .is_some_and(|text| !text.contains("pop") && !text.contains("()"))
    }
}

fn is_size(word: &str) -> bool {
    matches!(
        word,
        "sizeof" | "offsetof" | "size_of" | "offset_of" | "size_of_val" | "__builtin_offsetof"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, text: &str, expected: &[(usize, GuardKind)]) {
        let found = guards("slot", Source { file, text });
        let found: Vec<_> = found
            .into_iter()
            .map(|guard| (guard.line, guard.kind))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn promises_about_a_layout_are_found() {
        use GuardKind::{Asserted, Foreign, Mapped, Packed, Written};
        check(
            "a.c",
            "struct slot { int a; } __attribute__((packed));",
            &[(1, Packed)],
        );
        check(
            "a.c",
            "struct __attribute__((__packed__)) slot {\n int a;\n};",
            &[(1, Packed)],
        );
        check(
            "a.c",
            "#pragma pack(push, 1)\nstruct slot { int a; };\n#pragma pack(pop)\nstruct slot2 { int a; };",
            &[(2, Packed)],
        );
        check(
            "a.c",
            "#pragma pack(1)\nstruct other { int a; };\n#pragma pack()\nstruct slot { int a; };",
            &[],
        );
        check(
            "a.c",
            "\n_Static_assert(sizeof(struct slot) == 16, \"size\");",
            &[(2, Asserted)],
        );
        check(
            "a.cpp",
            "static_assert(offsetof(slot, b) == 4);\nstatic_assert(true, \"slot\");",
            &[(1, Asserted)],
        );
        check(
            "a.c",
            "void f(struct slot *s) {\n fwrite(s, sizeof(*s), 1, out);\n read(0, &x, sizeof x);\n}",
            &[(2, Written)],
        );
        check(
            "a.c",
            "send(fd, p, sizeof(struct slot), 0);",
            &[(1, Written)],
        );
        check(
            "a.c",
            "struct slot *s =\n mmap(0, n, 3, 1, fd, 0);\nint *other = mmap(0, 1, 3, 1, fd, 0);",
            &[(2, Mapped)],
        );
        check(
            "a.c",
            "struct slot s;\nmemset(&s, 0, sizeof(s));\nmalloc(sizeof(struct slot));",
            &[],
        );
        check(
            "a.rs",
            "#[repr(C)]\npub struct slot { a: u32 }",
            &[(2, Foreign)],
        );
        check(
            "a.rs",
            "#[derive(Clone, Pod)]\nstruct slot { a: u32 }",
            &[(2, Written)],
        );
        check("a.rs", "#[derive(Clone)]\nstruct slot { a: u32 }", &[]);
        check(
            "a.go",
            "const _ = 16 - unsafe.Sizeof(slot{})",
            &[(1, Asserted)],
        );
    }
}
