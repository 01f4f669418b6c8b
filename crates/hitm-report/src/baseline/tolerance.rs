//! Growth of a member's cost that a baseline allows.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Allowed growth of a member's cost over the baseline, in thousandths of a per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerance(u64);

impl Tolerance {
    /// Two recordings of a program that sleeps on no lock differ by up to this much on one host.
    pub const DEFAULT: Tolerance = Tolerance(5_000);
    /// A hundred times.
    const MAX: u64 = 10_000_000;

    /// The most that a member may lose.
    pub(super) fn ceiling(self, cycles: u64) -> u64 {
        let more = u128::from(cycles) * u128::from(self.0) / 100_000;
        cycles.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// A text that is no tolerance.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is no tolerance, expected per cent with at most three decimals, such as 5%")]
pub struct NoTolerance(String);

impl FromStr for Tolerance {
    type Err = NoTolerance;

    fn from_str(text: &str) -> Result<Tolerance, NoTolerance> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let legal = !whole.is_empty() && decimals.len() <= 3 && are_digits(whole);
        let thousandths = format!("{whole}{decimals:0<3}").parse();
        match (legal && are_digits(decimals), thousandths) {
            (true, Ok(thousandths)) if thousandths <= Tolerance::MAX => Ok(Tolerance(thousandths)),
            _ => Err(NoTolerance(text.to_owned())),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.0 / 1000, format!("{:03}", self.0 % 1000));
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole}%"),
            decimals => write!(f, "{whole}.{decimals}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_read_and_written_alike() {
        for text in ["0%", "5%", "0.5%", "12.345%", "250%"] {
            assert_eq!(text.parse::<Tolerance>().unwrap().to_string(), text);
        }
        assert_eq!("5".parse(), Ok(Tolerance::DEFAULT));
        for text in ["", "%", "-5%", "5.%x", "1.2345%", "1e3", "10001%", ".5"] {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_tolerance_is_rounded_down_and_does_not_wrap() {
        let five = Tolerance::DEFAULT;
        assert_eq!((five.ceiling(100), five.ceiling(119)), (105, 124));
        assert_eq!(five.ceiling(u64::MAX), u64::MAX);
        assert_eq!("0%".parse::<Tolerance>().unwrap().ceiling(7), 7);
    }
}
