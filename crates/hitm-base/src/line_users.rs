//! Who gave a line to a CPU, inferred from the order of accesses.
//!
//! A line that is found modified comes from the CPU that wrote it last. A clean copy, or the right to
//! write, comes from the other CPU that touched the line last: with several sharers one of them. A line
//! whose earlier users were not seen has no giver.
//!
//! Here, because `hitm-coherence` counts by it and `hitm-timeline` draws by it, which do not know each other.

use crate::CpuId;

/// A use of a line by a CPU.
pub trait LineUse: Copy {
    /// The CPU.
    fn cpu(&self) -> CpuId;
}

impl LineUse for CpuId {
    fn cpu(&self) -> CpuId {
        *self
    }
}

/// The latest uses of a line.
#[derive(Debug, Clone, Copy)]
pub struct LineUsers<U> {
    writer: Option<U>,
    last: Option<U>,
    /// The last one before `last` that is another CPU's.
    before: Option<U>,
}

impl<U> Default for LineUsers<U> {
    fn default() -> LineUsers<U> {
        LineUsers {
            writer: None,
            last: None,
            before: None,
        }
    }
}

impl<U: LineUse> LineUsers<U> {
    /// The last use.
    #[inline]
    pub fn last(&self) -> Option<U> {
        self.last
    }

    /// Returns the last use by the CPU that gives the line to `taker`.
    #[inline]
    pub fn giver(&self, taker: CpuId, is_hitm: bool) -> Option<U> {
        let is_other = |of: &U| of.cpu() != taker;
        let giver = match is_hitm {
            true => self.writer,
            false => self.last.filter(is_other).or(self.before),
        };
        giver.filter(is_other)
    }

    /// Notes the next use.
    #[inline]
    pub fn touch(&mut self, of: U, is_write: bool) {
        if self.last.is_some_and(|last| last.cpu() != of.cpu()) {
            self.before = self.last;
        }
        self.last = Some(of);
        if is_write {
            self.writer = Some(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_gives_what_is_modified_and_the_last_other_user_the_rest() {
        let [one, two, three] = [1, 2, 3].map(CpuId);
        let mut users = LineUsers::default();
        assert_eq!(users.giver(one, true), None);
        users.touch(one, true);
        users.touch(two, false);
        assert_eq!(users.giver(three, true), Some(one));
        assert_eq!(users.giver(three, false), Some(two));
        assert_eq!(users.giver(two, false), Some(one));
        assert_eq!(users.giver(one, true), None);
    }
}
