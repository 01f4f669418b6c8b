//! The longest spans of a stream, in bounded memory.

use hitm_base::Cycles;

/// A span with the number by which others refer to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept<T> {
    pub(crate) span: Cycles,
    pub(crate) number: u64,
    pub(crate) item: T,
}

impl<T> Kept<T> {
    /// Rank: longer ones first. Equally long ones are chosen by a hash, so that those of the whole run
    /// remain and not only its first ones.
    fn rank(&self) -> (u64, u64) {
        rank(self.span, self.number)
    }
}

/// The hash is a bijection, so no two ranks are equal.
fn rank(span: Cycles, number: u64) -> (u64, u64) {
    let mixed = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (span.0, mixed ^ (mixed >> 29))
}

/// Slices of one kind that were shown, and those that were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Slices that were kept.
    pub shown: u64,
    /// Slices that were left out.
    pub count: u64,
    /// Cycles that they took together.
    pub cycles: Cycles,
    /// Length of the longest one that was left out: slices beyond it are all there.
    pub longest: Cycles,
}

/// Keeps the `max` longest spans.
#[derive(Debug)]
pub(crate) struct Longest<T> {
    max: usize,
    kept: Vec<Kept<T>>,
    /// Rank of the best one that was left out.
    floor: (u64, u64),
    next: u64,
    left_out: LeftOut,
}

impl<T: Copy> Longest<T> {
    pub(crate) fn new(max: usize) -> Longest<T> {
        Longest {
            max: max.max(1),
            kept: Vec::new(),
            floor: (0, 0),
            next: 1,
            left_out: LeftOut::default(),
        }
    }

    /// Takes a span, and returns its number: from 1 on, also when it is left out.
    #[inline]
    pub(crate) fn push(&mut self, span: Cycles, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        if rank(span, number) <= self.floor {
            self.leave_out(span);
            return number;
        }
        self.kept.push(Kept { span, number, item });
        if self.kept.len() >= 2 * self.max {
            self.compact();
        }
        number
    }

    /// Returns what was kept, by number, and the counts of the rest.
    pub(crate) fn finish(mut self) -> (Vec<Kept<T>>, LeftOut) {
        if self.kept.len() > self.max {
            self.compact();
        }
        self.kept.sort_unstable_by_key(|kept| kept.number);
        self.left_out.shown = self.kept.len() as u64;
        (self.kept, self.left_out)
    }

    fn compact(&mut self) {
        let max = self.max;
        self.kept
            .select_nth_unstable_by(max, |a, b| b.rank().cmp(&a.rank()));
        self.floor = self.kept[max].rank();
        for index in max..self.kept.len() {
            self.leave_out(self.kept[index].span);
        }
        self.kept.truncate(max);
    }

    fn leave_out(&mut self, span: Cycles) {
        let left_out = &mut self.left_out;
        left_out.count += 1;
        left_out.cycles = Cycles(left_out.cycles.0.saturating_add(span.0));
        left_out.longest = left_out.longest.max(span);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any sequence, against sorting all of it.
        #[test]
        fn the_longest_are_kept_and_the_rest_counted(
            spans in proptest::collection::vec(0_u64..20, 0..200),
            max in 1_usize..40,
        ) {
            let mut longest = Longest::new(max);
            let mut all = Vec::new();
            for (index, span) in spans.iter().enumerate() {
                let number = longest.push(Cycles(*span), index);
                all.push((rank(Cycles(*span), number), index));
            }
            all.sort_unstable_by(|a, b| b.cmp(a));
            let split = all.len().min(max);
            let mut wanted: Vec<usize> = all[..split].iter().map(|(_, index)| *index).collect();
            wanted.sort_unstable();
            let (kept, left_out) = longest.finish();
            let found: Vec<usize> = kept.iter().map(|kept| kept.item).collect();
            prop_assert_eq!(found, wanted);
            let rest = &all[split..];
            prop_assert_eq!(left_out.count, rest.len() as u64);
            prop_assert_eq!(left_out.cycles.0, rest.iter().map(|(rank, _)| rank.0).sum::<u64>());
            prop_assert_eq!(left_out.longest.0, rest.first().map_or(0, |(rank, _)| rank.0));
        }
    }

    #[test]
    fn equally_long_ones_are_kept_from_the_whole_run() {
        let mut longest = Longest::new(100);
        for index in 0..100_000_u64 {
            longest.push(Cycles(7), index);
        }
        let (kept, left_out) = longest.finish();
        assert_eq!((kept.len(), left_out.count), (100, 99_900));
        let late = kept.iter().filter(|kept| kept.item >= 50_000).count();
        assert!((30..70).contains(&late), "{late} of the second half");
    }
}
