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
}
