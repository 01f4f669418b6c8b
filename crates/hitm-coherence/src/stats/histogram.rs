//! A histogram of latencies with buckets of at most a sixteenth of their value.
//!
//! Values below 32 have a bucket each; above, every power of two is split into 16 buckets. Only the
//! range between the smallest and the largest bucket in use is kept. The latencies of one line lie
//! within a few powers of two, so that a line needs some hundred bytes.

/// Values below this have a bucket each.
const EXACT_BELOW: u64 = 32;
/// Buckets for each power of two from there on.
const BUCKETS_PER_OCTAVE: usize = 16;
/// `log2(EXACT_BELOW)`.
const FIRST_OCTAVE: usize = 5;

/// Counts of latencies, each to a sixteenth of its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatencyHistogram {
    /// Bucket that `counts[0]` stands for.
    first: usize,
    counts: Vec<u64>,
}

impl LatencyHistogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        match self.counts.get_mut(bucket.wrapping_sub(self.first)) {
            Some(count) => *count += 1,
            None => self.grow_and_add(bucket, 1),
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        for (index, count) in other
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            self.grow_and_add(other.first + index, *count);
        }
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of values counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The largest value of the bucket below which `quantile` (0 to 1) of the values lie, its own
    /// included; `None` for an empty histogram.
    pub fn value_at_quantile(&self, quantile: f64) -> Option<u64> {
        let total = self.count();
        let wanted = ((quantile.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(largest_in(self.first + reached))
    }

    #[cold]
    fn grow_and_add(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let index = bucket - self.first;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
    }
}

/// The bucket of a value: 0 to 975.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < EXACT_BELOW {
        return value as usize;
    }
    let octave = value.ilog2() as usize;
    let within = (value >> (octave - 4)) as usize - BUCKETS_PER_OCTAVE;
    EXACT_BELOW as usize + (octave - FIRST_OCTAVE) * BUCKETS_PER_OCTAVE + within
}

/// The largest value of a bucket.
fn largest_in(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT_BELOW as usize) else {
        return bucket as u64;
    };
    let shift = above / BUCKETS_PER_OCTAVE + FIRST_OCTAVE - 4;
    let leading = (above % BUCKETS_PER_OCTAVE + BUCKETS_PER_OCTAVE) as u64;
    (leading << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_meet_without_gaps() {
        for bucket in 0..975 {
            let largest = largest_in(bucket);
            assert_eq!(bucket_of(largest), bucket);
            assert_eq!(bucket_of(largest + 1), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), 975);
        assert_eq!(largest_in(975), u64::MAX);
    }

    #[test]
    fn quantiles_of_a_hundred_values() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.value_at_quantile(0.5), None);
        (1..=100).rev().for_each(|value| histogram.record(value));
        // 50 shares its bucket with 51, 99 with 96 to 99, 100 with 100 to 103.
        let at = |quantile| histogram.value_at_quantile(quantile);
        assert_eq!((at(0.0), at(0.31), at(0.5)), (Some(1), Some(31), Some(51)));
        assert_eq!((at(0.99), at(1.0)), (Some(99), Some(103)));
    }

    proptest! {
        #[test]
        fn merging_is_counting_together(
            a in proptest::collection::vec(0u64..1 << 40, 0..50),
            b in proptest::collection::vec(0u64..5000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = LatencyHistogram::default();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}
