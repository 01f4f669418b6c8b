//! Unified diffs: what `patch` and `git apply` take.

use std::borrow::Cow;
use std::ops::Range;

use hitm_base::printable;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Lines that are replaced by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The first line that goes, from 0.
    pub start: usize,
    /// Number of lines that go.
    pub count: usize,
    /// Lines that come instead.
    pub lines: Vec<String>,
}

/// Bytes of a file that are replaced by other text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: String,
}

impl Edit {
    /// Puts text before a byte.
    pub(super) fn insert(at: usize, text: impl Into<String>) -> Edit {
        Edit {
            start: at,
            end: at,
            text: text.into(),
        }
    }
}

/// The first byte of the line of a byte.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The blanks at the start of a line.
pub(super) fn indent_of(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// A unified diff of `file`, whose text is `old`, with edits that do not overlap.
pub(super) fn edited(file: &str, old: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let line_end = |at: usize| old[at..].find('\n').map_or(old.len(), |length| at + length);
    let mut replacements = Vec::new();
    let mut edits = edits.into_iter().peekable();
    while let Some(edit) = edits.next() {
        let start = line_start(old, edit.start);
        let mut text = old[start..edit.start].to_owned() + &edit.text;
        let mut at = edit.end;
        // What ends with a line leaves the next one alone.
        let ends_line = |at: usize| at > start && old[..at].ends_with('\n');
        while !ends_line(at)
            && let Some(next) = edits.next_if(|next| next.start <= line_end(at))
        {
            text += &old[at..next.start];
            text += &next.text;
            at = next.end;
        }
        let end = if ends_line(at) { at - 1 } else { line_end(at) };
        match ends_line(at) {
            true => text.truncate(text.strip_suffix('\n').map_or(text.len(), str::len)),
            false => text += &old[at..end],
        }
        replacements.push(Replacement {
            start: old[..start].matches('\n').count(),
            count: old[start..end].matches('\n').count() + 1,
            // A line that is taken away whole leaves none behind.
            lines: match text.is_empty() && ends_line(at) {
                true => Vec::new(),
                false => text.split('\n').map(str::to_owned).collect(),
            },
        });
    }
    unified_diff(file, old, &replacements)
}

/// A unified diff of `file`, whose text is `old`. Replacements are ascending and do not overlap; those
/// that change nothing are left out. Empty when nothing changes.
pub fn unified_diff(file: &str, old: &str, replacements: &[Replacement]) -> String {
    let lines: Vec<&str> = old.split('\n').collect();
    // Text that ends with a line break has an empty last piece, which is no line.
    let ends_well = lines.last().is_some_and(|last| last.is_empty());
    let count = lines.len() - usize::from(ends_well);
    let changes: Vec<Replacement> = replacements
        .iter()
        .filter_map(|change| trimmed(change, &lines))
        .collect();
    let mut out = String::new();
    let mut shift = 0isize;
    let mut at = 0;
    while at < changes.len() {
        let mut end = at + 1;
        while end < changes.len()
            && changes[end].start <= changes[end - 1].start + changes[end - 1].count + 2 * CONTEXT
        {
            end += 1;
        }
        if out.is_empty() {
            let file = quoted(file);
            out = format!("--- {file}\n+++ {file}\n");
        }
        let (text, grown) = hunk(&changes[at..end], &lines[..count], shift, ends_well);
        out += &text;
        shift += grown;
        at = end;
    }
    out
}

/// A file's name as `git` and `patch` read it: in quotes, with octal escapes, when a character in it
/// would not stay in its line.
fn quoted(file: &str) -> Cow<'_, str> {
    let stays = |character: char| {
        let shown = character.encode_utf8(&mut [0; 4]).to_owned();
        character != '"' && character != '\\' && matches!(printable(&shown), Cow::Borrowed(_))
    };
    if file.chars().all(stays) {
        return Cow::Borrowed(file);
    }
    let mut out = String::from("\"");
    for character in file.chars() {
        match character {
            _ if stays(character) => out.push(character),
            '"' | '\\' => out.extend(['\\', character]),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    out += &format!("\\{byte:03o}");
                }
            }
        }
    }
    out.push('"');
    Cow::Owned(out)
}

/// The change without equal lines at its ends.
fn trimmed(change: &Replacement, lines: &[&str]) -> Option<Replacement> {
    let mut old = &lines[change.start..change.start + change.count];
    let mut new = &change.lines[..];
    let mut start = change.start;
    while let (Some(a), Some(b)) = (old.first(), new.first())
        && a == b
    {
        (old, new, start) = (&old[1..], &new[1..], start + 1);
    }
    while let (Some(a), Some(b)) = (old.last(), new.last())
        && a == b
    {
        (old, new) = (&old[..old.len() - 1], &new[..new.len() - 1]);
    }
    let changes = !old.is_empty() || !new.is_empty();
    changes.then(|| Replacement {
        start,
        count: old.len(),
        lines: new.to_vec(),
    })
}

/// The text of changes that share their context, and the lines that they add; those before them have
/// added `shift`. `ends_well` if the last of `lines` ends with a line break.
fn hunk(changes: &[Replacement], lines: &[&str], shift: isize, ends_well: bool) -> (String, isize) {
    let first = changes[0].start.saturating_sub(CONTEXT);
    let last = &changes[changes.len() - 1];
    let end = (last.start + last.count + CONTEXT).min(lines.len());
    let mut body = String::new();
    let write = |body: &mut String, sign: char, numbers: Range<usize>| {
        for number in numbers {
            *body += &format!("{sign}{}\n", lines[number]);
            if number + 1 == lines.len() && !ends_well {
                *body += "\\ No newline at end of file\n";
            }
        }
    };
    let mut at = first;
    let mut new_count = end - first;
    for change in changes {
        write(&mut body, ' ', at..change.start);
        at = change.start + change.count;
        let old = change.start..at.min(lines.len());
        new_count = new_count + change.lines.len() - old.len();
        write(&mut body, '-', old);
        for line in &change.lines {
            body += &format!("+{line}\n");
        }
    }
    write(&mut body, ' ', at..end);
    let old_count = end - first;
    let new_start = (first as isize + shift + 1).max(1);
    let header = format!(
        "@@ -{},{old_count} +{new_start},{new_count} @@\n",
        first + 1
    );
    (header + &body, new_count as isize - old_count as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_stays_in_its_line() {
        assert_eq!(quoted("src/a b.c"), "src/a b.c");
        assert_eq!(quoted("a\n+++ b"), r#""a\012+++ b""#);
        assert_eq!(quoted("\x1b\"\u{9b}\\"), r#""\033\"\302\233\\""#);
    }
}
