//! Finite caches: which lines a core or a last-level cache still has room for.
//!
//! Only tags and their order of use; whether a copy is valid is the directory's business. Sets are
//! chosen by the low bits of the line address, so lines in different sets never meet: a replay that
//! is sharded by those bits sees the same evictions as one that is not.

use hitm_base::LineAddr;
use hitm_base::machine::CacheShape;

/// Tag of an empty way.
const EMPTY: u64 = u64::MAX;

/// Tags of one set-associative cache with least-recently-used replacement.
#[derive(Debug, Clone)]
pub struct TagArray {
    /// `tags[set * ways ..][..ways]`, most recently used first. Allocated at first use: most of the
    /// 480 cores of a big machine never see a line.
    tags: Vec<u64>,
    set_count: u64,
    ways: usize,
}

impl TagArray {
    /// An empty cache of this shape.
    pub fn new(shape: &CacheShape) -> TagArray {
        let set_count = set_count(shape);
        TagArray { tags: Vec::new(), set_count, ways: shape.ways as usize }
    }

    /// Makes `line` the most recently used of its set if it is there; says whether it was.
    #[inline]
    pub fn touch(&mut self, line: LineAddr) -> bool {
        if self.tags.is_empty() {
            return false;
        }
        let set = self.set(line);
        if set[0] == line.0 {
            return true;
        }
        match set.iter().position(|tag| *tag == line.0) {
            Some(way) => {
                set[..=way].rotate_right(1);
                true
            }
            None => false,
        }
    }

    /// Brings `line` in as the most recently used; returns the line that had to go, if any.
    #[inline]
    pub fn insert(&mut self, line: LineAddr) -> Option<LineAddr> {
        if self.touch(line) {
            return None;
        }
        if self.tags.is_empty() {
            self.tags = vec![EMPTY; self.set_count as usize * self.ways];
        }
        let set = self.set(line);
        let victim = set[set.len() - 1];
        set.rotate_right(1);
        set[0] = line.0;
        (victim != EMPTY).then_some(LineAddr(victim))
    }

    fn set(&mut self, line: LineAddr) -> &mut [u64] {
        let set = (line.0 % self.set_count) as usize;
        &mut self.tags[set * self.ways..][..self.ways]
    }
}

/// How many sets a cache of this shape has.
pub fn set_count(shape: &CacheShape) -> u64 {
    (shape.size_bytes / hitm_base::LINE_SIZE / u64::from(shape.ways)).max(1)
}

#[cfg(test)]
mod tests {
    use hitm_base::Cycles;

    use super::*;

    #[test]
    fn the_least_recently_used_line_of_a_full_set_goes() {
        // 2 sets of 2 ways: even lines in one set, odd lines in the other.
        let mut cache = TagArray::new(&CacheShape { size_bytes: 256, ways: 2, latency: Cycles(4) });
        assert_eq!(cache.insert(LineAddr(0)), None);
        assert_eq!(cache.insert(LineAddr(2)), None);
        assert_eq!(cache.insert(LineAddr(1)), None);
        assert!(cache.touch(LineAddr(0)));
        assert_eq!(cache.insert(LineAddr(4)), Some(LineAddr(2)));
        assert!(!cache.touch(LineAddr(2)));
        assert!(cache.touch(LineAddr(1)));
    }
}
