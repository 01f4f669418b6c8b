//! Durations as a histogram fine enough for percentiles.

use hitm_base::Histogram;

/// Slots for each power of two: a percentile is right to 1/32 (half a slot).
const SLOTS: u64 = 16;

/// Counted durations, in at most 976 slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spread {
    slots: Vec<u64>,
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
}

impl Spread {
    /// Counts a duration.
    pub fn add(&mut self, ns: u64) {
        let slot = slot_of(ns);
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of durations.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Longest duration.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Start of each slot in use, and the durations in it.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64)> {
        let slots = (0..).zip(&self.slots);
        let used = slots.filter(|(_, count)| **count > 0);
        used.map(|(slot, count)| (start_of(slot), *count))
    }

    /// The durations by powers of two.
    pub fn histogram(&self) -> Histogram {
        self.rows().collect()
    }

    /// Duration that `permille` of 1000 do not exceed: the middle of its slot. Zero without
    /// durations.
    pub fn quantile_ns(&self, permille: u64) -> u64 {
        let rank = (self.count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (slot, count) in self.slots.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, high) = (start_of(slot as u64), start_of(slot as u64 + 1));
                return (low + (high - low) / 2).min(self.longest_ns);
            }
        }
        0
    }
}

fn slot_of(ns: u64) -> usize {
    if ns < SLOTS {
        return ns as usize;
    }
    let log = u64::from(ns.ilog2());
    let within = (ns >> (log - 4)) & (SLOTS - 1);
    (SLOTS * (log - 3) + within) as usize
}

fn start_of(slot: u64) -> u64 {
    match slot / SLOTS {
        0 => slot,
        shift @ 1..61 => (SLOTS + slot % SLOTS) << (shift - 1),
        // Behind the last slot.
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_of_few_and_of_none() {
        assert_eq!(Spread::default().quantile_ns(500), 0);
        let mut spread = Spread::default();
        for ns in [1, 2, 3, 1000] {
            spread.add(ns);
        }
        assert_eq!(
            (spread.quantile_ns(500), spread.quantile_ns(990)),
            (2, 1000)
        );
        assert_eq!(
            (spread.count(), spread.sum_ns(), spread.longest_ns()),
            (4, 1006, 1000)
        );
        let rows: Vec<_> = spread.rows().collect();
        assert_eq!(rows, [(1, 1), (2, 1), (3, 1), (992, 1)]);
    }

    proptest! {
        #[test]
        fn a_percentile_of_equal_durations_is_close(ns in 0_u64..) {
            let mut spread = Spread::default();
            spread.add(ns);
            prop_assert!(start_of(slot_of(ns) as u64) <= ns);
            prop_assert!(ns < start_of(slot_of(ns) as u64 + 1));
            prop_assert!(spread.quantile_ns(500).abs_diff(ns) <= ns / 31);
        }
    }
}
