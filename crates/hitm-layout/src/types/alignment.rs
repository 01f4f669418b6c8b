//! Alignments: what a type needs, and what the source must have demanded for members to lie where
//! they lie.
//!
//! Debug information rarely says that a member or a structure is aligned, or packed. Both show. A
//! hole that the member's type does not need comes from an alignment, and a member at a place that
//! its type does not allow comes from packing. The smallest power of two that explains the place is
//! taken, or a cache line where that explains it as well: nobody aligns to 32 bytes. A demand that
//! changed nothing cannot be seen.

use super::{MemberKind, StructLayout, TypeKind, TypeStore};
use crate::types::{AggregateKind, Member};

/// Alignments above do not exist: no object file format has them.
const MAX: u64 = 1 << 32;

/// Alignment that source usually demands for members: a cache line.
const LINE: u64 = 64;

/// The largest alignment that a number has: `__int128`, `long double`.
const MAX_BASE: u64 = 16;

/// The alignment of a type that is being added.
pub(super) fn of(store: &TypeStore, size: Option<u64>, kind: &TypeKind) -> u64 {
    match kind {
        TypeKind::Base | TypeKind::Enum | TypeKind::Pointer => {
            let size = size.unwrap_or(1).clamp(1, MAX_BASE);
            // `x86_fp80` may be said to have 10 or 12 bytes.
            1 << size.trailing_zeros()
        }
        TypeKind::Array { element, .. } => store.get(*element).alignment,
        TypeKind::Alias(target) => store.get(*target).alignment,
        TypeKind::Broken(_) => 1,
        TypeKind::Aggregate(layout) => store.forced_alignments(layout).alignment(),
    }
}

/// Alignments that the source must have demanded of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedAlignments {
    /// For each member the alignment in bytes that was demanded for it, if one must have been.
    pub members: Vec<Option<u64>>,
    /// The alignment that was demanded for the whole, if one must have been.
    pub whole: Option<u64>,
    /// True if members lie closer than their types allow.
    pub is_packed: bool,
    /// The largest alignment of a member, demanded or its type's own.
    largest: u64,
}

impl ForcedAlignments {
    /// The alignment of the whole in bytes, demanded or its members'.
    pub fn alignment(&self) -> u64 {
        self.whole.unwrap_or(1).max(self.largest)
    }
}

impl TypeStore {
    /// Infers the alignments that the source must have demanded for the members to lie where they
    /// do. Debug information may not say them: see [`Member::alignment`] and
    /// [`StructLayout::alignment`].
    pub fn forced_alignments(&self, layout: &StructLayout) -> ForcedAlignments {
        let is_packed = self.is_packed(layout);
        let mut members = Vec::with_capacity(layout.members.len());
        let (mut largest, mut end) = (1, 0);
        for member in &layout.members {
            let own = match is_packed {
                true => 1,
                false => self.get(member.type_id).alignment,
            };
            let stated = member.alignment.filter(|stated| is_possible(*stated));
            let forced = stated.or_else(|| match layout.kind {
                AggregateKind::Union => None,
                _ => forced_by_hole(member, own, end).map(|least| {
                    let is_line = member.byte_offset().is_multiple_of(LINE);
                    match is_line && layout.size.is_multiple_of(LINE) {
                        true => least.max(LINE),
                        false => least,
                    }
                }),
            });
            members.push(forced);
            largest = largest.max(forced.unwrap_or(1)).max(own);
            end = end.max(member.byte_end());
        }
        let stated = layout.alignment.filter(|stated| is_possible(*stated));
        let whole = stated
            .or_else(|| explains(end, largest, layout.size))
            .filter(|whole| *whole > largest);
        ForcedAlignments {
            members,
            whole,
            is_packed,
            largest,
        }
    }

    /// Returns true if a member, or the end, lies where the types of the members do not allow it.
    fn is_packed(&self, layout: &StructLayout) -> bool {
        let misplaced = |member: &Member, alignment: u64| {
            let unit = self.get(member.type_id).size.unwrap_or(0);
            match member.kind {
                // A bit-field may begin anywhere in a unit of its type, but not leave it.
                MemberKind::BitField if unit > 0 => {
                    let unit_bits = unit * 8;
                    member.bit_offset % unit_bits + member.bit_size > unit_bits
                }
                MemberKind::BitField => false,
                _ => !member.byte_offset().is_multiple_of(alignment),
            }
        };
        layout.members.iter().any(|member| {
            let alignment = self.get(member.type_id).alignment;
            misplaced(member, alignment) || !layout.size.is_multiple_of(alignment)
        })
    }
}

/// The alignment without which a member would begin nearer to `end`, the end of those before it.
fn forced_by_hole(member: &Member, own: u64, end: u64) -> Option<u64> {
    if member.kind == MemberKind::BitField {
        return None;
    }
    explains(end, own, member.byte_offset())
}

/// The smallest alignment above `own` that puts what begins after `end` to `place`, if `own` does
/// not do it already.
fn explains(end: u64, own: u64, place: u64) -> Option<u64> {
    if end >= place || end.next_multiple_of(own) == place {
        return None;
    }
    let mut alignment = own * 2;
    while alignment <= MAX && alignment <= place {
        if end.next_multiple_of(alignment) == place {
            return Some(alignment);
        }
        alignment *= 2;
    }
    None
}

fn is_possible(alignment: u64) -> bool {
    alignment.is_power_of_two() && alignment <= MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TypeId;

    /// A structure of these members (type, bit offset, bit size of a bit-field).
    fn aggregate(
        store: &mut TypeStore,
        size: u64,
        members: &[(TypeId, u64, Option<u64>)],
    ) -> TypeId {
        let member = |(type_id, bit_offset, bits): &(TypeId, u64, Option<u64>)| Member {
            name: Some("m".into()),
            type_id: *type_id,
            type_name: store.get(*type_id).name.clone(),
            bit_offset: *bit_offset,
            bit_size: bits.unwrap_or(store.get(*type_id).size.unwrap_or(0) * 8),
            alignment: None,
            decl: None,
            kind: bits.map_or(MemberKind::Field, |_| MemberKind::BitField),
        };
        let members = members.iter().map(member).collect();
        let layout = StructLayout::new(None, AggregateKind::Struct, size, None, members);
        store.add("s", Some(size), TypeKind::Aggregate(layout.into()))
    }

    /// (own alignment, demanded for each member, for the whole, packed).
    fn found(store: &TypeStore, id: TypeId) -> (u64, Vec<Option<u64>>, Option<u64>, bool) {
        let forced = store.forced_alignments(store.layout(id).unwrap());
        let own = store.get(id).alignment;
        (own, forced.members, forced.whole, forced.is_packed)
    }

    #[test]
    fn what_must_have_been_demanded() {
        let mut store = TypeStore::default();
        let char = store.add("char", Some(1), TypeKind::Base);
        let int = store.add("int", Some(4), TypeKind::Base);
        let long = store.add("long", Some(8), TypeKind::Base);
        let plain = aggregate(&mut store, 16, &[(char, 0, None), (long, 64, None)]);
        assert_eq!(found(&store, plain), (8, vec![None; 2], None, false));
        let split = aggregate(&mut store, 128, &[(int, 0, None), (int, 512, None)]);
        assert_eq!(
            found(&store, split),
            (64, vec![None, Some(64)], None, false)
        );
        let whole = aggregate(&mut store, 64, &[(int, 0, None)]);
        assert_eq!(found(&store, whole), (64, vec![None], Some(64), false));
        // An array of it keeps the alignment, and what holds it has it.
        let array = store.add_array(whole, Some(2));
        let outer = aggregate(&mut store, 192, &[(int, 0, None), (array, 512, None)]);
        assert_eq!(found(&store, outer), (64, vec![None; 2], None, false));
    }

    #[test]
    fn what_must_have_been_packed() {
        let mut store = TypeStore::default();
        let char = store.add("char", Some(1), TypeKind::Base);
        let int = store.add("int", Some(4), TypeKind::Base);
        let close = aggregate(&mut store, 5, &[(char, 0, None), (int, 8, None)]);
        assert_eq!(found(&store, close), (1, vec![None; 2], None, true));
        let across = aggregate(&mut store, 8, &[(int, 0, Some(20)), (int, 20, Some(20))]);
        assert!(found(&store, across).3);
        let bits = aggregate(&mut store, 4, &[(int, 0, Some(20)), (int, 20, Some(12))]);
        assert_eq!(found(&store, bits), (4, vec![None; 2], None, false));
    }
}
