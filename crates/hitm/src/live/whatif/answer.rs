//! Answers of a what-if: whether the simulator may be believed, and the smallest settings that
//! suffice.

use hitm_live::cgroups::Bandwidth;
use hitm_live::throttle::Demand;

use super::{QuotaRun, QuotaSetting, WhatIfError, simulate_quota};

/// Largest deviation from what was measured at which other settings are simulated.
pub const DEVIATION_MAX: f64 = 0.25;

/// Fewest throttlings of which a percentile is compared, and which a deviation is a share of.
/// Assumed 8 (4 to 16).
const FEW: u64 = 8;

/// The shortest step of a smallest setting, as the kernel has it at least for a quota.
const STEP_US: u64 = 1000;

/// The figure in which a simulated run is furthest from the measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// The figure.
    pub figure: &'static str,
    /// Simulated over measured, less 1.
    pub share: f64,
    /// The setting whose figure it is a share of.
    pub of: DeviationOf,
}

/// The run whose figure a deviation is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviationOf {
    /// The measured one.
    Measured,
    /// The one under the asked setting, which is taken to be as many nanoseconds off as that under the present one.
    Asked,
}

/// Times that tasks are stopped, by their title and their share in thousandths.
const STOPPED: [(&str, u64); 2] = [("p50 stopped", 500), ("p99 stopped", 990)];

impl Deviation {
    /// Compares a simulated run with the measured one.
    pub fn of(simulated: &QuotaRun, measured: &QuotaRun) -> Deviation {
        let seconds = |run: &QuotaRun| run.duration_ns.max(1) as f64 / 1e9;
        let rate = |run: &QuotaRun| run.spread.count() as f64 / seconds(run);
        let least = FEW as f64 / seconds(measured);
        let of_rate = Deviation {
            figure: "rate of throttlings",
            share: (rate(simulated) - rate(measured)) / rate(measured).max(least),
            of: DeviationOf::Measured,
        };
        let stopped = Deviation::of_stops([simulated, measured], measured);
        of_rate.or_further(stopped)
    }

    /// Judges the run under an asked setting, beside the two runs of the present one: stops that are as many
    /// nanoseconds off are another part of shorter stops.
    pub fn carried(simulated: &QuotaRun, measured: &QuotaRun, asked: &QuotaRun) -> Deviation {
        let own = Deviation::of(simulated, measured);
        let stopped = Deviation::of_stops([simulated, measured], asked);
        own.or_further(stopped.map(|stopped| Deviation {
            of: DeviationOf::Asked,
            ..stopped
        }))
    }

    /// The time of stops whose difference is the largest share of that in `whole`; none where few tasks were stopped.
    fn of_stops([simulated, measured]: [&QuotaRun; 2], whole: &QuotaRun) -> Option<Deviation> {
        let runs = [simulated, measured, whole];
        if runs.iter().any(|run| run.spread.count() < FEW) {
            return None;
        }
        let of = |(figure, permille): (&'static str, u64)| {
            let [simulated, measured, whole] =
                runs.map(|run| run.throttled.quantile_ns(permille).max(1) as f64);
            Deviation {
                figure,
                share: (simulated - measured) / whole,
                of: DeviationOf::Measured,
            }
        };
        let [p50, p99] = STOPPED.map(of);
        Some(p50.or_further(Some(p99)))
    }

    fn or_further(self, other: Option<Deviation>) -> Deviation {
        let further = other.filter(|other| other.share.abs() > self.share.abs());
        further.unwrap_or(self)
    }

    /// Returns true if the simulator does not know this load.
    pub fn is_beyond(&self) -> bool {
        self.share.abs() > DEVIATION_MAX
    }
}

/// A setting under which no task of the load is throttled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sufficient {
    /// The setting.
    pub setting: QuotaSetting,
    /// Its run.
    pub run: QuotaRun,
}

/// The smallest quota, and the smallest burst, with which `asked` throttles nobody; none where no
/// burst suffices. A search in steps of a sixteenth, at least of a millisecond.
///
/// # Errors
/// As [`simulate_quota`].
pub fn smallest(
    demand: &Demand,
    asked: &QuotaSetting,
) -> Result<[Option<Sufficient>; 2], WhatIfError> {
    let Some(own) = asked.bandwidth else {
        return Ok([None, None]);
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let search = Search {
        asked,
        run: &|setting| simulate_quota(demand, setting),
    };
    search.both(own, own.period_us * cpus)
}

/// A search by runs under one setting after the other.
struct Search<'a> {
    asked: &'a QuotaSetting,
    run: &'a dyn Fn(&QuotaSetting) -> Result<QuotaRun, WhatIfError>,
}

impl Search<'_> {
    /// Finds the least quota up to `quota_max`, and the least burst.
    fn both(&self, own: Bandwidth, quota_max: u64) -> Result<[Option<Sufficient>; 2], WhatIfError> {
        let with_quota = |quota_us| Bandwidth {
            quota_us,
            burst_us: own.burst_us.min(quota_us),
            ..own
        };
        let with_burst = |burst_us| Bandwidth { burst_us, ..own };
        Ok([
            self.least(quota_max, &with_quota)?,
            self.least(own.quota_us, &with_burst)?,
        ])
    }

    /// Finds the least value up to `most` that suffices.
    fn least(
        &self,
        most: u64,
        with: &dyn Fn(u64) -> Bandwidth,
    ) -> Result<Option<Sufficient>, WhatIfError> {
        let Some(mut best) = self.try_one(with(most))? else {
            return Ok(None);
        };
        let (mut low, mut high) = (0, most);
        while high - low > STEP_US.max(high / 16) {
            let middle = (low + high) / 2;
            match self.try_one(with(middle.max(STEP_US)))? {
                Some(found) => (best, high) = (found, middle),
                None => low = middle,
            }
        }
        Ok(Some(best))
    }

    fn try_one(&self, bandwidth: Bandwidth) -> Result<Option<Sufficient>, WhatIfError> {
        let setting = QuotaSetting {
            bandwidth: Some(bandwidth),
            ..*self.asked
        };
        let run = (self.run)(&setting)?;
        Ok((run.spread.count() == 0).then_some(Sufficient { setting, run }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Throttling;

    fn run(count: u64, ns: u64) -> QuotaRun {
        let mut run = QuotaRun {
            duration_ns: 10_000_000_000,
            ..QuotaRun::default()
        };
        for _ in 0..count {
            run.spread.add(ns);
            run.throttled.add(ns);
        }
        run
    }

    /// Settings that suffice a load of 24 ms in a period.
    fn least(quota_us: u64) -> [Option<[u64; 2]>; 2] {
        let own = Bandwidth {
            quota_us,
            period_us: 20_000,
            burst_us: 2000,
        };
        let asked = QuotaSetting {
            bandwidth: Some(own),
            throttling: Throttling::Task,
        };
        let search = Search {
            asked: &asked,
            run: &|setting| {
                let own = setting.bandwidth.expect("it has a quota");
                let suffices = own.quota_us + own.burst_us >= 24_000;
                Ok(run(u64::from(!suffices), 1000))
            },
        };
        let found = search.both(own, 40_000).expect("it is simulated");
        found.map(|found| {
            let own = found?.setting.bandwidth?;
            Some([own.quota_us, own.burst_us])
        })
    }

    /// Within a sixteenth of what suffices: 22 ms beside a burst of 2, and 10 ms beside a quota of 14.
    #[test]
    fn the_least_quota_and_the_least_burst_are_found() {
        assert_eq!(
            least(14_000),
            [Some([22_500, 2000]), Some([14_000, 10_500])]
        );
        // A burst is at most as long as the quota.
        assert_eq!(least(8000)[1], None);
    }

    #[test]
    fn the_figure_that_is_furthest_off_decides() {
        let measured = run(120, 50_000_000);
        let lost = Deviation::of(&run(14, 50_000_000), &measured);
        assert_eq!(lost.figure, "rate of throttlings");
        assert!(lost.is_beyond() && lost.share < -0.8, "{lost:?}");
        let longer = Deviation::of(&run(110, 90_000_000), &measured);
        assert!(longer.is_beyond(), "{longer:?}");
        assert!(!Deviation::of(&run(110, 55_000_000), &measured).is_beyond());
        // Stops that are 10 ms too short are a third of those under a larger quota.
        let shorter = run(110, 40_000_000);
        assert!(!Deviation::of(&shorter, &measured).is_beyond());
        let carried = |asked_ns| Deviation::carried(&shorter, &measured, &run(100, asked_ns));
        let small = carried(30_000_000);
        assert_eq!(
            (small.figure, small.of),
            ("p50 stopped", DeviationOf::Asked)
        );
        assert!(small.is_beyond() && small.share > -0.34, "{small:?}");
        assert!(!carried(60_000_000).is_beyond());
        // Where nobody is stopped any more, no stop is off.
        let none = Deviation::carried(&shorter, &measured, &run(0, 0));
        assert_eq!(none.of, DeviationOf::Measured);
        // A few throttlings are not compared as if they were many.
        assert!(!Deviation::of(&run(3, 90_000_000), &run(2, 1_000_000)).is_beyond());
        assert!(!Deviation::of(&run(0, 0), &run(0, 0)).is_beyond());
        assert!(Deviation::of(&run(9, 1), &run(0, 0)).is_beyond());
    }
}
