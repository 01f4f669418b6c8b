//! Values of a key: as a plan states them, as a setting repeats them, and as a table stores them.

use hitm_base::document::{Value as Item, split_number};
use toml::de::DeValue;

/// Deepest list in a list.
const DEPTH_MAX: usize = 4;

/// A value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A text, which may be a quantity: `"20ms"`.
    Text(String),
    /// A list, as TOML in one line.
    List(String),
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    None,
    /// A rate, from texts such as `"250/s"`.
    PerSecond,
    /// A time in nanoseconds, from texts such as `"1.5ms"`.
    Nanos,
}

impl Unit {
    /// The unit as a table's metadata names it.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::PerSecond => Some("1/s"),
            Unit::Nanos => Some("ns"),
        }
    }
}

/// Units of time, with the nanoseconds of each.
const TIMES: [(&str, i64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Value {
    pub(crate) fn of(item: &Item<'_>) -> Option<Value> {
        match item.get_ref() {
            DeValue::Integer(integer) => {
                let number = i64::from_str_radix(integer.as_str(), integer.radix());
                number.ok().map(Value::Integer)
            }
            DeValue::Float(float) => {
                let number: f64 = float.as_str().parse().ok()?;
                number.is_finite().then_some(Value::Float(number))
            }
            DeValue::Boolean(flag) => Some(Value::Flag(*flag)),
            DeValue::String(text) => {
                let is_line = !text.chars().any(char::is_control);
                is_line.then(|| Value::Text(text.clone().into_owned()))
            }
            DeValue::Array(_) => list(item, DEPTH_MAX).map(Value::List),
            DeValue::Table(_) | DeValue::Datetime(_) => None,
        }
    }

    /// The value as TOML in one line, as `--set` takes it.
    pub fn toml(&self) -> String {
        match self {
            Value::Integer(number) => number.to_string(),
            // A float without a point would read back as a whole number.
            Value::Float(number) => format!("{number:?}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(text) => quoted(text),
            Value::List(list) => list.clone(),
        }
    }

    /// The value as plain text, without quotes.
    pub fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => other.toml(),
        }
    }

    /// The whole number that the value states, in its unit.
    pub fn quantity(&self) -> Option<(i64, Unit)> {
        match self {
            Value::Integer(number) => Some((*number, Unit::None)),
            Value::Text(text) => quantity(text),
            _ => None,
        }
    }

    /// Inverse of [`Value::quantity`].
    pub(crate) fn of_quantity(number: i64, unit: Unit) -> Value {
        match unit {
            Unit::None => Value::Integer(number),
            Unit::PerSecond => Value::Text(format!("{number}/s")),
            Unit::Nanos => {
                let fits = TIMES.iter().find(|(_, nanos)| number % nanos == 0);
                let (unit, nanos) = fits.unwrap_or(&TIMES[3]);
                Value::Text(format!("{}{unit}", number / nanos))
            }
        }
    }
}

/// A list as TOML in one line.
fn list(item: &Item<'_>, depth: usize) -> Option<String> {
    let items = item.get_ref().as_array()?;
    let texts: Option<Vec<String>> = items
        .iter()
        .map(|item| match item.get_ref().as_array() {
            Some(_) if depth > 0 => list(item, depth - 1),
            Some(_) => None,
            None => Value::of(item).map(|value| value.toml()),
        })
        .collect();
    Some(format!("[{}]", texts?.join(", ")))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out + "\""
}

/// Parses `"1.5ms"` as nanoseconds and `"250/s"` as a rate: whole numbers, at most 12 digits before
/// the point and 3 after it, as in scenarios.
fn quantity(text: &str) -> Option<(i64, Unit)> {
    let (milli, unit) = split_number(text)?;
    let (unit, factor) = match TIMES.iter().find(|(name, _)| *name == unit) {
        Some((_, nanos)) => (Unit::Nanos, *nanos),
        None if unit == "/s" => (Unit::PerSecond, 1),
        None => return None,
    };
    let product = i128::from(milli) * i128::from(factor);
    let number = i64::try_from(product / 1_000).ok()?;
    (product % 1_000 == 0).then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_whole_numbers_in_their_unit() {
        let read = |text: &str| Value::Text(text.to_owned()).quantity();
        assert_eq!(read("1.5us"), Some((1_500, Unit::Nanos)));
        assert_eq!(read("20ms"), Some((20_000_000, Unit::Nanos)));
        assert_eq!(read("250/s"), Some((250, Unit::PerSecond)));
        for other in ["passive", "1.5ns", "0-3", "", "5", "1..2s", "0.5/s"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Value::Integer(-3).quantity(), Some((-3, Unit::None)));
    }

    proptest! {
        #[test]
        fn quantities_read_back(number in 0i64..1_000_000_000_000, unit in 0usize..3) {
            let unit = [Unit::None, Unit::PerSecond, Unit::Nanos][unit];
            let value = Value::of_quantity(number, unit);
            prop_assert_eq!(value.quantity(), Some((number, unit)));
        }

        #[test]
        fn texts_are_toml(text in "[^\\p{C}]{0,20}") {
            let toml = format!("value = {}", Value::Text(text.clone()).toml());
            let parsed: toml::Table = toml.parse().unwrap();
            prop_assert_eq!(parsed["value"].as_str(), Some(text.as_str()));
        }
    }
}
