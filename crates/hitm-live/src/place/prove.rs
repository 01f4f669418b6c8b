//! Proof that a placement helps: a growing count, measured alternately with and without it.

use std::thread;
use std::time::{Duration, Instant};

use hitm_fields::fields;

use super::PlaceError;

/// Share of an interval that passes before it is measured: threads move and caches fill meanwhile.
/// Assumed a tenth (0 to a half); short intervals are measured too low where moving is slow.
const SETTLING: u32 = 10;
/// Interval between ticks of a trial.
const STEP: Duration = Duration::from_millis(50);

/// A count that grows with the work done.
pub trait Meter {
    /// The name of one, for people: `context-switches`.
    fn unit(&self) -> &str;

    /// The count so far.
    ///
    /// # Errors
    /// It cannot be read.
    fn count(&mut self) -> Result<f64, PlaceError>;
}

/// A placement that comes and goes for measurements.
pub trait Trial {
    /// Places, or undoes.
    ///
    /// # Errors
    /// The kernel refuses.
    fn switch(&mut self, is_placed: bool) -> Result<(), PlaceError>;

    /// Maintains the placement; false to give up.
    ///
    /// # Errors
    /// The kernel refuses.
    fn tick(&mut self) -> Result<bool, PlaceError>;
}

/// Options of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProveOptions {
    /// Pairs of intervals.
    pub rounds: usize,
    /// Length of one interval.
    pub time: Duration,
    /// Share by which the rate must be better.
    pub min_gain: f64,
    /// Set for counts of which fewer are better.
    pub fewer_is_better: bool,
}

impl Default for ProveOptions {
    /// Three rounds of 2 s, and 5 %: assumed (1 to 10 rounds). On a busy host single intervals differ by as much.
    fn default() -> ProveOptions {
        ProveOptions {
            rounds: 3,
            time: Duration::from_secs(2),
            min_gain: 0.05,
            fewer_is_better: false,
        }
    }
}

fields! {
    /// One interval.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Measurement in measurement {
        /// Set if the threads were placed.
        pub is_placed: bool => label "placed";
        /// Growth of the count a second.
        pub rate: f64 => decimal "rate";
    }
}

fields! {
    /// Rates of several intervals.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Spread in spread {
        /// The one in the middle, or the mean of two.
        pub median: f64 => decimal "median";
        /// The lowest.
        pub min: f64 => decimal "min";
        /// The highest.
        pub max: f64 => decimal "max";
    }
}

fields! {
    /// Outcome of a proof.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Proof in proof {
        /// Every interval, in its order.
        pub measurements: Vec<Measurement>;
        /// Rates without the placement.
        pub without: Spread;
        /// Rates with it.
        pub placed: Spread;
        /// Share by which the median rate is better with it; below 0 when worse.
        pub gain: f64 => share "gain";
        /// Set if `gain` is at least the required one.
        pub is_better: bool => label "better";
    }
}

/// Measures alternately without and with the placement. Every second round begins with it, so that
/// drift favours neither. `None` when the trial gives up. The placement stays as the last interval
/// had it.
///
/// # Errors
/// The count cannot be read or stands still, or the kernel refuses to place.
pub fn prove(
    meter: &mut dyn Meter,
    trial: &mut dyn Trial,
    options: &ProveOptions,
) -> Result<Option<Proof>, PlaceError> {
    let mut measurements = Vec::new();
    for round in 0..options.rounds.max(1) {
        let begins_placed = round % 2 == 1;
        for is_placed in [begins_placed, !begins_placed] {
            trial.switch(is_placed)?;
            let Some(rate) = measure(meter, trial, options.time)? else {
                return Ok(None);
            };
            measurements.push(Measurement { is_placed, rate });
        }
    }
    judge(measurements, options, meter.unit()).map(Some)
}

fn measure(
    meter: &mut dyn Meter,
    trial: &mut dyn Trial,
    time: Duration,
) -> Result<Option<f64>, PlaceError> {
    if !wait(trial, time / SETTLING)? {
        return Ok(None);
    }
    let (before, begun) = (meter.count()?, Instant::now());
    if !wait(trial, time)? {
        return Ok(None);
    }
    let (after, taken) = (meter.count()?, begun.elapsed());
    Ok(Some((after - before) / taken.as_secs_f64().max(1e-9)))
}

fn wait(trial: &mut dyn Trial, time: Duration) -> Result<bool, PlaceError> {
    let begun = Instant::now();
    loop {
        if !trial.tick()? {
            return Ok(false);
        }
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(true);
        }
        thread::sleep(left.min(STEP));
    }
}

/// Compares the medians.
fn judge(
    measurements: Vec<Measurement>,
    options: &ProveOptions,
    unit: &str,
) -> Result<Proof, PlaceError> {
    let of = |is_placed| {
        let kind = measurements.iter().filter(|one| one.is_placed == is_placed);
        spread(kind.map(|one| one.rate).collect())
    };
    let (without, placed) = (of(false), of(true));
    let (worse, better) = match options.fewer_is_better {
        true => (placed.median, without.median),
        false => (without.median, placed.median),
    };
    if !(worse > 0.0 && better.is_finite()) {
        return Err(PlaceError::Wrong(format!(
            "nothing is proven by {unit}: the count stands still"
        )));
    }
    let gain = better / worse - 1.0;
    Ok(Proof {
        measurements,
        without,
        placed,
        gain,
        is_better: gain >= options.min_gain,
    })
}

fn spread(mut rates: Vec<f64>) -> Spread {
    rates.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| rates.get(index).copied().unwrap_or(f64::NAN);
    let last = rates.len().saturating_sub(1);
    Spread {
        median: (at(last / 2) + at(rates.len() / 2).min(at(last))) / 2.0,
        min: at(0),
        max: at(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter {
        rates: Vec<f64>,
        total: f64,
        is_second: bool,
    }

    impl Meter for Counter {
        fn unit(&self) -> &str {
            "units"
        }

        fn count(&mut self) -> Result<f64, PlaceError> {
            if self.is_second {
                self.total += self.rates.remove(0);
            }
            self.is_second = !self.is_second;
            Ok(self.total)
        }
    }

    #[derive(Default)]
    struct Switches {
        log: String,
        ticks_left: usize,
    }

    impl Trial for Switches {
        fn switch(&mut self, is_placed: bool) -> Result<(), PlaceError> {
            self.log.push(if is_placed { 'P' } else { '-' });
            Ok(())
        }

        fn tick(&mut self) -> Result<bool, PlaceError> {
            self.ticks_left = self.ticks_left.saturating_sub(1);
            Ok(self.ticks_left > 0)
        }
    }

    fn measurements(without: &[f64], placed: &[f64]) -> Vec<Measurement> {
        let of = |rates: &[f64], is_placed| {
            let all = rates.iter().map(|rate| Measurement {
                is_placed,
                rate: *rate,
            });
            all.collect::<Vec<_>>()
        };
        [of(without, false), of(placed, true)].concat()
    }

    fn gain(without: &[f64], placed: &[f64], fewer_is_better: bool) -> Option<(i64, bool)> {
        let options = ProveOptions {
            fewer_is_better,
            ..ProveOptions::default()
        };
        let proof = judge(measurements(without, placed), &options, "units").ok()?;
        Some(((proof.gain * 1000.0).round() as i64, proof.is_better))
    }

    #[test]
    fn medians_decide() {
        assert_eq!(
            gain(&[100.0, 90.0, 500.0], &[110.0, 1.0, 111.0], false),
            Some((100, true))
        );
        assert_eq!(
            gain(&[100.0, 100.0], &[103.0, 105.0], false),
            Some((40, false))
        );
        assert_eq!(gain(&[100.0], &[50.0], false), Some((-500, false)));
        assert_eq!(gain(&[100.0], &[50.0], true), Some((1000, true)));
        assert_eq!(gain(&[0.0], &[50.0], false), None);
        assert_eq!(gain(&[50.0], &[0.0], true), None);
        assert_eq!(gain(&[f64::NAN], &[1.0], false), None);
    }

    #[test]
    fn rounds_take_turns() {
        let mut meter = Counter {
            rates: vec![1.0; 6],
            total: 0.0,
            is_second: false,
        };
        let mut trial = Switches {
            ticks_left: 1000,
            ..Switches::default()
        };
        let options = ProveOptions {
            time: Duration::from_micros(10),
            ..ProveOptions::default()
        };
        let proof = prove(&mut meter, &mut trial, &options).unwrap().unwrap();
        assert_eq!(
            (trial.log.as_str(), proof.measurements.len()),
            ("-PP--P", 6)
        );
        assert!(
            proof.without.min <= proof.without.median && proof.placed.median <= proof.placed.max
        );
    }

    #[test]
    fn a_trial_that_gives_up_proves_nothing() {
        let mut meter = Counter {
            rates: vec![1.0; 6],
            total: 0.0,
            is_second: false,
        };
        let mut trial = Switches {
            ticks_left: 3,
            ..Switches::default()
        };
        let options = ProveOptions::default();
        assert_eq!(prove(&mut meter, &mut trial, &options).unwrap(), None);
    }
}
