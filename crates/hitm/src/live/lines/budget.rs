//! Time for which threads may have clocks and watches, so that both cost the program little.
//!
//! A thread with either is dearer to switch to and from: the timer and the debug registers are part of what is
//! switched. Threads that compute may have them all the time, threads that take turns all the time only seldom. A watch
//! stops its thread at each hit, and a program that mostly sleeps has little CPU time of which that is a part.

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
/// Part of the threads' CPU time for which watches may stop them. With a hundredth, looks of two seconds beside other
/// work watched a third as many lines, and missed some.
const STOPS_MAX: f64 = 0.015;
/// Time for stops that is there from the start: of each of some ten lines, one round.
const STOPS_CREDIT: Duration = Duration::from_millis(15);
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

/// Time of the threads at which watches stop them.
struct Stops {
    /// Time of one.
    each: Duration,
    earned: Duration,
    spent: Duration,
    /// CPU time of processes that has counted.
    of_processes: BTreeMap<u32, Duration>,
}

/// Time that is left for each part.
pub(super) struct Budget {
    accounts: [Account; 2],
    stops: Stops,
    counted: Instant,
    switches: BTreeMap<u32, u64>,
}

impl Budget {
    pub(super) fn new(host: &Host) -> Budget {
        Budget {
            accounts: [host.clock_switch(), host.watches_switch()].map(Account::new),
            stops: Stops {
                each: host.hit(),
                earned: STOPS_CREDIT,
                spent: Duration::ZERO,
                of_processes: BTreeMap::new(),
            },
            counted: Instant::now(),
            switches: BTreeMap::new(),
        }
    }

    /// Adds what the CPU time of processes allows, which each of them has had since it began.
    pub(super) fn earn_stops(&mut self, of_processes: BTreeMap<u32, Duration>) {
        let stops = &mut self.stops;
        for (pid, cpu) in &of_processes {
            let before = stops.of_processes.get(pid);
            let since = before.map_or(Duration::ZERO, |before| cpu.saturating_sub(*before));
            stops.earned += since.mul_f64(STOPS_MAX);
        }
        stops.of_processes = of_processes;
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
        let has_stops = part == Part::Clocks || self.stops.spent < self.stops.earned;
        account.spent < account.earned && has_stops
    }

    /// Takes off what so many stops of threads took.
    pub(super) fn spend_stops(&mut self, count: u64) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.stops.spent += self.stops.each.saturating_mul(count);
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

    #[test]
    fn stops_are_a_part_of_the_threads_own_time() {
        let host = Host::assumed("a test");
        let mut budget = Budget::new(&host);
        let second = Duration::from_secs(1);
        let of = |seconds: &[(u32, u32)]| {
            let used = seconds
                .iter()
                .map(|(pid, seconds)| (*pid, *seconds * second));
            used.collect::<BTreeMap<u32, Duration>>()
        };
        let count = |time: Duration| (time.as_nanos() / host.hit().as_nanos()) as u64;
        // What they used before somebody looked has earned nothing.
        budget.earn_stops(of(&[(1, 100)]));
        budget.spend_stops(count(STOPS_CREDIT));
        assert!(!budget.has_time(Part::Watches) && budget.has_time(Part::Clocks));
        budget.earn_stops(of(&[(1, 101), (2, 50)]));
        assert!(budget.has_time(Part::Watches));
        budget.spend_stops(count(second.mul_f64(STOPS_MAX)));
        assert!(!budget.has_time(Part::Watches));
        budget.earn_stops(of(&[(2, 50)]));
        assert!(!budget.has_time(Part::Watches));
    }
}
