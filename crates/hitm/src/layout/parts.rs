//! The members of a structure by the names that source uses: members of anonymous structures count
//! as its own, those of others follow a dot.

use std::ops::Range;

use hitm_layout::{Member, StructLayout, TypeId, TypeKind, TypeStore};

/// A member with its place in the outermost structure.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) type_name: String,
    /// Bits from the structure's start.
    pub(crate) bits: Range<u64>,
}

impl Part {
    fn of(member: &Member, base_bits: u64) -> Part {
        let start = base_bits + member.bit_offset;
        Part {
            name: member.name.as_deref().unwrap_or_default().to_owned(),
            type_name: member.type_name.to_string(),
            bits: start..start + member.bit_size,
        }
    }

    /// First byte that it touches.
    pub(crate) fn offset(&self) -> u64 {
        self.bits.start / 8
    }

    /// Bytes that it touches.
    pub(crate) fn size(&self) -> u64 {
        self.bits.end.div_ceil(8) - self.offset()
    }

    /// Cache lines that it touches; a member without bytes touches the line in which it begins.
    pub(crate) fn lines(&self, line_size: u64) -> Range<u64> {
        let first = self.offset() / line_size;
        first..self.bits.end.div_ceil(8 * line_size).max(first + 1)
    }

    /// Returns true if it lies in two lines and would fit in one.
    pub(crate) fn straddles(&self, line_size: u64) -> bool {
        let lines = self.lines(line_size);
        self.size() <= line_size && lines.end - lines.start > 1
    }
}

/// Most members of one structure that are looked at, those of anonymous structures included: these
/// multiply, in a file that no compiler made.
const MAX_MEMBERS: usize = 1 << 17;

/// Returns the members, in order, with those of anonymous structures.
pub(crate) fn parts(store: &TypeStore, layout: &StructLayout) -> Vec<Part> {
    let mut found = Vec::new();
    each_member(store, layout, &mut |member, base_bits| {
        found.push(Part::of(member, base_bits));
        false
    });
    found
}

/// Shows `take` the members, in order, with those of anonymous structures, each with the bit at which
/// its structure begins. Ends when it answers true.
fn each_member<'a>(
    store: &'a TypeStore,
    layout: &'a StructLayout,
    take: &mut impl FnMut(&'a Member, u64) -> bool,
) {
    let mut open = vec![(layout.members.iter(), 0)];
    let mut left = MAX_MEMBERS;
    while let Some((members, base_bits)) = open.last_mut() {
        let base_bits = *base_bits;
        let Some(member) = members.next() else {
            open.pop();
            continue;
        };
        left -= 1;
        match store.layout(member.type_id) {
            Some(inner) if member.name.is_none() => {
                open.push((inner.members.iter(), base_bits + member.bit_offset));
            }
            _ if take(member, base_bits) => return,
            _ => {}
        }
        if left == 0 {
            return;
        }
    }
}

/// Returns the member at a path such as `lock`, `cfs.load.weight` or `queue[3].next`.
pub(crate) fn part_at(store: &TypeStore, layout: &StructLayout, path: &str) -> Option<Part> {
    let (mut layout, mut base_bits) = (layout, 0);
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let (name, mut indices) = step.split_once('[').map_or((step, ""), |(name, rest)| {
            (name, rest.strip_suffix(']').unwrap_or("?"))
        });
        let (member, start) = member_named(store, (layout, base_bits), name)?;
        let mut part = Part::of(member, start - member.bit_offset);
        let mut type_id = member.type_id;
        while !indices.is_empty() {
            let (index, rest) = indices.split_once("][").unwrap_or((indices, ""));
            (type_id, part) = element(store, type_id, part, index.parse().ok()?)?;
            indices = rest;
        }
        if steps.peek().is_none() {
            part.name = path.to_owned();
            return Some(part);
        }
        layout = store.layout(type_id)?;
        base_bits = part.bits.start;
    }
    None
}

/// Returns the element of an array as a part.
fn element(store: &TypeStore, array: TypeId, part: Part, index: u64) -> Option<(TypeId, Part)> {
    let TypeKind::Array { element, count } = store.get(store.resolve(array)).kind else {
        return None;
    };
    if count.is_some_and(|count| index >= count) {
        return None;
    }
    let size = store.get(element).size?.checked_mul(8)?;
    let start = index.checked_mul(size)?.checked_add(part.bits.start)?;
    let bits = start..start.checked_add(size)?;
    Some((element, Part { bits, ..part }))
}

/// Finds a member, also in anonymous structures, and the bit at which it begins: one of the structure's
/// own before one of those.
fn member_named<'a>(
    store: &'a TypeStore,
    (layout, base_bits): (&'a StructLayout, u64),
    name: &str,
) -> Option<(&'a Member, u64)> {
    let is_named = |member: &Member| member.name.as_deref() == Some(name);
    let own = layout.members.iter().find(|member| is_named(member));
    if let Some(member) = own {
        return Some((member, base_bits + member.bit_offset));
    }
    let mut found = None;
    each_member(store, layout, &mut |member, base| {
        if is_named(member) {
            found = Some((member, base_bits + base + member.bit_offset));
        }
        found.is_some()
    });
    found
}
