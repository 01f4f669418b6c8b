//! Reads a scenario key by key: the quantities that its tables hold, and where its keys stand.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use hitm_base::document::{self, Document, TextLines, Value, any_of, choice, line_of_words};
use hitm_base::machine::{Dimension, Quantity};
use toml::de::DeValue;

use super::quantity::{cpu_list, rate, time};
use super::settings::SETTING_BYTES_MAX;
use super::{Places, ScenarioError};

/// Longest list, and most tables of one name.
const LIST_MAX: usize = 256;

/// One table of a scenario.
pub(super) type Table<'a, 'i, 't> = document::Table<'a, 'i, Reader<'t>>;

/// The text that is read.
pub(super) struct Reader<'t> {
    text: &'t str,
    lines: TextLines<'t>,
    origin: &'t str,
    /// Overrides by the caller; their text stands behind the file's, one after the other.
    settings: &'t [String],
    places: RefCell<Places>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, origin: &'t str, settings: &'t [String]) -> Reader<'t> {
        Reader {
            text,
            lines: TextLines::of(text),
            origin,
            settings,
            places: RefCell::new(Places {
                origin: origin.to_owned(),
                ..Places::default()
            }),
        }
    }

    /// Start of the text of a setting, in bytes from the start of the file's.
    pub(super) fn setting_start(&self, index: usize) -> usize {
        self.text.len() + 1 + index * 2 * SETTING_BYTES_MAX
    }

    /// The setting whose text has this place.
    fn setting_at(&self, at: usize) -> Option<&'t str> {
        let behind = at.checked_sub(self.setting_start(0))?;
        let setting = self.settings.get(behind / (2 * SETTING_BYTES_MAX));
        setting.map(String::as_str)
    }

    pub(super) fn into_places(self) -> Places {
        self.places.into_inner()
    }
}

impl Document for Reader<'_> {
    type Error = ScenarioError;

    fn error(
        &self,
        span: Range<usize>,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> ScenarioError {
        let setting = self.setting_at(span.start);
        let origin = setting.map(|setting| format!("--set {setting}"));
        ScenarioError {
            place: origin.is_none().then(|| self.lines.place(span.start)),
            origin: origin.unwrap_or_else(|| self.origin.to_owned()),
            key: key.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn asked(&self, key: impl FnOnce() -> String, at: usize) {
        if self.setting_at(at).is_none() {
            let place = self.lines.place(at);
            self.places.borrow_mut().keys.insert(key(), place);
        }
    }
}

/// Values that tables of scenarios have.
pub(super) trait ScenarioTable<'a, 'i> {
    /// One line of words, or a list of at least one.
    fn list_of_words(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Result<Option<Vec<String>>, ScenarioError>;

    /// One of the choices, or a list of them, each once.
    fn some_of<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<Vec<T>>, ScenarioError>;

    fn time(
        &self,
        key: &'static str,
        least: Duration,
        most: Duration,
    ) -> Result<Option<Duration>, ScenarioError>;

    /// A rate, or a list of rates.
    fn rates(&self, key: &'static str, most: u64) -> Result<Option<Vec<u64>>, ScenarioError>;

    fn cpus(&self, key: &'static str) -> Result<Option<Vec<u16>>, ScenarioError>;

    fn lists_of_cpus(&self, key: &'static str) -> Result<Option<Vec<Vec<u16>>>, ScenarioError>;

    /// A quantity with its unit, or a bare number where its kind has none.
    fn quantity(
        &self,
        key: &'static str,
        dimension: Dimension,
    ) -> Result<Option<Quantity>, ScenarioError>;

    /// A finite number, or the two ends of a range.
    fn range(&self, key: &'static str) -> Result<(f64, f64), ScenarioError>;

    /// The tables of an array of tables; none when there is no such key.
    fn tables(&self, key: &'static str) -> Result<&'a [Value<'i>], ScenarioError>;
}

impl<'a, 'i> ScenarioTable<'a, 'i> for Table<'a, 'i, '_> {
    fn list_of_words(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Result<Option<Vec<String>>, ScenarioError> {
        list(self, key, expected, line_of_words)
    }

    fn some_of<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<Vec<T>>, ScenarioError> {
        list(self, key, &any_of(choices), |value| choice(value, choices))
    }

    fn time(
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

    fn rates(&self, key: &'static str, most: u64) -> Result<Option<Vec<u64>>, ScenarioError> {
        let expected = format!("a rate with its unit, such as \"250/s\", from 1/s to {most}/s");
        list(self, key, &expected, |value| {
            rate(value.get_ref().as_str()?, most)
        })
    }

    fn cpus(&self, key: &'static str) -> Result<Option<Vec<u16>>, ScenarioError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_str().and_then(cpu_list) {
            Some(cpus) => Ok(Some(cpus)),
            None => Err(self.wrong(key, value, CPUS_EXPECTED)),
        }
    }

    fn lists_of_cpus(&self, key: &'static str) -> Result<Option<Vec<Vec<u16>>>, ScenarioError> {
        let expected = format!("a list of {CPUS_EXPECTED}");
        list(self, key, &expected, |value| {
            cpu_list(value.get_ref().as_str()?)
        })
    }

    fn quantity(
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

    fn range(&self, key: &'static str) -> Result<(f64, f64), ScenarioError> {
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

    fn tables(&self, key: &'static str) -> Result<&'a [Value<'i>], ScenarioError> {
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
}

/// One item, or a list of at least one, each once.
fn list<'i, T: PartialEq>(
    table: &Table<'_, 'i, '_>,
    key: &'static str,
    expected: &str,
    read: impl Fn(&Value<'i>) -> Option<T>,
) -> Result<Option<Vec<T>>, ScenarioError> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let values = match value.get_ref().as_array() {
        Some(array) => array.as_ref(),
        None => std::slice::from_ref(value),
    };
    if values.is_empty() || values.len() > LIST_MAX {
        let found = format!("{} values", values.len());
        let expected = format!("1 to {LIST_MAX} of: {expected}");
        return Err(table.error(key, found, expected));
    }
    let mut items = Vec::new();
    for value in values {
        let item = read(value).ok_or_else(|| table.wrong(key, value, expected))?;
        if items.contains(&item) {
            return Err(table.wrong(key, value, "each value once"));
        }
        items.push(item);
    }
    Ok(Some(items))
}

const CPUS_EXPECTED: &str = "CPU numbers in ascending order, such as \"0-7,16\"";

fn float(value: &Value<'_>) -> Option<f64> {
    let number: f64 = match value.get_ref() {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok()?,
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}
