//! From a type and a range of bytes to the names of what lies there.
//!
//! Only what overlaps the range is looked at: an array of a billion elements costs as much as one
//! of two. Invariant: recursion follows the parts of types, whose depth the store bounds; the number
//! of parts looked at and of leaves found are bounded here.

use std::ops::Range;
use std::sync::Arc;

use crate::types::{MAX_SIZE, Member, MemberKind, StructLayout, TypeId, TypeKind, TypeStore};

/// Kind of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeafKind {
    /// A member that has no parts of its own, or the whole object.
    Member,
    /// Bytes between members.
    Hole,
    /// Bytes after the last member.
    Padding,
}

/// A smallest part of an object: a number, a pointer, a bit-field, a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The way from the object to the part: `.lock.owner`, `[3].hits`; empty for the whole object;
    /// for a hole the way to the structure that has it.
    pub path: String,
    /// Bytes from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// For a bit-field: bits from the object's start, and their number.
    pub bits: Option<(u64, u64)>,
    /// The type's name; empty for a hole.
    pub type_name: Arc<str>,
    /// Member, hole or padding.
    pub kind: LeafKind,
    steps: Vec<PathStep>,
}

impl Leaf {
    /// The byte after the last one.
    pub const fn end(&self) -> u64 {
        self.offset + self.size
    }
}

/// One step of a path: `.owner` or `[3]`, and where what it leads to begins.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathStep {
    text: String,
    offset: u64,
}

/// A path of steps: `.lock.owner`.
fn text_of(steps: &[PathStep]) -> String {
    steps.iter().map(|step| step.text.as_str()).collect()
}

/// The leaves in a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeafList {
    /// By offset; those that overlap (the members of a union) in the order of the source.
    pub leaves: Vec<Leaf>,
    /// True if there were more than are listed.
    pub is_cut: bool,
}

/// The parts of an object that an access of some bytes touches, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPath {
    /// The object's name with the path: `f.y`, `table[1].lock.owner`, `f.{x,y}` for an access that
    /// covers both, `u.{i|p}` for members of a union, `f.a+2` inside a member, `f+12 (hole)`.
    pub text: String,
    /// The leaves that are touched.
    pub leaves: Vec<Leaf>,
}

/// Leaves that one question may find.
const MAX_LEAVES: usize = 256;

/// Members and elements that one question may look at.
const MAX_PARTS: usize = 1 << 16;

/// Names that a path lists side by side; for more it names what encloses them.
const MAX_NAMES: usize = 4;

impl LeafList {
    /// The leaves of an object that overlap `range` (bytes from its start). `object_size` bounds a
    /// flexible array at its end. Arrays of bytes are one leaf when `whole_byte_arrays` is set, as a
    /// reader of a list wants it.
    pub fn find(
        store: &TypeStore,
        object_type: TypeId,
        object_size: u64,
        range: Range<u64>,
        whole_byte_arrays: bool,
    ) -> LeafList {
        let object_size = object_size.min(MAX_SIZE);
        let mut finder = Finder {
            store,
            wanted: range.start..range.end.min(object_size),
            object_size,
            whole_byte_arrays,
            steps: Vec::new(),
            parts_left: MAX_PARTS,
            found: LeafList::default(),
        };
        finder.visit(object_type, 0, None);
        let mut list = finder.found;
        let members = list.leaves.iter().filter(|leaf| is_member(leaf));
        let members: Vec<Range<u64>> = members.map(|leaf| leaf.offset..leaf.end()).collect();
        // A hole in one member of a union may be used by another.
        list.leaves.retain(|leaf| {
            let used = |part: &Range<u64>| part.start < leaf.end() && leaf.offset < part.end;
            is_member(leaf) || !members.iter().any(used)
        });
        list.leaves.sort_by_key(|leaf| (leaf.offset, leaf.bits));
        list
    }
}

fn is_member(leaf: &Leaf) -> bool {
    leaf.kind == LeafKind::Member
}

struct Finder<'s> {
    store: &'s TypeStore,
    wanted: Range<u64>,
    object_size: u64,
    whole_byte_arrays: bool,
    steps: Vec<PathStep>,
    parts_left: usize,
    found: LeafList,
}

impl Finder<'_> {
    /// Looks at a part that begins at `base`. `shown_type` is the name of a wrapper around it.
    fn visit(&mut self, id: TypeId, base: u64, shown_type: Option<Arc<str>>) {
        let declared = self.store.get(id).name.clone();
        let part = self.store.get(self.store.resolve(id));
        match &part.kind {
            TypeKind::Aggregate(layout) => match wrapped(layout) {
                Some(inner) => {
                    let shown = shown_type.unwrap_or(declared);
                    self.visit(inner.type_id, base, Some(shown));
                }
                None => self.visit_members(layout, base),
            },
            TypeKind::Array { element, count } => {
                self.visit_elements(*element, *count, base, declared);
            }
            _ => {
                let size = part.size.unwrap_or(self.object_size.saturating_sub(base));
                let type_name = shown_type.unwrap_or(declared);
                let end = base.saturating_add(size);
                self.push(base..end, None, type_name, LeafKind::Member);
            }
        }
    }

    fn visit_members(&mut self, layout: &StructLayout, base: u64) {
        for member in &layout.members {
            let start = base + member.byte_offset();
            let end = self.member_end(member, base);
            if !self.overlaps(start, end) || !self.take_part() {
                continue;
            }
            if let Some(name) = &member.name {
                let (text, offset) = (format!(".{name}"), start);
                self.steps.push(PathStep { text, offset });
            }
            if member.kind == MemberKind::BitField {
                let bits = (base * 8 + member.bit_offset, member.bit_size);
                let type_name = member.type_name.clone();
                self.push(start..end, Some(bits), type_name, LeafKind::Member);
            } else {
                self.visit(member.type_id, start, None);
            }
            if member.name.is_some() {
                self.steps.pop();
            }
        }
        for hole in layout.holes() {
            let start = hole.bit_offset.div_ceil(8);
            let end = (hole.bit_offset + hole.bit_size) / 8;
            self.push_gap(base + start, base + end.max(start), LeafKind::Hole);
        }
        let end = base + layout.size;
        self.push_gap(end - layout.padding(), end, LeafKind::Padding);
    }

    /// The byte after a member. A flexible array extends to the object's end.
    fn member_end(&self, member: &Member, base: u64) -> u64 {
        let resolved = self.store.get(self.store.resolve(member.type_id));
        match resolved.kind {
            TypeKind::Array { count: None, .. } => self.object_size,
            _ => base + member.byte_end(),
        }
    }

    fn visit_elements(
        &mut self,
        element: TypeId,
        count: Option<u64>,
        base: u64,
        array_name: Arc<str>,
    ) {
        let element_type = self.store.get(self.store.resolve(element));
        let is_scalar = !matches!(
            element_type.kind,
            TypeKind::Aggregate(_) | TypeKind::Array { .. }
        );
        let size = element_type.size.unwrap_or(0);
        let array_end = match count {
            Some(count) => base.saturating_add(count.saturating_mul(size)),
            None => self.object_size,
        };
        let start = self.wanted.start.max(base);
        let end = self.wanted.end.min(array_end);
        if size == 0 || start >= end {
            return;
        }
        if size == 1 && is_scalar && self.whole_byte_arrays {
            self.push(base..array_end, None, array_name, LeafKind::Member);
            return;
        }
        let (first, last) = ((start - base) / size, (end - 1 - base) / size);
        for index in first..=last {
            if !self.take_part() {
                return;
            }
            let (text, offset) = (format!("[{index}]"), base + index * size);
            self.steps.push(PathStep { text, offset });
            self.visit(element, offset, None);
            self.steps.pop();
        }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        start < self.wanted.end && self.wanted.start < end
    }

    /// Counts a part that is looked at. Once there are too many, the list says that it is cut.
    fn take_part(&mut self) -> bool {
        if self.parts_left == 0 || self.found.leaves.len() >= MAX_LEAVES {
            self.found.is_cut = true;
            return false;
        }
        self.parts_left -= 1;
        true
    }

    fn push_gap(&mut self, start: u64, end: u64, kind: LeafKind) {
        if start < end {
            self.push(start..end, None, Arc::from(""), kind);
        }
    }

    fn push(
        &mut self,
        bytes: Range<u64>,
        bits: Option<(u64, u64)>,
        type_name: Arc<str>,
        kind: LeafKind,
    ) {
        if !self.overlaps(bytes.start, bytes.end) {
            return;
        }
        if self.found.leaves.len() >= MAX_LEAVES {
            self.found.is_cut = true;
            return;
        }
        self.found.leaves.push(Leaf {
            path: text_of(&self.steps),
            offset: bytes.start,
            size: bytes.end - bytes.start,
            bits,
            type_name,
            kind,
            steps: self.steps.clone(),
        });
    }
}

/// The one member of a type that only wraps it and that people do not name: an atomic or a cell.
fn wrapped(layout: &StructLayout) -> Option<&Member> {
    let name = layout.name.as_deref()?;
    let name = name.split('<').next().unwrap_or(name);
    let is_wrapper = matches!(
        name,
        "UnsafeCell" | "SyncUnsafeCell" | "Cell" | "atomic" | "__atomic_base" | "__atomic_float"
    ) || name.starts_with("Atomic");
    let mut sized = layout.members.iter().filter(|member| member.bit_size > 0);
    let (first, second) = (sized.next()?, sized.next());
    let fills = first.bit_offset == 0 && first.bit_size == layout.size.checked_mul(8)?;
    (is_wrapper && second.is_none() && fills).then_some(first)
}

impl AccessPath {
    /// Names what an access of the bytes `access` (from the object's start) touches.
    pub(crate) fn new(object: &str, list: LeafList, access: Range<u64>) -> AccessPath {
        let members: Vec<&Leaf> = list.leaves.iter().filter(|leaf| is_member(leaf)).collect();
        let text = if members.is_empty() {
            name_gap(object, list.leaves.first(), access.start)
        } else {
            name_members(object, &members, &access, list.is_cut)
        };
        AccessPath {
            text,
            leaves: list.leaves,
        }
    }
}

fn name_gap(object: &str, gap: Option<&Leaf>, offset: u64) -> String {
    let Some(gap) = gap else {
        return plus(object.to_owned(), offset);
    };
    let word = match gap.kind {
        LeafKind::Padding => "padding",
        _ => "hole",
    };
    let structure = gap.steps.last().map_or(0, |step| step.offset);
    let from = offset.max(gap.offset) - structure;
    format!("{object}{}+{from} ({word})", gap.path)
}

fn name_members(object: &str, members: &[&Leaf], access: &Range<u64>, is_cut: bool) -> String {
    let whole = |is_wanted: &dyn Fn(&Leaf) -> bool| -> Vec<&Leaf> {
        let whole = members.iter().filter(|leaf| leaf.bits.is_none());
        whole.filter(|leaf| is_wanted(leaf)).copied().collect()
    };
    let exact = whole(&|leaf| leaf.offset == access.start && leaf.end() == access.end);
    if !exact.is_empty() {
        return side_by_side(object, &exact, '|');
    }
    let around = whole(&|leaf| leaf.offset <= access.start && leaf.end() >= access.end);
    if let Some(first) = around.first() {
        let into = access.start - first.offset;
        return plus(side_by_side(object, &around, '|'), into);
    }
    if members.len() <= MAX_NAMES && !is_cut {
        return side_by_side(object, members, ',');
    }
    let shared = shared_steps(members);
    let steps = &members[0].steps[..shared];
    let start = steps.last().map_or(0, |step| step.offset);
    let name = format!("{object}{}", text_of(steps));
    plus(name, access.start.saturating_sub(start))
}

fn plus(name: String, offset: u64) -> String {
    if offset == 0 {
        name
    } else {
        format!("{name}+{offset}")
    }
}

/// Number of steps that the paths have in common, the last step of each left out.
fn shared_steps(leaves: &[&Leaf]) -> usize {
    let lengths = leaves.iter().map(|leaf| leaf.steps.len());
    let shortest = lengths.min().unwrap_or(0);
    (0..shortest.saturating_sub(1))
        .take_while(|index| {
            let first = &leaves[0].steps[*index];
            leaves.iter().all(|leaf| leaf.steps[*index] == *first)
        })
        .count()
}

/// `f.x` for one leaf; `f.{x,y}` for several.
fn side_by_side(object: &str, leaves: &[&Leaf], separator: char) -> String {
    if let [only] = leaves {
        return format!("{object}{}", only.path);
    }
    let shared = shared_steps(leaves);
    let prefix = text_of(&leaves[0].steps[..shared]);
    let shown = leaves.iter().take(MAX_NAMES);
    let tails: Vec<String> = shown.map(|leaf| text_of(&leaf.steps[shared..])).collect();
    let dotted = tails.iter().all(|tail| tail.starts_with('.'));
    let dot = if dotted { "." } else { "" };
    let mut names: Vec<&str> = tails.iter().map(|tail| &tail[dot.len()..]).collect();
    if leaves.len() > MAX_NAMES {
        names.push("…");
    }
    let names = names.join(&separator.to_string());
    format!("{object}{prefix}{dot}{{{names}}}")
}

#[cfg(test)]
mod tests;
