//! Parts of all lines that never meet: neither in a cache set, nor as the two halves of a pair.

use hitm_base::LineAddr;
use hitm_base::machine::Machine;

use crate::cache::set_count;
use crate::directory::Capacity;

/// Lines of an aligned pair of 128 bytes.
const PAIR: u64 = 2;

/// Lines cut into parts: the parts have the runs of adjacent lines in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineParts {
    count: u64,
    /// Adjacent lines that stay together: 1, or both of a pair.
    run: u64,
}

impl LineParts {
    /// All lines in one part.
    pub const WHOLE: LineParts = LineParts { count: 1, run: 1 };

    /// The parts of a machine's lines, at most `count_max`.
    pub fn of(machine: &Machine, capacity: Capacity, count_max: u64) -> LineParts {
        let run = match machine.adjacent_line_milli {
            0 => 1,
            _ => PAIR,
        };
        if capacity == Capacity::Infinite {
            let count = count_max;
            return LineParts { count, run };
        }
        let caches = &machine.caches;
        let counts = [&caches.l1, &caches.l2, &caches.llc].map(set_count);
        let common = counts.into_iter().fold(0, gcd);
        let fits = |count: &u64| common.is_multiple_of(count * run);
        let count = (1..=count_max.min(common)).rev().find(fits).unwrap_or(1);
        LineParts { count, run }
    }

    /// Number of parts.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// The part that a line with this number is in.
    #[inline]
    pub const fn part_of(self, line: u64) -> u64 {
        line / self.run % self.count
    }

    /// Its number among the lines of its part.
    #[inline]
    pub const fn number_in_part(self, line: LineAddr) -> u64 {
        line.0 / (self.run * self.count) * self.run + line.0 % self.run
    }

    /// The logarithms of run and count, if both are powers of two.
    pub fn shifts(self) -> Option<(u32, u32)> {
        let are_powers = self.run.is_power_of_two() && self.count.is_power_of_two();
        are_powers.then(|| (self.run.trailing_zeros(), self.count.trailing_zeros()))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hitm_base::machine::preset;

    use super::*;

    fn machine(adjacent_line_milli: u32) -> Machine {
        let mut machine = Machine::from_toml(preset("broadwell-4s").unwrap(), "b").unwrap();
        machine.adjacent_line_milli = adjacent_line_milli;
        machine
    }

    #[test]
    fn lines_that_meet_are_in_one_part() {
        for (milli, count) in [(0, 64), (1_000, 32)] {
            let machine = machine(milli);
            let parts = LineParts::of(&machine, Capacity::Finite, 64);
            assert_eq!(parts.count(), count);
            let sets = set_count(&machine.caches.l1);
            let mut part_of_set = BTreeMap::new();
            let mut numbers = BTreeMap::new();
            for line in 0..1_000 {
                let part = parts.part_of(line);
                assert_eq!(*part_of_set.entry(line % sets).or_insert(part), part);
                // Lines of a part are numbered without gaps, each with one of its sets.
                let number = parts.number_in_part(LineAddr(line));
                let next: &mut u64 = numbers.entry(part).or_default();
                assert_eq!(number, *next);
                *next += 1;
                if milli > 0 {
                    assert_eq!(part, parts.part_of(line ^ 1));
                }
            }
        }
    }

    #[test]
    fn unlimited_caches_cut_lines_as_one_likes() {
        let parts = LineParts::of(&machine(1), Capacity::Infinite, 7);
        assert_eq!((parts.count(), parts.shifts()), (7, None));
        assert_eq!([12, 13, 14].map(|line| parts.part_of(line)), [6, 6, 0]);
        assert_eq!(LineParts::WHOLE.number_in_part(LineAddr(5)), 5);
    }
}
