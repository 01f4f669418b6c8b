//! Time for which threads may have clocks and watches, so that both cost the program little.
//!
//! A thread with either is dearer to switch to and from: the timer and the debug registers are part of what is
//! switched. Threads that compute may have them all the time, threads that take turns all the time only seldom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hitm_live::lines::SampledThread;
use hitm_live::procfs;

/// Part of a CPU's time that each of the two may add to switches.
const COST_MAX: f64 = 0.01;
/// Time that a clock or watches add to a switch. Assumed, 1 to 20 us: in a virtual machine its host has a part in it.
const SWITCH: Duration = Duration::from_micros(10);
/// Least part of the time.
const SHARE_MIN: f64 = 0.01;
/// Time that is there from the start: a phase of samples, some ten lines of threads that take turns.
const CREDIT: Duration = Duration::from_millis(100);
/// Threads whose switches are counted; the others are taken to be like them.
const COUNTED_MAX: usize = 256;

/// Parts of an observation that cost the threads something at each switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Clocks of threads.
    Clocks,
    /// Watches of threads.
    Watches,
}

/// Time that is left, the same for each part.
pub(super) struct Budget {
    spent: BTreeMap<Part, Duration>,
    earned: Duration,
    counted: Instant,
    switches: BTreeMap<u32, u64>,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget {
            spent: BTreeMap::new(),
            earned: CREDIT,
            counted: Instant::now(),
            switches: BTreeMap::new(),
        }
    }

    /// Adds what the time since the last call allows, by the switches of these threads.
    pub(super) fn earn(&mut self, threads: impl Iterator<Item = SampledThread>) {
        let passed = self.counted.elapsed();
        self.counted = Instant::now();
        let now = threads.take(COUNTED_MAX).filter_map(|thread| {
            let count = procfs::voluntary_switches(thread.tid)?;
            Some((thread.tid, count))
        });
        let now: BTreeMap<u32, u64> = now.collect();
        let since = |(tid, count): (&u32, &u64)| {
            let before = self.switches.get(tid)?;
            Some(count.saturating_sub(*before))
        };
        let count: u64 = now.iter().filter_map(since).sum();
        self.switches = now;
        self.earned += passed.mul_f64(share(count, passed));
    }

    /// Returns true if a part has time left.
    pub(super) fn has_time(&self, part: Part) -> bool {
        let spent = self.spent.get(&part).copied().unwrap_or_default();
        spent < self.earned
    }

    pub(super) fn spend(&mut self, part: Part, time: Duration) {
        *self.spent.entry(part).or_default() += time;
    }
}

/// Part of the time for threads that were switched so often in a while.
fn share(switch_count: u64, passed: Duration) -> f64 {
    let seconds = SWITCH.as_secs_f64() * switch_count as f64;
    let cost = seconds / passed.as_secs_f64().max(1e-9);
    (COST_MAX / cost.max(1e-9)).clamp(SHARE_MIN, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_are_watched_seldom() {
        let of = |count| share(count, Duration::from_secs(1));
        assert_eq!(of(0), 1.0);
        assert_eq!(of(1_000_000), SHARE_MIN);
        // 10,000 switches a second would cost a tenth of a CPU.
        assert!((of(10_000) - 0.1).abs() < 1e-9, "{}", of(10_000));
    }

    #[test]
    fn what_is_spent_is_gone() {
        let mut budget = Budget::new();
        assert!(budget.has_time(Part::Watches));
        budget.spend(Part::Watches, CREDIT);
        assert!(!budget.has_time(Part::Watches) && budget.has_time(Part::Clocks));
        budget.earn(std::iter::empty());
        assert!(budget.has_time(Part::Watches));
    }
}
