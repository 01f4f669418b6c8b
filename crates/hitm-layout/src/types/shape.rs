//! Gaps between members, told apart as pahole does: bits that a bit-field's unit leaves over, and
//! whole bytes.

use super::{AggregateKind, Member, MemberKind, StructLayout, TypeStore};

/// The gap behind a member, which belongs to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    /// Bits that are left over in the unit of a bit-field (pahole: bit hole).
    pub bits: u64,
    /// Whole bytes (pahole: hole).
    pub bytes: u64,
}

/// The gaps of a structure and their sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// Before the first member.
    pub before: Gap,
    /// For each member the gap behind it, up to the next one. Behind the last one is padding.
    pub behind: Vec<Gap>,
    /// Bytes of the members that are no bit-fields.
    pub sum_members: u64,
    /// Bits of the bit-fields.
    pub sum_bit_fields: u64,
    /// Whole bytes after the last member.
    pub padding: u64,
    /// Bits that the unit of a last bit-field leaves over.
    pub bit_padding: u64,
}

impl Shape {
    /// Holes of whole bytes: their number and the sum of their bytes.
    pub fn holes(&self) -> (usize, u64) {
        self.sums(|gap| gap.bytes)
    }

    /// Bit holes: their number and the sum of their bits.
    pub fn bit_holes(&self) -> (usize, u64) {
        self.sums(|gap| gap.bits)
    }

    fn sums(&self, part: impl Fn(&Gap) -> u64) -> (usize, u64) {
        let gaps = std::iter::once(&self.before).chain(&self.behind);
        let parts = gaps.map(part).filter(|part| *part > 0);
        parts.fold((0, 0), |(count, sum), part| (count + 1, sum + part))
    }
}

impl TypeStore {
    /// The gaps of a structure. A union has none between members, and no padding that counts.
    pub fn shape(&self, layout: &StructLayout) -> Shape {
        let mut shape = Shape::default();
        let mut walk = Walk::default();
        for (index, member) in layout.members.iter().enumerate() {
            let gap = match layout.kind {
                AggregateKind::Union => Gap::default(),
                _ => walk.step(member, self.unit_bits(member)),
            };
            match index {
                0 => shape.before = gap,
                _ => shape.behind.push(gap),
            }
            match member.kind {
                MemberKind::BitField => shape.sum_bit_fields += member.bit_size,
                _ => shape.sum_members += member.bit_size / 8,
            }
        }
        shape.behind.resize(layout.members.len(), Gap::default());
        if layout.kind != AggregateKind::Union {
            let size = layout.size * 8;
            let rest = walk.fill(size);
            shape.bit_padding = rest;
            shape.padding = layout.size.saturating_sub(walk.covered / 8);
        }
        shape
    }

    /// Bits of the type that a bit-field is declared with: it lies in a unit of that size.
    pub fn unit_bits(&self, member: &Member) -> u64 {
        let size = self.get(member.type_id).size.unwrap_or(0);
        (size * 8).max(8)
    }
}

/// A walk over members by offset.
#[derive(Default)]
struct Walk {
    /// Bits up to which something was seen.
    covered: u64,
    /// Behind a bit-field: size and end of its unit, in bits.
    unit: Option<(u64, u64)>,
}

impl Walk {
    /// Advances over a member. Answers what lay before it.
    fn step(&mut self, member: &Member, unit: u64) -> Gap {
        let (start, end) = (member.bit_offset, member.bit_offset + member.bit_size);
        let mut gap = Gap {
            bits: self.fill(start),
            bytes: 0,
        };
        if member.kind == MemberKind::BitField {
            let unit_start = start / unit * unit;
            if self.covered < unit_start {
                gap.bytes = unit_start / 8 - self.covered / 8;
                self.covered = unit_start;
            }
            gap.bits += start.saturating_sub(self.covered);
            let current = self
                .unit
                .filter(|(size, stop)| end <= *stop && unit <= *size);
            // A packed bit-field may reach into the next unit: what it borrows ends with a byte.
            let stop = (unit_start + unit).max(end.next_multiple_of(8));
            self.unit = current.or(Some((unit, stop)));
        } else {
            gap.bytes = (start / 8).saturating_sub(self.covered / 8);
            self.unit = None;
        }
        self.covered = self.covered.max(end);
        gap
    }

    /// Advances to the end of the bit-field's unit, or to `stop` when that comes before. Answers
    /// the bits that were left over.
    fn fill(&mut self, stop: u64) -> u64 {
        let Some((_, unit_end)) = self.unit else {
            return 0;
        };
        let stop = stop.min(unit_end);
        let bits = stop.saturating_sub(self.covered);
        self.covered = self.covered.max(stop);
        bits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::TypeKind;

    #[test]
    fn bits_and_bytes_are_told_apart() {
        let mut store = TypeStore::default();
        let char = store.add("char", Some(1), TypeKind::Base);
        let int = store.add("int", Some(4), TypeKind::Base);
        let long = store.add("long", Some(8), TypeKind::Base);
        let member = |type_id, bit_offset, bits: Option<u64>| Member {
            name: Some(Arc::from("m")),
            type_id,
            type_name: Arc::from(""),
            bit_offset,
            bit_size: bits.unwrap_or(store.get(type_id).size.unwrap_or(0) * 8),
            alignment: None,
            kind: bits.map_or(MemberKind::Field, |_| MemberKind::BitField),
            decl: None,
        };
        let gap = |bits, bytes| Gap { bits, bytes };
        // int a:3; long b; char c:2; int d:4 (in the next int); and 4 bytes at the end.
        let members = vec![
            member(int, 0, Some(3)),
            member(long, 64, None),
            member(char, 128, Some(2)),
            member(int, 160, Some(4)),
        ];
        let layout = StructLayout::new(None, AggregateKind::Struct, 28, None, members);
        let shape = store.shape(&layout);
        assert_eq!(shape.behind[0], gap(29, 4));
        assert_eq!(shape.behind[1], gap(0, 0));
        assert_eq!(shape.behind[2], gap(6, 3));
        assert_eq!((shape.bit_padding, shape.padding), (28, 4));
        assert_eq!((shape.holes(), shape.bit_holes()), ((2, 7), (2, 35)));
        assert_eq!((shape.sum_members, shape.sum_bit_fields), (8, 9));
    }
}
