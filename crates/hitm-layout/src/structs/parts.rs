//! The members of a structure by the names that source uses: members of anonymous structures count
//! as its own, those of others follow a dot.

use std::collections::BTreeMap;
use std::ops::Range;

use super::MemberPlace;
use crate::{Member, StructLayout, TypeId, TypeKind, TypeStore};

/// A member with its place in the outermost structure.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its type; empty where that is not known.
    pub type_name: String,
    /// Its bits, from the structure's start.
    pub bits: Range<u64>,
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
    pub fn offset(&self) -> u64 {
        self.bits.start / 8
    }

    /// Bytes that it touches.
    pub fn size(&self) -> u64 {
        self.bits.end.div_ceil(8) - self.offset()
    }

    /// Cache lines that it touches; a member without bytes touches the line in which it begins.
    pub fn lines(&self, line_size: u64) -> Range<u64> {
        let first = self.offset() / line_size;
        first..self.bits.end.div_ceil(8 * line_size).max(first + 1)
    }

    /// Its place in lines of this size.
    pub fn place(&self, line_size: u64) -> MemberPlace {
        let lines = self.lines(line_size);
        MemberPlace {
            offset_bytes: self.offset(),
            size_bytes: self.size(),
            bit_offset: self.bits.start,
            bit_size: self.bits.end - self.bits.start,
            first_line: lines.start,
            last_line: lines.end - 1,
            type_name: self.type_name.clone(),
        }
    }

    /// Returns true if it lies in two lines and would fit in one.
    pub fn straddles(&self, line_size: u64) -> bool {
        let lines = self.lines(line_size);
        self.size() <= line_size && lines.end - lines.start > 1
    }
}

/// Most members of one structure that are looked at, those of anonymous structures included: these
/// multiply, in a file that no compiler made.
const MAX_MEMBERS: usize = 1 << 17;

/// Returns the members, in order, with those of anonymous structures.
pub fn parts(store: &TypeStore, layout: &StructLayout) -> Vec<Part> {
    let mut found = Vec::new();
    each_member(store, layout, &mut |member, base_bits| {
        found.push(Part::of(member, base_bits));
    });
    found
}

/// Shows `take` the members, in order, with those of anonymous structures, each with the bit at which
/// its structure begins.
fn each_member<'a>(
    store: &'a TypeStore,
    layout: &'a StructLayout,
    take: &mut impl FnMut(&'a Member, u64),
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
            _ => take(member, base_bits),
        }
        if left == 0 {
            return;
        }
    }
}

/// A member, with the bit at which it begins.
type Begun<'a> = (&'a Member, u64);

type ByName<'a> = BTreeMap<&'a str, Begun<'a>>;

/// Members of structures by name, sorted at the first question about a structure: a file may ask for each
/// of very many.
#[derive(Debug)]
pub struct Names<'a> {
    store: &'a TypeStore,
    outermost: BTreeMap<&'a str, ByName<'a>>,
    inner: BTreeMap<TypeId, ByName<'a>>,
}

impl<'a> Names<'a> {
    /// Nothing is looked up yet.
    pub fn new(store: &'a TypeStore) -> Names<'a> {
        Names {
            store,
            outermost: BTreeMap::new(),
            inner: BTreeMap::new(),
        }
    }

    /// Returns the member at a path such as `lock`, `cfs.load.weight` or `queue[3].next` of the structure
    /// that is called `outer`.
    pub fn part_at(
        &mut self,
        outer: &'a str,
        layout: &'a StructLayout,
        path: &str,
    ) -> Option<Part> {
        self.typed_part_at(outer, layout, path)
            .map(|(_, part)| part)
    }

    /// The same with the type of the member, or of the array's element.
    pub fn typed_part_at(
        &mut self,
        outer: &'a str,
        layout: &'a StructLayout,
        path: &str,
    ) -> Option<(TypeId, Part)> {
        let store = self.store;
        follow(store, path, &mut |of, name| {
            let named = match of {
                None => {
                    let named = self.outermost.entry(outer);
                    named.or_insert_with(|| by_name(store, layout))
                }
                Some(id) => {
                    let layout = store.layout(id)?;
                    let named = self.inner.entry(id);
                    named.or_insert_with(|| by_name(store, layout))
                }
            };
            named.get(name).copied()
        })
    }
}

/// Returns the place of `path` (`a.b[3].c`) in `layout`: bytes from its start, and its bytes. Members of
/// anonymous structures and of bases are found under their own names, as in the language.
pub fn place_in_types(layout: &StructLayout, store: &TypeStore, path: &str) -> Option<(u64, u64)> {
    let found = follow(store, path, &mut |of, name| match of {
        None => member_named(store, layout, name),
        Some(id) => member_named(store, store.layout(id)?, name),
    });
    found.map(|(_, part)| (part.offset(), part.size()))
}

/// The member of a name, with the bit at which it begins: a structure's own before one of those without a name.
fn member_named<'a>(
    store: &'a TypeStore,
    layout: &'a StructLayout,
    name: &str,
) -> Option<Begun<'a>> {
    let is_it = |member: &&Member| member.name.as_deref() == Some(name);
    if let Some(member) = layout.members.iter().find(is_it) {
        return Some((member, member.bit_offset));
    }
    let mut nameless = layout.members.iter().filter(|member| member.name.is_none());
    nameless.find_map(|outer| {
        let (member, start) = member_named(store, store.layout(outer.type_id)?, name)?;
        Some((member, outer.bit_offset + start))
    })
}

/// Follows a path; `find` finds a member of a structure, of the outermost one when none, with the bit at
/// which it begins.
fn follow<'a>(
    store: &'a TypeStore,
    path: &str,
    find: &mut dyn FnMut(Option<TypeId>, &str) -> Option<Begun<'a>>,
) -> Option<(TypeId, Part)> {
    let (mut of, mut base_bits) = (None, 0);
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let (name, mut indices) = step.split_once('[').map_or((step, ""), |(name, rest)| {
            let indices = rest.strip_suffix(']').filter(|indices| !indices.is_empty());
            (name, indices.unwrap_or("?"))
        });
        let (member, start) = find(of, name)?;
        let mut part = Part::of(member, base_bits + start - member.bit_offset);
        let mut type_id = member.type_id;
        while !indices.is_empty() {
            let (index, rest) = indices.split_once("][").unwrap_or((indices, ""));
            (type_id, part) = element(store, type_id, part, index.parse().ok()?)?;
            indices = rest;
        }
        if steps.peek().is_none() {
            part.name = path.to_owned();
            return Some((type_id, part));
        }
        (of, base_bits) = (Some(type_id), part.bits.start);
    }
    None
}

/// The members by name: of those with one name a structure's own before one of anonymous structures.
fn by_name<'a>(store: &'a TypeStore, layout: &'a StructLayout) -> ByName<'a> {
    let mut named = ByName::new();
    for member in &layout.members {
        if let Some(name) = &member.name {
            named.entry(name).or_insert((member, member.bit_offset));
        }
    }
    each_member(store, layout, &mut |member, base_bits| {
        if let Some(name) = &member.name {
            let start = base_bits + member.bit_offset;
            named.entry(name).or_insert((member, start));
        }
    });
    named
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
