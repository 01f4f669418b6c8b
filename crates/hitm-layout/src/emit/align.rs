//! Alignment of what is declared, with its order as it is: types of Rust, variables of C and C++.

use super::diff::{Edit, edited, indent_of, line_start};
use super::fields::attributes;
use super::tokens::{Lexis, Tokens};
use super::{EmitError, LINE, Source, Style};

/// A diff that aligns the structure `name` of Rust, with named fields or without, to lines. Its size becomes a whole
/// number of lines, so that elements of arrays lie apart.
pub fn align_rust(name: &str, source: Source<'_>) -> Result<String, EmitError> {
    let tokens = Tokens::new(source.file, source.text, Lexis::Rust);
    let heads = rust_heads(&tokens, name);
    let [head] = heads[..] else {
        let (at, found) = match heads.get(1) {
            Some(second) => (*second, format!("another struct {name}")),
            None => (0, format!("no struct {name}")),
        };
        return Err(tokens.refuse(at, &found, "one structure of that name, not by a macro"));
    };
    let mut start = head;
    while tokens.before(start) == "pub" || tokens.before(start) == ")" {
        start = tokens.open(start - 1);
    }
    for (from, end) in attributes(&tokens, start) {
        let words = || (from..end).map(|at| tokens.at(at));
        let is_repr = tokens.at(from + 2) == "repr";
        let fixed = words().find(|word| matches!(*word, "packed" | "transparent" | "align"));
        if let Some(fixed) = fixed.filter(|_| is_repr) {
            return Err(tokens.refuse(from, fixed, "a structure whose alignment is its fields'"));
        }
    }
    let at = tokens.get(start).start;
    let indent = indent_of(&source.text[line_start(source.text, at)..at]);
    let text = format!("#[repr(align({LINE}))]\n{indent}");
    Ok(edited(
        source.file,
        source.text,
        vec![Edit::insert(at, text)],
    ))
}

/// Returns true if a source of Rust declares the structure `name`.
pub fn declares_rust(text: &str, name: &str) -> bool {
    !rust_heads(&Tokens::new("", text, Lexis::Rust), name).is_empty()
}

fn rust_heads(tokens: &Tokens<'_>, name: &str) -> Vec<usize> {
    let is_head = |at: &usize| tokens.at(*at) == "struct" && tokens.at(at + 1) == name;
    (0..tokens.len()).filter(is_head).collect()
}

/// A diff that aligns variables of C or C++ to lines. None where the file does not define all of them once; a
/// variable that cannot be aligned is refused.
pub fn align_variables(
    names: &[&str],
    source: Source<'_>,
    style: Style,
) -> Result<Option<String>, EmitError> {
    let tokens = Tokens::new(source.file, source.text, Lexis::C);
    let mut edits = Vec::new();
    for name in names {
        let Some(start) = definition(&tokens, name)? else {
            return Ok(None);
        };
        let at = tokens.get(start).start;
        let (before, _) = style.line();
        edits.push(Edit::insert(at, before));
    }
    // Variables of one declaration are aligned together.
    edits.sort_by_key(|edit: &Edit| edit.start);
    edits.dedup();
    Ok(Some(edited(source.file, source.text, edits)))
}

/// The first token of the only definition of a variable that lives as long as the program.
fn definition(tokens: &Tokens<'_>, name: &str) -> Result<Option<usize>, EmitError> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens.at(*at) == name) {
        let ends = ["=", ";", "[", ",", "{", "__attribute__"];
        let is_typed = at > 0
            && (tokens.is_word(at - 1) || matches!(tokens.before(at), "*" | ">" | "}" | ","));
        if !ends.contains(&tokens.at(at + 1)) || !is_typed {
            continue;
        }
        let start = statement_start(tokens, at);
        let words = tokens.flat(start, at);
        let has = |wanted: &[&str]| tokens.texts(&words).any(|word| wanted.contains(&word));
        let last = |sign: &str| {
            tokens
                .texts(&words)
                .collect::<Vec<_>>()
                .iter()
                .rposition(|word| *word == sign)
        };
        let is_value = last("=") > last(",");
        let is_other = is_value || has(&["extern", "typedef", "return", "goto", "using"]);
        let is_of_file = tokens
            .around(at)
            .is_none_or(|open| is_namespace(tokens, open));
        if start == at || is_other || !is_of_file && !has(&["static"]) {
            continue;
        }
        if has(&["alignas", "_Alignas", "aligned"]) {
            let expected = "a variable without an alignment of its own";
            return Err(tokens.refuse(at, &format!("{name} with an alignment"), expected));
        }
        found.push(start);
    }
    match found[..] {
        [] => Ok(None),
        [start] => Ok(Some(start)),
        [_, second, ..] => Err(tokens.refuse(
            second,
            &format!("another {name}"),
            "one variable of that name in the file",
        )),
    }
}

/// The first token of the declaration or statement of a token.
fn statement_start(tokens: &Tokens<'_>, at: usize) -> usize {
    let mut start = at;
    while let Some(before) = start.checked_sub(1) {
        let open = tokens.open(before);
        let is_end = match tokens.at(before) {
            ";" | "{" | "(" | ":" => true,
            "}" => !is_of_declaration(tokens, open, before),
            _ => tokens.is_directive(before),
        };
        if is_end {
            break;
        }
        start = open;
    }
    start
}

/// Returns true for braces of an initialiser or of a structure, behind which a declaration goes on.
fn is_of_declaration(tokens: &Tokens<'_>, open: usize, close: usize) -> bool {
    const TYPES: [&str; 4] = ["struct", "union", "enum", "class"];
    let is_type = TYPES.contains(&tokens.before(open))
        || TYPES.contains(&tokens.before(open.wrapping_sub(1)));
    is_type || tokens.before(open) == "=" || tokens.at(close + 1) == ","
}

fn is_namespace(tokens: &Tokens<'_>, open: usize) -> bool {
    let heads = [open.wrapping_sub(1), open.wrapping_sub(2)];
    let is_here = tokens.at(open) == "{" && heads.iter().any(|at| tokens.at(*at) == "namespace");
    is_here
        && tokens
            .around(open)
            .is_none_or(|outer| is_namespace(tokens, outer))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::emit::patched;

    fn source(text: &str) -> Source<'_> {
        Source { file: "a", text }
    }

    fn check_rust(text: &str, expected: Expect) {
        let text = match align_rust("Slot", source(text)) {
            Ok(diff) => patched(text, &diff).unwrap(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_type_of_rust_is_aligned() {
        check_rust(
            "#[derive(Default)]\n    pub(crate) struct Slot(AtomicU64);\n",
            expect![[r##"
                #[derive(Default)]
                    #[repr(align(64))]
                    pub(crate) struct Slot(AtomicU64);
            "##]],
        );
        check_rust(
            "#[repr(C, packed)]\nstruct Slot { a: u64 }\n",
            expect!["a:1: found packed, expected a structure whose alignment is its fields'"],
        );
        check_rust(
            "struct Other;\n",
            expect![
                "a:1: found no struct Slot, expected one structure of that name, not by a macro"
            ],
        );
        check_rust(
            "struct Slot;\nmod a { struct Slot; }",
            expect![
                "a:2: found another struct Slot, expected one structure of that name, not by a macro"
            ],
        );
    }

    fn check_c(names: &[&str], text: &str, style: Style, expected: Expect) {
        let text = match align_variables(names, source(text), style) {
            Ok(Some(diff)) => patched(text, &diff).unwrap(),
            Ok(None) => "none\n".to_owned(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn variables_of_c_are_aligned_where_they_are_defined() {
        let text = "extern long hits;\nvoid f(void) { hits = 1; long misses = 2; g(hits, misses); }\n\
                    static volatile long hits;\nlong other[4] = { 1 }, misses;\n";
        check_c(
            &["hits", "misses"],
            text,
            Style::C,
            expect![[r#"
                extern long hits;
                void f(void) { hits = 1; long misses = 2; g(hits, misses); }
                _Alignas(64) static volatile long hits;
                _Alignas(64) long other[4] = { 1 }, misses;
            "#]],
        );
        let text = "namespace a {\nstd::atomic<long> hits{0};\n}\nint f() { static int misses; return misses; }\n";
        check_c(
            &["hits", "misses"],
            text,
            Style::Cpp,
            expect![[r#"
                namespace a {
                alignas(64) std::atomic<long> hits{0};
                }
                int f() { alignas(64) static int misses; return misses; }
            "#]],
        );
        check_c(
            &["none"],
            text,
            Style::Cpp,
            expect![[r#"
            none
        "#]],
        );
        check_c(
            &["a"],
            "_Alignas(8) int a;",
            Style::C,
            expect![
                "a:1: found a with an alignment, expected a variable without an alignment of its own"
            ],
        );
        check_c(
            &["a"],
            "struct s { int a; } b;\nint f(int a) { a = 1; return a; }\n",
            Style::C,
            expect![[r#"
            none
        "#]],
        );
    }
}
