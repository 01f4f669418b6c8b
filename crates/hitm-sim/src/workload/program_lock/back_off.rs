//! Back-off of a program that spins for its own lock: the rule of PostgreSQL's s_lock
//! (src/backend/storage/lmgr/s_lock.c, 18).
//!
//! A thread looks at the lock so many times, then sleeps: first for 1 ms, then longer by a random
//! fraction each time, and for 1 ms again once it would be more than a second. So many times is 100
//! at first. It becomes 100 more with each lock that came without a sleep, and one less with each that
//! did not, between 10 and 1,000.
//!
//! **Not modelled, and why:** the program ends after 1,000 sleeps for one lock; no run lasts so long.

use crate::engine::Random;

const SPINS_LEAST: u64 = 10;
const SPINS_FIRST: u64 = 100;
const SPINS_MOST: u64 = 1_000;
const SPINS_STEP: u64 = 100;
const DELAY_LEAST_US: u64 = 1_000;
const DELAY_MOST_US: u64 = 1_000_000;

/// A thread's patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BackOff {
    spins_per_delay: u64,
    /// Looks since the wait began, or since the last sleep.
    spins: u64,
    /// The next sleep, in microseconds; 0 if there was none.
    delay_us: u64,
}

impl BackOff {
    pub(super) fn new() -> BackOff {
        BackOff {
            spins_per_delay: SPINS_FIRST,
            spins: 0,
            delay_us: 0,
        }
    }

    /// Looks that are left before the next sleep, at least one.
    pub(super) fn spins_left(&self) -> u64 {
        self.spins_per_delay - self.spins
    }

    /// The thread has looked so many times in vain; returns for how long to sleep now, in
    /// microseconds.
    pub(super) fn spun(&mut self, spins: u64, random: &mut Random) -> Option<u64> {
        self.spins += spins;
        if self.spins < self.spins_per_delay {
            return None;
        }
        self.spins = 0;
        let delay_us = self.delay_us.max(DELAY_LEAST_US);
        let next = delay_us + random.between(0, delay_us);
        self.delay_us = if next > DELAY_MOST_US {
            DELAY_LEAST_US
        } else {
            next
        };
        Some(delay_us)
    }

    /// The thread has the lock that it waited for.
    pub(super) fn taken(&mut self) {
        self.spins_per_delay = match self.delay_us {
            0 => (self.spins_per_delay + SPINS_STEP).min(SPINS_MOST),
            _ => (self.spins_per_delay - 1).max(SPINS_LEAST),
        };
        (self.spins, self.delay_us) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_fast_without_a_sleep_and_shrinks_slowly_with_one() {
        let mut random = Random::new(1);
        let mut one = BackOff::new();
        assert_eq!(one.spins_left(), 100);
        assert_eq!(one.spun(99, &mut random), None);
        assert_eq!(one.spins_left(), 1);
        one.taken();
        assert_eq!(one.spins_left(), 200);
        (0..20).for_each(|_| one.taken());
        assert_eq!(one.spins_left(), 1_000);
        assert_eq!(one.spun(1_000, &mut random), Some(1_000));
        assert_eq!(one.spins_left(), 1_000);
        one.taken();
        assert_eq!(one.spins_left(), 999);
        for _ in 0..2_000 {
            one.spun(1_000, &mut random);
            one.taken();
        }
        assert_eq!(one.spins_left(), 10);
    }

    #[test]
    fn sleeps_grow_by_up_to_themselves_and_begin_anew_beyond_a_second() {
        let mut random = Random::new(7);
        let mut one = BackOff::new();
        let delays: Vec<u64> = (0..200)
            .filter_map(|_| one.spun(100, &mut random))
            .collect();
        assert_eq!((delays.len(), delays[0]), (200, 1_000));
        for pair in delays.windows(2) {
            let grown = (pair[0]..=2 * pair[0]).contains(&pair[1]) && pair[1] <= 1_000_000;
            let anew = pair[1] == 1_000 && pair[0] > 500_000;
            assert!(grown || anew, "{pair:?}");
        }
        assert!(delays.iter().filter(|delay| **delay == 1_000).count() >= 3);
    }
}
