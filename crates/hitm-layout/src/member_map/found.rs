//! Members of the compiled structure, found by their paths, and their pieces.

use crate::emit::member_at;
use crate::layout_file::{FileMember, LayoutFile, Storage};
use crate::{Member, StructLayout, TypeId, TypeKind, TypeStore};

use super::{ELEMENTS_MAX, MapError, MemberMap, Span};

/// Place and type of a path in the compiled structure.
pub(super) struct Found {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) type_id: TypeId,
}

/// Finds the member at `path`: names joined by dots, without those of anonymous structures.
pub(super) fn find(
    types: &TypeStore,
    layout: &StructLayout,
    path: &str,
    base: u64,
) -> Option<Found> {
    layout
        .members
        .iter()
        .find_map(|member| find_in(types, member, path, base))
}

fn find_in(types: &TypeStore, member: &Member, path: &str, base: u64) -> Option<Found> {
    let offset = base + member.byte_offset();
    let inner = |path| find(types, types.layout(member.type_id)?, path, offset);
    let Some(name) = &member.name else {
        return inner(path);
    };
    let rest = path.strip_prefix(&**name)?;
    if rest.is_empty() {
        return Some(Found {
            offset,
            size: member.byte_end() - member.byte_offset(),
            type_id: member.type_id,
        });
    }
    inner(rest.strip_prefix('.')?)
}

/// Finds a member without a name, such as a union, which a layout calls by its place in the compiled
/// structure.
pub(super) fn find_nameless(
    types: &TypeStore,
    layout: &StructLayout,
    member: &FileMember,
) -> Option<Found> {
    let (_, place) = member.name.rsplit_once("(anonymous at ")?;
    let offset = place.strip_suffix(')')?.parse().ok()?;
    let found = member_at(layout, types, member)?;
    Some(Found {
        offset,
        size: found.byte_end() - found.byte_offset(),
        type_id: found.type_id,
    })
}

/// Returns true if the layout keeps the member in the structure, or behind the pointer that it is
/// already.
pub(super) fn is_stored_alike(types: &TypeStore, found: &Found, member: &FileMember) -> bool {
    let kind = &types.get(types.resolve(found.type_id)).kind;
    let stays_a_pointer = matches!(kind, TypeKind::Pointer) && member.size_bytes == found.size;
    member.storage == Storage::INLINE || stays_a_pointer
}

/// Returns the map of a member that is a structure of the layouts with another size than compiled.
pub(super) fn nested(
    types: &TypeStore,
    found: &Found,
    member: &FileMember,
    layouts: &[LayoutFile],
) -> Option<Result<MemberMap, MapError>> {
    if member.array.is_some() || member.size_bytes == found.size {
        return None;
    }
    let compiled = types.layout(found.type_id)?;
    let name = member.type_name.as_ref()?;
    let mut structs = layouts.iter().flat_map(|layout| &layout.structs);
    let layout = structs.find(|known| known.name == *name)?;
    Some(MemberMap::new(types, compiled, layout, layouts))
}

/// Spans of one member, which has this index and goes to the byte `to`, or none when its size differs.
pub(super) fn spans(
    types: &TypeStore,
    found: &Found,
    member: &FileMember,
    to: u64,
    index: usize,
) -> Option<Vec<Span>> {
    let whole = Span {
        from: found.offset,
        to,
        size: found.size,
        member: index,
    };
    if member.bits.is_some() || member.size_bytes == found.size {
        return Some(vec![whole]);
    }
    let array = member.array?;
    let TypeKind::Array {
        element,
        count: Some(count),
    } = types.get(types.resolve(found.type_id)).kind
    else {
        return None;
    };
    let size = types.get(element).size?;
    if count != array.count || size > array.stride_bytes {
        return None;
    }
    // One more than the limit tells the caller that it is exceeded.
    let elements = (0..count.min(ELEMENTS_MAX + 1)).map(|number| Span {
        from: found.offset + number * size,
        to: to + number * array.stride_bytes,
        size,
        member: index,
    });
    Some(elements.collect())
}
