//! Times as a user types them.

use std::time::Duration;

use hitm::record::Begin;

/// The longest: far from what a clock counts.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// The beginning of a recording: a time after the program's, or -1 for a command.
pub(super) fn delay(text: &str) -> Result<Begin, String> {
    match text {
        "-1" => Ok(Begin::WhenAsked),
        _ => duration(text).map(Begin::After),
    }
}

/// A time with its unit: s, ms or m; s without one.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let number_end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(number_end.unwrap_or(text.len()));
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        _ => return Err(format!("found the unit '{unit}', expected s, ms or m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("found '{number}', expected a number"))?;
    let seconds = number * scale;
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err("expected more than 0 and at most 30 days".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_bounds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for wrong in ["", "0s", "-1s", "1h", "nan", "1e30"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(delay("-1"), Ok(Begin::WhenAsked));
        assert_eq!(delay("1s"), Ok(Begin::After(Duration::from_secs(1))));
        assert!(delay("-2").is_err());
    }
}
