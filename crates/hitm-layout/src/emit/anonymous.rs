//! Anonymous structures in the source that declares a structure: their braces, and
//! `__randomize_layout`, which debug information does not tell.
//!
//! A structure of debug information is found in the text as the smallest braces that have all its
//! members' names: conditions of the preprocessor may leave out some of those in the text.

use std::collections::BTreeSet;
use std::ops::Range;

use super::EmitError;
use crate::advise::Subject;
use crate::types::{AggregateKind, StructLayout, TypeStore};

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
    let braces = braces(text, layout.name.as_deref().unwrap_or_default());
    let mut found = nameless(layout, store);
    found.retain(|one| smallest(&braces, one).is_some_and(|braces| braces.is_randomized));
    found
}

/// Lines of the braces of anonymous structures that a subject has opened, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenedLines {
    /// From `struct` to the opening brace.
    pub(super) opening: Range<usize>,
    /// From the closing brace to the semicolon.
    pub(super) closing: Range<usize>,
}

/// Finds the braces of the anonymous structures that `subject` has opened. Fails when the text has
/// none, or members on the lines of the braces.
pub(super) fn opened_lines(
    (file, text): (&str, &str),
    subject: &Subject,
    (layout, store): (&StructLayout, &TypeStore),
) -> Result<Vec<OpenedLines>, EmitError> {
    let fail = |line: usize, found: String, expected: &str| EmitError::Source {
        file: file.to_owned(),
        line: line + 1,
        found,
        expected: expected.to_owned(),
    };
    let is_opened = |one: &Nameless| {
        let mut members = subject.members.iter().map(|member| &member.file);
        !members.any(|file| {
            let end = file.offset_bytes + file.size_bytes;
            file.name.ends_with(')') && (file.offset_bytes..end) == one.bytes
        })
    };
    let braces = braces(text, &subject.name);
    let mut lines = Vec::new();
    for one in nameless(layout, store).iter().filter(|one| is_opened(one)) {
        let Some(found) = smallest(&braces, one) else {
            let found = format!("no anonymous structure with {}", one.members.join(", "));
            return Err(fail(0, found, "the file that the program was built from"));
        };
        if !found.is_alone {
            let found_text = "members on the line of an anonymous structure's brace".to_owned();
            let expected = "each member on a line of its own";
            return Err(fail(found.lines.opening.start, found_text, expected));
        }
        lines.push(found.lines.clone());
    }
    Ok(lines)
}

/// The anonymous structures inside of `layout`, outer ones first.
fn nameless(layout: &StructLayout, store: &TypeStore) -> Vec<Nameless> {
    let mut found = Vec::new();
    add_nameless(layout, store, 0, &mut found);
    found
}

fn add_nameless(layout: &StructLayout, store: &TypeStore, base: u64, found: &mut Vec<Nameless>) {
    for member in layout.members.iter().filter(|member| member.name.is_none()) {
        let Some(inner) = store.layout(member.type_id).filter(|of| of.name.is_none()) else {
            continue;
        };
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

/// A pair of braces in the declaration of a structure.
#[derive(Debug)]
struct Braces {
    lines: OpenedLines,
    /// Words between them.
    words: BTreeSet<String>,
    is_randomized: bool,
    /// True if their lines have nothing else.
    is_alone: bool,
}

fn smallest<'b>(braces: &'b [Braces], of: &Nameless) -> Option<&'b Braces> {
    let has_all = |braces: &&Braces| of.members.iter().all(|name| braces.words.contains(name));
    let found = braces.iter().filter(has_all);
    found.min_by_key(|braces| braces.words.len())
}

/// A word or a sign of C, and its line from 0.
type Token<'t> = (&'t str, usize);

/// The braces of structures inside the declaration of `struct name`.
fn braces(text: &str, name: &str) -> Vec<Braces> {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.0);
    let declares = |at: &usize| {
        matches!(word(*at), "struct" | "class") && word(at + 1) == name && word(at + 2) == "{"
    };
    let Some(start) = (0..tokens.len()).find(declares) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    // Index of the first token of each open declaration, and of its brace.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut declaration = start + 3;
    for at in start + 3..tokens.len() {
        match word(at) {
            "{" => {
                open.push((declaration, at));
                declaration = at + 1;
            }
            "}" => {
                let Some((first, brace)) = open.pop() else {
                    return found;
                };
                if word(first) == "struct" {
                    found.extend(pair(&tokens, first, (brace, at)));
                }
                declaration = at + 1;
            }
            ";" => declaration = at + 1,
            _ => {}
        }
    }
    found
}

/// The braces at two tokens, of a declaration that begins with the token `first`.
fn pair(tokens: &[Token<'_>], first: usize, (brace, end): (usize, usize)) -> Option<Braces> {
    let behind = tokens[end..].iter().position(|token| token.0 == ";")?;
    let last = end + behind;
    let line = |at: usize| tokens.get(at).map(|token| token.1);
    let before = first.checked_sub(1).and_then(line);
    let is_alone = before < line(first)
        && line(brace + 1) > line(brace)
        && line(end - 1) < line(end)
        && line(last + 1) > line(last);
    let words = tokens[brace..end].iter().map(|token| token.0.to_owned());
    let mut attributes = tokens[end..last].iter();
    Some(Braces {
        lines: OpenedLines {
            opening: tokens[first].1..tokens[brace].1 + 1,
            closing: tokens[end].1..tokens[last].1 + 1,
        },
        words: words.collect(),
        is_randomized: attributes.any(|token| RANDOMIZED.contains(&token.0)),
        is_alone,
    })
}

/// The words and signs of C source, without comments, strings and lines of the preprocessor.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut tokens = Vec::new();
    let (mut rest, mut line, mut begins_line) = (text, 0, true);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' if begins_line => directive(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |at| at + 4),
            '"' | '\'' => quoted(rest, first),
            _ if is_word(first) => rest.find(|one| !is_word(one)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        let is_token = is_word(first) || (length == first.len_utf8() && !first.is_whitespace());
        if is_token && first != '#' {
            tokens.push((token, line));
        }
        line += token.matches('\n').count();
        begins_line = first == '\n' || (begins_line && first.is_whitespace());
        rest = behind;
    }
    tokens
}

/// Bytes of a line of the preprocessor, with the lines that continue it.
fn directive(text: &str) -> usize {
    let mut ends = text.match_indices('\n').map(|(at, _)| at);
    let end = ends.find(|at| !text[..*at].trim_end_matches('\r').ends_with('\\'));
    end.unwrap_or(text.len())
}

/// Bytes of a string or character that begins with `quote`.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '\\' if !is_escaped => is_escaped = true,
            _ if character == quote && !is_escaped => return at + 1,
            '\n' => return at,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_directives_are_no_tokens() {
        let text = "a /* b { */ c // d\n#define E \\\n f\n \"g\\\"h\" 'i' j;";
        let found = tokens(text);
        assert_eq!(found, [("a", 0), ("c", 0), ("j", 3), (";", 3)]);
    }

    #[test]
    fn braces_of_structures_are_found_with_their_attributes() {
        let text = "struct other { struct { int a; }; };\n\
                    struct s {\n\
                    \tstruct {\n\
                    \t\tint a;\n\
                    \t\tunion { int u; };\n\
                    \t} __attribute__((x)) __randomize_layout;\n\
                    \tstruct {\n\
                    \t\tint b;\n\
                    \t};\n\
                    };\n";
        let found = braces(text, "s");
        let found = found.iter();
        let found: Vec<_> = found
            .map(|one| {
                let (opening, closing) = (one.lines.opening.clone(), one.lines.closing.clone());
                (opening, closing, one.is_randomized, one.is_alone)
            })
            .collect();
        assert_eq!(found, [(2..3, 5..6, true, true), (6..7, 8..9, false, true)]);
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
            assert!(braces(text, "s").is_empty(), "{text}");
        }
    }
}
