//! Quantities of a machine file: text with a unit in, exact integers out.
//!
//! Numbers are kept as the decimal fraction that a person wrote, in thousandths of their unit. So
//! reading and writing a file changes nothing, and no floating point takes part in a price.
//!
//! Invariant: a [`Quantity`] made by [`parse`] lies within the [`Dimension`]'s limits, so that
//! nothing which is computed from a file can overflow or need memory without bound.

use std::fmt;

use crate::{Clock, Cycles};

/// Longest latency that a file may state: 1 ms, far beyond any memory system.
const TIME_PS_MAX: u64 = 1_000_000_000;
/// The same limit for latencies stated in cycles.
const TIME_CYCLES_MAX: u64 = 10_000_000;
/// Slowest and fastest clock in kilohertz: 1 MHz to 20 GHz.
const FREQUENCY_KHZ: (u64, u64) = (1_000, 20_000_000);
/// Largest single cache: 4 GiB.
const SIZE_MAX: u64 = 4 << 30;

/// One number of a machine file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A span of time in picoseconds.
    Picos(u64),
    /// A span of time in cycles of the machine's clock.
    Cycles(u64),
    /// A frequency in kilohertz.
    Kilohertz(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A number of things; the word says which, and is empty for plain counts.
    Count(u64, &'static str),
    /// A dimensionless number in thousandths.
    Milli(u64),
}

impl Quantity {
    /// A time in cycles of `clock`, rounded to the nearest. Zero for what is not a time.
    pub fn cycles(self, clock: Clock) -> Cycles {
        match self {
            Quantity::Cycles(cycles) => Cycles(cycles),
            // At most 1e9 x 2e7: far below the limit of u64.
            Quantity::Picos(picos) => Cycles((picos * clock.khz() + 500_000_000) / 1_000_000_000),
            _ => Cycles::ZERO,
        }
    }

    /// A time in picoseconds at `clock`. Zero for what is not a time.
    pub fn picos(self, clock: Clock) -> u64 {
        match self {
            Quantity::Picos(picos) => picos,
            Quantity::Cycles(cycles) => (cycles * 1_000_000_000 + clock.khz() / 2) / clock.khz(),
            _ => 0,
        }
    }

    /// The number without its unit: picoseconds, cycles, kilohertz, bytes, things or thousandths.
    pub fn raw(self) -> u64 {
        match self {
            Quantity::Picos(raw)
            | Quantity::Cycles(raw)
            | Quantity::Kilohertz(raw)
            | Quantity::Bytes(raw)
            | Quantity::Count(raw, _)
            | Quantity::Milli(raw) => raw,
        }
    }

    /// Returns true if a TOML file writes it as a bare number.
    pub fn is_bare(self) -> bool {
        matches!(self, Quantity::Count(_, "") | Quantity::Milli(_))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Quantity::Picos(picos) => write!(f, "{}ns", Thousandths(picos)),
            Quantity::Cycles(cycles) => write!(f, "{cycles}cycles"),
            Quantity::Kilohertz(khz) if khz % 1_000 == 0 => {
                write!(f, "{}GHz", Thousandths(khz / 1_000))
            }
            Quantity::Kilohertz(khz) => write!(f, "{}MHz", Thousandths(khz)),
            Quantity::Bytes(bytes) => write!(f, "{}", Size(bytes)),
            Quantity::Count(count, "") => write!(f, "{count}"),
            Quantity::Count(count, word) => write!(f, "{count} {word}"),
            // A TOML float needs its point.
            Quantity::Milli(milli) if milli % 1_000 == 0 => write!(f, "{}.0", milli / 1_000),
            Quantity::Milli(milli) => write!(f, "{}", Thousandths(milli)),
        }
    }
}

/// Thousandths as a decimal fraction without trailing zeros.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:03}", self.0 % 1_000);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / 1_000),
            digits => write!(f, "{}.{digits}", self.0 / 1_000),
        }
    }
}

/// A size in the largest unit that states it exactly.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, bytes) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            // Halves and quarters are how vendors speak of caches: 38.5 MiB, 1.25 MiB.
            if self.0 >= bytes && (self.0 * 4).is_multiple_of(bytes) {
                return write!(f, "{}{unit}", Thousandths(self.0 * 4 / bytes * 250));
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// The kind of number that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// A latency: `"117.8ns"` or `"34cycles"`.
    Time,
    /// A clock: `"2.2GHz"` or `"2200MHz"`.
    Frequency,
    /// A cache: `"32KiB"`.
    Size,
    /// A count of the named things, between 1 and the maximum: `"42 entries"`, or `8` where the
    /// word is empty.
    Count(&'static str, u64),
    /// A share of something, above 0 and at most 1.
    Share,
    /// Cycles per instruction.
    Cpi,
    /// A multiple of something, between 1 and 10.
    Factor,
}

impl Dimension {
    /// Describes what a person should have written, for error messages.
    pub fn expected(self) -> String {
        match self {
            Dimension::Time => {
                "a time with its unit, such as \"117.8ns\" or \"34cycles\", at most 1 ms".into()
            }
            Dimension::Frequency => {
                "a frequency with its unit between 1 MHz and 20 GHz, such as \"2.2GHz\"".into()
            }
            Dimension::Size => "a size with its unit up to 4 GiB, such as \"32KiB\"".into(),
            Dimension::Count("", max) => format!("a whole number between 1 and {max}"),
            Dimension::Count(word, max) => {
                format!("a count between 1 and {max}, such as \"42 {word}\"")
            }
            Dimension::Share => "a number above 0 and at most 1, such as 0.47".into(),
            Dimension::Cpi => "a number between 0.05 and 100, such as 1.0".into(),
            Dimension::Factor => "a number between 1 and 10, such as 2.0".into(),
        }
    }

    /// Reads `text` as a quantity of this dimension; `None` when it is none or out of its limits.
    pub fn parse(self, text: &str) -> Option<Quantity> {
        let (milli, unit) = split_number(text)?;
        let quantity = match self {
            Dimension::Time if unit == "ns" => Quantity::Picos(milli),
            Dimension::Time if unit == "us" => Quantity::Picos(milli.checked_mul(1_000)?),
            Dimension::Time if matches!(unit, "cycles" | "cycle") => {
                Quantity::Cycles(whole(milli)?)
            }
            Dimension::Frequency => Quantity::Kilohertz(match unit {
                "GHz" => milli.checked_mul(1_000)?,
                "MHz" => milli,
                _ => return None,
            }),
            Dimension::Size => Quantity::Bytes(bytes(milli, unit)?),
            Dimension::Count(word, _) if unit == word || unit.is_empty() => {
                Quantity::Count(whole(milli)?, word)
            }
            Dimension::Share | Dimension::Cpi | Dimension::Factor if unit.is_empty() => {
                Quantity::Milli(milli)
            }
            _ => return None,
        };
        self.admits(quantity).then_some(quantity)
    }

    /// Returns true if `quantity` is of this dimension and within its limits.
    pub fn admits(self, quantity: Quantity) -> bool {
        match (self, quantity) {
            (Dimension::Time, Quantity::Picos(picos)) => picos <= TIME_PS_MAX,
            (Dimension::Time, Quantity::Cycles(cycles)) => cycles <= TIME_CYCLES_MAX,
            (Dimension::Frequency, Quantity::Kilohertz(khz)) => {
                (FREQUENCY_KHZ.0..=FREQUENCY_KHZ.1).contains(&khz)
            }
            (Dimension::Size, Quantity::Bytes(bytes)) => (1..=SIZE_MAX).contains(&bytes),
            (Dimension::Count(word, max), Quantity::Count(count, found)) => {
                word == found && (1..=max).contains(&count)
            }
            (Dimension::Share, Quantity::Milli(milli)) => (1..=1_000).contains(&milli),
            (Dimension::Cpi, Quantity::Milli(milli)) => (50..=100_000).contains(&milli),
            (Dimension::Factor, Quantity::Milli(milli)) => (1_000..=10_000).contains(&milli),
            _ => false,
        }
    }
}

/// Splits `"117.8ns"` into 117800 thousandths and `"ns"`. At most 12 digits before and 3 after the
/// point.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (integer, rest) = text.split_at(digits);
    if integer.is_empty() || integer.len() > 12 {
        return None;
    }
    let (fraction, unit) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            if digits == 0 {
                return None;
            }
            rest.split_at(digits)
        }
    };
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 3 {
        return None;
    }
    let thousandths: u64 = format!("{fraction:0<3}").parse().ok()?;
    let milli = integer.parse::<u64>().ok()? * 1_000 + thousandths;
    Some((milli, unit.trim_start_matches(' ')))
}

/// Thousandths that are a whole number.
fn whole(milli: u64) -> Option<u64> {
    milli.is_multiple_of(1_000).then_some(milli / 1_000)
}

/// A size in bytes, when it is a whole number of them.
fn bytes(milli: u64, unit: &str) -> Option<u64> {
    let factor = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1u64 << 30,
        _ => return None,
    };
    whole(milli.checked_mul(factor)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(dimension: Dimension, text: &str, expected: Option<Quantity>) {
        assert_eq!(dimension.parse(text), expected, "{text}");
    }

    #[test]
    fn every_quantity_carries_its_unit() {
        check(Dimension::Time, "117.8ns", Some(Quantity::Picos(117_800)));
        check(Dimension::Time, "0.6 ns", Some(Quantity::Picos(600)));
        check(Dimension::Time, "1.5us", Some(Quantity::Picos(1_500_000)));
        check(Dimension::Time, "34cycles", Some(Quantity::Cycles(34)));
        check(Dimension::Time, "34", None);
        check(Dimension::Time, "1.5cycles", None);
        check(Dimension::Time, "2ms", None);
        check(
            Dimension::Frequency,
            "2.2GHz",
            Some(Quantity::Kilohertz(2_200_000)),
        );
        check(
            Dimension::Frequency,
            "2599.998MHz",
            Some(Quantity::Kilohertz(2_599_998)),
        );
        check(Dimension::Frequency, "21GHz", None);
        check(
            Dimension::Size,
            "38.5MiB",
            Some(Quantity::Bytes(40_370_176)),
        );
        check(Dimension::Size, "0.5B", None);
        check(Dimension::Size, "8GiB", None);
        check(
            Dimension::Count("entries", 4096),
            "42 entries",
            Some(Quantity::Count(42, "entries")),
        );
        check(Dimension::Count("entries", 4096), "42 exits", None);
        check(Dimension::Count("", 1024), "0", None);
        check(Dimension::Share, "0.47", Some(Quantity::Milli(470)));
        check(Dimension::Share, "1.1", None);
        check(Dimension::Share, "-0.1", None);
    }

    #[test]
    fn times_become_cycles_to_the_nearest() {
        let clock = Clock::from_khz(2_200_000);
        assert_eq!(Quantity::Picos(117_800).cycles(clock), Cycles(259)); // 259.16
        assert_eq!(Quantity::Picos(600).cycles(clock), Cycles(1)); // 1.32
        assert_eq!(Quantity::Cycles(34).cycles(clock), Cycles(34));
        assert_eq!(Quantity::Cycles(22).picos(clock), 10_000);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(raw in 1u64..1_000_000_000) {
            for (dimension, quantity) in [
                (Dimension::Time, Quantity::Picos(raw)),
                (Dimension::Time, Quantity::Cycles(raw % TIME_CYCLES_MAX)),
                (Dimension::Frequency, Quantity::Kilohertz(1_000 + raw % 19_000_000)),
                (Dimension::Size, Quantity::Bytes(raw)),
                (Dimension::Size, Quantity::Bytes((raw % 4096 + 1) << 18)),
                (Dimension::Count("entries", u64::MAX), Quantity::Count(raw, "entries")),
                (Dimension::Share, Quantity::Milli(raw % 1_000 + 1)),
            ] {
                prop_assert_eq!(dimension.parse(&quantity.to_string()), Some(quantity));
            }
        }

        #[test]
        fn no_text_panics(text in "[0-9]{0,30}[.]?[0-9]{0,30} ?[a-zA-Z]{0,6}") {
            for dimension in [Dimension::Time, Dimension::Frequency, Dimension::Size,
                Dimension::Count("entries", 10), Dimension::Share, Dimension::Cpi] {
                let _ = dimension.parse(&text);
            }
        }
    }
}
