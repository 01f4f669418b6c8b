//! Anonymous structures of debug information, and what only source tells of them:
//! `__randomize_layout`.
//!
//! For that a structure is found in the text as the smallest braces that have all its members' names:
//! conditions of the preprocessor may leave out some of those in the text.

use std::collections::BTreeSet;
use std::ops::Range;

use super::body::{head_of, is_body_of};
use super::declare::member_at;
use super::names::bare;
use super::tokens::{Lexis, Tokens};
use crate::advise::Subject;
use crate::types::{AggregateKind, Member, StructLayout, TypeStore};

/// Words behind the closing brace of a structure whose members a kernel may shuffle.
const RANDOMIZED: [&str; 2] = ["__randomize_layout", "randomize_layout"];

/// An anonymous structure of debug information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nameless {
    /// Its bytes in the outermost structure.
    pub bytes: Range<u64>,
    /// Names of its members, those of anonymous structures and unions inside too.
    pub members: Vec<String>,
}

/// Finds the anonymous structures in `layout` that `text`, which declares it, marks with
/// `__randomize_layout`.
pub fn randomized(text: &str, layout: &StructLayout, store: &TypeStore) -> Vec<Nameless> {
    let tokens = Tokens::new("", text, Lexis::C);
    let braces = braces(&tokens, bare(layout.name.as_deref().unwrap_or_default()));
    let mut found = Vec::new();
    add_nameless(layout, store, 0, &mut found);
    found.retain(|one| smallest(&braces, one).is_some_and(|braces| braces.is_randomized));
    found
}

/// Adds the anonymous structures inside of `layout`, outer ones first.
fn add_nameless(layout: &StructLayout, store: &TypeStore, base: u64, found: &mut Vec<Nameless>) {
    for (member, inner) in layout
        .members
        .iter()
        .filter_map(|member| Some((member, aggregate(member, store)?)))
    {
        if inner.kind == AggregateKind::Union || inner.members.is_empty() {
            continue;
        }
        let start = base + member.byte_offset();
        found.push(Nameless {
            bytes: start..base + member.byte_end(),
            members: names_in(inner, store),
        });
        add_nameless(inner, store, start, found);
    }
}

/// The structure or union that a member without a name is.
fn aggregate<'t>(member: &Member, store: &'t TypeStore) -> Option<&'t StructLayout> {
    let inner = store.layout(member.type_id).filter(|of| of.name.is_none());
    inner
        .filter(|_| member.name.is_none())
        .map(|inner| &**inner)
}

/// Names by which the members of a structure without a name are used.
pub fn names_in(layout: &StructLayout, store: &TypeStore) -> Vec<String> {
    let mut names = Vec::new();
    for member in &layout.members {
        match (&member.name, store.layout(member.type_id)) {
            (Some(name), _) => names.push(name.to_string()),
            (None, Some(inner)) => names.extend(names_in(inner, store)),
            (None, None) => {}
        }
    }
    names
}

/// A subject's declaration in source, as debug information tells it.
#[derive(Debug, Clone, Default)]
pub struct Declaration {
    /// The line (from 1) that declares the structure.
    pub(super) line: Option<u32>,
    /// The line that declares each of the subject's members.
    pub(super) lines: Vec<Option<u32>>,
    /// Members without a name, in the order of the declaration.
    pub(super) anonymous: Vec<Anonymous>,
}

/// An anonymous structure or union among the members around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Anonymous {
    /// The subject's member with this index.
    Whole(usize),
    /// The subject has its members. Those without a name, in the order of the declaration.
    Opened(Vec<Anonymous>),
}

impl Declaration {
    /// Finds the declaration of `subject`, which is made of `layout`.
    pub fn of(subject: &Subject, layout: &StructLayout, store: &TypeStore) -> Declaration {
        let members = subject.members.iter();
        let line = |member: &Member| member.decl.as_ref().map(|decl| decl.line);
        Declaration {
            line: layout.decl.as_ref().map(|decl| decl.line),
            lines: members
                .map(|member| member_at(layout, store, &member.file).and_then(line))
                .collect(),
            anonymous: anonymous(subject, layout, 0, store),
        }
    }
}

/// The members without a name of `layout`, which begins `base` bytes behind the start of the subject.
fn anonymous(
    subject: &Subject,
    layout: &StructLayout,
    base: u64,
    store: &TypeStore,
) -> Vec<Anonymous> {
    let mut found = Vec::new();
    for member in &layout.members {
        let Some(inner) = aggregate(member, store) else {
            continue;
        };
        let (start, end) = (base + member.byte_offset(), base + member.byte_end());
        let whole = subject.members.iter().position(|of| {
            let file = &of.file;
            let bytes = (file.offset_bytes, file.offset_bytes + file.size_bytes);
            file.name.starts_with('(') && bytes == (start, end)
        });
        found.push(match whole {
            Some(index) => Anonymous::Whole(index),
            None => Anonymous::Opened(anonymous(subject, inner, start, store)),
        });
    }
    found
}

/// A pair of braces in the declaration of a structure.
#[derive(Debug)]
struct Braces<'t> {
    /// Words between them.
    words: BTreeSet<&'t str>,
    is_randomized: bool,
}

fn smallest<'b, 't>(braces: &'b [Braces<'t>], of: &Nameless) -> Option<&'b Braces<'t>> {
    let has_all = |braces: &&Braces<'_>| {
        let mut members = of.members.iter();
        members.all(|name| braces.words.contains(name.as_str()))
    };
    let found = braces.iter().filter(has_all);
    found.min_by_key(|braces| braces.words.len())
}

/// The braces of structures inside the declarations of the structure `name`.
fn braces<'t>(tokens: &Tokens<'t>, name: &str) -> Vec<Braces<'t>> {
    let is_brace = |at: &usize| tokens.at(*at) == "{";
    let mut found = Vec::new();
    for open in (0..tokens.len()).filter(is_brace) {
        if !is_body_of(tokens, open, name) {
            continue;
        }
        for inner in (open + 1..tokens.close(open)).filter(is_brace) {
            if head_of(tokens, inner).is_some_and(|head| tokens.at(head) == "struct") {
                found.push(pair(tokens, inner));
            }
        }
    }
    found
}

/// The braces that begin at the token `open`.
fn pair<'t>(tokens: &Tokens<'t>, open: usize) -> Braces<'t> {
    let close = tokens.close(open);
    let words = (open..close).filter(|at| tokens.is_word(*at));
    let behind = (close + 1..tokens.len()).map(|at| tokens.at(at));
    let mut attributes = behind.take_while(|word| *word != ";");
    Braces {
        words: words.map(|at| tokens.at(at)).collect(),
        is_randomized: attributes.any(|word| RANDOMIZED.contains(&word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_structures_are_found_with_their_attributes() {
        let text = "struct other { struct { int a; }; };\n\
                    struct s {\n\
                    #ifdef A\n\
                    \tstruct {\n\
                    \t\tint a;\n\
                    \t\tunion { int u; };\n\
                    \t} __attribute__((x)) __randomize_layout;\n\
                    #endif\n\
                    \tstruct {\n\
                    \t\tint b; /* a } */\n\
                    \t};\n\
                    };\n";
        let tokens = Tokens::new("a.c", text, Lexis::C);
        let found = braces(&tokens, "s");
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.words.iter().copied().collect(), one.is_randomized))
            .collect();
        let (first, second) = (vec!["a", "int", "u", "union"], vec!["b", "int"]);
        assert_eq!(found, [(first, true), (second, false)]);
    }

    #[test]
    fn text_that_ends_too_early_has_no_braces() {
        for text in [
            "",
            "struct s",
            "struct s {",
            "struct s { struct { int a; }",
            "struct s { \"",
            "struct s { /*",
        ] {
            let tokens = Tokens::new("a.c", text, Lexis::C);
            assert!(braces(&tokens, "s").is_empty(), "{text}");
        }
    }
}
