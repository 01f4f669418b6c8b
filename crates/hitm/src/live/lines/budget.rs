//! Time for which threads may have clocks and watches, so that both cost the program little.
//!
//! A thread with either is dearer to switch to and from: the timer and the debug registers are part of what is
//! switched. Threads that compute may have them all the time, threads that take turns all the time only seldom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hitm_live::lines::SampledThread;
use hitm_live::procfs;

use super::host::Host;

/// Part of a CPU's time that each of the two may add to switches.
const COST_MAX: f64 = 0.01;
/// Least part of the time.
const SHARE_MIN: f64 = 0.01;
/// Time that is there from the start: a phase of samples, some ten lines of threads that take turns.
const CREDIT: Duration = Duration::from_millis(100);
/// Threads whose switches are counted; the others are taken to be like them.
const COUNTED_MAX: usize = 256;

/// Parts of an observation that cost the threads something at each switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Clocks of threads.
    Clocks,
    /// Watches of threads.
    Watches,
}

/// Time of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    /// Time that it adds to a switch.
    switch: Duration,
    earned: Duration,
    spent: Duration,
}

impl Account {
    fn new(switch: Duration) -> Account {
        Account {
            switch,
            earned: CREDIT,
            spent: Duration::ZERO,
        }
    }
}

/// Time that is left for each part.
pub(super) struct Budget {
    accounts: [Account; 2],
    counted: Instant,
    switches: BTreeMap<u32, u64>,
}

impl Budget {
    pub(super) fn new(host: &Host) -> Budget {
        Budget {
            accounts: [host.clock_switch(), host.watches_switch()].map(Account::new),
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
        for account in &mut self.accounts {
            let share = share(
                account.switch * u32::try_from(count).unwrap_or(u32::MAX),
                passed,
            );
            account.earned += passed.mul_f64(share);
        }
    }

    /// Returns true if a part has time left.
    pub(super) fn has_time(&self, part: Part) -> bool {
        let account = self.accounts[part as usize];
        account.spent < account.earned
    }

    pub(super) fn spend(&mut self, part: Part, time: Duration) {
        self.accounts[part as usize].spent += time;
    }
}

/// Part of the time for threads whose switches would cost so much more in a while.
fn share(cost: Duration, passed: Duration) -> f64 {
    let cost = cost.as_secs_f64() / passed.as_secs_f64().max(1e-9);
    (COST_MAX / cost.max(1e-9)).clamp(SHARE_MIN, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_are_watched_seldom() {
        let of = |ms| share(Duration::from_millis(ms), Duration::from_secs(1));
        assert_eq!(of(0), 1.0);
        assert_eq!(of(10_000), SHARE_MIN);
        // They would cost a tenth of a CPU.
        assert!((of(100) - 0.1).abs() < 1e-9, "{}", of(100));
    }

    #[test]
    fn what_is_spent_is_gone() {
        let mut budget = Budget::new(&Host::assumed("a test"));
        assert!(budget.has_time(Part::Watches));
        budget.spend(Part::Watches, CREDIT);
        assert!(!budget.has_time(Part::Watches) && budget.has_time(Part::Clocks));
        budget.earn(std::iter::empty());
        assert!(budget.has_time(Part::Watches));
    }
}
