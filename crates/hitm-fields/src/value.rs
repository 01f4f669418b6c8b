//! Values of quantities, and how text shows them.

use hitm_base::grouped;

use crate::Unit;

/// A quantity's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// There is none: `null` in JSON, `-` in text.
    Missing,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A mean or a share.
    Number(f64),
    /// Words.
    Text(String),
    /// Several words.
    Texts(Vec<String>),
    /// Several small numbers, such as NUMA nodes.
    Wholes(Vec<u64>),
}

/// Anything that can be the value of a field.
pub trait Reported {
    /// The value.
    fn value(&self) -> Value;
}

macro_rules! wholes {
    ($($type:ty)*) => {
        $(
            impl Reported for $type {
                fn value(&self) -> Value {
                    Value::Whole(u64::from(*self))
                }
            }

            impl Reported for Vec<$type> {
                fn value(&self) -> Value {
                    Value::Wholes(self.iter().copied().map(u64::from).collect())
                }
            }
        )*
    };
}

wholes!(u8 u16 u32 u64);

impl Reported for usize {
    fn value(&self) -> Value {
        Value::Whole(*self as u64)
    }
}

impl Reported for f64 {
    fn value(&self) -> Value {
        Value::Number(*self)
    }
}

impl Reported for bool {
    fn value(&self) -> Value {
        Value::Flag(*self)
    }
}

impl Reported for str {
    fn value(&self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl Reported for String {
    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Reported for Vec<String> {
    fn value(&self) -> Value {
        Value::Texts(self.clone())
    }
}

impl Reported for Value {
    fn value(&self) -> Value {
        self.clone()
    }
}

impl<T: Reported> Reported for Option<T> {
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Missing, Reported::value)
    }
}

impl<T: Reported + ?Sized> Reported for &T {
    fn value(&self) -> Value {
        (**self).value()
    }
}

impl Value {
    /// Words that are missing when empty.
    pub fn text_or_missing(text: &str) -> Value {
        match text.is_empty() {
            true => Value::Missing,
            false => Value::Text(text.to_owned()),
        }
    }

    /// The value as text, in the manner of its unit.
    pub fn text(&self, unit: Unit) -> String {
        match (unit, self) {
            (_, Value::Missing) => "-".to_owned(),
            (_, Value::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
            (Unit::Address | Unit::Offset, Value::Whole(address)) => format!("{address:#x}"),
            (Unit::Kilohertz, Value::Whole(khz)) => format!("{} GHz", *khz as f64 / 1e6),
            (Unit::None, Value::Whole(number)) => number.to_string(),
            (Unit::Nanos, Value::Whole(nanos)) => time_text(*nanos),
            (Unit::Decimal, Value::Number(number)) => format!("{number:.2}"),
            (_, Value::Whole(number)) => grouped(*number),
            (Unit::Share, Value::Number(share)) => format!("{:.1}%", share * 100.0),
            (_, Value::Number(number)) => grouped(number.round() as u64),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Texts(texts)) => texts.join(", "),
            (_, Value::Wholes(numbers)) => ranges(numbers),
        }
    }

    /// The same for a cell of a table, where room is scarce.
    pub fn cell(&self, unit: Unit) -> String {
        self.short(unit).unwrap_or_else(|| self.text(unit))
    }

    /// A figure as a cell has it; none when it is no figure that a cell shortens.
    fn short(&self, unit: Unit) -> Option<String> {
        Some(match (unit, self) {
            (Unit::Share, Value::Number(share)) => format!("{:.1}", share * 100.0),
            (Unit::Count | Unit::Cycles, Value::Whole(number)) => compact(*number),
            (Unit::Count | Unit::Cycles, Value::Number(number)) => compact(number.round() as u64),
            _ => return None,
        })
    }
}

/// A time in the unit that gives it one to three digits before the point.
fn time_text(nanos: u64) -> String {
    let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
    let unit = units.iter().find(|(_, scale)| nanos as f64 >= *scale);
    match unit {
        Some((unit, scale)) => format!("{:.1} {unit}", nanos as f64 / scale),
        None => format!("{nanos} ns"),
    }
}

/// Numbers from a million on with four digits and a suffix: `12345678` as `12.35M`.
pub fn compact(number: u64) -> String {
    if number < 1_000_000 {
        return grouped(number);
    }
    let mut value = number as f64;
    let mut suffix = ' ';
    // From 999.95 on, four digits would round up to the next suffix.
    for next in ['k', 'M', 'G', 'T', 'P', 'E'] {
        if value < 999.95 {
            break;
        }
        value /= 1000.0;
        suffix = next;
    }
    let decimals = match value {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}{suffix}")
}

/// Ascending numbers as `0-3,5`.
pub fn ranges(numbers: &[u64]) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let texts = parts.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_keep_four_digits() {
        assert_eq!(compact(999_999), "999,999");
        assert_eq!(compact(1_000_000), "1.000M");
        assert_eq!(compact(12_345_678), "12.35M");
        assert_eq!(compact(999_949_999), "999.9M");
        assert_eq!(compact(999_999_999), "1.000G");
        assert_eq!(compact(u64::MAX), "18.45E");
    }

    #[test]
    fn neighbouring_nodes_are_one_range() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[2]), "2");
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 7, 8]), "0-3,5,7-8");
    }
}
