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

/// Most parts of one structure: nested anonymous structures multiply, in a file that no compiler
/// made.
const MAX_PARTS: usize = 1 << 17;

/// Returns the members, in order, with those of anonymous structures.
pub(crate) fn parts(store: &TypeStore, layout: &StructLayout) -> Vec<Part> {
    let mut found = Vec::new();
    collect(store, layout, 0, &mut found);
    found
}

fn collect(store: &TypeStore, layout: &StructLayout, base_bits: u64, found: &mut Vec<Part>) {
    for member in &layout.members {
        if found.len() >= MAX_PARTS {
            return;
        }
        match store.layout(member.type_id) {
            Some(inner) if member.name.is_none() => {
                collect(store, inner, base_bits + member.bit_offset, found);
            }
            _ => found.push(Part::of(member, base_bits)),
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
        let (member, start) = member_named(store, layout, base_bits, name)?;
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

/// Finds a member, also in anonymous structures, and the bit at which it begins.
fn member_named<'a>(
    store: &'a TypeStore,
    layout: &'a StructLayout,
    base_bits: u64,
    name: &str,
) -> Option<(&'a Member, u64)> {
    let own = layout
        .members
        .iter()
        .find(|m| m.name.as_deref() == Some(name));
    if let Some(member) = own {
        return Some((member, base_bits + member.bit_offset));
    }
    let unnamed = layout.members.iter().filter(|member| member.name.is_none());
    unnamed
        .filter_map(|member| Some((member, store.layout(member.type_id)?)))
        .find_map(|(member, inner)| member_named(store, inner, base_bits + member.bit_offset, name))
}
