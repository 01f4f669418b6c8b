//! The declaration of a structure, rearranged where it stands.
//!
//! Each member's declaration moves with the comments above it. A declaration is what lies between
//! the end of the one before and its own semicolon. So what the author wrote stays as it was; only
//! alignment and padding are added.

use super::diff::{Replacement, unified_diff};
use super::{Emission, EmitError, Step, Style, steps};

/// A diff that puts the members of the structure into the order of the layout. `lines` has the line
/// (from 1) at which the source declares each of the subject's members.
pub fn patch_struct(
    emission: &Emission<'_>,
    (file, text): (&str, &str),
    lines: &[Option<u32>],
) -> Result<String, EmitError> {
    let source: Vec<&str> = text.split('\n').collect();
    let chunks = chunks(file, &source, lines)?;
    let (start, end) = (chunks.body_start, chunks.body_end);
    let mut new = Vec::new();
    for step in steps(emission) {
        match step {
            Step::Padding { number, bytes } => {
                new.push(format!("\tchar hitm_padding{number}[{bytes}];"))
            }
            Step::Member {
                index, is_aligned, ..
            } => {
                let (from, to) = chunks.spans[index];
                let declared_at = chunks.declared_at[index];
                for (number, line) in source.iter().enumerate().take(to).skip(from) {
                    new.push(match is_aligned && number == declared_at {
                        true => aligned(line, emission.style),
                        false => (*line).to_owned(),
                    });
                }
            }
        }
    }
    let change = Replacement {
        start,
        count: end - start,
        lines: new,
    };
    Ok(unified_diff(file, text, &[change]))
}

/// Source lines of members, all from 0.
struct Chunks {
    /// First line and the one after the last, by member.
    spans: Vec<(usize, usize)>,
    /// The line with the first word of the declaration, by member.
    declared_at: Vec<usize>,
    body_start: usize,
    body_end: usize,
}

fn chunks(file: &str, source: &[&str], lines: &[Option<u32>]) -> Result<Chunks, EmitError> {
    let fail = |line: usize, found: &str, expected: &str| EmitError::Source {
        file: file.to_owned(),
        line: line + 1,
        found: found.to_owned(),
        expected: expected.to_owned(),
    };
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let line = line
            .map(|line| line as usize)
            .filter(|line| (1..=source.len()).contains(line));
        let line = line.ok_or_else(|| {
            fail(
                0,
                "no line of that number",
                "the file that the program was built from",
            )
        })?;
        order.push((line - 1, index));
    }
    order.sort_unstable();
    let Some((first, _)) = order.first().copied() else {
        return Err(fail(0, "no member", "a structure with members"));
    };
    let opening = (0..first).rev().find(|line| source[*line].contains('{'));
    let body_start = opening.map(|line| line + 1).ok_or_else(|| {
        fail(
            first,
            "the structure on one line",
            "each member on a line of its own",
        )
    })?;
    let mut spans = vec![(0, 0); lines.len()];
    let mut declared_at = vec![0; lines.len()];
    let mut at = body_start;
    for (line, index) in order {
        if line < at {
            return Err(fail(
                line,
                "two members in one declaration",
                "each member in a declaration of its own",
            ));
        }
        let end = (line..source.len()).find(|line| source[*line].contains(';'));
        let end = end.ok_or_else(|| fail(line, "no semicolon", "the end of a declaration"))?;
        if source[line..=end].iter().any(|line| line.contains('}')) && line != end {
            return Err(fail(line, "a nested structure", "members of named types"));
        }
        if source[at..=end]
            .iter()
            .any(|line| line.trim_start().starts_with('#'))
        {
            return Err(fail(
                at,
                "a preprocessor line among the members",
                "members without conditions",
            ));
        }
        spans[index] = (at, end + 1);
        declared_at[index] = line;
        at = end + 1;
    }
    Ok(Chunks {
        spans,
        declared_at,
        body_start,
        body_end: at,
    })
}

/// The line with its declaration aligned to a cache line.
fn aligned(line: &str, style: Style) -> String {
    let indent = line.len() - line.trim_start().len();
    let (space, rest) = line.split_at(indent);
    match style {
        Style::C | Style::Cpp => format!("{space}{}{rest}", style.before()),
        Style::Kernel => match rest.find(';') {
            Some(end) => format!("{space}{}{}{}", &rest[..end], style.behind(), &rest[end..]),
            None => format!("{space}{rest}"),
        },
    }
}
