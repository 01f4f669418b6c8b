//! An array of scalars whose elements belong to different threads: each element gets a line.

use super::diff::{Replacement, indent_of, unified_diff};
use super::{EmitError, Source, Style};

/// A diff that makes each element of the array `name` a structure with one aligned member, `value`,
/// and uses that member wherever the array is indexed.
pub fn patch_array(name: &str, source: Source<'_>, style: Style) -> Result<String, EmitError> {
    let lines: Vec<&str> = source.text.split('\n').collect();
    let mut replacements = Vec::new();
    let mut is_declared = false;
    for (number, line) in lines.iter().enumerate() {
        let Some(at) = indexed(line, name, 0) else {
            continue;
        };
        let new = if is_declared {
            with_members(line, name)
        } else {
            is_declared = true;
            declaration(line, at, name, style).ok_or_else(|| EmitError::Source {
                file: source.file.to_owned(),
                line: number + 1,
                found: (*line).to_owned(),
                expected: format!("the declaration of {name} on one line, without an initialiser"),
            })?
        };
        replacements.push(Replacement {
            start: number,
            count: 1,
            lines: vec![new],
        });
    }
    if !is_declared {
        return Err(EmitError::Source {
            file: source.file.to_owned(),
            line: 1,
            found: format!("no {name}[...]"),
            expected: String::from("the declaration of the array"),
        });
    }
    Ok(unified_diff(source.file, source.text, &replacements))
}

/// Finds `name[` as a word, from byte `from` on.
fn indexed(line: &str, name: &str, from: usize) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let found = line[from..].match_indices(name).map(|(at, _)| from + at);
    let mut words = found.filter(|at| {
        let before = line[..*at].chars().next_back();
        let behind = line[at + name.len()..].trim_start();
        !before.is_some_and(is_word) && behind.starts_with('[')
    });
    words.next()
}

/// `static volatile T name[8] attributes;` as an array of structures.
fn declaration(line: &str, at: usize, name: &str, style: Style) -> Option<String> {
    let (head, rest) = line.split_at(at);
    let semicolon = rest.find(';')?;
    if rest[..semicolon].contains('=') || head.trim().is_empty() {
        return None;
    }
    let indent = indent_of(head);
    let (storage, of): (Vec<&str>, Vec<&str>) = head.split_whitespace().partition(is_storage);
    let storage: String = storage.iter().map(|word| format!("{word} ")).collect();
    let close = rest.find(']')?;
    let line_align = match style {
        Style::Kernel => (String::new(), String::from(" ____cacheline_aligned")),
        Style::C | Style::Cpp => style.line(),
    };
    Some(
        format!(
            "{indent}{storage}struct {{ {}{} value{}; }} {name}{}",
            line_align.0,
            of.join(" "),
            line_align.1,
            &rest[name.len()..=close],
        ) + &rest[close + 1..],
    )
}

fn is_storage(word: &&str) -> bool {
    ["static", "extern", "_Thread_local", "thread_local"].contains(word)
}

/// Each `name[...]` of the line with `.value` behind it.
fn with_members(line: &str, name: &str) -> String {
    let mut out = line.to_owned();
    let mut from = 0;
    while let Some(at) = indexed(&out, name, from) {
        let open = at + out[at..].find('[').unwrap_or(0);
        let mut depth = 0;
        let close = out[open..].char_indices().find_map(|(index, c)| {
            depth += match c {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            (depth == 0).then_some(open + index)
        });
        let Some(close) = close else { break };
        out.insert_str(close + 1, ".value");
        from = close + 1;
    }
    out
}
