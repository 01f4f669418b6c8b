//! From members of the compiled structure to their places in a layout file.

mod error;
mod found;
mod outer;
mod wanted;

use crate::layout_file::{FileMember, FileStruct, LayoutFile, Storage};
use crate::{AggregateKind, StructLayout, TypeId, TypeStore};

use found::{Found, find, find_nameless, is_stored_alike, nested, spans};

pub use error::{MapError, MemberFault};
pub use wanted::{Place, Replaced, Wanted, element_of};

/// Pieces of one structure.
const SPANS_MAX: usize = 1 << 16;

/// Alignment of an array at a structure's end: that of the kernel's, which are of words.
const TAIL_ALIGN: u64 = 8;

/// Bytes that follow a structure in its memory.
const TAIL_BYTES_MAX: u64 = 1 << 30;

/// Elements of one array that get places of their own.
const ELEMENTS_MAX: u64 = 4096;

/// Bytes of a member that move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// The first byte in the compiled structure.
    from: u64,
    /// The first byte in the layout.
    to: u64,
    size: u64,
    /// Index of the layout's member.
    member: usize,
}

/// Bytes of a structure in two layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Those of the compiled structure.
    pub before: u64,
    /// Those of the layout's.
    pub after: u64,
}

/// Bytes that move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first byte in the compiled structure.
    pub from: u64,
    /// The first byte in the layout.
    pub to: u64,
    /// Number of bytes.
    pub size: u64,
}

/// Map from one layout to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberMap {
    /// Name of the structure.
    pub type_name: String,
    /// Its bytes.
    pub sizes: Sizes,
    /// Alignment in the layout.
    pub align: u64,
    /// True if an object begins as far into a line as it did.
    pub keeps_line_offset: bool,
    /// Its members, in the order of the layout.
    pub members: Vec<MappedMember>,
    /// Sorted by `from`; where members overlap (a union's), the first counts.
    spans: Vec<Span>,
    /// Indices of `spans`, sorted by `to`.
    by_new: Vec<usize>,
}

/// A member and its two offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedMember {
    /// Its name.
    pub name: String,
    /// Its offset in the compiled structure.
    pub from: u64,
    /// Its offset in the layout.
    pub to: u64,
}

impl MemberMap {
    /// Maps a type of the program: one that is wanted, or one that holds such a one. None for all others.
    pub fn of_type(
        types: &TypeStore,
        type_id: TypeId,
        wanted: Wanted<'_>,
    ) -> Result<Option<MemberMap>, MapError> {
        let Some(compiled) = types.layout(type_id) else {
            return Ok(None);
        };
        match wanted.of_type(types, type_id) {
            Some(target) => Ok(Some(target.map(types, compiled, wanted)?)),
            None => MemberMap::around(types, compiled, wanted),
        }
    }

    /// Maps the structure of a name, if it is wanted.
    pub fn of_name(
        types: &TypeStore,
        compiled: &StructLayout,
        name: &str,
        wanted: Wanted<'_>,
    ) -> Result<Option<MemberMap>, MapError> {
        let target = wanted.of_names(&[name]);
        target
            .map(|target| target.map(types, compiled, wanted))
            .transpose()
    }

    /// A map by the places of members that are touched: what is not among them moves with the member before. Objects
    /// keep their place in their first line, as far as the new alignment allows.
    pub fn of_places(of: &Replaced<'_>) -> MemberMap {
        let mut map = MemberMap::empty(of.type_name, of.sizes, of.align);
        map.keeps_line_offset = true;
        for place in of.places {
            map.add_span(place.path, place.from, place.to, place.size);
        }
        map.sorted()
    }

    /// A map without members.
    fn empty(type_name: &str, sizes: Sizes, align: u64) -> MemberMap {
        MemberMap {
            type_name: type_name.to_owned(),
            sizes,
            align,
            keeps_line_offset: false,
            members: Vec::new(),
            spans: Vec::new(),
            by_new: Vec::new(),
        }
    }

    /// Adds a member and returns its index.
    fn name(&mut self, name: &str, from: u64, to: u64) -> usize {
        let name = name.to_owned();
        self.members.push(MappedMember { name, from, to });
        self.members.len() - 1
    }

    /// Adds a member whose bytes move together.
    fn add_span(&mut self, name: &str, from: u64, to: u64, size: u64) {
        let member = self.name(name, from, to);
        self.spans.push(Span {
            from,
            to,
            size,
            member,
        });
    }

    /// Returns true if every byte stays where it is.
    pub fn moves_nothing(&self) -> bool {
        self.sizes.before == self.sizes.after && self.spans.iter().all(|span| span.from == span.to)
    }

    /// The map once all members are in it.
    fn sorted(mut self) -> MemberMap {
        self.spans.sort_by_key(|span| (span.from, span.member));
        self.by_new = (0..self.spans.len()).collect();
        self.by_new.sort_by_key(|index| self.spans[*index].to);
        self
    }

    /// Maps `compiled` to `layout`; `layouts` have the structures of members whose size differs.
    pub fn new(
        types: &TypeStore,
        compiled: &StructLayout,
        layout: &FileStruct,
        layouts: &[LayoutFile],
    ) -> Result<MemberMap, MapError> {
        let sizes = Sizes {
            before: compiled.size,
            after: layout.size_bytes,
        };
        let mut map = MemberMap::empty(&layout.name, sizes, layout.align());
        for member in &layout.members {
            map.add(types, compiled, member, layouts)?;
        }
        let map = map.sorted();
        map.check_all_placed(types, compiled, &mut String::new(), 0)?;
        Ok(map)
    }

    /// Maps an array's elements, plain values of `size` bytes, to structures of one member.
    pub fn of_values(size: u64, layout: &FileStruct) -> Result<MemberMap, MapError> {
        let is_plain = |member: &FileMember| {
            let is_inline = member.per.is_none() && member.storage == Storage::INLINE;
            is_inline && member.bits.is_none() && member.size_bytes == size
        };
        let member = match &layout.members[..] {
            [member] if is_plain(member) => member,
            members => {
                let shown =
                    |member: &FileMember| format!("{} ({})", member.name, member.size_bytes);
                return Err(MapError::NotAValue {
                    name: layout.name.clone(),
                    found: members.iter().map(shown).collect::<Vec<_>>().join(", "),
                    expected: size,
                });
            }
        };
        let sizes = Sizes {
            before: size,
            after: layout.size_bytes,
        };
        let mut map = MemberMap::empty(&layout.name, sizes, layout.align());
        map.add_span(&member.name, 0, member.offset_bytes, size);
        Ok(map.sorted())
    }

    fn add(
        &mut self,
        types: &TypeStore,
        compiled: &StructLayout,
        member: &FileMember,
        layouts: &[LayoutFile],
    ) -> Result<(), MapError> {
        let refuse = |fault| MapError::member(&self.type_name, &member.name, fault);
        let found = find(types, compiled, &member.name, 0);
        let found = found.or_else(|| find_nameless(types, compiled, member));
        let found = found.ok_or_else(|| refuse(MemberFault::NoSuchMember))?;
        if member.per.is_some() || !is_stored_alike(types, &found, member) {
            return Err(refuse(MemberFault::Split));
        }
        if let Some(inner) = nested(types, &found, member, layouts) {
            return self.add_nested(inner?, &found, member);
        }
        let to = member.offset_bytes + member.bits.map_or(0, |bits| bits.offset / 8);
        let spans = spans(types, &found, member, to, self.members.len());
        let spans = spans.ok_or_else(|| {
            refuse(MemberFault::Size {
                found: member.size_bytes,
                expected: found.size,
            })
        })?;
        if spans.len() as u64 > ELEMENTS_MAX {
            let count = spans.len() as u64;
            return Err(refuse(MemberFault::TooMany { count }));
        }
        self.name(&member.name, found.offset, to);
        self.spans.extend(spans);
        Ok(())
    }

    /// Adds a member whose own members move inside it.
    fn add_nested(
        &mut self,
        inner: MemberMap,
        found: &Found,
        member: &FileMember,
    ) -> Result<(), MapError> {
        if inner.sizes.after > member.size_bytes || self.spans.len() + inner.spans.len() > SPANS_MAX
        {
            let fault = MemberFault::Size {
                found: member.size_bytes,
                expected: inner.sizes.after,
            };
            return Err(MapError::member(&self.type_name, &member.name, fault));
        }
        let to = member.offset_bytes;
        let index = self.name(&member.name, found.offset, to);
        self.spans.extend(inner.spans.iter().map(|span| Span {
            from: found.offset + span.from,
            to: to + span.to,
            size: span.size,
            member: index,
        }));
        Ok(())
    }

    /// Offset in the layout of what follows the structure in its memory, as an array of any length at its end does.
    pub fn tail(&self) -> u64 {
        self.sizes.after.next_multiple_of(TAIL_ALIGN)
    }

    /// Spans in the order of the compiled structure, with what follows the structure.
    pub fn pieces_and_tail(&self) -> impl Iterator<Item = Piece> + '_ {
        let tail = Piece {
            from: self.sizes.before,
            to: self.tail(),
            size: TAIL_BYTES_MAX,
        };
        let pieces = self.spans.iter().map(|span| Piece {
            from: span.from,
            to: span.to,
            size: span.size,
        });
        pieces.chain(std::iter::once(tail))
    }

    /// Returns the offset in the compiled structure of the byte at `offset` of the layout's.
    pub fn before(&self, offset: u64) -> u64 {
        if offset >= self.tail() {
            return self.sizes.before + (offset - self.tail());
        }
        self.last_at(offset).map_or(offset, |span| {
            span.from + (offset - span.to).min(span.size.saturating_sub(1))
        })
    }

    /// Fails unless every member of the compiled structure has a place: itself, or all its parts.
    fn check_all_placed(
        &self,
        types: &TypeStore,
        compiled: &StructLayout,
        path: &mut String,
        base: u64,
    ) -> Result<(), MapError> {
        for member in &compiled.members {
            let (start, end) = (base + member.byte_offset(), base + member.byte_end());
            if self.covers(start, end) {
                continue;
            }
            let length = path.len();
            if let Some(name) = &member.name {
                path.push_str(if length > 0 { "." } else { "" });
                path.push_str(name);
            }
            match types.layout(member.type_id) {
                Some(inner) if inner.kind != AggregateKind::Union && !inner.members.is_empty() => {
                    self.check_all_placed(types, inner, path, start)?;
                }
                _ => {
                    let fault = MemberFault::NotPlaced;
                    return Err(MapError::member(&self.type_name, path, fault));
                }
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            let holds = |span: &&Span| (span.from..span.from + span.size).contains(&at);
            match self.spans.iter().find(holds) {
                Some(span) => at = span.from + span.size,
                None => return false,
            }
        }
        true
    }

    /// Returns the new place of the byte at `offset` of the compiled structure, the bytes from it
    /// on that move together, and true if they belong to no member. Such bytes move with the member
    /// before them.
    pub fn place(&self, offset: u64) -> (u64, u64, bool) {
        let (before, behind) = self.split_at(offset);
        match before {
            Some(span) if offset < span.from + span.size => {
                let into = offset - span.from;
                (span.to + into, span.size - into, false)
            }
            _ => {
                let last_byte = self.sizes.after.saturating_sub(1);
                let next = behind.first().map_or(self.sizes.before, |span| span.from);
                let to = before.map_or(offset, |span| span.to + (offset - span.from));
                (to.min(last_byte), next.saturating_sub(offset).max(1), true)
            }
        }
    }

    /// The span that holds the byte at `offset` of the compiled structure, or else the last one before it, and
    /// the spans that begin behind the byte.
    fn split_at(&self, offset: u64) -> (Option<&Span>, &[Span]) {
        let after = self.spans.partition_point(|span| span.from <= offset);
        let (before, behind) = self.spans.split_at(after);
        let mut last_first = before.iter().rev();
        let inside = last_first.find(|span| offset < span.from + span.size);
        (inside.or(before.last()), behind)
    }

    /// Member that the byte at `offset` of the compiled structure counts for.
    pub fn member_before(&self, offset: u64) -> Option<usize> {
        self.split_at(offset).0.map(|span| span.member)
    }

    /// Member that the byte at `offset` of the layout's structure counts for.
    pub fn member_after(&self, offset: u64) -> Option<usize> {
        self.last_at(offset).map(|span| span.member)
    }

    /// The last span that begins at or before the byte at `offset` of the layout's structure.
    fn last_at(&self, offset: u64) -> Option<&Span> {
        let begins = |index: &usize| self.spans[*index].to <= offset;
        let after = self.by_new.partition_point(begins);
        Some(&self.spans[*self.by_new[..after].last()?])
    }
}
