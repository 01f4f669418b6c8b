//! Ranges of values: evenly spaced, linear or logarithmic.
//!
//! Values between the ends are rounded to [`DIGITS`] significant digits. They stay readable, and
//! the last bit of another host's logarithm changes no value, so no run's name.

use crate::value::{Unit, Value};

/// Significant digits of a value between the ends.
const DIGITS: i32 = 6;

/// The spacing of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// By equal differences.
    Linear,
    /// By equal ratios.
    Log,
}

/// Both ends of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    from: f64,
    to: f64,
    /// None for fractions.
    unit: Option<Unit>,
    scale: Scale,
}

impl Range {
    /// The range between two values of one unit; the error lists the allowed ranges.
    pub(crate) fn new(from: &Value, to: &Value, scale: Scale) -> Result<Range, &'static str> {
        const UNITS: &str = "two numbers, two times or two rates";
        let (from, to, unit) = match (from.quantity(), to.quantity()) {
            (Some((from, one)), Some((to, other))) if one == other => {
                (from as f64, to as f64, Some(one))
            }
            (Some(_), Some(_)) => return Err(UNITS),
            _ => {
                let (from, to) = (fraction(from), fraction(to));
                (from.ok_or(UNITS)?, to.ok_or(UNITS)?, None)
            }
        };
        if from >= to {
            return Err("more than `from`");
        }
        if scale == Scale::Log && from <= 0.0 {
            return Err("`from` above 0 for a logarithmic scale");
        }
        // Whole numbers beyond this are no longer exact.
        if from.abs().max(to.abs()) >= 9e15 {
            return Err("ends below 9e15");
        }
        Ok(Range {
            from,
            to,
            unit,
            scale,
        })
    }

    /// Value at `part` of the range, 0 to 1.
    pub(crate) fn at(&self, part: f64) -> Value {
        let number = match (part, self.scale) {
            (part, _) if part <= 0.0 => self.from,
            (part, _) if part >= 1.0 => self.to,
            (_, Scale::Linear) => rounded(self.from + (self.to - self.from) * part),
            (_, Scale::Log) => rounded(self.from * (self.to / self.from).powf(part)),
        };
        match self.unit {
            Some(unit) => Value::of_quantity(number.round() as i64, unit),
            None => Value::Float(number),
        }
    }

    /// `count` values from end to end.
    pub(crate) fn steps(&self, count: usize) -> Vec<Value> {
        let last = count.saturating_sub(1).max(1) as f64;
        (0..count).map(|n| self.at(n as f64 / last)).collect()
    }
}

fn fraction(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// Rounds to [`DIGITS`] significant digits.
fn rounded(number: f64) -> f64 {
    let text = format!("{number:.*e}", (DIGITS - 1) as usize);
    text.parse().expect("a number in scientific notation")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(from: Value, to: Value, scale: Scale, count: usize) -> Vec<String> {
        let range = Range::new(&from, &to, scale).unwrap();
        range.steps(count).iter().map(Value::text).collect()
    }

    #[test]
    fn ranges_keep_their_unit_and_both_ends() {
        let text = |text: &str| Value::Text(text.to_owned());
        let log = texts(text("100/s"), text("10000/s"), Scale::Log, 5);
        assert_eq!(log, ["100/s", "316/s", "1000/s", "3162/s", "10000/s"]);
        let linear = texts(text("1us"), text("2us"), Scale::Linear, 4);
        assert_eq!(linear, ["1us", "1333ns", "1667ns", "2us"]);
        let fractions = texts(Value::Float(0.5), Value::Integer(2), Scale::Log, 3);
        assert_eq!(fractions, ["0.5", "1.0", "2.0"]);
    }

    #[test]
    fn empty_ranges_are_refused() {
        let bad = |from, to, scale| Range::new(&from, &to, scale).unwrap_err();
        let (one, two) = (Value::Integer(1), Value::Integer(2));
        assert_eq!(
            bad(two.clone(), one.clone(), Scale::Linear),
            "more than `from`"
        );
        assert_eq!(
            bad(one.clone(), one.clone(), Scale::Linear),
            "more than `from`"
        );
        let log = bad(Value::Integer(0), two, Scale::Log);
        assert_eq!(log, "`from` above 0 for a logarithmic scale");
        let units = bad(one, Value::Text("2ms".to_owned()), Scale::Linear);
        assert_eq!(units, "two numbers, two times or two rates");
    }
}
