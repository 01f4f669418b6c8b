//! Quantities of a scenario: text with a unit in, exact integers out.

use std::time::Duration;

use hitm_base::document::split_number;
use hitm_base::{Nanos, cpu_range};

/// `"1.5ms"` as a time; whole nanoseconds, at most `most`.
pub(crate) fn time(text: &str, most: Duration) -> Option<Duration> {
    let (milli, unit) = split_number(text)?;
    let nanos_per_unit: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let picos = u128::from(milli) * u128::from(nanos_per_unit);
    let nanos = u64::try_from(picos / 1_000).ok()?;
    let time = Duration::from_nanos(nanos);
    (picos.is_multiple_of(1_000) && time <= most).then_some(time)
}

/// A time as the model counts it.
pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as f64)
}

/// `"2500/s"` as events a second, whole and at least 1.
pub(crate) fn rate(text: &str, most: u64) -> Option<u64> {
    let (milli, unit) = split_number(text)?;
    let rate = milli.is_multiple_of(1_000).then_some(milli / 1_000)?;
    (unit == "/s" && (1..=most).contains(&rate)).then_some(rate)
}

/// `"0-3,8"` as CPU numbers, ascending and each once.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let range = cpu_range(part)?;
        if cpus.last().is_some_and(|before| before >= range.start()) {
            return None;
        }
        cpus.extend(range);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn times_carry_their_unit_and_are_whole_nanoseconds() {
        let nanos = |text| time(text, HOUR).map(|time| time.as_nanos());
        assert_eq!(nanos("20ms"), Some(20_000_000));
        assert_eq!(nanos("1.5us"), Some(1_500));
        assert_eq!(nanos("0.5 s"), Some(500_000_000));
        for wrong in [
            "20", "1.5ns", "ms", "1.ms", ".5ms", "-1ms", "2h", "3601s", "1..2ms",
        ] {
            assert_eq!(nanos(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_and_lists() {
        assert_eq!(rate("2500/s", 10_000), Some(2500));
        for wrong in ["2500", "0/s", "0.5/s", "10001/s", "5/ms"] {
            assert_eq!(rate(wrong, 10_000), None, "{wrong}");
        }
        assert_eq!(cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        for wrong in ["", "3-1", "0,0", "1,0", "+1", "0-", "9999", "a"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = (time(&text, HOUR), rate(&text, u64::MAX), cpu_list(&text));
        }

        #[test]
        fn whole_numbers_read_back(nanos in 0u64..3_600_000_000_000) {
            let read = time(&format!("{nanos}ns"), HOUR);
            let exact = nanos < 1_000_000_000_000;
            prop_assert_eq!(read, exact.then(|| Duration::from_nanos(nanos)));
        }
    }
}
