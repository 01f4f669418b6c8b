//! Names of debug information in source.
//!
//! The author of the file chose its names, and a compiler reads what they are put into. A name goes
//! into code only when it can do nothing but name. One that cannot is refused, because another in
//! its place would declare something else. In a comment it cannot end the comment.

use std::borrow::Cow;

use hitm_base::printable;

use super::EmitError;

/// Characters of types beside letters, digits and brackets.
const OF_TYPES: &str = "_ *&:.'$-+=,;";

/// Fails when `name` is not an identifier.
pub(super) fn check_identifier(name: &str) -> Result<(), EmitError> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let is_identifier =
        name.chars().all(is_part) && name.starts_with(|first: char| !first.is_numeric());
    match is_identifier {
        true => Ok(()),
        false => Err(refused(name, "an identifier")),
    }
}

/// Fails when `name` is an instance of a generic structure of Rust.
pub(super) fn check_rust_struct(name: &str) -> Result<(), EmitError> {
    match name.contains('<') {
        true => Err(refused(
            name,
            "a structure without parameters, or --source, which keeps them",
        )),
        false => Ok(()),
    }
}

/// The name of a type without its namespaces and without the arguments of a template:
/// `Slot` of `app::Slot<long>`.
pub(super) fn bare(name: &str) -> &str {
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).trim()
}

/// Fails when `path` is not a member or a member of a member: identifiers with dots between.
pub(super) fn check_path(path: &str) -> Result<(), EmitError> {
    path.split('.').try_for_each(check_identifier)
}

/// Fails when `text` may be more than the name of a type: `core::option::Option<u64>`, `[u8; 4]`,
/// `void (*)(int, long)`. Brackets must match; a comma, a semicolon or an operator stands in them only.
pub(super) fn check_type(text: &str) -> Result<(), EmitError> {
    match is_type(text) {
        true => Ok(()),
        false => Err(refused(text, "the name of a type")),
    }
}

fn is_type(text: &str) -> bool {
    let mut open = Vec::new();
    let mut last = ' ';
    for character in text.chars() {
        let is_well = match character {
            '(' | '[' | '<' => {
                open.push(character);
                true
            }
            ')' => open.pop() == Some('('),
            ']' => open.pop() == Some('['),
            '>' => last == '-' || open.pop() == Some('<'),
            '-' => true,
            ';' => open.last() == Some(&'['),
            ',' | '=' | '+' => !open.is_empty(),
            _ => character.is_alphanumeric() || OF_TYPES.contains(character),
        };
        if !is_well {
            return false;
        }
        last = character;
    }
    open.is_empty() && !text.trim().is_empty()
}

fn refused(found: &str, expected: &'static str) -> EmitError {
    EmitError::Name {
        found: found.to_owned(),
        expected,
    }
}

/// `text` for a comment of C, which it does not end.
pub(crate) fn in_comment(text: &str) -> Cow<'_, str> {
    let shown = printable(text);
    match shown.contains("*/") {
        true => Cow::Owned(shown.replace("*/", "* /")),
        false => shown,
    }
}

/// `path` as one word of a shell, in a comment of C.
pub(super) fn shell_word(path: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "_./+-@%:,=".contains(character);
    match !path.is_empty() && path.chars().all(is_plain) {
        true => path.to_owned(),
        // Two quotes between star and slash are nothing to the shell.
        false => format!("'{}'", printable(path).replace('\'', r"'\''")).replace("*/", "*''/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_c_and_rust_are_types() {
        for text in [
            "int",
            "const char * const *",
            "struct list_head",
            "void (*name)(struct rq *, int)",
            "long name[4]",
            "std::map<int, std::less<char>> name",
            "core::option::Option<&mut u64>",
            "[u8; 4]",
            "alloc::boxed::Box<dyn core::ops::function::Fn<(i32, u8), Output=i32>>",
            "fn(u8) -> u16",
            "(u8, u16)",
        ] {
            assert_eq!(check_type(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_more_than_a_name_is_refused() {
        for text in [
            "",
            "int a; int b",
            "int a, b",
            "T a = f() + ",
            "int }; void f(void) { int",
            "int /* a",
            "int // a",
            "int \"",
            "int \\",
            "int\n#include",
            "u8]; x: [u8; 4",
            "m!()",
            "int \x1b[2J",
            "a > b",
        ] {
            assert!(check_type(text).is_err(), "{text:?}");
        }
        for name in ["", "1a", "a b", "a;", "a*/", "a\n", "a::b", "-rf", "a.b"] {
            assert!(check_identifier(name).is_err(), "{name:?}");
        }
        assert!(check_path("a.b_1").is_ok() && check_path("a..b").is_err());
    }

    #[test]
    fn a_comment_goes_on() {
        assert_eq!(in_comment("a */ b **/\n"), r"a * / b ** /\n");
        assert_eq!(shell_word("src/a b.c"), "'src/a b.c'");
        assert_eq!(shell_word("src/a-1.c"), "src/a-1.c");
        assert_eq!(shell_word("a'; rm *\x1b*/"), r"'a'\''; rm *\x1b*''/'");
    }
}
