//! A part of all lines, for passes that have no room for every line.

use hitm_base::LineAddr;

use crate::recording::statistics::line_hash;

/// Parts that lines are split into, at most. More have no room only where single lines have very many rows.
const PARTS_MAX: u64 = 1 << 12;

/// The lines whose hash leaves `number` when it is divided by `count`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    number: u64,
    count: u64,
}

impl Part {
    /// All lines.
    pub(super) const WHOLE: Part = Part {
        number: 0,
        count: 1,
    };

    /// The parts of a split into `count`.
    pub(super) fn all(count: u64) -> impl Iterator<Item = Part> {
        (0..count).map(move |number| Part { number, count })
    }

    /// A quarter of the lines each.
    pub(super) fn split(self) -> impl DoubleEndedIterator<Item = Part> {
        (0..4).map(move |quarter| Part {
            number: self.number + quarter * self.count,
            count: 4 * self.count,
        })
    }

    pub(super) fn is_last_split(self) -> bool {
        self.count >= PARTS_MAX
    }

    /// Returns true if a line is in this part, or a group of lines that `line` stands for.
    pub(super) fn has(self, line: LineAddr) -> bool {
        self.count == 1 || Part::number_of(line, self.count) == self.number
    }

    /// The number of the part that a line is in, or a group of lines that `line` stands for, of `count`.
    pub(super) fn number_of(line: LineAddr, count: u64) -> u64 {
        // The bits beside those that choose a shard.
        (line_hash(line) >> 40) % count
    }
}
