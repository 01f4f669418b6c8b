//! Reads a table of a TOML document key by key, and knows the place of every mistake.
//!
//! A [`Table`] remembers which keys were asked for; [`Table::finish`] refuses the others, so that
//! the list of known keys is nowhere written twice.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use hitm_base::machine::{Dimension, Quantity};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::quantity::{cpu_list, rate, time};
use super::settings::SETTING_BYTES_MAX;
use super::{Places, ScenarioError, TextPlace};

/// Longest name, description or source, in bytes.
const WORDS_BYTES_MAX: usize = 2_000;
/// Longest list, and most tables of one name.
const LIST_MAX: usize = 256;

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// The text that is read.
pub(super) struct Reader<'t> {
    text: &'t str,
    origin: &'t str,
    line_starts: Vec<usize>,
    /// What the caller says otherwise; their text stands behind the file's, one after the other.
    settings: &'t [String],
    places: RefCell<Places>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, origin: &'t str, settings: &'t [String]) -> Reader<'t> {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut line_starts = vec![0];
        line_starts.extend(newlines.map(|(at, _)| at + 1));
        Reader {
            text,
            origin,
            settings,
            line_starts,
            places: RefCell::new(Places {
                origin: origin.to_owned(),
                ..Places::default()
            }),
        }
    }

    /// Where the text of a setting begins, in bytes from the start of the file's.
    pub(super) fn setting_start(&self, index: usize) -> usize {
        self.text.len() + 1 + index * 2 * SETTING_BYTES_MAX
    }

    /// The setting whose text has this place.
    fn setting_at(&self, at: usize) -> Option<&'t str> {
        let behind = at.checked_sub(self.setting_start(0))?;
        let setting = self.settings.get(behind / (2 * SETTING_BYTES_MAX));
        setting.map(String::as_str)
    }

    fn place(&self, at: usize) -> TextPlace {
        let at = at.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= at);
        let before = &self.text.as_bytes()[self.line_starts[line - 1]..at];
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        TextPlace { line, column }
    }

    pub(super) fn error(
        &self,
        span: Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> ScenarioError {
        let setting = self.setting_at(span.start);
        let origin = setting.map(|setting| format!("--set {setting}"));
        ScenarioError {
            place: origin.is_none().then(|| self.place(span.start)),
            origin: origin.unwrap_or_else(|| self.origin.to_owned()),
            key: key.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    /// The table of a value that should be one.
    pub(super) fn table<'a, 'i>(
        &'a self,
        value: &'a Value<'i>,
        path: String,
    ) -> Result<Table<'a, 'i, 't>, ScenarioError> {
        match value.get_ref().as_table() {
            Some(table) => Ok(self.root(table, path, value.span())),
            None => Err(self.error(value.span(), &path, describe(value), "a table")),
        }
    }

    pub(super) fn root<'a, 'i>(
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

    pub(super) fn into_places(self) -> Places {
        self.places.into_inner()
    }
}

/// One table of the document.
pub(super) struct Table<'a, 'i, 't> {
    reader: &'a Reader<'t>,
    table: &'a DeTable<'i>,
    path: String,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a, 'i> Table<'a, 'i, '_> {
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// An error about the value of `key`, or about the table when there is none.
    pub(super) fn error(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> ScenarioError {
        let value = self.table.get(key);
        let span = value.map_or_else(|| self.span.clone(), Spanned::span);
        self.reader.error(span, &self.path(key), found, expected)
    }

    fn wrong(&self, key: &str, value: &Value<'_>, expected: impl Into<String>) -> ScenarioError {
        let path = self.path(key);
        self.reader
            .error(value.span(), &path, describe(value), expected)
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&'a Value<'i>> {
        self.asked.borrow_mut().push(key);
        let value = self.table.get(key)?;
        let start = value.span().start;
        if self.reader.setting_at(start).is_none() {
            let place = self.reader.place(start);
            let places = &self.reader.places;
            places.borrow_mut().keys.insert(self.path(key), place);
        }
        Some(value)
    }

    pub(super) fn required(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Result<&'a Value<'i>, ScenarioError> {
        let missing = || self.error(key, "no such key", expected);
        self.get(key).ok_or_else(missing)
    }

    /// Refuses keys that nobody asked for, the first one of the text.
    pub(super) fn finish(&self) -> Result<(), ScenarioError> {
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

    /// A line of words: no control characters, which could drive a terminal.
    pub(super) fn words(&self, key: &'static str) -> Result<Option<String>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match line_of_words(value) {
            Some(words) => Ok(Some(words)),
            None => Err(self.wrong(key, value, words_expected())),
        }
    }

    pub(super) fn required_words(&self, key: &'static str) -> Result<String, ScenarioError> {
        let missing = || self.error(key, "no such key", words_expected());
        self.words(key)?.ok_or_else(missing)
    }

    /// One line of words, or a list of at least one.
    pub(super) fn list_of_words(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Result<Option<Vec<String>>, ScenarioError> {
        self.list(key, expected, line_of_words)
    }

    pub(super) fn one_of<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match choice(value, choices) {
            Some(choice) => Ok(Some(choice)),
            None => Err(self.wrong(key, value, any_of(choices))),
        }
    }

    /// One of the choices, or a list of them, each once.
    pub(super) fn some_of<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<Vec<T>>, ScenarioError> {
        self.list(key, &any_of(choices), |value| choice(value, choices))
    }

    pub(super) fn time(
        &self,
        key: &'static str,
        least: Duration,
        most: Duration,
    ) -> Result<Option<Duration>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = value.get_ref().as_str();
        match text.and_then(|text| time(text, most)) {
            Some(time) if time >= least => Ok(Some(time)),
            _ => {
                let expected =
                    format!("a time with its unit, such as \"20ms\", {least:?} to {most:?}");
                Err(self.wrong(key, value, expected))
            }
        }
    }

    /// A rate, or a list of rates.
    pub(super) fn rates(
        &self,
        key: &'static str,
        most: u64,
    ) -> Result<Option<Vec<u64>>, ScenarioError> {
        let expected = format!("a rate with its unit, such as \"250/s\", from 1/s to {most}/s");
        self.list(key, &expected, |value| {
            rate(value.get_ref().as_str()?, most)
        })
    }

    pub(super) fn cpus(&self, key: &'static str) -> Result<Option<Vec<u16>>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_str().and_then(cpu_list) {
            Some(cpus) => Ok(Some(cpus)),
            None => Err(self.wrong(key, value, CPUS_EXPECTED)),
        }
    }

    pub(super) fn lists_of_cpus(
        &self,
        key: &'static str,
    ) -> Result<Option<Vec<Vec<u16>>>, ScenarioError> {
        let expected = format!("a list of {CPUS_EXPECTED}");
        self.list(key, &expected, |value| cpu_list(value.get_ref().as_str()?))
    }

    pub(super) fn number(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match integer(value).filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let expected = format!("a whole number from {least} to {most}");
                Err(self.wrong(key, value, expected))
            }
        }
    }

    /// A quantity with its unit, or a bare number where its kind has none.
    pub(super) fn quantity(
        &self,
        key: &'static str,
        dimension: Dimension,
    ) -> Result<Option<Quantity>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
            DeValue::Float(float) => Some(float.as_str().to_owned()),
            _ => None,
        };
        match text.and_then(|text| dimension.parse(&text)) {
            Some(quantity) => Ok(Some(quantity)),
            None => Err(self.wrong(key, value, dimension.expected())),
        }
    }

    pub(super) fn flag(&self, key: &'static str) -> Result<bool, ScenarioError> {
        Ok(self.choice_flag(key)?.unwrap_or(false))
    }

    /// As [`Table::flag`], told apart from an absent one.
    pub(super) fn choice_flag(&self, key: &'static str) -> Result<Option<bool>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let DeValue::Boolean(flag) = value.get_ref() else {
            return Err(self.wrong(key, value, "true or false"));
        };
        Ok(Some(*flag))
    }

    /// A finite number, or the two ends of a range.
    pub(super) fn range(&self, key: &'static str) -> Result<(f64, f64), ScenarioError> {
        const EXPECTED: &str = "a number, or [least, largest]";
        let value = self.required(key, EXPECTED)?;
        let ends = match value.get_ref().as_array() {
            Some(ends) if ends.len() == 2 => (float(&ends[0]), float(&ends[1])),
            Some(_) => (None, None),
            None => (float(value), float(value)),
        };
        match ends {
            (Some(least), Some(most)) if least <= most => Ok((least, most)),
            _ => Err(self.wrong(key, value, EXPECTED)),
        }
    }

    /// The tables of an array of tables; none when there is no such key.
    pub(super) fn tables(&self, key: &'static str) -> Result<&'a [Value<'i>], ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(&[]);
        };
        match value.get_ref().as_array() {
            Some(array) if array.len() <= LIST_MAX => Ok(array.as_ref()),
            _ => {
                let expected = format!("an array of at most {LIST_MAX} tables: [[{key}]]");
                Err(self.wrong(key, value, expected))
            }
        }
    }

    /// One item, or a list of at least one, each once.
    fn list<T: PartialEq>(
        &self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&Value<'i>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let values = match value.get_ref().as_array() {
            Some(array) => array.as_ref(),
            None => std::slice::from_ref(value),
        };
        if values.is_empty() || values.len() > LIST_MAX {
            let found = format!("{} values", values.len());
            let expected = format!("1 to {LIST_MAX} of: {expected}");
            return Err(self.error(key, found, expected));
        }
        let mut items = Vec::new();
        for value in values {
            let item = read(value).ok_or_else(|| self.wrong(key, value, expected))?;
            if items.contains(&item) {
                return Err(self.wrong(key, value, "each value once"));
            }
            items.push(item);
        }
        Ok(Some(items))
    }
}

const CPUS_EXPECTED: &str = "CPU numbers in ascending order, such as \"0-7,16\"";

fn words_expected() -> String {
    format!("one line of text, at most {WORDS_BYTES_MAX} bytes")
}

fn line_of_words(value: &Value<'_>) -> Option<String> {
    let words = value.get_ref().as_str()?;
    let fits = !words.is_empty() && words.len() <= WORDS_BYTES_MAX;
    (fits && !words.chars().any(char::is_control)).then(|| words.to_owned())
}

fn choice<T: Copy>(value: &Value<'_>, choices: &[(&str, T)]) -> Option<T> {
    let stated = value.get_ref().as_str()?;
    let found = choices.iter().find(|(word, _)| *word == stated);
    found.map(|(_, choice)| *choice)
}

fn any_of<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<String> = choices
        .iter()
        .map(|(word, _)| format!("{word:?}"))
        .collect();
    words.join(" or ")
}

pub(super) fn integer(value: &Value<'_>) -> Option<u64> {
    match value.get_ref() {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    let number: f64 = match value.get_ref() {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok()?,
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// A value as an error message shows it.
pub(super) fn describe(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("{:?}", shorten(text)),
        DeValue::Integer(integer) => shorten(&integer.to_string()),
        DeValue::Float(float) => shorten(float.as_str()),
        other => format!("a value of type {}", other.type_str()),
    }
}

/// Text that is short enough for a message, without control characters.
pub(super) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.take(CHARS_MAX).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}
