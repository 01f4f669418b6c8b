//! The structure that is to be laid out, from a layout file or from debug information.

use std::ops::Range;
use std::sync::Arc;

use super::AdviseError;
use crate::layout_file::{BitRange, FileMember, FileStruct, LayoutTable, Storage};
use crate::types::{AggregateKind, Member, MemberKind, StructLayout, TypeKind, TypeStore};

/// Largest natural alignment of a scalar that is assumed where a layout file names no type.
const NATURAL_ALIGN_MAX: u64 = 8;

/// A structure and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The type's name.
    pub name: String,
    /// Bytes of an instance.
    pub size_bytes: u64,
    /// Alignment of an instance's address.
    pub align_bytes: u64,
    /// The members, by offset.
    pub members: Vec<SubjectMember>,
}

/// A member that may be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectMember {
    /// Its present place, and what a layout file says of it.
    pub file: FileMember,
    /// Alignment of its address.
    pub align: u64,
}

impl Subject {
    /// The structure `name` of a layout table, those of the types `open` inside it as their members.
    /// Alignments are those that sizes and offsets suggest: the largest power of two, at most 8, that
    /// divides both, or what a nested structure demands.
    pub fn from_table(
        table: &LayoutTable,
        name: &str,
        open: &[String],
    ) -> Result<Subject, AdviseError> {
        let read = table.get(name).ok_or_else(|| AdviseError::NoSuchType {
            name: name.to_owned(),
        })?;
        let mut members = Vec::new();
        let mut opened = Opened::new(open);
        add_from_table(table, read, Inside::SUBJECT, &mut members, &mut opened);
        opened.check(name)?;
        Ok(Subject {
            name: name.to_owned(),
            size_bytes: read.size_bytes,
            align_bytes: read.align(),
            members,
        })
    }

    /// A structure of debug information; members of the structures that `opening` opens are its own.
    /// Fails for unions and enums with payload, whose members overlap, and for structures with bases,
    /// which the compiler places.
    pub fn from_types(
        layout: &StructLayout,
        store: &TypeStore,
        opening: &Opening<'_>,
    ) -> Result<Subject, AdviseError> {
        let name = layout.name.as_deref().unwrap_or("(anonymous)").to_owned();
        let mut reading = FromTypes {
            name: &name,
            store,
            opened: Opened::new(opening.types),
            whole: opening.whole,
            align: 1,
            members: Vec::new(),
        };
        reading.add(layout, Inside::SUBJECT)?;
        reading.opened.check(&name)?;
        Ok(Subject {
            size_bytes: layout.size,
            align_bytes: layout.alignment.unwrap_or(reading.align),
            members: reading.members,
            name,
        })
    }

    /// The structure as it is, for a layout file.
    pub fn to_file_struct(&self) -> FileStruct {
        FileStruct {
            name: self.name.clone(),
            size_bytes: self.size_bytes,
            align_bytes: Some(self.align_bytes),
            members: (self.members.iter().map(|member| member.file.clone())).collect(),
        }
    }

    /// The error that it has no member of a name.
    pub fn no_member(&self, member: impl Into<String>) -> AdviseError {
        AdviseError::NoSuchMember {
            name: self.name.clone(),
            member: member.into(),
        }
    }

    /// The member that holds the byte at `offset`, as an index.
    pub fn member_at(&self, offset: u64) -> Option<usize> {
        self.members.iter().position(|member| {
            let start = member.file.offset_bytes;
            (start..start + member.file.size_bytes).contains(&offset)
        })
    }
}

/// Structures inside of a subject whose members are laid out with its own. Anonymous ones are, but for
/// those that stay whole: their members have the same names in source as the subject's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening<'o> {
    /// Names of types whose structures are opened; each must be the type of a member.
    pub types: &'o [String],
    /// Bytes of anonymous structures that stay whole.
    pub whole: &'o [Range<u64>],
}

/// The types that are to be opened, and which of them were found.
struct Opened<'o> {
    wanted: &'o [String],
    found: Vec<bool>,
}

impl Opened<'_> {
    fn new(wanted: &[String]) -> Opened<'_> {
        Opened {
            wanted,
            found: vec![false; wanted.len()],
        }
    }

    /// Returns true if a structure of this name is to be opened, and marks the name as found.
    fn take(&mut self, name: &str) -> bool {
        let at = self.wanted.iter().position(|wanted| {
            let bare = wanted.strip_prefix("struct ").unwrap_or(wanted);
            bare == name
        });
        if let Some(at) = at {
            self.found[at] = true;
        }
        at.is_some()
    }

    fn check(&self, subject: &str) -> Result<(), AdviseError> {
        let mut wanted = self.wanted.iter().zip(&self.found);
        match wanted.find(|(_, found)| !**found) {
            None => Ok(()),
            Some((name, _)) => Err(AdviseError::BadConstraint {
                what: format!("--open {name}"),
                why: format!("no member of {subject} is a structure of that type"),
            }),
        }
    }
}

/// An opened structure inside of the subject.
#[derive(Debug, Clone, Copy)]
struct Inside<'p> {
    /// Its first byte, from the subject's start.
    base: u64,
    /// The beginning of its members' names.
    prefix: &'p str,
}

impl Inside<'_> {
    /// The subject itself.
    const SUBJECT: Inside<'static> = Inside {
        base: 0,
        prefix: "",
    };
}

/// Adds the members of a structure of the table. A table's types form no cycle.
fn add_from_table(
    table: &LayoutTable,
    read: &FileStruct,
    inside: Inside<'_>,
    members: &mut Vec<SubjectMember>,
    opened: &mut Opened<'_>,
) {
    for file in &read.members {
        let mut file = file.clone();
        file.name.insert_str(0, inside.prefix);
        let nested = file.type_name.as_deref().and_then(|name| table.get(name));
        let is_plain = file.array.is_none() && file.per.is_none();
        if let Some(nested) = nested
            && is_plain
            && file.storage == Storage::INLINE
            && opened.take(&nested.name)
        {
            let inside = Inside {
                base: inside.base + file.offset_bytes,
                prefix: &format!("{}.", file.name),
            };
            add_from_table(table, nested, inside, members, opened);
            continue;
        }
        let unit = file
            .array
            .map_or(file.size_bytes, |array| array.stride_bytes);
        let natural = 1 << (unit | NATURAL_ALIGN_MAX | file.offset_bytes).trailing_zeros();
        let demanded = nested.and_then(|nested| nested.align_bytes);
        file.offset_bytes += inside.base;
        members.push(SubjectMember {
            align: demanded.unwrap_or(natural),
            file,
        });
    }
}

/// Members as they are found in debug information.
struct FromTypes<'t, 'o> {
    /// The subject's name.
    name: &'t str,
    store: &'t TypeStore,
    opened: Opened<'o>,
    /// Bytes of anonymous structures that stay whole.
    whole: &'o [Range<u64>],
    /// The largest alignment that a member has, or an opened structure.
    align: u64,
    members: Vec<SubjectMember>,
}

impl FromTypes<'_, '_> {
    /// Adds the members of a structure. The store's depth bounds the recursion.
    fn add(&mut self, layout: &StructLayout, inside: Inside<'_>) -> Result<(), AdviseError> {
        let base = inside.base;
        for member in &layout.members {
            let movable = matches!(member.kind, MemberKind::Field | MemberKind::BitField);
            let (start, end) = (base + member.byte_offset(), base + member.byte_end());
            let own = member.name.as_deref();
            let own = own.map_or_else(|| format!("(anonymous at {start})"), str::to_owned);
            let overlaps = self.members.last().is_some_and(|before| {
                let (_, before_end) = before.file.bit_span();
                base * 8 + member.bit_offset < before_end
            });
            if !movable || overlaps {
                return Err(AdviseError::NotMovable {
                    name: self.name.to_owned(),
                    member: member.name.as_deref().unwrap_or("(anonymous)").to_owned(),
                });
            }
            let of_type = self.store.get(member.type_id);
            let align = of_type.alignment.max(member.alignment.unwrap_or(1));
            self.align = self.align.max(align);
            if let Some(nested) = self.opened_nested(member, start..end) {
                // Members of an anonymous structure are named as if they were the outer one's.
                let prefix = match &member.name {
                    Some(name) => format!("{}{name}.", inside.prefix),
                    None => inside.prefix.to_owned(),
                };
                let inside = Inside {
                    base: start,
                    prefix: &prefix,
                };
                self.add(&nested, inside)?;
                continue;
            }
            let own = format!("{}{own}", inside.prefix);
            let file = if member.kind == MemberKind::BitField {
                let unit = of_type.size.unwrap_or(1).clamp(1, 16);
                let unit_start = start / unit * unit;
                let unit_end = (unit_start + unit).max(end);
                let mut file = FileMember::plain(own, unit_start, unit_end - unit_start);
                file.bits = Some(BitRange {
                    offset: base * 8 + member.bit_offset - unit_start * 8,
                    size: member.bit_size,
                });
                file
            } else {
                FileMember::plain(own, start, end - start)
            };
            self.members.push(SubjectMember { file, align });
        }
        Ok(())
    }

    /// The structure that a member with these bytes is, if it is to be opened.
    fn opened_nested(&mut self, member: &Member, bytes: Range<u64>) -> Option<Arc<StructLayout>> {
        let nested = self.store.layout(member.type_id)?;
        if nested.kind == AggregateKind::Union || nested.members.is_empty() {
            return None;
        }
        let is_open = match &nested.name {
            Some(name) => self.opened.take(name),
            None => {
                member.name.is_none()
                    && is_transparent(nested, self.store)
                    && !self.whole.contains(&bytes)
            }
        };
        is_open.then(|| nested.clone())
    }
}

/// Returns true if the members of an anonymous structure lie as they would outside of it, and all are
/// known.
fn is_transparent(layout: &StructLayout, store: &TypeStore) -> bool {
    layout.fault.is_none() && !store.forced_alignments(layout).is_packed
}

/// The innermost member that holds the byte at `offset`: its path, where it begins and its bytes.
/// None for a hole.
pub fn path_in_types(
    layout: &StructLayout,
    store: &TypeStore,
    offset: u64,
) -> Option<(String, u64, u64)> {
    let holds = |member: &&Member| (member.byte_offset()..member.byte_end()).contains(&offset);
    let member = layout.members.iter().rev().find(holds)?;
    let mut path = member.name.as_deref().unwrap_or("").to_owned();
    let mut start = member.byte_offset();
    let mut size = member.byte_end() - start;
    if member.kind == MemberKind::BitField {
        return Some((path, start, size));
    }
    let mut of_type = store.resolve(member.type_id);
    while let TypeKind::Array { element, .. } = store.get(of_type).kind {
        let Some(element_size) = store.get(element).size.filter(|size| *size > 0) else {
            break;
        };
        let index = (offset - start) / element_size;
        path += &format!("[{index}]");
        start += index * element_size;
        size = element_size;
        of_type = store.resolve(element);
    }
    let nested = store.layout(of_type);
    let inner = nested.and_then(|nested| path_in_types(nested, store, offset - start));
    let Some((rest, at, inner_size)) = inner else {
        return (!path.is_empty()).then_some((path, start, size));
    };
    let dot = if path.is_empty() { "" } else { "." };
    Some((format!("{path}{dot}{rest}"), start + at, inner_size))
}
