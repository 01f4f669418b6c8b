//! Reads a scenario key by key: the quantities that its tables hold, and where its keys stand.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use hitm_base::Nanos;
use hitm_base::document::{self, Document, TextLines, Value, any_of, choice, line_of_words};
use hitm_base::machine::{Dimension, Quantity};
use toml::de::DeValue;

use super::quantity::{self, cpu_list, nanos, rate};
use super::settings::SETTING_BYTES_MAX;
use super::{Places, ScenarioError};

/// Longest list, and most tables of one name.
const LIST_MAX: usize = 256;

/// One table of a scenario.
pub(crate) type Table<'a, 'i, 't> = document::Table<'a, 'i, Reader<'t>>;

/// The text that is read.
pub(crate) struct Reader<'t> {
    text: &'t str,
    lines: TextLines<'t>,
    origin: &'t str,
    /// Overrides by the caller; their text stands behind the file's, one after the other.
    settings: &'t [String],
    places: RefCell<Places>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str, origin: &'t str, settings: &'t [String]) -> Reader<'t> {
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
    pub(crate) fn setting_start(&self, index: usize) -> usize {
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

type Read<T> = Result<T, ScenarioError>;

/// One line of words, or a list of at least one.
pub(crate) fn list_of_words(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    expected: &str,
) -> Read<Option<Vec<String>>> {
    list(table, key, expected, line_of_words)
}

/// One of the choices, or a list of them, each once.
pub(crate) fn some_of<T: Copy + PartialEq>(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    choices: &[(&str, T)],
) -> Read<Option<Vec<T>>> {
    let choice = |value: &Value<'_>| choice(value, choices);
    list(table, key, &any_of(choices), choice)
}

/// One of the choices, a list of them or an empty one: a set. Or a list of sets, each once.
pub(crate) fn sets_of<T: Copy + PartialEq>(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    choices: &[(&str, T)],
) -> Read<Option<Vec<Vec<T>>>> {
    let expected = format!(
        "{}, a list of them, or a list of such lists",
        any_of(choices)
    );
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let set = |value: &Value<'_>| -> Read<Vec<T>> {
        let mut items = Vec::new();
        for item in value
            .get_ref()
            .as_array()
            .map_or(std::slice::from_ref(value), |all| all)
        {
            let one = choice(item, choices);
            let one = one.ok_or_else(|| table.wrong(key, item, expected.as_str()))?;
            if items.contains(&one) {
                return Err(table.wrong(key, item, "each value once"));
            }
            items.push(one);
        }
        Ok(items)
    };
    let sets = match value.get_ref().as_array() {
        Some(all) if all.iter().any(|one| one.get_ref().as_array().is_some()) => all,
        _ => return Ok(Some(vec![set(value)?])),
    };
    if sets.len() > LIST_MAX {
        let found = format!("{} lists", sets.len());
        return Err(table.error(key, found, format!("at most {LIST_MAX}")));
    }
    let mut read: Vec<Vec<T>> = Vec::new();
    for one in sets.iter() {
        let one_set = set(one)?;
        if read.contains(&one_set) {
            return Err(table.wrong(key, one, "each list once"));
        }
        read.push(one_set);
    }
    Ok(Some(read))
}

/// A time with its unit.
pub(crate) fn time(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    least: Duration,
    most: Duration,
) -> Read<Option<Duration>> {
    let expected = || format!("a time with its unit, such as \"20ms\", {least:?} to {most:?}");
    table.read(key, expected, |value| {
        let time = quantity::time(value.get_ref().as_str()?, most)?;
        (time >= least).then_some(time)
    })
}

/// A time within the kernel's or a workload's bounds; where none is stated, the default.
pub(crate) fn span(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    within: RangeInclusive<Duration>,
    default: Nanos,
) -> Read<Nanos> {
    let stated = time(table, key, *within.start(), *within.end())?;
    Ok(stated.map_or(default, nanos))
}

/// A rate, or a list of rates.
pub(crate) fn rates(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    most: u64,
) -> Read<Option<Vec<u64>>> {
    let expected = format!("a rate with its unit, such as \"250/s\", from 1/s to {most}/s");
    list(table, key, &expected, |value| {
        rate(value.get_ref().as_str()?, most)
    })
}

/// CPU numbers.
pub(crate) fn cpus(table: &Table<'_, '_, '_>, key: &'static str) -> Read<Option<Vec<u16>>> {
    let cpus = |value: &Value<'_>| cpu_list(value.get_ref().as_str()?);
    table.read(key, || CPUS_EXPECTED.to_owned(), cpus)
}

/// Lists of CPU numbers.
pub(crate) fn lists_of_cpus(
    table: &Table<'_, '_, '_>,
    key: &'static str,
) -> Read<Option<Vec<Vec<u16>>>> {
    let expected = format!("a list of {CPUS_EXPECTED}");
    list(table, key, &expected, |value| {
        cpu_list(value.get_ref().as_str()?)
    })
}

/// A quantity with its unit, or a bare number where its kind has none.
pub(crate) fn quantity(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    dimension: Dimension,
) -> Read<Option<Quantity>> {
    let expected = || dimension.expected();
    table.read(key, expected, |value| match value.get_ref() {
        DeValue::String(text) => dimension.parse(text),
        DeValue::Integer(integer) if integer.radix() == 10 => dimension.parse(integer.as_str()),
        DeValue::Float(float) => dimension.parse(float.as_str()),
        _ => None,
    })
}

/// A finite number, or the two ends of a range.
pub(crate) fn range(table: &Table<'_, '_, '_>, key: &'static str) -> Read<(f64, f64)> {
    const EXPECTED: &str = "a number, or [least, largest]";
    let value = table.required(key, EXPECTED)?;
    let ends = match value.get_ref().as_array() {
        Some(ends) if ends.len() == 2 => (float(&ends[0]), float(&ends[1])),
        Some(_) => (None, None),
        None => (float(value), float(value)),
    };
    match ends {
        (Some(least), Some(most)) if least <= most => Ok((least, most)),
        _ => Err(table.wrong(key, value, EXPECTED)),
    }
}

/// The tables of an array of tables; none when there is no such key.
pub(crate) fn tables<'a, 'i>(
    table: &Table<'a, 'i, '_>,
    key: &'static str,
) -> Read<&'a [Value<'i>]> {
    let Some(value) = table.get(key) else {
        return Ok(&[]);
    };
    match value.get_ref().as_array() {
        Some(array) if array.len() <= LIST_MAX => Ok(array.as_ref()),
        _ => {
            let expected = format!("an array of at most {LIST_MAX} tables: [[{key}]]");
            Err(table.wrong(key, value, expected))
        }
    }
}

/// A name that metrics begin with.
pub(crate) fn metric_name(table: &Table<'_, '_, '_>, name: String) -> Read<String> {
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.chars().all(is_id) {
        return Ok(name);
    }
    let expected = "lower-case letters, digits and _: metrics begin with it";
    Err(table.error("name", format!("{name:?}"), expected))
}

/// The value that a key which has to be there was read as.
pub(crate) fn needed<T>(
    table: &Table<'_, '_, '_>,
    key: &'static str,
    expected: impl Into<String>,
    read: Option<T>,
) -> Read<T> {
    read.ok_or_else(|| table.error(key, "no such key", expected))
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
