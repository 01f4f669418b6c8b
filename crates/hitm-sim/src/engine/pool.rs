//! Very many objects of one type, whose places are computed instead of stored.
//!
//! A machine with hundreds of CPUs and a thousand groups has hundreds of thousands of queues. An
//! object gets its lines and words when it is used first, so that those which nobody touches cost
//! four bytes.
//!
//! Each pool has addresses of its own. Objects do not lie in order. SLUB shuffles the free list of
//! each slab (`CONFIG_SLAB_FREELIST_RANDOM`), and slabs lie where pages were free. In order, the
//! objects of one CPU would be a multiple of a large power of two apart and share a few sets of its
//! caches.

use std::cell::RefCell;
use std::rc::Rc;

use hitm_base::{CpuId, LINE_SIZE};
use hitm_coherence::prefetch::prefetch;

use super::memory::Place;
use super::profile::MemberKey;
use super::run::Engine;

/// Start of the pools, and the distance from one to the next.
const POOL_BASE: u64 = 0x2000_0000_0000;
const POOL_STRIDE: u64 = 1 << 40;
/// Objects of a pool, at most: 2^24.
const OBJECT_BITS: u32 = 24;
/// An object that has no places yet.
const UNUSED: u32 = u32::MAX;

/// One member of the objects of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolMember {
    pub(super) offset_bytes: u64,
    /// Index into the profile's members.
    pub(super) member: u16,
}

/// Steps of [`ObjectPool::prefetch`]; the second needs the first to have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchStep {
    /// Its number among the used objects.
    Index,
    /// Its places.
    Places,
}

/// Objects of one type, numbered from 0.
#[derive(Debug)]
pub struct ObjectPool {
    engine: Rc<Engine>,
    base: u64,
    stride_bytes: u64,
    members: Vec<PoolMember>,
    /// Offsets of the lines that members lie in, and for each member which of them.
    lines: Vec<u64>,
    line_of: Vec<u16>,
    /// By object: which of those in `used` it is, or [`UNUSED`].
    first: RefCell<Vec<u32>>,
    /// The places of all lines, object after object, with the word of the object's first member.
    used: RefCell<Vec<Place>>,
}

impl ObjectPool {
    pub(super) fn new(
        engine: Rc<Engine>,
        number: u64,
        stride_bytes: u64,
        keys: Vec<MemberKey>,
    ) -> ObjectPool {
        let mut lines: Vec<u64> = Vec::new();
        let mut line_of = Vec::new();
        let mut members = Vec::new();
        for key in keys {
            let line = key.offset_bytes / LINE_SIZE;
            let at = lines.iter().position(|known| *known == line);
            let at = at.unwrap_or_else(|| {
                lines.push(line);
                lines.len() - 1
            });
            line_of.push(at as u16);
            members.push(PoolMember {
                offset_bytes: key.offset_bytes,
                member: engine.member(key),
            });
        }
        ObjectPool {
            engine,
            base: POOL_BASE + number * POOL_STRIDE,
            stride_bytes: stride_bytes.next_multiple_of(LINE_SIZE),
            members,
            lines,
            line_of,
            first: RefCell::new(Vec::new()),
            used: RefCell::new(Vec::new()),
        }
    }

    /// Makes the members with these indices opaque.
    pub(crate) fn make_opaque(&self, members: impl Iterator<Item = usize>) {
        let mut opaque = self.engine.opaque.borrow_mut();
        opaque.extend(members.map(|index| self.members[index].member));
    }

    /// The place of the member with this index of an object, whose memory lies on the node of
    /// `home`.
    pub fn place(&self, object: usize, member: usize, home: CpuId) -> Place {
        let first = self.first(object, home);
        let slot = first * self.lines.len() + usize::from(self.line_of[member]);
        let of_line = self.used.borrow()[slot];
        let of_member = self.members[member];
        Place {
            line: of_line.line,
            word: of_line.word + member as u32,
            member: of_member.member,
            offset: (of_member.offset_bytes % LINE_SIZE) as u8,
        }
    }

    /// Prefetches what [`ObjectPool::place`] will read of an object: in a first step its number,
    /// then the places.
    pub fn prefetch(&self, object: usize, step: PrefetchStep) {
        let first = self.first.borrow();
        match step {
            PrefetchStep::Index => prefetch(&first, object),
            PrefetchStep::Places => {
                let known = first.get(object).filter(|first| **first != UNUSED);
                if let Some(known) = known {
                    let slot = *known as usize * self.lines.len();
                    let used = self.used.borrow();
                    prefetch(&used, slot);
                    prefetch(&used, slot + self.lines.len() - 1);
                }
            }
        }
    }

    fn first(&self, object: usize, home: CpuId) -> usize {
        let mut first = self.first.borrow_mut();
        if first.len() <= object {
            first.resize(object + 1, UNUSED);
        }
        if first[object] == UNUSED {
            let mut used = self.used.borrow_mut();
            first[object] = (used.len() / self.lines.len()) as u32;
            let addr = self.base + shuffled(object as u64) * self.stride_bytes;
            let word = self.engine.add_words(self.members.len());
            for line in &self.lines {
                let place = self.engine.line_place(addr + line * LINE_SIZE, home);
                used.push(Place { word, ..place });
            }
            if let Some(member) = self.members.first() {
                self.engine.count_object_with(member.member);
            }
        }
        first[object] as usize
    }
}

/// Place of an object among the others: a fixed shuffle that gives each number once.
fn shuffled(object: u64) -> u64 {
    const MASK: u64 = (1 << OBJECT_BITS) - 1;
    assert!(object <= MASK, "a pool has at most 2^{OBJECT_BITS} objects");
    // Each step can be undone: a multiplication by an odd number, and half of the bits over the rest.
    let mixed = (object * 0x9e37_79b1) & MASK;
    let mixed = mixed ^ mixed >> (OBJECT_BITS / 2);
    let mixed = (mixed * 0x85eb_ca6b) & MASK;
    mixed ^ mixed >> (OBJECT_BITS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;

    #[test]
    fn each_object_lies_somewhere_else() {
        let mut places: Vec<u64> = (0..200_000).map(shuffled).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 200_000);
        // Every 384th, the objects of one CPU, lie in all parts of a cache.
        let mut sets: Vec<u64> = (0..1101).map(|group| shuffled(group * 384) % 256).collect();
        sets.sort_unstable();
        sets.dedup();
        assert!(sets.len() > 240, "{} sets", sets.len());
    }

    #[test]
    fn objects_have_lines_and_words_of_their_own() {
        let engine = Engine::new(&EngineConfig::at_rest("broadwell-4s"));
        let key = |path: &str, offset_bytes| MemberKey::new("thing", path, offset_bytes);
        let keys = vec![key("a", 0), key("b", 8), key("c", 400)];
        let pool = ObjectPool::new(engine, 0, 512, keys);
        let place = |object, member| pool.place(object, member, CpuId(0));
        assert_eq!(place(7, 0).line(), place(7, 1).line());
        assert_ne!(place(7, 0).line(), place(7, 2).line());
        assert_ne!(place(7, 0).line(), place(8, 0).line());
        assert_eq!(place(7, 2).offset(), (400 % 64) as u8);
        assert_eq!(place(7, 2), place(7, 2));
        let words = [place(7, 0), place(7, 1), place(7, 2), place(8, 0)].map(|place| place.word);
        assert_eq!(words, [0, 1, 2, 3]);
    }
}
