//! Go: fields in another order, and blank fields that keep them apart.
//!
//! Go aligns no type to a line, so padding alone must do it: fields of two lines lie at least a line apart wherever an
//! object begins.

use super::diff::{Edit, edited};
use super::tokens::{Lexis, Tokens};
use super::{Emission, EmitError, Source, Step, steps};

/// A diff that puts the fields of a structure of Go into the order of the layout, and blank fields between them.
pub fn patch_go(emission: &Emission<'_>, source: Source<'_>) -> Result<String, EmitError> {
    let tokens = Tokens::new(source.file, source.text, Lexis::Go);
    let name = bare(&emission.layout.name);
    let heads = go_heads(&tokens, name);
    let [open] = heads[..] else {
        let (at, found) = match heads.get(1) {
            Some(second) => (*second, format!("another type {name}")),
            None => (0, format!("no type {name} struct")),
        };
        return Err(tokens.refuse(at, &found, "one structure of that name"));
    };
    check_literals(&tokens, name)?;
    let fields = fields(&tokens, open)?;
    let members = &emission.subject.members;
    let find = |name: &str| fields.iter().find(|field| field.name == name);
    for member in members {
        if find(&member.file.name).is_none() {
            let found = format!("no field {} in {name}", member.file.name);
            return Err(tokens.refuse(open, &found, "each field that the debug information has"));
        }
    }
    let known = |field: &&Field| members.iter().any(|member| member.file.name == field.name);
    if let Some(other) = fields.iter().find(|field| !known(field)) {
        let found = format!("the field {}", other.name);
        return Err(tokens.refuse(
            other.at,
            &found,
            "only fields that the debug information has",
        ));
    }
    let (first, last) = (&fields[0], &fields[fields.len() - 1]);
    let mut text = String::new();
    for step in steps(emission) {
        match step {
            Step::Padding { bytes, .. } => text += &format!("\t_ [{bytes}]byte\n"),
            Step::Member { index, .. } => {
                let field = find(&members[index].file.name).expect("each member has a field");
                text += &source.text[field.start..field.end];
            }
        }
    }
    let edit = Edit {
        start: first.start,
        end: last.end,
        text,
    };
    Ok(edited(source.file, source.text, vec![edit]))
}

/// Returns true if a source of Go declares the structure `name`.
pub fn declares_go(text: &str, name: &str) -> bool {
    !go_heads(&Tokens::new("", text, Lexis::Go), bare(name)).is_empty()
}

/// A type's name without its package and its arguments.
fn bare(name: &str) -> &str {
    let name = name.split('[').next().unwrap_or(name);
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

/// The opening braces of `name struct {`.
fn go_heads(tokens: &Tokens<'_>, name: &str) -> Vec<usize> {
    let names = (0..tokens.len()).filter(|at| tokens.at(*at) == name);
    let open = names.filter_map(|at| {
        let next = match tokens.at(at + 1) {
            "[" => tokens.close(at + 1) + 1,
            _ => at + 1,
        };
        let is_head = tokens.at(next) == "struct" && tokens.at(next + 1) == "{";
        is_head.then_some(next + 1)
    });
    open.collect()
}

/// A field on lines of its own.
struct Field {
    name: String,
    at: usize,
    /// Bytes of its lines, with the comments above.
    start: usize,
    end: usize,
}

fn fields(tokens: &Tokens<'_>, open: usize) -> Result<Vec<Field>, EmitError> {
    let (text, close) = (tokens.text, tokens.close(open));
    let no_lines = |at| tokens.refuse(at, "fields on one line", "each field on a line of its own");
    let mut fields: Vec<Field> = Vec::new();
    let mut at = open + 1;
    let mut start = text[tokens.get(open).end..]
        .find('\n')
        .map(|length| tokens.get(open).end + length + 1);
    while at < close {
        let first = at;
        // A field goes on until its line ends outside of brackets.
        let mut last = tokens.close(at);
        while last + 1 < close && tokens.line(last + 1) == tokens.line(last) {
            last = tokens.close(last + 1);
        }
        let own_start = start
            .filter(|start| *start <= tokens.get(first).start)
            .ok_or_else(|| no_lines(first))?;
        let behind = tokens.get(last).end;
        let line_end = text[behind..].find('\n').map(|length| behind + length + 1);
        let end = line_end
            .filter(|end| *end <= tokens.get(close).start)
            .ok_or_else(|| no_lines(last))?;
        let has = |sign: &str| (first..=last).any(|at| tokens.at(at) == sign);
        if has(";") || tokens.at(first + 1) == "," {
            return Err(tokens.refuse(
                first,
                "several fields in one line",
                "each field in a line of its own",
            ));
        }
        fields.push(Field {
            name: field_name(tokens, first, last),
            at: first,
            start: own_start,
            end,
        });
        start = Some(end);
        at = last + 1;
    }
    match fields.is_empty() {
        true => Err(tokens.refuse(open, "no fields", "a structure with fields")),
        false => Ok(fields),
    }
}

/// The name of a field: its own, or that of the type that is embedded.
fn field_name(tokens: &Tokens<'_>, first: usize, last: usize) -> String {
    let is_embedded = tokens.at(first) == "*" || first == last || tokens.at(first + 1) == ".";
    let mut words = (first..=last).filter(|at| tokens.is_word(*at));
    let own = match is_embedded {
        true => words.next_back(),
        false => words.next(),
    };
    own.map_or_else(String::new, |at| tokens.at(at).to_owned())
}

/// Fails for a literal whose values follow the order of the fields.
fn check_literals(tokens: &Tokens<'_>, name: &str) -> Result<(), EmitError> {
    for at in (0..tokens.len()).filter(|at| tokens.at(*at) == name && tokens.at(at + 1) == "{") {
        let open = at + 1;
        let is_empty = tokens.close(open) <= open + 1;
        let is_list = tokens.before(at) == "]";
        let mut lists = (open..tokens.close(open))
            .filter(|inner| is_list && tokens.at(*inner) == "{" && *inner > open);
        let positional = |open: usize| tokens.at(open + 1) != "}" && tokens.at(open + 2) != ":";
        let found = match is_list {
            true => lists.find(|inner| positional(*inner)),
            false => (!is_empty && positional(open)).then_some(open),
        };
        if let Some(at) = found {
            return Err(tokens.refuse(
                at,
                "values by position",
                "values with names (field: value)",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::advise::{Subject, SubjectMember};
    use crate::emit::{Style, patched};
    use crate::layout_file::{FileMember, FileStruct};

    fn check(text: &str, expected: Expect) {
        let member = |name: &str, offset| SubjectMember {
            file: FileMember::plain(name, offset, 8),
            align: 8,
        };
        let subject = Subject {
            name: "main.slab".into(),
            size_bytes: 16,
            align_bytes: 8,
            members: vec![member("len", 0), member("buf", 8)],
        };
        let layout = FileStruct {
            name: "main.slab".into(),
            size_bytes: 128,
            align_bytes: Some(8),
            members: vec![
                FileMember::plain("buf", 0, 8),
                FileMember::plain("len", 64, 8),
            ],
        };
        let emission = Emission::new(&subject, &layout, &[], Style::C).unwrap();
        let text = match patch_go(&emission, Source { file: "a.go", text }) {
            Ok(diff) => patched(text, &diff).unwrap(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn fields_of_go_move_with_their_comments() {
        check(
            "package main\n\ntype slab struct {\n\t// Bytes in use.\n\tlen int64 `json:\"{len\"` // now\n\n\tbuf *[4]struct {\n\t\ta int\n\t}\n}\n\nvar s = slab{len: 1}\n",
            expect![[r#"
                package main

                type slab struct {

                	buf *[4]struct {
                		a int
                	}
                	_ [56]byte
                	// Bytes in use.
                	len int64 `json:"{len"` // now
                	_ [56]byte
                }

                var s = slab{len: 1}
            "#]],
        );
    }

    #[test]
    fn what_follows_the_order_of_fields_is_refused() {
        check(
            "type slab struct {\n\tlen, buf int64\n}\n",
            expect![
                "a.go:2: found several fields in one line, expected each field in a line of its own"
            ],
        );
        check(
            "type slab struct { len int64 }\n",
            expect!["a.go:1: found fields on one line, expected each field on a line of its own"],
        );
        check(
            "type slab struct {\n\tlen int64\n\tbuf int64\n}\nvar s = slab{1, 2}\n",
            expect!["a.go:5: found values by position, expected values with names (field: value)"],
        );
        check(
            "type slab struct {\n\tlen int64\n\tbuf int64\n}\nvar s = []slab{{1, 2}}\n",
            expect!["a.go:5: found values by position, expected values with names (field: value)"],
        );
        check(
            "type slab struct {\n\tlen int64\n}\n",
            expect![
                "a.go:1: found no field buf in slab, expected each field that the debug information has"
            ],
        );
        check(
            "type other struct {\n\tlen int64\n}\n",
            expect!["a.go:1: found no type slab struct, expected one structure of that name"],
        );
    }
}
