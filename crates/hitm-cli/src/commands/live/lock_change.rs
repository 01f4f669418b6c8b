//! The changes of `hitm live locks --what-if`.

use hitm::live::{LockChange, Preemption};
use hitm_live::cgroups::Bandwidth;
use hitm_live::place::CpuSet;

use super::what_if::micros;

/// A quota and its period are at least that long, as in the kernel.
const LEAST_US: u64 = 1000;
/// A period is at most that long, as in the kernel.
const PERIOD_MOST_US: u64 = 1_000_000;
/// The kernel's default.
const PERIOD_US: u64 = 100_000;
/// Extensions of a slice, as the kernel's slice_ext_nsec.
const EXTENSION_NS: std::ops::RangeInclusive<u64> = 5_000..=50_000;

/// Reads `huge-pages,preempt=lazy,slice-extension=10us,quota=50ms,period=100ms,place=0-1+4`: what is changed at once. An
/// error names the place.
pub(super) fn lock_change(text: &str) -> Result<LockChange, String> {
    let mut reader = Reader::default();
    let mut column = 1;
    for part in text.split(',') {
        let at = |wrong: String| format!("at character {column}: {wrong}");
        reader.add(part).map_err(at)?;
        column += part.chars().count() + 1;
    }
    reader.change.text = text.to_owned();
    match (reader.quota_us, reader.period_us) {
        (Some(quota_us), period_us) => {
            reader.change.bandwidth = Some(Bandwidth {
                quota_us,
                period_us: period_us.unwrap_or(PERIOD_US),
                burst_us: 0,
            });
        }
        (None, Some(_)) => return Err("period= without quota=".to_owned()),
        (None, None) => {}
    }
    Ok(reader.change)
}

#[derive(Debug, Default)]
struct Reader {
    change: LockChange,
    quota_us: Option<u64>,
    period_us: Option<u64>,
}

impl Reader {
    fn add(&mut self, part: &str) -> Result<(), String> {
        const KEYS: &str =
            "expected huge-pages, or preempt, slice-extension, quota, period or place with = and its value";
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let is_again = match (key, value) {
            ("huge-pages", "") if part == key => std::mem::replace(&mut self.change.huge_pages, true),
            (_, "") => return Err(format!("found '{part}', {KEYS}")),
            ("preempt", _) => self.change.preemption.replace(model(value)?).is_some(),
            ("slice-extension", _) => {
                let ns = extension(value)?;
                self.change.slice_extension_ns.replace(ns).is_some()
            }
            ("place", _) => self.change.place.replace(cpus(value)?).is_some(),
            ("quota", _) => {
                let us = within(part, micros(value)?, u64::MAX)?;
                self.quota_us.replace(us).is_some()
            }
            ("period", _) => {
                let us = within(part, micros(value)?, PERIOD_MOST_US)?;
                self.period_us.replace(us).is_some()
            }
            _ => return Err(format!("found '{key}', {KEYS}")),
        };
        match is_again {
            true => Err(format!("found '{key}' a second time")),
            false => Ok(()),
        }
    }
}

fn model(name: &str) -> Result<Preemption, String> {
    let known = Preemption::WORDS.iter().find(|(known, _)| *known == name);
    let wrong = || format!("found preempt={name}, expected none, voluntary, full or lazy");
    known.map(|(_, model)| *model).ok_or_else(wrong)
}

fn extension(text: &str) -> Result<u64, String> {
    let us = text.strip_suffix("us").and_then(|us| us.parse::<u64>().ok());
    let ns = us.map(|us| us.saturating_mul(1000));
    match ns.filter(|ns| EXTENSION_NS.contains(ns)) {
        Some(ns) => Ok(ns),
        None => Err(format!("found slice-extension={text}, expected 5us to 50us")),
    }
}

/// CPUs as the kernel lists them, with + in place of commas.
fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse(&text.replace('+', ",")).filter(|set| !set.is_empty());
    set.ok_or_else(|| format!("found place={text}, expected CPUs as 0-3+8"))
}

fn within(part: &str, us: u64, most_us: u64) -> Result<u64, String> {
    if (LEAST_US..=most_us).contains(&us) {
        return Ok(us);
    }
    let most = if most_us == u64::MAX { "" } else { " and at most 1s" };
    Err(format!("found {part}, expected at least 1ms{most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_what_was_typed() {
        let change = lock_change("huge-pages,preempt=lazy,slice-extension=10us,quota=50ms,place=0-1+4");
        let expected = LockChange {
            text: "huge-pages,preempt=lazy,slice-extension=10us,quota=50ms,place=0-1+4".into(),
            preemption: Some(Preemption::Lazy),
            slice_extension_ns: Some(10_000),
            huge_pages: true,
            bandwidth: Some(Bandwidth {
                quota_us: 50_000,
                period_us: 100_000,
                burst_us: 0,
            }),
            place: CpuSet::parse("0,1,4"),
        };
        assert_eq!(change, Ok(expected));
        let of_20_ms = lock_change("quota=5ms,period=20ms").unwrap().bandwidth;
        assert_eq!(of_20_ms.map(|own| own.period_us), Some(20_000));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, expected) in [
            ("", "at character 1: found ''"),
            ("huge-pages=1", "at character 1: found 'huge-pages'"),
            ("huge-pages,huge-pages", "at character 12: found 'huge-pages' a second time"),
            ("place=", "at character 1: found 'place='"),
            ("place=x", "at character 1: found place=x"),
            ("quota=5ms,preempt=some", "at character 11: found preempt=some"),
            ("slice-extension=1us", "at character 1: found slice-extension=1us"),
            ("quota=100us", "at character 1: found the unit 'us', expected s, ms or m"),
            ("quota=4ms,period=2s", "at character 11: found period=2s, expected at least 1ms and at most 1s"),
            ("period=20ms", "period= without quota="),
        ] {
            let error = lock_change(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
