//! Reads a table of a TOML document key by key, and knows the place of every mistake.
//!
//! A [`Table`] remembers the keys that were asked for; [`Table::finish`] refuses all others.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::value::Value;
use crate::{PlanError, TextPlace};

/// Longest text of a name or a path, in bytes.
const WORDS_BYTES_MAX: usize = 2_000;

pub(crate) type Item<'i> = Spanned<DeValue<'i>>;

/// The text that is read.
pub(crate) struct Reader<'t> {
    text: &'t str,
    origin: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str, origin: &'t str) -> Reader<'t> {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut line_starts = vec![0];
        line_starts.extend(newlines.map(|(at, _)| at + 1));
        Reader {
            text,
            origin,
            line_starts,
        }
    }

    pub(crate) fn place(&self, at: usize) -> TextPlace {
        let at = at.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= at);
        let before = &self.text.as_bytes()[self.line_starts[line - 1]..at];
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        TextPlace { line, column }
    }

    pub(crate) fn error(
        &self,
        span: Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> PlanError {
        PlanError {
            origin: self.origin.to_owned(),
            place: self.place(span.start),
            key: key.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    pub(crate) fn table<'a, 'i>(
        &'a self,
        item: &'a Item<'i>,
        path: String,
    ) -> Result<Table<'a, 'i, 't>, PlanError> {
        match item.get_ref().as_table() {
            Some(table) => Ok(self.root(table, path, item.span())),
            None => Err(self.error(item.span(), &path, describe(item), "a table")),
        }
    }

    pub(crate) fn root<'a, 'i>(
        &'a self,
        table: &'a DeTable<'i>,
        path: String,
        span: Range<usize>,
    ) -> Table<'a, 'i, 't> {
        Table {
            reader: self,
            table,
            path,
            span,
            asked: RefCell::new(Vec::new()),
        }
    }
}

/// One table of the document.
pub(crate) struct Table<'a, 'i, 't> {
    pub(crate) reader: &'a Reader<'t>,
    table: &'a DeTable<'i>,
    path: String,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a, 'i> Table<'a, 'i, '_> {
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// An error at the value of `key`, or at the table when there is none.
    pub(crate) fn error(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> PlanError {
        let span = self.span_of(key);
        self.reader.error(span, &self.path(key), found, expected)
    }

    /// The place of the value of `key`, or of the table when there is none.
    pub(crate) fn place(&self, key: &str) -> TextPlace {
        self.reader.place(self.span_of(key).start)
    }

    fn span_of(&self, key: &str) -> Range<usize> {
        let value = self.table.get(key);
        value.map_or_else(|| self.span.clone(), Spanned::span)
    }

    pub(crate) fn wrong(&self, key: &str, item: &Item<'_>, expected: &str) -> PlanError {
        let path = self.path(key);
        self.reader
            .error(item.span(), &path, describe(item), expected)
    }

    pub(crate) fn get(&self, key: &'static str) -> Option<&'a Item<'i>> {
        self.asked.borrow_mut().push(key);
        self.table.get(key)
    }

    pub(crate) fn required(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Result<&'a Item<'i>, PlanError> {
        let missing = || self.error(key, "no such key", expected);
        self.get(key).ok_or_else(missing)
    }

    /// Refuses keys that nobody asked for, the first one of the text.
    pub(crate) fn finish(&self) -> Result<(), PlanError> {
        let asked = self.asked.borrow();
        let keys = self.table.keys();
        let unknown = keys.filter(|key| !asked.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let path = self.path(&shorten(key.get_ref()));
        let expected = format!("one of {}", asked.join(", "));
        Err(self
            .reader
            .error(key.span(), &path, "an unknown key", expected))
    }

    /// One line of text.
    pub(crate) fn words(&self, key: &'static str) -> Result<Option<String>, PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(None);
        };
        match line_of_words(item) {
            Some(words) => Ok(Some(words)),
            None => Err(self.wrong(key, item, &words_expected())),
        }
    }

    pub(crate) fn required_words(&self, key: &'static str) -> Result<String, PlanError> {
        let missing = || self.error(key, "no such key", words_expected());
        self.words(key)?.ok_or_else(missing)
    }

    /// A list of texts, each with its place; one text stands for a list of one.
    pub(crate) fn list_of_words(
        &self,
        key: &'static str,
        count_max: usize,
    ) -> Result<Option<Vec<(String, TextPlace)>>, PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(None);
        };
        let items = match item.get_ref().as_array() {
            Some(array) => array.as_ref(),
            None => std::slice::from_ref(item),
        };
        self.check_count(key, items.len(), count_max)?;
        let mut words: Vec<(String, TextPlace)> = Vec::new();
        for item in items {
            let word =
                line_of_words(item).ok_or_else(|| self.wrong(key, item, &words_expected()))?;
            if words.iter().any(|(other, _)| *other == word) {
                return Err(self.wrong(key, item, "each text once"));
            }
            words.push((word, self.reader.place(item.span().start)));
        }
        Ok(Some(words))
    }

    /// Refuses an empty list and one that is too long.
    pub(crate) fn check_count(&self, key: &str, count: usize, max: usize) -> Result<(), PlanError> {
        if (1..=max).contains(&count) {
            return Ok(());
        }
        Err(self.error(key, format!("{count} values"), format!("1 to {max} values")))
    }

    pub(crate) fn number(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(None);
        };
        let number = match Value::of(item) {
            Some(Value::Integer(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = format!("a whole number from {least} to {most}");
                Err(self.wrong(key, item, &expected))
            }
        }
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<bool, PlanError> {
        match self.get(key).map(|item| (item, item.get_ref())) {
            None => Ok(false),
            Some((_, DeValue::Boolean(flag))) => Ok(*flag),
            Some((item, _)) => Err(self.wrong(key, item, "true or false")),
        }
    }

    /// One of the words, the first one when there is no such key.
    pub(crate) fn one_of<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(choices[0].1);
        };
        let stated = item.get_ref().as_str();
        let found = choices.iter().find(|(word, _)| Some(*word) == stated);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<String> = choices
                .iter()
                .map(|(word, _)| format!("{word:?}"))
                .collect();
            self.wrong(key, item, &words.join(" or "))
        })
    }

    /// The items of an array; none when there is no such key.
    pub(crate) fn items(
        &self,
        key: &'static str,
        count_max: usize,
    ) -> Result<&'a [Item<'i>], PlanError> {
        let Some(item) = self.get(key) else {
            return Ok(&[]);
        };
        match item.get_ref().as_array() {
            Some(array) if array.len() <= count_max => Ok(array.as_ref()),
            _ => Err(self.wrong(key, item, &format!("a list of at most {count_max}"))),
        }
    }
}

fn words_expected() -> String {
    format!("one line of text, at most {WORDS_BYTES_MAX} bytes")
}

fn line_of_words(item: &Item<'_>) -> Option<String> {
    let words = item.get_ref().as_str()?;
    let fits = !words.is_empty() && words.len() <= WORDS_BYTES_MAX;
    (fits && !words.chars().any(char::is_control)).then(|| words.to_owned())
}

/// A value as an error message shows it.
pub(crate) fn describe(item: &Item<'_>) -> String {
    match item.get_ref() {
        DeValue::String(text) => format!("{:?}", shorten(text)),
        DeValue::Integer(integer) => shorten(&integer.to_string()),
        DeValue::Float(float) => shorten(float.as_str()),
        other => format!("a value of type {}", other.type_str()),
    }
}

/// Text that is short enough for a message, without control characters.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.take(CHARS_MAX).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}
