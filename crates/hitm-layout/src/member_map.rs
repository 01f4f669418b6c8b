//! From members of the compiled structure to their places in a layout file.

mod error;
mod found;
mod outer;
mod wanted;

use crate::layout_file::{FileMember, FileStruct, LayoutFile, Storage};
use crate::{AggregateKind, StructLayout, TypeId, TypeStore};

use found::{Found, find, find_nameless, is_stored_alike, nested, spans};

pub use error::MapError;
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
    /// How many.
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
        let mut map = MemberMap {
            type_name: of.type_name.to_owned(),
            sizes: of.sizes,
            align: of.align,
            keeps_line_offset: true,
            members: Vec::new(),
            spans: Vec::new(),
            by_new: Vec::new(),
        };
        for place in of.places {
            map.spans.push(Span {
                from: place.from,
                to: place.to,
                size: place.size,
                member: map.members.len(),
            });
            map.members.push(MappedMember {
                name: place.path.to_owned(),
                from: place.from,
                to: place.to,
            });
        }
        map.sort();
        map
    }

    /// Returns true if every byte stays where it is.
    pub fn moves_nothing(&self) -> bool {
        self.sizes.before == self.sizes.after && self.spans.iter().all(|span| span.from == span.to)
    }

    fn sort(&mut self) {
        self.spans.sort_by_key(|span| (span.from, span.member));
        self.by_new = (0..self.spans.len()).collect();
        self.by_new.sort_by_key(|index| self.spans[*index].to);
    }

    /// Maps `compiled` to `layout`; `layouts` have the structures of members whose size differs.
    pub fn new(
        types: &TypeStore,
        compiled: &StructLayout,
        layout: &FileStruct,
        layouts: &[LayoutFile],
    ) -> Result<MemberMap, MapError> {
        let mut map = MemberMap {
            type_name: layout.name.clone(),
            sizes: Sizes {
                before: compiled.size,
                after: layout.size_bytes,
            },
            align: layout.align(),
            keeps_line_offset: false,
            members: Vec::new(),
            spans: Vec::new(),
            by_new: Vec::new(),
        };
        for member in &layout.members {
            map.add(types, compiled, member, layouts)?;
        }
        map.sort();
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
        let to = member.offset_bytes;
        Ok(MemberMap {
            type_name: layout.name.clone(),
            sizes: Sizes {
                before: size,
                after: layout.size_bytes,
            },
            align: layout.align(),
            keeps_line_offset: false,
            members: vec![MappedMember {
                name: member.name.clone(),
                from: 0,
                to,
            }],
            spans: vec![Span {
                from: 0,
                to,
                size,
                member: 0,
            }],
            by_new: vec![0],
        })
    }

    fn add(
        &mut self,
        types: &TypeStore,
        compiled: &StructLayout,
        member: &FileMember,
        layouts: &[LayoutFile],
    ) -> Result<(), MapError> {
        let names = || (self.type_name.clone(), member.name.clone());
        let found = find(types, compiled, &member.name, 0);
        let Some(found) = found.or_else(|| find_nameless(types, compiled, member)) else {
            let (type_name, member) = names();
            return Err(MapError::NoSuchMember { type_name, member });
        };
        if member.per.is_some() || !is_stored_alike(types, &found, member) {
            let (type_name, member) = names();
            return Err(MapError::Split { type_name, member });
        }
        if let Some(inner) = nested(types, &found, member, layouts) {
            return self.add_nested(inner?, &found, member);
        }
        let index = self.members.len();
        let to = member.offset_bytes + member.bits.map_or(0, |bits| bits.offset / 8);
        let spans = spans(types, &found, member, to, index);
        let spans = spans.ok_or_else(|| {
            let (type_name, member_name) = names();
            MapError::Size {
                type_name,
                member: member_name,
                found: member.size_bytes,
                expected: found.size,
            }
        })?;
        if spans.len() as u64 > ELEMENTS_MAX {
            let (type_name, member) = names();
            let count = spans.len() as u64;
            return Err(MapError::TooMany {
                type_name,
                member,
                count,
            });
        }
        self.members.push(MappedMember {
            name: member.name.clone(),
            from: found.offset,
            to,
        });
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
            return Err(MapError::Size {
                type_name: self.type_name.clone(),
                member: member.name.clone(),
                found: member.size_bytes,
                expected: inner.sizes.after,
            });
        }
        let index = self.members.len();
        let to = member.offset_bytes;
        self.members.push(MappedMember {
            name: member.name.clone(),
            from: found.offset,
            to,
        });
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
        let after = self
            .by_new
            .partition_point(|index| self.spans[*index].to <= offset);
        let last = self.by_new[..after].last().map(|index| self.spans[*index]);
        last.map_or(offset, |span| {
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
                    return Err(MapError::NotPlaced {
                        type_name: self.type_name.clone(),
                        member: path.clone(),
                    });
                }
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self
                .spans
                .iter()
                .find(|span| (span.from..span.from + span.size).contains(&at))
            {
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
        let after = self.spans.partition_point(|span| span.from <= offset);
        let next = self
            .spans
            .get(after)
            .map_or(self.sizes.before, |span| span.from);
        let inside = self.spans[..after]
            .iter()
            .rev()
            .find(|span| offset < span.from + span.size);
        let last_byte = self.sizes.after.saturating_sub(1);
        match inside {
            Some(span) => {
                let into = offset - span.from;
                (span.to + into, span.size - into, false)
            }
            None => {
                let before = after.checked_sub(1).map(|index| self.spans[index]);
                let to = before.map_or(offset, |span| span.to + (offset - span.from));
                (to.min(last_byte), next.saturating_sub(offset).max(1), true)
            }
        }
    }

    /// Member that the byte at `offset` of the compiled structure counts for.
    pub fn member_before(&self, offset: u64) -> Option<usize> {
        let after = self.spans.partition_point(|span| span.from <= offset);
        let spans = &self.spans[..after];
        let inside = spans
            .iter()
            .rev()
            .find(|span| offset < span.from + span.size);
        inside.or(spans.last()).map(|span| span.member)
    }

    /// Member that the byte at `offset` of the layout's structure counts for.
    pub fn member_after(&self, offset: u64) -> Option<usize> {
        let after = self
            .by_new
            .partition_point(|index| self.spans[*index].to <= offset);
        let mut spans = self.by_new[..after]
            .iter()
            .rev()
            .map(|index| self.spans[*index]);
        let last = spans.next()?;
        Some(last.member)
    }
}
