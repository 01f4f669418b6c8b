//! Named streams of random numbers from one seed.
//!
//! Each user has a stream of its own, so that one more draw in one place changes nothing elsewhere.
//! The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); integers only, so that results
//! do not depend on a maths library.

use crate::Fnv1a;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The only stream of a user who has one.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The stream `name` of the run with this seed.
    pub fn stream(seed: u64, name: &str) -> Random {
        let name = Fnv1a::EMPTY.with(name.as_bytes());
        let mut random = Random::new(seed);
        random.state = random.next().wrapping_add(name.value());
        random
    }

    /// 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a random stream has no end and is not iterated"
    )]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..count`. Panics when `count` is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        assert!(count > 0, "there is no number below 0");
        // The bias is below 2^-32 for every count used here.
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `least..=most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A time with an exponential distribution of this mean: that to the next event of a Poisson
    /// process. By comparisons alone (von Neumann, Various techniques used in connection with random
    /// digits, 1951).
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mean = u128::from(mean);
        let mut whole = 0;
        loop {
            let first = self.next();
            let (mut last, mut count) = (first, 1_u64);
            loop {
                let next = self.next();
                if next >= last {
                    break;
                }
                (last, count) = (next, count + 1);
            }
            // A run of falling numbers of odd length has the fraction of an exponential time.
            if count % 2 == 1 {
                let fraction = (u128::from(first) * mean) >> 64;
                return u64::try_from(whole + fraction).unwrap_or(u64::MAX);
            }
            whole += mean;
        }
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// The numbers below `count` in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let first = |seed, name| Random::stream(seed, name).next();
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_eq!(first(1, "a"), first(1, "a"));
    }

    #[test]
    fn exponential_times_have_their_mean_and_tails() {
        let mut random = Random::new(1);
        let times: Vec<u64> = (0..100_000).map(|_| random.exponential(1_000)).collect();
        let mean = times.iter().sum::<u64>() as f64 / 1e5;
        let squares = times.iter().map(|time| (*time as f64 - mean).powi(2));
        let deviation = (squares.sum::<f64>() / 1e5).sqrt();
        assert!((mean - 1_000.0).abs() < 10.0, "{mean}");
        assert!((deviation - 1_000.0).abs() < 15.0, "{deviation}");
        // Of e^-1 and e^-3 of all a time is longer than the mean, and than three of them.
        for (least, share) in [(1_000, 0.3679), (3_000, 0.0498)] {
            let longer = times.iter().filter(|time| **time >= least).count() as f64 / 1e5;
            assert!(
                (longer - share).abs() < 0.005,
                "{longer} instead of {share}"
            );
        }
        assert_eq!(times[..4], [566, 971, 877, 404]);
        assert_eq!(Random::new(7).exponential(0), 0);
    }
}
