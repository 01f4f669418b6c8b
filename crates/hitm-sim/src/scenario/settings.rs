//! `--set KEY=VALUE`: keys of a scenario that the caller overrides.
//!
//! A key is written with its tables: `kernel.tick`, `workload.0.runnable`. The number of a table in
//! a list may be left out when there is only one. A value is TOML, or a text that needs no quotes.
//!
//! Invariant: the values stand in the document as if they had been written behind the file's end.
//! So errors about them name the setting and not a line of the file.

use std::borrow::Cow;
use std::ops::Range;

use hitm_base::document::Document as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ScenarioError;
use super::reader::Reader;

/// The most settings.
pub(super) const SETTINGS_MAX: usize = 64;
/// The longest setting, in bytes.
pub(super) const SETTING_BYTES_MAX: usize = 1_000;

/// Settings as text at the place in the file's text that [`Reader`] gives them.
pub(super) fn padded(reader: &Reader<'_>, settings: &[String]) -> Vec<String> {
    let texts = settings.iter().enumerate().map(|(index, setting)| {
        let (_, value) = setting.split_once('=').unwrap_or((setting, ""));
        let blanks = " ".repeat(reader.setting_start(index));
        let is_toml = DeTable::parse(&format!("value = {value}")).is_ok();
        if is_toml {
            format!("{blanks}value = {value}")
        } else {
            // Quotes and control characters cannot stand in a text without quotes.
            format!("{blanks}value = '{value}'")
        }
    });
    texts.collect()
}

/// Puts the settings into the document; `padded` is what [`padded`] answered for them.
pub(super) fn apply<'i>(
    reader: &Reader<'_>,
    document: &mut DeTable<'i>,
    settings: &[String],
    padded: &'i [String],
) -> Result<(), ScenarioError> {
    for (index, (setting, text)) in settings.iter().zip(padded).enumerate() {
        let start = reader.setting_start(index);
        let span = start..start;
        let key = setting.split_once('=').map_or("", |(key, _)| key.trim());
        if key.is_empty() {
            let expected = "KEY=VALUE, such as kernel.tick=1000/s";
            return Err(reader.error(span, "the setting", format!("{setting:?}"), expected));
        }
        let mut parsed = DeTable::parse(text).map_err(|error| {
            let found = format!("no value ({})", error.message());
            reader.error(span.clone(), key, found, "a value as in a scenario file")
        })?;
        let value = parsed.get_mut().remove("value");
        let (Some(value), true) = (value, parsed.get_ref().is_empty()) else {
            let expected = "one value in one line";
            return Err(reader.error(span, key, "several lines", expected));
        };
        put(reader, document, key, span, value)?;
    }
    Ok(())
}

fn put<'i>(
    reader: &Reader<'_>,
    root: &mut DeTable<'i>,
    key: &str,
    span: Range<usize>,
    value: Spanned<DeValue<'i>>,
) -> Result<(), ScenarioError> {
    let mut steps = key.split('.').peekable();
    let mut table = root;
    while let Some(step) = steps.next() {
        let name = || Spanned::new(span.clone(), Cow::Owned(step.to_owned()));
        if steps.peek().is_none() {
            // The key is taken out first: an insertion alone would keep its old place.
            table.remove(step);
            table.insert(name(), value);
            return Ok(());
        }
        if !table.contains_key(step) {
            let empty = DeValue::Table(DeTable::new());
            table.insert(name(), Spanned::new(span.clone(), empty));
        }
        let entry = table.get_mut(step).map(Spanned::get_mut);
        table = match entry {
            Some(DeValue::Table(inner)) => inner,
            Some(DeValue::Array(list)) => {
                let number = steps.peek().and_then(|step| step.parse::<usize>().ok());
                if number.is_some() {
                    steps.next();
                }
                let count = list.len();
                let wanted = number.or((count == 1).then_some(0));
                let element = wanted.and_then(|number| list.get_mut(number));
                match element.map(Spanned::get_mut) {
                    Some(DeValue::Table(inner)) => inner,
                    _ => {
                        let expected = format!("{step}.N with N from 0 to {}", count.max(1) - 1);
                        return Err(reader.error(span, key, "no such table", expected));
                    }
                }
            }
            _ => {
                let expected = "a key of a table, such as kernel.tick";
                return Err(reader.error(span, key, format!("{step} is no table"), expected));
            }
        };
    }
    Ok(())
}
