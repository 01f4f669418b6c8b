//! Finite caches: which lines a core or a last-level cache still has room for.
//!
//! Only tags and their order of use are kept; whether a copy is valid is the directory's business.
//! The low bits of the line address choose the set, so lines in different sets never meet. A replay
//! that is sharded by those bits sees the same evictions as one that is not.

use hitm_base::LineAddr;
use hitm_base::machine::CacheShape;

use crate::parts::LineParts;
use crate::prefetch::prefetch;

/// Tags of some caches of one shape, set-associative with least-recently-used replacement.
///
/// A tag is the caller's number for a line. The sets that may hold it come from its address, by
/// [`TagArrays::set_of`], and are handed back with it. A remainder by a set count that is no power
/// of two is too slow to be taken at each access.
#[derive(Debug, Clone)]
pub struct TagArrays {
    /// `tags[(cache * set_count + set) * ways ..][..ways]`: 1 + the tag, or 0 in an empty way; most
    /// recently used first. Zeros cost no memory until they are written: most of the 480 CPUs of a
    /// big machine never see a line.
    tags: Vec<u32>,
    set_count: u64,
    ways: usize,
    /// Tags of one cache: `set_count * ways`.
    tag_count: usize,
    parts: LineParts,
}

impl TagArrays {
    /// `count` empty caches of this shape, or what the lines of one part can use of them. The set count is a
    /// multiple of the parts' count.
    pub fn new(count: usize, shape: &CacheShape, parts: LineParts) -> TagArrays {
        let set_count = set_count(shape);
        assert!(
            set_count.is_multiple_of(parts.count()),
            "a set has lines of one part only"
        );
        let (set_count, ways) = (set_count / parts.count(), shape.ways as usize);
        TagArrays {
            tags: vec![0; count * set_count as usize * ways],
            set_count,
            ways,
            tag_count: set_count as usize * ways,
            parts,
        }
    }

    /// The set that a line belongs in, by the index of its first tag among the cache's.
    pub fn set_of(&self, line: LineAddr) -> u32 {
        (self.parts.number_in_part(line) % self.set_count) as u32 * self.ways as u32
    }

    /// Makes `tag` the most recently used of its set, bringing it in if it was not there.
    #[inline]
    pub fn enter(&mut self, cache: usize, set: u32, tag: u32) -> Entered {
        let entering = tag + 1;
        let ways = self.ways_of(cache, set);
        if ways.first() == Some(&entering) {
            return Entered::WasThere;
        }
        let mut displaced = entering;
        for way in ways {
            std::mem::swap(way, &mut displaced);
            if displaced == entering {
                return Entered::WasThere;
            }
            if displaced == 0 {
                return Entered::New; // Behind an empty way there are only empty ones.
            }
        }
        Entered::Instead(displaced - 1)
    }

    /// Brings a set into the host's cache.
    #[inline]
    pub(crate) fn prefetch(&self, cache: usize, set: u32) {
        prefetch(&self.tags, self.first_way(cache, set));
    }

    /// Returns the tag that a line new to this set would evict; `None` while a way is free.
    #[inline]
    pub(crate) fn least_recent(&self, cache: usize, set: u32) -> Option<u32> {
        let ways = &self.tags[self.first_way(cache, set)..][..self.ways];
        ways.last()?.checked_sub(1)
    }

    #[inline]
    fn ways_of(&mut self, cache: usize, set: u32) -> &mut [u32] {
        let first = self.first_way(cache, set);
        &mut self.tags[first..][..self.ways]
    }

    #[inline]
    fn first_way(&self, cache: usize, set: u32) -> usize {
        cache * self.tag_count + set as usize
    }
}

/// Effect of bringing a line into a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// The line was there.
    WasThere,
    /// It took an empty way.
    New,
    /// It took the way of the line with this tag, which is gone.
    Instead(u32),
}

/// Returns the number of sets of a cache of this shape.
pub fn set_count(shape: &CacheShape) -> u64 {
    (shape.size_bytes / hitm_base::LINE_SIZE / u64::from(shape.ways)).max(1)
}

#[cfg(test)]
mod tests {
    use hitm_base::Cycles;

    use super::*;

    /// 2 sets of 2 ways: even lines in one set, odd lines in the other.
    const SHAPE: CacheShape = CacheShape {
        size_bytes: 256,
        ways: 2,
        latency: Cycles(4),
    };

    #[test]
    fn the_least_recently_used_line_of_a_full_set_goes() {
        let mut caches = TagArrays::new(2, &SHAPE, LineParts::WHOLE);
        let sets = [0, 1, 2, 3, 4].map(|line| caches.set_of(LineAddr(line)));
        assert_eq!(sets, [0, 2, 0, 2, 0]);
        let mut enter = |line: u32| caches.enter(1, sets[line as usize], line);
        assert_eq!([0, 2, 1].map(&mut enter), [Entered::New; 3]);
        assert_eq!(enter(0), Entered::WasThere);
        assert_eq!(enter(4), Entered::Instead(2));
        assert_eq!(enter(1), Entered::WasThere);
        assert_eq!(enter(2), Entered::Instead(0));
        assert_eq!(
            caches.enter(0, 2, 1),
            Entered::New,
            "the other cache is empty"
        );
    }
}
