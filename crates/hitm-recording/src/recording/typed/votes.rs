//! Votes of accesses for the types of the objects that they touch.

use std::collections::BTreeMap;
use std::ops::Range;

use hitm_base::AddrRange;
use hitm_layout::TypeStore;

use super::{Code, FileType, Tally, TypedPlace};

/// Part of all votes that must agree. Assumed, from 1/2 to 9/10.
/// With less, the last of several owners of a block names what the others did. With more, memory
/// that is used in two ways has no name.
pub(super) const AGREEING: Part = Part { of: 3, least: 2 };

/// Part of the accesses to an object that votes must be, where its allocation does not say the same. Assumed, from 1/100 to 1/5. With less, a lock that lies somewhere in a block names all
/// of it. With more, an object whose lock a library without debug information takes has no name.
const TOLD: Part = Part { of: 10, least: 1 };

/// Types that are tried for a block: those of most votes.
const CANDIDATES_MAX: usize = 8;

/// Parts of a wide access that are told apart: vectors have up to eight words.
const PARTS_MAX: u64 = 8;

/// The votes about a part of memory.
#[derive(Debug, Default)]
pub(super) struct Votes {
    types: Vec<FileType>,
    /// By type and vote.
    counts: BTreeMap<(usize, Vote), u64>,
    /// All accesses, with those that have no vote, by address.
    accesses: BTreeMap<u64, u64>,
}

/// A type's number and a vote for it, with the accesses that have it.
type Counted<'v> = (&'v (usize, Vote), &'v u64);

/// An access's vote for the place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vote {
    /// Address of the object, if the access is the first part of what its instruction accesses.
    pub(super) base: u64,
    /// Address of the access.
    pub(super) addr: u64,
    /// Bytes of the access.
    pub(super) part_bytes: u64,
    /// Parts of what the instruction accesses: the access is one of them.
    pub(super) part_count: u64,
}

impl Vote {
    /// The addresses at which the object may be: one for each part that the access may be.
    fn bases(self) -> impl Iterator<Item = u64> {
        let parts = 0..self.part_count.min(PARTS_MAX);
        parts.filter_map(move |part| self.base.checked_sub(part * self.part_bytes))
    }

    /// The address of the object, where there is one only.
    fn only_base(self) -> Option<u64> {
        (self.part_count == 1).then_some(self.base)
    }
}

/// A type with its number.
#[derive(Debug, Clone, Copy)]
struct Numbered<'t> {
    of: &'t FileType,
    number: usize,
}

/// A type, and whether what lies somewhere in it is of another one.
struct Comparison<'s> {
    code: Code<'s>,
    known: BTreeMap<(usize, u64, usize), Agreement>,
}

/// Outcome of comparing a vote with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Agreement {
    Agrees,
    /// The object has bytes there, which may hold anything.
    IsSilent,
    Differs,
}

impl Tally {
    /// Adds votes of one kind. A vote without a place to compare differs.
    fn add(&mut self, agreement: Option<Agreement>, weight: u64) {
        let agreement = agreement.unwrap_or(Agreement::Differs);
        if agreement != Agreement::IsSilent {
            self.votes = self.votes.saturating_add(weight);
        }
        if agreement == Agreement::Agrees {
            self.agreeing = self.agreeing.saturating_add(weight);
        }
    }
}

/// A block that is an object or an array.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    of: FileType,
    /// Bytes before the first element.
    first: u64,
    /// Elements; none for one object.
    count: Option<u64>,
    /// True if the block was allocated as one of the type.
    is_allocated: bool,
    tally: Tally,
}

/// An object on a line.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    of: FileType,
    base: u64,
    tally: Tally,
}

impl Instance {
    fn bytes(&self) -> Range<u64> {
        self.base..self.base.saturating_add(self.of.size)
    }

    /// Returns true if the object holds the byte at `addr`.
    pub(super) fn holds(&self, addr: u64) -> bool {
        addr >= self.base && addr - self.base < self.of.size
    }

    /// Returns true if the object lies in a range.
    pub(super) fn lies_in(&self, range: Option<AddrRange>) -> bool {
        let end = self.base.checked_add(self.of.size);
        range.is_none_or(|range| {
            self.base >= range.start() && end.is_some_and(|end| end <= range.end())
        })
    }

    pub(super) fn place(&self) -> TypedPlace {
        TypedPlace {
            of: self.of.clone(),
            base: self.base,
            element: None,
            tally: self.tally,
        }
    }
}

impl Whole {
    /// The object or element that holds the byte at `addr` of the block at `block`.
    pub(super) fn place(&self, block: AddrRange, addr: u64) -> Option<TypedPlace> {
        let start = block.start() + self.first;
        let offset = addr.checked_sub(start)?;
        let (base, element) = match self.count {
            None => (start, None),
            Some(count) => {
                let index = offset / self.of.size;
                let bytes = count * self.of.size;
                (offset < bytes).then_some(())?;
                (start + index * self.of.size, Some((index, start, bytes)))
            }
        };
        Some(TypedPlace {
            of: self.of.clone(),
            base,
            element,
            tally: self.tally,
        })
    }
}

impl Votes {
    /// Counts accesses, whether they vote or not.
    pub(super) fn see(&mut self, addr: u64, access_count: u64) {
        let count = self.accesses.entry(addr).or_default();
        *count = count.saturating_add(access_count);
    }

    /// Returns true if so many votes say enough of the accesses to some bytes.
    fn tell(&self, vote_count: u64, bytes: Range<u64>) -> bool {
        let accesses = self.accesses.range(bytes).map(|(_, count)| *count);
        TOLD.is_reached(vote_count, accesses.fold(0, u64::saturating_add))
    }

    /// Counts a vote of some accesses.
    pub(super) fn add(&mut self, code: Code<'_>, of: FileType, vote: Vote, weight: u64) {
        let index = self.number(code, of);
        let count = self.counts.entry((index, vote)).or_default();
        *count = count.saturating_add(weight);
    }

    /// The type with this number.
    fn numbered(&self, number: usize) -> Numbered<'_> {
        Numbered {
            of: &self.types[number],
            number,
        }
    }

    /// The number of a type, the same for one of another unit.
    fn number(&mut self, code: Code<'_>, of: FileType) -> usize {
        let is_known = |known: &FileType| {
            let is_same = |types: &TypeStore| types.is_same(known.id, of.id);
            let is_one = || code.with_types(&of.path, is_same) == Some(true);
            known.name == of.name && known.size == of.size && (known.path != of.path || is_one())
        };
        if let Some(index) = self.types.iter().position(is_known) {
            return index;
        }
        self.types.push(of);
        self.types.len() - 1
    }

    /// The type that the votes agree on for a whole block. `allocated` is what the allocation's result is
    /// used as: it counts where there are no votes, and where it has room for what they are about.
    pub(super) fn whole(
        mut self,
        code: Code<'_>,
        block: AddrRange,
        allocated: Option<FileType>,
    ) -> Option<Whole> {
        let allocated = allocated.filter(|of| of.has_members);
        let allocated = allocated.map(|of| self.number(code, of));
        let mut by_type: BTreeMap<usize, u64> = BTreeMap::new();
        for ((of, _), count) in &self.counts {
            let sum = by_type.entry(*of).or_default();
            *sum = sum.saturating_add(*count);
        }
        let mut candidates: Vec<(u64, usize)> =
            by_type.iter().map(|(of, sum)| (*sum, *of)).collect();
        candidates.sort_by_key(|(sum, of)| (std::cmp::Reverse(*sum), *of));
        candidates.retain(|(_, of)| self.types[*of].has_members);
        candidates.truncate(CANDIDATES_MAX);
        candidates.extend(allocated.map(|of| (0, of)));
        let mut comparison = Comparison {
            code,
            known: BTreeMap::new(),
        };
        let tried = candidates.iter().filter_map(|(_, of)| {
            let is_allocated = allocated == Some(*of);
            self.try_type(*of, is_allocated, block, &mut comparison)
        });
        // Of two that agree with as much, the larger one says more. What was allocated is the last one.
        let best = tried.max_by_key(|whole| (whole.tally.agreeing, whole.of.size))?;
        let votes = best.tally.votes;
        let is_allocated = best.is_allocated;
        let is_agreed = agree(best.tally) && best.tally.agreeing > 0;
        let bytes = block.start()..block.end();
        let is_told = is_allocated || self.tell(votes, bytes);
        let is_only_allocated = votes == 0 && allocated.is_some();
        ((is_agreed && is_told) || is_only_allocated).then_some(best)
    }

    /// The block as one of a type, or as an array, with the votes that agree.
    fn try_type(
        &self,
        of: usize,
        is_allocated: bool,
        block: AddrRange,
        comparison: &mut Comparison<'_>,
    ) -> Option<Whole> {
        let numbered = self.numbered(of);
        let candidate = numbered.of;
        let (size, length) = (candidate.size, block.len());
        if size > length {
            return None;
        }
        let is_single = length - size < size || comparison.has_open_end(candidate);
        let first = if is_single { 0 } else { self.phase(of, block)? };
        let count = (length - first) / size;
        let is_array = !is_single && count > 0;
        // One object in a large block, as an allocator's own, is no array.
        let is_filled = is_allocated && (length - first) % size == 0;
        if is_array && !is_filled && !self.are_several(of) {
            return None;
        }
        let mut tally = Tally::default();
        for ((voted, vote), weight) in &self.counts {
            let agreements = vote.bases().map(|base| {
                let into = base.checked_sub(block.start() + first);
                let into = into.map(|into| if is_array { into % size } else { into });
                match into.filter(|into| *into < size || is_single) {
                    Some(into) => comparison.compare(numbered, into, self.numbered(*voted)),
                    // What begins before the block is no part of it.
                    None => Agreement::Differs,
                }
            });
            tally.add(agreements.min(), *weight);
        }
        Some(Whole {
            of: candidate.clone(),
            first,
            count: is_array.then_some(count),
            is_allocated,
            tally,
        })
    }

    /// Bytes before the first element of an array: where most votes for the type have it.
    fn phase(&self, of: usize, block: AddrRange) -> Option<u64> {
        let size = self.types[of].size;
        let mut phases: BTreeMap<u64, u64> = BTreeMap::new();
        for ((_, vote), weight) in self.counts.iter().filter(|((voted, _), _)| *voted == of) {
            for into in vote
                .bases()
                .filter_map(|base| base.checked_sub(block.start()))
            {
                let sum = phases.entry(into % size).or_default();
                *sum = sum.saturating_add(*weight);
            }
        }
        let heaviest = phases
            .iter()
            .max_by_key(|(phase, weight)| (**weight, std::cmp::Reverse(**phase)));
        Some(heaviest.map_or(0, |(phase, _)| *phase))
    }

    /// Returns true if there are votes for several objects of a type.
    fn are_several(&self, of: usize) -> bool {
        let own = self.counts.keys().filter(|key| key.0 == of);
        let mut bases = own.filter_map(|key| key.1.only_base());
        let one = bases.next();
        bases.any(|base| Some(base) != one)
    }

    /// The objects that the votes agree on, each with the votes about its bytes; where two overlap, the one
    /// with more votes, then the larger one.
    pub(super) fn instances(self, code: Code<'_>) -> Vec<Instance> {
        let mut comparison = Comparison {
            code,
            known: BTreeMap::new(),
        };
        let of_one = |key: &(usize, Vote)| {
            let base = key.1.only_base().filter(|_| self.types[key.0].has_members);
            Some((key.0, base?))
        };
        let mut bases: Vec<(usize, u64)> = self.counts.keys().filter_map(of_one).collect();
        bases.dedup();
        let mut votes: Vec<Counted> = self.counts.iter().collect();
        votes.sort_by_key(|((_, vote), _)| vote.addr);
        let mut found: Vec<Instance> = bases
            .into_iter()
            .map(|(of, base)| self.instance(of, base, &votes, &mut comparison))
            .filter(|instance| agree(instance.tally) && instance.tally.agreeing > 0)
            .filter(|instance| self.tell(instance.tally.votes, instance.bytes()))
            .collect();
        found.sort_by_key(|instance| {
            let size = instance.of.size;
            (
                std::cmp::Reverse((instance.tally.agreeing, size)),
                instance.base,
            )
        });
        // Ends by first address, of objects that do not overlap.
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        found.retain(|instance| {
            let end = instance.base.saturating_add(instance.of.size);
            let before = taken.range(..end).next_back();
            let is_free = before.is_none_or(|(_, other)| *other <= instance.base);
            if is_free {
                taken.insert(instance.base, end);
            }
            is_free
        });
        found
    }

    /// The object of a type at an address, with those of the votes, by address, that are about its bytes.
    fn instance(
        &self,
        of: usize,
        base: u64,
        votes: &[Counted<'_>],
        comparison: &mut Comparison<'_>,
    ) -> Instance {
        let numbered = self.numbered(of);
        let candidate = numbered.of;
        let mut tally = Tally::default();
        let first = votes.partition_point(|((_, vote), _)| vote.addr < base);
        let is_inside = |((_, vote), _): &&Counted<'_>| vote.addr - base < candidate.size;
        for ((voted, vote), weight) in votes[first..].iter().take_while(is_inside) {
            let agreements = vote.bases().map(|other| {
                match other
                    .checked_sub(base)
                    .filter(|into| *into < candidate.size)
                {
                    Some(into) => comparison.compare(numbered, into, self.numbered(*voted)),
                    None => Agreement::Differs,
                }
            });
            tally.add(agreements.min(), **weight);
        }
        Instance {
            of: candidate.clone(),
            base,
            tally,
        }
    }
}

fn agree(tally: Tally) -> bool {
    AGREEING.is_reached(tally.agreeing, tally.votes)
}

/// At least so many of so many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    least: u64,
    of: u64,
}

impl Part {
    /// Returns true if `count` is at least this part of `all`.
    fn is_reached(self, count: u64, all: u64) -> bool {
        u128::from(count) * u128::from(self.of) >= u128::from(all) * u128::from(self.least)
    }
}

impl Comparison<'_> {
    /// Compares a vote for an object of one type with another that holds it, `into` bytes from the start.
    fn compare(&mut self, outer: Numbered<'_>, into: u64, inner: Numbered<'_>) -> Agreement {
        let key = (outer.number, into, inner.number);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let found = self.look(outer.of, into, inner.of, outer.number == inner.number);
        self.known.insert(key, found);
        found
    }

    fn look(&self, outer: &FileType, into: u64, inner: &FileType, is_one: bool) -> Agreement {
        if is_one && into == 0 {
            return Agreement::Agrees;
        }
        let agreement = self.code.with_types(&outer.path, |types| {
            let is_part = match outer.path == inner.path {
                true => types.has_part(outer.id, into, inner.id),
                // A library's functions know their objects only, the program what they are a part of.
                false => types.has_part_called(outer.id, into, &inner.name, inner.size),
            };
            // A vote for something larger is about what is around.
            let is_storage = || inner.size <= outer.size && types.is_storage(outer.id, into);
            match is_part {
                true => Agreement::Agrees,
                false if is_storage() => Agreement::IsSilent,
                false => Agreement::Differs,
            }
        });
        agreement.unwrap_or(Agreement::Differs)
    }

    fn has_open_end(&self, of: &FileType) -> bool {
        let has_open_end = |types: &TypeStore| types.has_open_end(of.id);
        self.code.with_types(&of.path, has_open_end) == Some(true)
    }
}
