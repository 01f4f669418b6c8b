//! Rust: `#[repr(C)]`, explicit padding, and assertions.

use super::diff::{Replacement, unified_diff};
use super::{Emission, EmitError, LINE, Step, steps};
use crate::layout_file::FileMember;

/// The structure as Rust, with assertions that keep it. `declarations` of the emission are the types
/// of the members here.
pub fn rust_struct(emission: &Emission<'_>) -> String {
    let mut out = format!("{REPR}\npub struct {} {{\n", emission.layout.name);
    let declare = |index: usize, file: &FileMember| {
        vec![format!(
            "    pub {}: {},",
            file.name, emission.declarations[index]
        )]
    };
    for line in fields(emission, declare) {
        out += &line;
        out.push('\n');
    }
    out += "}\n\n";
    for line in asserts(emission) {
        out += &line;
        out.push('\n');
    }
    out
}

const REPR: &str = "#[repr(C, align(64))]";

/// A diff that puts the fields of the structure into the order of the layout, each with its comments
/// and attributes, pads them, and adds assertions behind the structure. Expressions that make the
/// structure lack the padding then: the compiler finds them all.
pub fn patch_rust(
    emission: &Emission<'_>,
    (file, text): (&str, &str),
) -> Result<String, EmitError> {
    let source: Vec<&str> = text.split('\n').collect();
    let name = &emission.layout.name;
    let fail = |line: usize, expected: &str| EmitError::Source {
        file: file.to_owned(),
        line: line + 1,
        found: source.get(line).map_or("", |line| line.trim()).to_owned(),
        expected: expected.to_owned(),
    };
    let head = source.iter().position(|line| declares(line, name));
    let head = head.ok_or_else(|| fail(0, &format!("the declaration of struct {name}")))?;
    if !source[head].trim_end().ends_with('{') {
        return Err(fail(head, "each field on lines of its own"));
    }
    let chunks = field_chunks(&source, head + 1);
    let (chunks, end) = chunks.ok_or_else(|| fail(head, "a closing brace on a line of its own"))?;
    let mut by_member: Vec<Option<&[&str]>> = vec![None; emission.subject.members.len()];
    for (start, lines) in &chunks {
        let name = lines.iter().find_map(|line| field_name(line));
        let mut members = emission.subject.members.iter();
        let at = name.and_then(|name| members.position(|member| member.file.name == name));
        let at = at.ok_or_else(|| fail(*start, "a field that the debug information has"))?;
        by_member[at] = Some(*lines);
    }
    if let Some(missing) = by_member.iter().position(Option::is_none) {
        let missing = &emission.subject.members[missing].file.name;
        return Err(fail(head, &format!("a field {missing}")));
    }
    let attributes = source[..head]
        .iter()
        .rev()
        .take_while(|line| line.trim_start().starts_with("#["));
    let start = head - attributes.count();
    let mut new = Vec::new();
    for (number, line) in source.iter().enumerate().take(head).skip(start) {
        match line.contains("repr(") {
            true if line.contains("packed") || line.contains("transparent") => {
                return Err(fail(number, "a structure that is not packed"));
            }
            true => {}
            false => new.push((*line).to_owned()),
        }
    }
    new.push(REPR.to_owned());
    new.push(source[head].to_owned());
    new.extend(fields(emission, |index, _| {
        let lines = by_member[index].unwrap_or_default();
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        if let Some(last) = lines.last_mut()
            && !without_comment(last).ends_with(',')
        {
            last.insert(without_comment(last).len(), ',');
        }
        lines
    }));
    new.push(source[end].to_owned());
    new.push(String::new());
    new.extend(asserts(emission));
    let change = Replacement {
        start,
        count: end + 1 - start,
        lines: new,
    };
    Ok(unified_diff(file, text, &[change]))
}

/// The lines between the braces; `declare` writes a field.
fn fields(
    emission: &Emission<'_>,
    mut declare: impl FnMut(usize, &FileMember) -> Vec<String>,
) -> Vec<String> {
    let layout = emission.layout;
    let mut out = Vec::new();
    let mut end = 0;
    let mut padding = 0;
    for step in steps(emission) {
        let Step::Member { index, file, .. } = step else {
            continue;
        };
        let align = emission.subject.members[index].align.max(1);
        // An alignment of its own would need a type of its own: bytes do it as well.
        if file.offset_bytes > u64::next_multiple_of(end, align) {
            let bytes = file.offset_bytes - end;
            out.push(format!("    _padding{padding}: [u8; {bytes}],"));
            padding += 1;
        }
        if file.offset_bytes.is_multiple_of(LINE) {
            let line = file.offset_bytes / LINE;
            let mut in_line = layout.members.iter();
            let is_alone =
                in_line.all(|other| other.offset_bytes / LINE != line || other.name == file.name);
            out.push(format!("    // Line {line}."));
            if is_alone {
                let of = emission.declarations.get(index).map_or("_", |of| of);
                out.push(format!(
                    "    // Alone on it, as crossbeam_utils::CachePadded<{of}> would have it:"
                ));
                out.push(String::from(
                    "    // that needs no padding by hand, and takes two lines on x86-64 and AArch64.",
                ));
            }
        }
        out.extend(declare(index, file));
        end = file.offset_bytes + file.size_bytes;
    }
    out
}

/// Assertions that fail to compile when a member moves.
fn asserts(emission: &Emission<'_>) -> Vec<String> {
    let layout = emission.layout;
    let mut out = vec![String::from("const _: () = {")];
    for member in &layout.members {
        out.push(format!(
            "    assert!(core::mem::offset_of!({}, {}) == {});",
            layout.name, member.name, member.offset_bytes
        ));
    }
    out.push(format!(
        "    assert!(size_of::<{}>() == {});",
        layout.name, layout.size_bytes
    ));
    out.push(String::from("};"));
    out
}

/// Returns true if the line declares the structure.
fn declares(line: &str, name: &str) -> bool {
    let mut words = without_comment(line).split_whitespace();
    let mut behind = words.by_ref().skip_while(|word| *word != "struct").skip(1);
    let of = behind.next().unwrap_or_default();
    of.split(['<', '{', '(', ';']).next() == Some(name)
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or("").trim_end()
}

/// A field's first line, from 0, and its lines: comments, attributes, declaration.
type Chunk<'s, 't> = (usize, &'s [&'t str]);

/// The fields from line `from` on, and the line with the closing brace.
fn field_chunks<'s, 't>(source: &'s [&'t str], from: usize) -> Option<(Vec<Chunk<'s, 't>>, usize)> {
    let mut chunks = Vec::new();
    let (mut start, mut depth) = (from, 0i32);
    for (number, line) in source.iter().enumerate().skip(from) {
        let code = without_comment(line);
        if depth == 0 && code.trim_start().starts_with('}') {
            if source[start..number]
                .iter()
                .any(|line| field_name(line).is_some())
            {
                chunks.push((start, &source[start..number]));
            }
            return Some((chunks, number));
        }
        for c in code.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
        }
        if depth == 0 && code.ends_with(',') {
            chunks.push((start, &source[start..=number]));
            start = number + 1;
        }
    }
    None
}

/// The field that a line declares: `name` of `pub(crate) name: Type,`.
fn field_name(line: &str) -> Option<&str> {
    let code = without_comment(line).trim_start();
    if code.starts_with('#') {
        return None;
    }
    let (before, _) = code.split_once(':')?;
    let name = before.split_whitespace().next_back()?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(name)
}
