//! Source text as tokens: enough of C, C++, Rust and Go to find declarations and lists of values.
//!
//! Comments and blanks lie between tokens. A preprocessor line is one token.

use std::ops::Range;

use super::EmitError;
use super::diff::{Edit, line_start};

/// Whose rules for comments, texts and characters hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lexis {
    C,
    Rust,
    Go,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier, keyword or number.
    Word,
    /// A text or character in quotes.
    Quoted,
    /// One character, or `::`, `->` and `=>`.
    Sign,
    /// A preprocessor line.
    Directive,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The other bracket of a pair, as an index of a token.
    pub(super) pair: Option<usize>,
}

/// Tokens that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) from: usize,
    /// The first token behind them.
    pub(super) end: usize,
}

/// The tokens of a file.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    file: &'t str,
    pub(super) text: &'t str,
    list: Vec<Token>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(file: &'t str, text: &'t str, lexis: Lexis) -> Tokens<'t> {
        let mut list = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let (kind, end) = next_piece(text, at, lexis);
            if let Some(kind) = kind {
                list.push(Token {
                    kind,
                    start: at,
                    end,
                    pair: None,
                });
            }
            at = end;
        }
        let mut tokens = Tokens { file, text, list };
        tokens.join_pairs();
        tokens
    }

    fn join_pairs(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.len() {
            let closes = match self.at(at) {
                "(" | "[" | "{" => {
                    open.push(at);
                    continue;
                }
                ")" => "(",
                "]" => "[",
                "}" => "{",
                _ => continue,
            };
            if let Some(start) = open.pop_if(|start| self.at(*start) == closes) {
                (self.list[start].pair, self.list[at].pair) = (Some(at), Some(start));
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, at: usize) -> Token {
        self.list[at]
    }

    pub(super) const fn file(&self) -> &'t str {
        self.file
    }

    /// Text of a token; nothing beyond the last.
    pub(super) fn at(&self, at: usize) -> &'t str {
        let token = self.list.get(at);
        token.map_or("", |token| &self.text[token.start..token.end])
    }

    /// Text of the token before; nothing before the first.
    pub(super) fn before(&self, at: usize) -> &'t str {
        at.checked_sub(1).map_or("", |before| self.at(before))
    }

    pub(super) fn is_word(&self, at: usize) -> bool {
        let token = self.list.get(at);
        token.is_some_and(|token| token.kind == TokenKind::Word)
    }

    pub(super) fn is_directive(&self, at: usize) -> bool {
        self.list[at].kind == TokenKind::Directive
    }

    /// The closing bracket of an opening one, or the token itself.
    pub(super) fn close(&self, at: usize) -> usize {
        match self.at(at) {
            "(" | "[" | "{" => self.list[at].pair.unwrap_or(at),
            _ => at,
        }
    }

    /// The opening bracket of a closing one, or the token itself.
    pub(super) fn open(&self, at: usize) -> usize {
        match self.at(at) {
            ")" | "]" | "}" => self.list[at].pair.unwrap_or(at),
            _ => at,
        }
    }

    /// The bracket around a token.
    pub(super) fn around(&self, at: usize) -> Option<usize> {
        let mut before = at.checked_sub(1)?;
        loop {
            let open = self.open(before);
            if open == before && matches!(self.at(before), "(" | "[" | "{") {
                return Some(before);
            }
            before = open.checked_sub(1)?;
        }
    }

    /// The `>` of a `<` that begins the arguments of a template: they have only what types and
    /// constants have.
    pub(super) fn close_angle(&self, at: usize, end: usize) -> Option<usize> {
        let (mut depth, mut inner) = (0, at);
        while inner < end {
            match self.at(inner) {
                "<" => depth += 1,
                ">" => depth -= 1,
                ";" | "{" | "}" => return None,
                "=" if inner == at + 1 => return None,
                _ => inner = self.close(inner),
            }
            if depth == 0 {
                return Some(inner);
            }
            inner += 1;
        }
        None
    }

    /// Tokens `from..end` without what stands in brackets and angles; brackets themselves are there.
    pub(super) fn flat(&self, from: usize, end: usize) -> Vec<usize> {
        let (mut out, mut at) = (Vec::new(), from);
        while at < end {
            out.push(at);
            let close = match self.at(at) {
                "<" => self.close_angle(at, end).unwrap_or(at),
                _ => self.close(at),
            };
            if close > at && close < end {
                out.push(close);
            }
            at = close + 1;
        }
        out
    }

    /// The first token from `at` on, brackets passed over, that is one of `ends`; the end of the file without one.
    pub(super) fn until(&self, mut at: usize, ends: &[&str]) -> usize {
        while at < self.len() && !ends.contains(&self.at(at)) {
            at = self.close(at) + 1;
        }
        at
    }

    /// Texts of some tokens.
    pub(super) fn texts<'s>(
        &'s self,
        of: &'s [usize],
    ) -> impl Iterator<Item = &'t str> + Clone + 's {
        of.iter().map(|at| self.at(*at))
    }

    /// Returns true if a word of `from..end` that stands in no brackets and angles, or a bracket, is wanted.
    pub(super) fn has_flat(
        &self,
        from: usize,
        end: usize,
        is_wanted: impl Fn(&'t str) -> bool,
    ) -> bool {
        self.texts(&self.flat(from, end)).any(is_wanted)
    }

    /// Tokens before the brackets around a token, from the innermost on, each from the end of the statement or
    /// group before it, which one of `ends` ends.
    pub(super) fn heads_around(
        &self,
        at: usize,
        ends: &'static [&'static str],
    ) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut inner = at;
        std::iter::from_fn(move || {
            let open = self.around(inner)?;
            inner = open;
            let mut start = open;
            while let Some(before) = start.checked_sub(1)
                && !ends.contains(&self.at(before))
            {
                start = self.open(before);
            }
            Some(start..open)
        })
    }

    /// Parts of `from..end` between commas.
    pub(super) fn split(&self, from: usize, end: usize) -> Vec<Span> {
        let (mut parts, mut from) = (Vec::new(), from);
        for at in self.flat(from, end) {
            if self.at(at) == "," {
                parts.push(Span { from, end: at });
                from = at + 1;
            }
        }
        if from < end {
            parts.push(Span { from, end });
        }
        parts
    }

    /// Text of tokens `from..end`, with what lies between.
    pub(super) fn slice(&self, from: usize, end: usize) -> &'t str {
        &self.text[self.list[from].start..self.list[end - 1].end]
    }

    /// The edit that puts `text` in the place of tokens `from..end`.
    pub(super) fn edit(&self, from: usize, end: usize, text: impl Into<String>) -> Edit {
        Edit {
            start: self.list[from].start,
            end: self.list[end - 1].end,
            text: text.into(),
        }
    }

    /// The edit that puts the text of some tokens in the place of others.
    pub(super) fn replace(&self, old: Span, new: Span) -> Edit {
        self.edit(old.from, old.end, self.slice(new.from, new.end))
    }

    /// The line of a token, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        let token = self.list.get(at);
        let start = token.map_or(self.text.len(), |token| token.start);
        1 + self.text[..start].matches('\n').count()
    }

    /// An error at a token.
    pub(super) fn refuse(&self, at: usize, found: &str, expected: &str) -> EmitError {
        EmitError::Source {
            file: self.file.to_owned(),
            line: self.line(at),
            found: found.to_owned(),
            expected: expected.to_owned(),
        }
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

/// Kind and end of what begins at `at`; no kind for blanks and comments.
fn next_piece(text: &str, at: usize, lexis: Lexis) -> (Option<TokenKind>, usize) {
    let bytes = text.as_bytes();
    let rest = &text[at..];
    let from = |length: usize| (at + length).min(text.len());
    if rest.starts_with("//") {
        return (None, from(rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return (None, from(block_comment(rest, lexis)));
    }
    let byte = bytes[at];
    if byte.is_ascii_whitespace() {
        return (None, at + 1);
    }
    if byte == b'#' && lexis == Lexis::C && text[line_start(text, at)..at].trim().is_empty() {
        return (Some(TokenKind::Directive), from(directive(rest)));
    }
    if let Some(length) = raw_text(rest, lexis) {
        return (Some(TokenKind::Quoted), from(length));
    }
    if byte == b'"' {
        return (Some(TokenKind::Quoted), from(quoted(rest, b'"')));
    }
    if byte == b'\'' {
        let length = match lexis {
            Lexis::C | Lexis::Go => Some(quoted(rest, b'\'')),
            Lexis::Rust => rust_character(rest),
        };
        if let Some(length) = length {
            return (Some(TokenKind::Quoted), from(length));
        }
    }
    if is_word(byte) {
        let is_number = byte.is_ascii_digit();
        let part = |(index, byte): (usize, &u8)| {
            let is_separator = is_number && lexis == Lexis::C && *byte == b'\'' && index > 0;
            (!is_word(*byte) && !is_separator).then_some(index)
        };
        let length = rest.as_bytes().iter().enumerate().find_map(part);
        return (Some(TokenKind::Word), from(length.unwrap_or(rest.len())));
    }
    let is_double = ["::", "->", "=>"].iter().any(|sign| rest.starts_with(sign));
    let length = if is_double { 2 } else { 1 };
    (Some(TokenKind::Sign), from(length))
}

fn block_comment(rest: &str, lexis: Lexis) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    let bytes = rest.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" if depth == 0 || lexis == Lexis::Rust => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A preprocessor line goes on behind a backslash.
fn directive(rest: &str) -> usize {
    let mut ends = rest.match_indices('\n').map(|(at, _)| at);
    let end = ends.find(|at| !rest[..*at].trim_end_matches('\r').ends_with('\\'));
    end.unwrap_or(rest.len())
}

/// `R"x(...)x"` of C++, `r#"..."#` of Rust, text in backquotes of Go.
fn raw_text(rest: &str, lexis: Lexis) -> Option<usize> {
    if lexis == Lexis::Go {
        let end = rest.strip_prefix('`')?.find('`');
        return Some(end.map_or(rest.len(), |at| at + 2));
    }
    if lexis == Lexis::C {
        let (mark, _) = rest.strip_prefix("R\"")?.split_once('(')?;
        let end = format!("){mark}\"");
        let is_mark = mark.len() <= 16 && !mark.contains(['"', '\n', ' ']);
        return is_mark.then(|| rest.find(&end).map_or(rest.len(), |at| at + end.len()));
    }
    let behind = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    behind[hashes..].strip_prefix('"')?;
    let body = rest.len() - behind.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    let found = rest[body..].find(&end);
    Some(found.map_or(rest.len(), |at| body + at + end.len()))
}

fn quoted(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    rest.len()
}

/// A character of Rust; none for a lifetime.
fn rust_character(rest: &str) -> Option<usize> {
    let mut inner = rest[1..].chars();
    match inner.next()? {
        '\\' => Some(quoted(rest, b'\'')),
        first => (inner.next() == Some('\'')).then(|| 2 + first.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, lexis: Lexis) -> Vec<&str> {
        let tokens = Tokens::new("a", text, lexis);
        (0..tokens.len()).map(|at| tokens.at(at)).collect()
    }

    #[test]
    fn comments_and_texts_hide_what_is_in_them() {
        assert_eq!(
            words(
                "a /* ; */ = \"};\\\"\"; // }\n'{' 1'000 R\"x(\")\")x\" b",
                Lexis::C
            ),
            [
                "a",
                "=",
                "\"};\\\"\"",
                ";",
                "'{'",
                "1'000",
                "R\"x(\")\")x\"",
                "b"
            ]
        );
        assert_eq!(
            words("#define A \\\n {\n#if 1\nx::y->z", Lexis::C),
            ["#define A \\\n {", "#if 1", "x", "::", "y", "->", "z"]
        );
        assert_eq!(
            words("/* a /* b */ c */ &'a T, '\\'', '}', r#\"}\"#", Lexis::Rust),
            [
                "&", "'", "a", "T", ",", "'\\''", ",", "'}'", ",", "r#\"}\"#"
            ]
        );
    }

    #[test]
    fn brackets_that_do_not_match_have_no_pair() {
        let tokens = Tokens::new("a", "f(a[1], {2}) { (", Lexis::C);
        assert_eq!(tokens.close(1), 10);
        assert_eq!(tokens.open(10), 1);
        assert_eq!(tokens.close(11), 11);
        let parts = [Span { from: 2, end: 6 }, Span { from: 7, end: 10 }];
        assert_eq!(tokens.split(2, 10), parts);
    }

    #[test]
    fn what_never_ends_ends_with_the_file() {
        for text in ["/* a", "\"a", "'\\", "R\"(", "#a \\\n", "\u{e4}'"] {
            let tokens = Tokens::new("a", text, Lexis::C);
            assert!(tokens.len() <= 2, "{text}");
        }
        for text in ["r#\"", "'", "'\\", "/* /* */"] {
            assert!(Tokens::new("a", text, Lexis::Rust).len() <= 2, "{text}");
        }
    }
}
