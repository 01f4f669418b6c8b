//! The quota of `hitm live throttle --what-if`.

use std::time::Duration;

use anyhow::{Result, bail};
use hitm::live::{QuotaSetting, Throttling, throttling_here};
use hitm_live::cgroups::Bandwidth;

use crate::commands::duration::duration;

/// A quota and its period are at least that long, as in the kernel.
const LEAST_US: u64 = 1000;
/// A period is at most that long, as in the kernel.
const PERIOD_MOST_US: u64 = 1_000_000;

/// Parts of a setting that the user typed; the rest is the group's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WhatIf {
    quota_us: Option<u64>,
    period_us: Option<u64>,
    burst_us: Option<u64>,
    throttling: Option<Throttling>,
}

/// Reads `quota=8ms,period=20ms,burst=0ms,kernel=task`. An error names the place.
pub(super) fn what_if(text: &str) -> Result<WhatIf, String> {
    let mut read = WhatIf::default();
    let mut column = 1;
    for part in text.split(',') {
        let at = |wrong: String| format!("at character {column}: {wrong}");
        read.add(part).map_err(at)?;
        column += part.chars().count() + 1;
    }
    Ok(read)
}

impl WhatIf {
    fn add(&mut self, part: &str) -> Result<(), String> {
        const KEYS: &str = "expected quota, period, burst or kernel, each with = and its value";
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("found '{part}', {KEYS}"))?;
        let place = match key {
            "quota" => &mut self.quota_us,
            "period" => &mut self.period_us,
            "burst" => &mut self.burst_us,
            "kernel" => {
                let form = throttling(value)?;
                return match self.throttling.replace(form) {
                    None => Ok(()),
                    Some(_) => Err("found 'kernel' a second time".to_owned()),
                };
            }
            _ => return Err(format!("found '{key}', {KEYS}")),
        };
        let us = match (key, value) {
            ("burst", "0") => 0,
            _ => micros(value)?,
        };
        let bounds = match key {
            "quota" => LEAST_US..=u64::MAX,
            "period" => LEAST_US..=PERIOD_MOST_US,
            _ => 0..=u64::MAX,
        };
        if !bounds.contains(&us) {
            let most = if key == "period" {
                " and at most 1s"
            } else {
                ""
            };
            return Err(format!("found {key}={value}, expected at least 1ms{most}"));
        }
        match place.replace(us) {
            None => Ok(()),
            Some(_) => Err(format!("found '{key}' a second time")),
        }
    }

    /// The group's setting on this kernel, and the one that is asked for.
    pub(super) fn settings(self, own: Option<Bandwidth>) -> Result<[QuotaSetting; 2]> {
        let quota_us = self.quota_us.or(own.map(|own| own.quota_us));
        let Some(quota_us) = quota_us else {
            bail!("--what-if: the group has no quota of its own: quota=TIME is required");
        };
        // The kernel's default.
        const PERIOD_US: u64 = 100_000;
        let asked = Bandwidth {
            quota_us,
            period_us: self
                .period_us
                .or(own.map(|own| own.period_us))
                .unwrap_or(PERIOD_US),
            burst_us: self.burst_us.or(own.map(|own| own.burst_us)).unwrap_or(0),
        };
        if asked.burst_us > asked.quota_us {
            bail!("--what-if: the burst is longer than the quota, which the kernel refuses");
        }
        let here = throttling_here();
        let present = QuotaSetting {
            bandwidth: own,
            throttling: here,
        };
        let asked = QuotaSetting {
            bandwidth: Some(asked),
            throttling: self.throttling.unwrap_or(here),
        };
        Ok([present, asked])
    }
}

fn throttling(name: &str) -> Result<Throttling, String> {
    match name {
        "task" => Ok(Throttling::Task),
        "async" => Ok(Throttling::Async),
        "sync" => Ok(Throttling::Sync),
        _ => Err(format!("found kernel={name}, expected task, async or sync")),
    }
}

pub(super) fn micros(text: &str) -> Result<u64, String> {
    let time: Duration = duration(text)?;
    Ok(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_what_was_typed_and_the_rest_of_the_group() {
        let own = Some(Bandwidth {
            quota_us: 4000,
            period_us: 20_000,
            burst_us: 100,
        });
        let [present, asked] = what_if("quota=8ms,kernel=sync")
            .unwrap()
            .settings(own)
            .unwrap();
        assert_eq!(present.bandwidth, own);
        assert_eq!(asked.throttling, Throttling::Sync);
        let expected = Bandwidth {
            quota_us: 8000,
            period_us: 20_000,
            burst_us: 100,
        };
        assert_eq!(asked.bandwidth, Some(expected));
        // Without a quota of its own.
        assert!(what_if("period=50ms").unwrap().settings(None).is_err());
        let [present, asked] = what_if("quota=0.5s").unwrap().settings(None).unwrap();
        assert_eq!(present.bandwidth, None);
        assert_eq!(asked.bandwidth.map(|own| own.period_us), Some(100_000));
        assert!(
            what_if("quota=2ms,burst=3ms")
                .unwrap()
                .settings(own)
                .is_err()
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place) in [
            ("", "at character 1: "),
            ("quota", "at character 1: "),
            ("quota=8ms,", "at character 11: "),
            ("quota=8ms,perod=2ms", "at character 11: found 'perod'"),
            (
                "quota=8ms,quota=9ms",
                "at character 11: found 'quota' a second time",
            ),
            ("kernel=task,kernel=task", "at character 13: "),
            (
                "period=2s",
                "at character 1: found period=2s, expected at least 1ms and at most 1s",
            ),
            ("burst=0,quota=0.9ms", "at character 9: found quota=0.9ms"),
            ("quota=5x", "at character 1: found the unit 'x'"),
            ("kernel=fast", "at character 1: found kernel=fast"),
        ] {
            let error = what_if(text).unwrap_err();
            assert!(error.starts_with(place), "{text}: {error}");
        }
    }
}
