//! CPU time of a sweep, estimated from some of its runs.

use std::time::{Duration, Instant};

use super::{Error, Part, Store, Sweep, pool};

/// Runs of a sample: enough for both ends of each axis.
const RUNS_MAX: usize = 16;
/// No further run begins after this time.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The runs and the time of a sweep, estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Runs of the plan.
    pub all: usize,
    /// Runs without a result.
    pub missing: usize,
    /// Points that cannot be run.
    pub broken: usize,
    /// Runs that were tried.
    pub sample: usize,
    /// CPU time of the missing runs, by the mean of the sample.
    pub cpu: Duration,
    /// Smallest and largest CPU time of a run of the sample.
    pub spread: (Duration, Duration),
}

impl Sweep {
    /// Counts runs and tries some of the missing ones, spread over the plan. Nothing is written.
    ///
    /// # Errors
    /// Results that cannot be read, a source that can no longer be read.
    pub fn estimate(&self, store: &Store) -> Result<Estimate, Error> {
        let missing = self.missing(store, Part::ALL)?;
        let started = Instant::now();
        let mut times: Vec<Duration> = Vec::new();
        let count = missing.len().min(RUNS_MAX);
        for index in spread_order(count) {
            if started.elapsed() > TIME_MAX {
                break;
            }
            let before = cpu_time();
            // The middle of each of `count` equal parts.
            pool::try_run(self, missing[(2 * index + 1) * missing.len() / (2 * count)])?;
            times.push(cpu_time().saturating_sub(before));
        }
        let sum: Duration = times.iter().sum();
        let mean = sum.checked_div(times.len() as u32).unwrap_or_default();
        let least = times.iter().min().copied().unwrap_or_default();
        let most = times.iter().max().copied().unwrap_or_default();
        Ok(Estimate {
            all: self.entries.len(),
            missing: missing.len(),
            broken: self.broken_count(),
            sample: times.len(),
            cpu: mean.saturating_mul(missing.len() as u32),
            spread: (least, most),
        })
    }
}

/// Orders `0..count` so that both ends and the middle come early: a sample cut short by time is
/// still spread.
fn spread_order(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| (*index as u32).reverse_bits() >> 28);
    order
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system writes one timespec to the address of one.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0, "Linux has a clock for each thread");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sample_is_spread() {
        assert_eq!(spread_order(16)[..4], [0, 8, 4, 12]);
        let mut all = spread_order(5);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
    }
}
