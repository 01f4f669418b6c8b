//! Literals and patterns of a structure of Rust that gets fields for padding.

use std::ops::Range;

use super::EmitError;
use super::diff::{Edit, indent_of, line_start};
use super::fields::Fields;
use super::rust::Padding;
use super::tokens::{Span, Tokens};

/// Edits that give literals of the structure `name` the padding, and make patterns leave it out.
pub(super) fn edits(
    tokens: &Tokens<'_>,
    fields: &Fields,
    name: &str,
    paddings: &[Padding],
) -> Result<Vec<Edit>, EmitError> {
    if paddings.is_empty() {
        return Ok(Vec::new());
    }
    let mut edits = Vec::new();
    for open in opens(tokens, fields, name)? {
        let close = tokens.close(open);
        let parts = tokens.split(open + 1, close);
        let has_rest = parts.last().is_some_and(|part| tokens.at(part.from) == ".");
        if has_rest {
            continue;
        }
        let added = match is_pattern(tokens, open) {
            true => String::from(".."),
            false => Padding::values(paddings),
        };
        edits.push(addition(tokens, open, close, &added));
    }
    Ok(edits)
}

/// A type around some fields of a structure.
pub(super) struct Wrap<'w> {
    /// Its name as the source writes it.
    pub(super) path: &'w str,
    /// Indices of the fields.
    pub(super) fields: &'w [usize],
}

/// Edits that wrap the values that literals of the structure `name` have for some fields. A pattern stays as it is.
pub(super) fn wrapped(
    tokens: &Tokens<'_>,
    fields: &Fields,
    name: &str,
    wrap: &Wrap<'_>,
) -> Result<Vec<Edit>, EmitError> {
    let mut edits = Vec::new();
    for open in opens(tokens, fields, name)? {
        if is_pattern(tokens, open) {
            continue;
        }
        for Span { mut from, end } in tokens.split(open + 1, tokens.close(open)) {
            while tokens.at(from) == "#" {
                from = tokens.close(from + 1) + 1;
            }
            let own = tokens.at(from);
            if !wrap
                .fields
                .iter()
                .any(|index| fields.fields[*index].name == own)
            {
                continue;
            }
            let call = format!("{}::new(", wrap.path);
            let last = tokens.get(end - 1).end;
            let (at, text) = match tokens.at(from + 1) {
                ":" if from + 1 < end => (tokens.get(from + 2).start, call),
                _ => (tokens.get(from).end, format!(": {call}{own}")),
            };
            edits.push(Edit::insert(at, text));
            edits.push(Edit::insert(last, String::from(")")));
        }
    }
    Ok(edits)
}

/// The opening braces of literals and patterns of the structure `name`.
fn opens(tokens: &Tokens<'_>, fields: &Fields, name: &str) -> Result<Vec<usize>, EmitError> {
    let braces = (0..tokens.len()).filter(|at| tokens.at(*at) == "{");
    let own = braces.filter(|open| !fields.has(*open) && is_of(tokens, *open, name));
    let closed = own.map(|open| match tokens.close(open) == open {
        true => {
            let found = "brackets that do not match";
            Err(tokens.refuse(open, found, "each bracket closed once"))
        }
        false => Ok(open),
    });
    closed.collect()
}

/// The edit that puts `added` behind the fields between two braces, on a line of its own where they have
/// lines.
fn addition(tokens: &Tokens<'_>, open: usize, close: usize, added: &str) -> Edit {
    let last = tokens.get(close - 1);
    let has_comma = tokens.at(close - 1) == ",";
    let has_end = has_comma || close == open + 1;
    let comma = if has_end { "" } else { "," };
    let between = &tokens.text[last.end..tokens.get(close).start];
    let indent = indent_of(&tokens.text[line_start(tokens.text, last.start)..]);
    let (gap, end) = match between.contains('\n') {
        true => (format!("\n{indent}"), if added == ".." { "" } else { "," }),
        false => (String::from(" "), ""),
    };
    Edit::insert(last.end, format!("{comma}{gap}{added}{end}"))
}

/// Returns true if the brace at `open` has values or patterns of fields of the structure.
fn is_of(tokens: &Tokens<'_>, open: usize, name: &str) -> bool {
    let mut at = open;
    if tokens.before(at) == ">" {
        // `Slot::<u64> { .. }`
        let start = (0..at)
            .rev()
            .take(64)
            .find(|at| tokens.at(*at) == "<" && tokens.before(*at) == "::");
        let Some(start) = start.filter(|start| tokens.close_angle(*start, open) == Some(open - 1))
        else {
            return false;
        };
        at = start - 1;
    }
    match tokens.before(at) {
        "Self" => is_in_impl(tokens, open, name),
        own if own == name => {
            let mut start = at - 1;
            while tokens.before(start) == "::" {
                start = start.saturating_sub(2);
            }
            let before = tokens.before(start);
            !matches!(
                before,
                "struct"
                    | "enum"
                    | "union"
                    | "impl"
                    | "for"
                    | "trait"
                    | "mod"
                    | "->"
                    | ">"
                    | "dyn"
                    | "where"
                    | "+"
            ) && !is_returned(tokens, start)
        }
        _ => false,
    }
}

/// Returns true for `-> &'a mut` before `at`.
fn is_returned(tokens: &Tokens<'_>, at: usize) -> bool {
    let mut before = at;
    while matches!(tokens.before(before), "&" | "mut" | "'")
        || tokens.at(before.wrapping_sub(2)) == "'"
    {
        before -= 1;
    }
    before < at && matches!(tokens.before(before), "->" | "for")
}

/// Returns true if `at` is in an implementation for the structure.
fn is_in_impl(tokens: &Tokens<'_>, at: usize, name: &str) -> bool {
    let has = |mut of: Range<usize>, wanted: &str| of.any(|at| tokens.at(at) == wanted);
    let mut heads = tokens.heads_around(at, &[";", "{", "}", "]"]);
    let own = heads.find(|head| has(head.clone(), "impl") && !has(head.clone(), "fn"));
    own.is_some_and(|head| {
        let of = head.clone().rev().find(|at| tokens.at(*at) == "for");
        has(of.unwrap_or(head.start)..head.end, name)
    })
}

/// Returns true if the fields at `open` are those of a pattern.
fn is_pattern(tokens: &Tokens<'_>, open: usize) -> bool {
    let mut inner = open;
    loop {
        let behind = tokens.close(inner) + 1;
        match tokens.at(behind) {
            "=>" | "if" | "|" | ":" | "in" => return true,
            "=" => return tokens.at(behind + 1) != "=",
            "," | ")" | "]" | "}" => {}
            _ => return false,
        }
        let Some(around) = tokens.around(inner) else {
            return false;
        };
        let before = tokens.before(around);
        if before == "!" && tokens.at(around.wrapping_sub(2)).ends_with("matches") {
            return true;
        }
        let is_group = matches!(tokens.at(around), "(" | "[");
        let is_named = before.starts_with(|first: char| first.is_uppercase());
        if !is_group && !is_named || before == "!" {
            return false;
        }
        inner = around;
    }
}
