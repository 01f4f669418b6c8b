//! Values by ranges of addresses.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from addresses to values, filled by ranges: of those that hold an address, the last one inserted
/// counts.
///
/// A lookup costs the logarithm of the number of ranges, however they overlap. Inserting `n` ranges costs
/// `n log n` in total: each cuts at most one range in two.
#[derive(Debug, Clone)]
pub struct RangeMap<T> {
    /// Parts that do not overlap, by first address: the first address behind, and the value.
    parts: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> RangeMap<T> {
        RangeMap {
            parts: BTreeMap::new(),
        }
    }
}

impl<T: Copy> RangeMap<T> {
    /// Maps a range to a value, in place of what it was mapped to. An empty range maps nothing.
    pub fn insert(&mut self, range: Range<u64>, value: T) {
        if range.is_empty() {
            return;
        }
        // The part that begins before this range and reaches into it is cut in two.
        if let Some((_, part)) = self.parts.range_mut(..range.start).next_back()
            && part.0 > range.start
        {
            let rest = *part;
            part.0 = range.start;
            self.parts.insert(range.start, rest);
        }
        while let Some((&from, &(to, before))) = self.parts.range(range.clone()).next() {
            self.parts.remove(&from);
            if to > range.end {
                self.parts.insert(range.end, (to, before));
            }
        }
        self.parts.insert(range.start, (range.end, value));
    }

    /// Returns the value of the range inserted last of those that hold `addr`.
    pub fn at(&self, addr: u64) -> Option<T> {
        let (_, &(end, value)) = self.parts.range(..=addr).next_back()?;
        (addr < end).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_ranges_at_an_address_counts() {
        let ranges = [
            (10, 90),
            (20, 30),
            (25, 60),
            (0, 12),
            (50, 50),
            (26, 27),
            (80, 100),
            (5, 95),
            (40, 41),
        ];
        let mut map = RangeMap::default();
        for (number, (start, end)) in ranges.into_iter().enumerate() {
            map.insert(start..end, number);
            for addr in 0..110 {
                let mut so_far = ranges[..=number].iter();
                let last = so_far.rposition(|(start, end)| (*start..*end).contains(&addr));
                assert_eq!(map.at(addr), last, "{addr} after {number}");
            }
        }
    }

    #[test]
    fn ends_of_the_address_space_can_be_mapped() {
        let mut map = RangeMap::default();
        map.insert(0..u64::MAX, 'a');
        map.insert(u64::MAX - 1..u64::MAX, 'b');
        map.insert(0..1, 'c');
        let at = [0, 1, u64::MAX - 2, u64::MAX - 1, u64::MAX];
        let found = at.map(|addr| map.at(addr));
        assert_eq!(found, [Some('c'), Some('a'), Some('a'), Some('b'), None]);
    }
}
