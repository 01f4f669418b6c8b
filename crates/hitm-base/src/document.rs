//! Reads a TOML document key by key, and knows the place of every mistake.
//!
//! A [`Table`] remembers the keys that were read; [`Table::finish`] refuses the others. So the list
//! of known keys is nowhere written twice. The kind of document decides what its errors are
//! ([`Document`]).
//!
//! Here, because machine files, layout files, scenarios and plans are read by crates that do not know each other.

use std::cell::RefCell;
use std::ops::Range;

use crate::of_word;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest name, description or source, in bytes.
const WORDS_BYTES_MAX: usize = 2_000;

/// A value with its place.
pub type Value<'i> = Spanned<DeValue<'i>>;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
}

/// The lines of a text, for places in it.
#[derive(Debug, Clone)]
pub struct TextLines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> TextLines<'t> {
    /// Finds the lines.
    pub fn of(text: &'t str) -> TextLines<'t> {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut starts = vec![0];
        starts.extend(newlines.map(|(at, _)| at + 1));
        TextLines { text, starts }
    }

    /// The place of a byte; of the text's end for those behind it.
    pub fn place(&self, at: usize) -> TextPlace {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let before = &self.text.as_bytes()[self.starts[line - 1]..at];
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        TextPlace { line, column }
    }
}

/// A kind of document.
pub trait Document {
    /// Error about a document of this kind.
    type Error;

    /// `key` is wrong, whose value or table has this span.
    fn error(
        &self,
        span: Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self::Error;

    /// Callback for a key that was read and that the document has; its value begins at this byte.
    fn asked(&self, _key: impl FnOnce() -> String, _at: usize) {}
}

/// One table of a document.
#[derive(Debug)]
pub struct Table<'a, 'i, D> {
    document: &'a D,
    table: &'a DeTable<'i>,
    path: String,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a, 'i, D: Document> Table<'a, 'i, D> {
    /// The table at `path`; the document's own has none.
    pub fn new(
        document: &'a D,
        table: &'a DeTable<'i>,
        path: String,
        span: Range<usize>,
    ) -> Table<'a, 'i, D> {
        Table {
            document,
            table,
            path,
            span,
            asked: RefCell::new(Vec::new()),
        }
    }

    /// The table of a value that should be one.
    pub fn of(
        document: &'a D,
        value: &'a Value<'i>,
        path: String,
    ) -> Result<Table<'a, 'i, D>, D::Error> {
        match value.get_ref().as_table() {
            Some(table) => Ok(Table::new(document, table, path, value.span())),
            None => Err(document.error(value.span(), &path, describe(value), "a table")),
        }
    }

    /// Returns the document that the table is of.
    pub fn document(&self) -> &'a D {
        self.document
    }

    /// A key with the tables above it.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The span of the value of `key`, or of the table when there is none.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        let value = self.table.get(key);
        value.map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// An error about the value of `key`, or about the table when there is none.
    pub fn error(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> D::Error {
        let path = self.path(key);
        self.document
            .error(self.span_of(key), &path, found, expected)
    }

    /// An error about this value of `key`, or of an item of its list.
    pub fn wrong(&self, key: &str, value: &Value<'_>, expected: impl Into<String>) -> D::Error {
        let path = self.path(key);
        self.document
            .error(value.span(), &path, describe(value), expected)
    }

    /// The value of a key, which is known from now on.
    pub fn get(&self, key: &'static str) -> Option<&'a Value<'i>> {
        self.asked.borrow_mut().push(key);
        let value = self.table.get(key)?;
        self.document.asked(|| self.path(key), value.span().start);
        Some(value)
    }

    /// The value of a key that has to be there.
    pub fn required(&self, key: &'static str, expected: &str) -> Result<&'a Value<'i>, D::Error> {
        let missing = || self.error(key, "no such key", expected);
        self.get(key).ok_or_else(missing)
    }

    /// Refuses keys that nobody read; the error names the first one of the text.
    pub fn finish(&self) -> Result<(), D::Error> {
        let asked = self.asked.borrow();
        let keys = self.table.keys();
        let unknown = keys.filter(|key| !asked.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let path = self.path(&shorten(key.get_ref()));
        let expected = format!("one of {}", asked.join(", "));
        Err(self
            .document
            .error(key.span(), &path, "an unknown key", expected))
    }

    /// A value as `read` takes it, which gives none for a wrong one.
    pub fn read<T>(
        &self,
        key: &'static str,
        expected: impl FnOnce() -> String,
        read: impl FnOnce(&Value<'i>) -> Option<T>,
    ) -> Result<Option<T>, D::Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.wrong(key, value, expected())),
        }
    }

    /// A line of words: no control characters, which could drive a terminal.
    pub fn words(&self, key: &'static str) -> Result<Option<String>, D::Error> {
        self.read(key, words_expected, line_of_words)
    }

    /// A line of words that has to be there.
    pub fn required_words(&self, key: &'static str) -> Result<String, D::Error> {
        let missing = || self.error(key, "no such key", words_expected());
        self.words(key)?.ok_or_else(missing)
    }

    /// One of the words.
    pub fn one_of<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, D::Error> {
        self.read(key, || any_of(choices), |value| choice(value, choices))
    }

    /// A whole number within bounds.
    pub fn number(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, D::Error> {
        let expected = || format!("a whole number from {least} to {most}");
        self.read(key, expected, |value| {
            integer(value).filter(|number| (least..=most).contains(number))
        })
    }

    /// True or false; false when there is no such key.
    pub fn flag(&self, key: &'static str) -> Result<bool, D::Error> {
        Ok(self.choice_flag(key)?.unwrap_or(false))
    }

    /// Like [`Table::flag`], but tells an absent key from `false`.
    pub fn choice_flag(&self, key: &'static str) -> Result<Option<bool>, D::Error> {
        self.read(
            key,
            || "true or false".into(),
            |value| value.get_ref().as_bool(),
        )
    }
}

/// The form of a line of words, for an error.
pub fn words_expected() -> String {
    format!("one line of text, at most {WORDS_BYTES_MAX} bytes")
}

/// A line of words.
pub fn line_of_words(value: &Value<'_>) -> Option<String> {
    let words = value.get_ref().as_str()?;
    let fits = !words.is_empty() && words.len() <= WORDS_BYTES_MAX;
    (fits && !words.chars().any(char::is_control)).then(|| words.to_owned())
}

/// The choice that a word stands for.
pub fn choice<T: Copy>(value: &Value<'_>, choices: &[(&str, T)]) -> Option<T> {
    of_word(choices, value.get_ref().as_str()?)
}

/// The words of the choices, for an error.
pub fn any_of<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<String> = choices
        .iter()
        .map(|(word, _)| format!("{word:?}"))
        .collect();
    words.join(" or ")
}

/// A whole number.
pub fn integer(value: &Value<'_>) -> Option<u64> {
    match value.get_ref() {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    }
}

/// A value as an error message shows it.
pub fn describe(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("{:?}", shorten(text)),
        DeValue::Integer(integer) => shorten(&integer.to_string()),
        DeValue::Float(float) => shorten(float.as_str()),
        other => format!("a value of type {}", other.type_str()),
    }
}

/// Text that is short enough for a message, without control characters.
pub fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.take(CHARS_MAX).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}

/// `"1.5ms"` as 1500 thousandths and `"ms"`: at most 12 digits before the point and 3 after it.
pub fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
        None => (number, ""),
    };
    if whole.is_empty() || whole.len() > 12 || fraction.len() > 3 || fraction.contains('.') {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let milli = whole.parse::<u64>().ok()? * 1_000 + thousandths;
    Some((milli, unit.trim_start_matches(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let place = |at| {
            let TextPlace { line, column } = TextLines::of("a = 1\nä = 2\n").place(at);
            (line, column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(5), (1, 6));
        assert_eq!(place(6), (2, 1));
        assert_eq!(place(8), (2, 2));
        assert_eq!(place(1_000), (3, 1));
    }

    #[test]
    fn what_messages_show_is_short_and_harmless() {
        assert_eq!(shorten("a\u{1b}b"), "a b");
        assert_eq!(shorten(&"x".repeat(61)).chars().count(), 61);
        assert!(shorten(&"x".repeat(61)).ends_with('…'));
    }

    #[test]
    fn numbers_have_three_digits_behind_the_point() {
        assert_eq!(split_number("1.5ms"), Some((1_500, "ms")));
        assert_eq!(split_number("20 us"), Some((20_000, "us")));
        for wrong in ["1.", "1.2345s", ".5s", "1.2.3s", "1234567890123s", "7"] {
            assert_eq!(split_number(wrong), None, "{wrong}");
        }
    }
}
