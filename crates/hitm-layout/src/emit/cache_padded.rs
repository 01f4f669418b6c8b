//! Rust: fields with lines of their own, in crossbeam's `CachePadded`.
//!
//! The compiler keeps the order of all other fields to itself. So these must share one line: nothing else would keep
//! two groups of them apart.
//!
//! Uses of the fields stay as they are: methods and references go through the wrapper. What does not, such as an
//! assignment to a wrapped number, does not compile.

use super::diff::{Edit, edited};
use super::fields::fields_of;
use super::literals;
use super::names::bare;
use super::tokens::{Lexis, Tokens};
use super::{EmitError, LINE, Source};
use crate::layout_file::{FileMember, FileStruct};

/// Alignment of `CachePadded`, in bytes, on x86-64 and AArch64 (crossbeam-utils 0.8, its documentation): two lines,
/// since both prefetch lines in pairs.
const ALIGN: u64 = 128;

/// Traits that crossbeam does not implement for `CachePadded`.
const MISSING: [&str; 4] = ["PartialOrd", "Ord", "Serialize", "Deserialize"];

/// A structure with wrapped fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// Unified diff of the file.
    pub diff: String,
    /// The wrapped fields.
    pub fields: Vec<String>,
    /// Bytes of the structure, on x86-64 and AArch64.
    pub size_bytes: u64,
}

/// Wraps the fields that have lines of their own in the layout, and their values in literals of the same file. `path`
/// is that of `CachePadded` in the crate. None where the wrapper alone does not make the layout.
///
/// # Errors
/// The file does not declare the structure once, with named fields.
pub fn wrap_rust(
    layout: &FileStruct,
    path: &str,
    source: Source<'_>,
) -> Result<Option<Wrapped>, EmitError> {
    let Some(alone) = alone(layout) else {
        return Ok(None);
    };
    let tokens = Tokens::new(source.file, source.text, Lexis::Rust);
    let name = bare(&layout.name);
    let found = fields_of(&tokens, name)?;
    let index = |member: &&FileMember| {
        let mut fields = found.fields.iter();
        fields.position(|field| field.name == member.name)
    };
    let Some(indices) = alone.iter().map(index).collect::<Option<Vec<usize>>>() else {
        return Ok(None);
    };
    let is_wrapped = |index: &usize| {
        let (start, end) = found.type_span(&tokens, *index);
        source.text[start..end].contains("CachePadded<")
    };
    let has_repr = found
        .attributes
        .iter()
        .any(|(from, _)| tokens.at(from + 2) == "repr");
    let is_refused = found.derives(&tokens, &MISSING).is_some() || has_repr;
    if is_refused || indices.iter().any(is_wrapped) {
        return Ok(None);
    }
    let path = match is_imported(&tokens) {
        true => "CachePadded",
        false => path,
    };
    let fields = &indices;
    let wrap = literals::Wrap { path, fields };
    let mut edits = literals::wrapped(&tokens, &found, name, &wrap)?;
    for index in &indices {
        let (start, end) = found.type_span(&tokens, *index);
        edits.push(Edit::insert(start, format!("{path}<")));
        edits.push(Edit::insert(end, String::from(">")));
    }
    Ok(Some(Wrapped {
        diff: edited(source.file, source.text, edits),
        fields: alone.iter().map(|member| member.name.clone()).collect(),
        size_bytes: size_bytes(layout, &alone),
    }))
}

/// Members to wrap: those that share no line with others, if all others share one line. Where no two share one, the
/// last member stays as it is: what is wrapped shares no line with it.
fn alone(layout: &FileStruct) -> Option<Vec<&FileMember>> {
    let sized = || layout.members.iter().filter(|member| member.size_bytes > 0);
    let lines = |member: &FileMember| {
        let last = member.offset_bytes + member.size_bytes - 1;
        member.offset_bytes / LINE..=last / LINE
    };
    let is_alone = |member: &&FileMember| {
        let own = lines(member);
        let mut others = sized().filter(|other| other.name != member.name);
        others.all(|other| {
            let of = lines(other);
            of.end() < own.start() || of.start() > own.end()
        })
    };
    let (mut alone, others): (Vec<_>, Vec<_>) = sized().partition(is_alone);
    let mut of_others = others.iter().map(|member| lines(member));
    let first = of_others.next();
    let is_one = first
        .is_none_or(|first| first.start() == first.end() && of_others.all(|other| other == first));
    if others.is_empty() && alone.len() > 1 {
        alone.sort_by_key(|member| member.offset_bytes);
        alone.pop();
    }
    (is_one && !alone.is_empty()).then_some(alone)
}

/// Bytes of the structure with wrapped fields: the others lie within a line.
fn size_bytes(layout: &FileStruct, alone: &[&FileMember]) -> u64 {
    let sized = layout.members.iter().filter(|member| member.size_bytes > 0);
    let has_others = sized.count() > alone.len();
    let wrapped = alone
        .iter()
        .map(|member| member.size_bytes.next_multiple_of(ALIGN));
    wrapped.sum::<u64>() + u64::from(has_others) * ALIGN
}

/// Returns true if the file has the wrapper's name.
fn is_imported(tokens: &Tokens<'_>) -> bool {
    let uses = (0..tokens.len()).filter(|at| tokens.at(*at) == "use");
    uses.into_iter().any(|from| {
        let mut words = (from..tokens.len()).take_while(|at| tokens.at(*at) != ";");
        words.any(|at| tokens.at(at) == "CachePadded" && tokens.at(at + 1) != "as")
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::emit::patched;

    fn layout(members: &[(&str, u64)]) -> FileStruct {
        let members = members.iter();
        let members = members.map(|(name, offset)| FileMember::plain(*name, *offset, 8));
        FileStruct {
            name: "a::Stats".into(),
            size_bytes: 192,
            align_bytes: Some(64),
            members: members.collect(),
        }
    }

    const APART: [(&str, u64); 4] = [("hits", 0), ("misses", 64), ("limit", 128), ("name", 136)];

    fn check(text: &str, expected: Expect) {
        let source = Source { file: "a.rs", text };
        let found = wrap_rust(&layout(&APART), "crossbeam_utils::CachePadded", source);
        let text = match found {
            Ok(Some(wrapped)) => {
                assert_eq!((wrapped.fields.len(), wrapped.size_bytes), (2, 384));
                patched(text, &wrapped.diff).unwrap()
            }
            Ok(None) => "none\n".to_owned(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn fields_and_their_values_are_wrapped() {
        check(
            "use std::sync::atomic::AtomicU64;\n\
             #[derive(Debug, Default)]\n\
             pub struct Stats {\n    /// Hits.\n    pub hits: AtomicU64,\n    misses: AtomicU64, // m\n    limit: u64,\n    name: u64\n}\n\
             impl Stats {\n    const fn new(hits: AtomicU64) -> Stats {\n        Self { hits, misses: AtomicU64::new(0), limit: 1, name: 2 }\n    }\n}\n\
             fn f(s: Stats) -> u64 {\n    let Stats { hits, limit, .. } = &s;\n    hits.load(Relaxed) + limit\n}\n",
            expect![[r#"
                use std::sync::atomic::AtomicU64;
                #[derive(Debug, Default)]
                pub struct Stats {
                    /// Hits.
                    pub hits: crossbeam_utils::CachePadded<AtomicU64>,
                    misses: crossbeam_utils::CachePadded<AtomicU64>, // m
                    limit: u64,
                    name: u64
                }
                impl Stats {
                    const fn new(hits: AtomicU64) -> Stats {
                        Self { hits: crossbeam_utils::CachePadded::new(hits), misses: crossbeam_utils::CachePadded::new(AtomicU64::new(0)), limit: 1, name: 2 }
                    }
                }
                fn f(s: Stats) -> u64 {
                    let Stats { hits, limit, .. } = &s;
                    hits.load(Relaxed) + limit
                }
            "#]],
        );
        check(
            "use crossbeam_utils::{Backoff, CachePadded};\nstruct Stats { hits: A, misses: A, limit: u64, name: u64 }\n",
            expect![[r#"
                use crossbeam_utils::{Backoff, CachePadded};
                struct Stats { hits: CachePadded<A>, misses: CachePadded<A>, limit: u64, name: u64 }
            "#]],
        );
    }

    #[test]
    fn what_the_wrapper_does_not_make_is_left() {
        for text in [
            "#[repr(C)]\nstruct Stats { hits: A, misses: A, limit: u64, name: u64 }\n",
            "#[derive(PartialEq, Serialize)]\nstruct Stats { hits: A, misses: A, limit: u64, name: u64 }\n",
            "struct Stats { hits: CachePadded<A>, misses: A, limit: u64, name: u64 }\n",
        ] {
            check(
                text,
                expect![[r#"
                none
            "#]],
            );
        }
        check(
            "struct Stats(A, A, u64, u64);\n",
            expect!["a.rs:1: found no named fields, expected a structure with named fields"],
        );
        // Two groups of two would need structures of their own.
        let groups = layout(&[("hits", 0), ("misses", 8), ("limit", 64), ("name", 72)]);
        assert_eq!(alone(&groups), None);
        let three = layout(&[
            ("hits", 0),
            ("misses", 64),
            ("limit", 72),
            ("name", 128),
            ("b", 136),
        ]);
        assert_eq!(alone(&three), None);
        let all = layout(&[("limit", 128), ("hits", 0), ("misses", 64)]);
        let names = |found: Vec<&FileMember>| found.iter().map(|one| one.name.clone()).collect();
        let wrapped: Option<Vec<String>> = alone(&all).map(names);
        assert_eq!(wrapped.unwrap(), ["hits", "misses"]);
    }
}
