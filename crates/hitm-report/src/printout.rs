//! Text for people, which no name in it can forge.

use std::fmt;
use std::ops::Deref;

use hitm_base::printable;

/// Text for people, line by line.
///
/// Lines come in one at a time and are made [`printable`] on the way, apart from tabs that indent
/// them. Whatever a name contains, it stays in its line and does nothing to a terminal. The one thing
/// that a terminal acts on is colour, which has arguments of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Printout {
    text: String,
}

/// A colour: what stands between `ESC [` and `m`. Empty for none.
pub type Color = &'static str;

impl Printout {
    /// No text yet.
    pub const fn new() -> Printout {
        Printout {
            text: String::new(),
        }
    }

    /// Adds a line.
    pub fn line(&mut self, line: &str) {
        self.spans(&[("", line)]);
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a line of pieces, each in its colour.
    pub fn spans(&mut self, pieces: &[(Color, &str)]) {
        for (index, (color, piece)) in pieces.iter().enumerate() {
            let behind_tabs = match index {
                0 => piece.trim_start_matches('\t'),
                _ => piece,
            };
            let (tabs, _) = piece.split_at(piece.len() - behind_tabs.len());
            self.text.push_str(tabs);
            let shown = printable(behind_tabs);
            match color.is_empty() {
                true => self.text.push_str(&shown),
                false => {
                    let painted = format!("\x1b[{color}m{shown}\x1b[0m");
                    self.text.push_str(&painted);
                }
            }
        }
        self.text.push('\n');
    }

    /// Adds text of several lines, such as what a workload prints, each behind `indent`. Names do not
    /// belong into it: theirs would be lines as well.
    pub fn block(&mut self, indent: &str, text: &str) {
        for line in text.lines() {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// Adds source of several lines, whose tabs stay: a patch with other blanks would not apply.
    pub fn source(&mut self, text: &str) {
        for line in text.lines() {
            let parts = line.split('\t').map(printable);
            let parts: Vec<_> = parts.collect();
            self.text.push_str(&parts.join("\t"));
            self.text.push('\n');
        }
    }

    /// Adds text of several lines whose sequences for colours, `ESC [ 1 ; 31 m`, stay.
    pub fn colored_block(&mut self, text: &str) {
        for line in text.lines() {
            let mut rest = line;
            while let Some(at) = rest.find('\x1b') {
                let end = at + color_length(&rest[at..]);
                self.text.push_str(&printable(&rest[..at]));
                match end > at {
                    true => self.text.push_str(&rest[at..end]),
                    false => self.text.push_str(&printable("\x1b")),
                }
                rest = &rest[end.max(at + 1)..];
            }
            self.text.push_str(&printable(rest));
            self.text.push('\n');
        }
    }

    /// Adds what another one has.
    pub fn append(&mut self, other: &Printout) {
        self.text.push_str(&other.text);
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Bytes of the sequence for a colour that `text` begins with; 0 when it begins with none.
fn color_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\x1b[") else {
        return 0;
    };
    let is_part = |character: char| character.is_ascii_digit() || character == ';';
    let end = rest.trim_start_matches(is_part);
    match end.starts_with('m') {
        true => text.len() - end.len() + 1,
        false => 0,
    }
}

impl Deref for Printout {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Printout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_stays_in_its_line() {
        let mut out = Printout::new();
        out.line("\t\tname\t\x1b[2J\nhitm: all is well");
        out.blank();
        out.spans(&[("31", "bad\x1b"), ("", "\tgood")]);
        out.block("  ", "one\r\ntwo\x07\n");
        let expected = "\t\tname\\t\\x1b[2J\\nhitm: all is well\n\n\x1b[31mbad\\x1b\x1b[0m\\tgood\n  one\n  two\\x07\n";
        assert_eq!(out.as_str(), expected);
    }

    #[test]
    fn colours_stay_and_what_looks_like_them_does_not() {
        let mut out = Printout::new();
        out.colored_block("\x1b[1m\x1b[31merror\x1b[0m: \x1b[2J\x1b]0;t\x07\x1b[1;\x1b");
        let expected = "\x1b[1m\x1b[31merror\x1b[0m: \\x1b[2J\\x1b]0;t\\x07\\x1b[1;\\x1b\n";
        assert_eq!(out.as_str(), expected);
    }

    proptest! {
        #[test]
        fn each_line_is_one_line(lines in prop::collection::vec(any::<String>(), 0..8)) {
            let mut out = Printout::new();
            lines.iter().for_each(|line| out.line(line));
            prop_assert_eq!(out.lines().count(), lines.len());
            let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
            prop_assert!(!out.chars().any(is_bad));
        }

        #[test]
        fn blocks_have_colours_and_nothing_else(text in "(\x1b|\\[|[0-9;mJ\n]|\u{9b}|a){0,40}") {
            let mut out = Printout::new();
            out.colored_block(&text);
            let mut rest = out.as_str();
            while let Some(at) = rest.find('\x1b') {
                prop_assert!(color_length(&rest[at..]) > 0);
                rest = &rest[at + 1..];
            }
            let has_c1 = out.contains('\u{9b}');
            prop_assert!(!has_c1);
        }
    }
}
