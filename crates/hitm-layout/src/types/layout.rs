//! The layout of a structure, in pahole's words: holes, padding, cache-line boundaries.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::TypeId;
use crate::{Error, TypeFault};

/// Kind of a structure, as the source calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AggregateKind {
    /// `struct`; a Rust struct, tuple or enum with payload.
    Struct,
    /// C++ `class`.
    Class,
    /// `union`.
    Union,
}

impl AggregateKind {
    /// The word that it is declared with.
    pub const fn keyword(self) -> &'static str {
        match self {
            AggregateKind::Struct => "struct",
            AggregateKind::Class => "class",
            AggregateKind::Union => "union",
        }
    }
}

/// Kind of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberKind {
    /// A member of its own.
    Field,
    /// A bit-field.
    BitField,
    /// A C++ base class: its members are named as if they were the derived class's.
    Base,
    /// The payload of one variant of a Rust enum: it overlaps the others'.
    Variant,
}

/// Place at which the source declares a type or a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decl {
    /// The source file, as the compiler was given it, below its directory.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Decl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A member of a structure: its type and its bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name; none for an anonymous structure or union and for a base class.
    pub name: Option<Arc<str>>,
    /// Its type.
    pub type_id: TypeId,
    /// The type's name.
    pub type_name: Arc<str>,
    /// Bits from the start of the structure. Bit 0 of a byte is its least significant one; in files
    /// for big-endian processors its most significant one.
    pub bit_offset: u64,
    /// Bits that it takes; 0 for a flexible array, and where the type has no layout.
    pub bit_size: u64,
    /// The alignment in bytes that the debug information says the source demands for it. BTF never
    /// says; [`super::TypeStore::forced_alignments`] infers.
    pub alignment: Option<u64>,
    /// Field, bit-field, base class or variant.
    pub kind: MemberKind,
    /// Place of its declaration in the source, if that is known.
    pub decl: Option<Decl>,
}

/// The part of a Rust enum that says which variant is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discriminant {
    /// Bits from the start of the enum.
    pub bit_offset: u64,
    /// Bits that it takes.
    pub bit_size: u64,
    /// The variants, in the order of the source: each with the values that stand for it. The
    /// variant without values is there when no other one's value is (Rust's niches).
    pub variants: Vec<(Arc<str>, Vec<RangeInclusive<u128>>)>,
}

/// Member without a sound place, and the fault that keeps its type from a layout that can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberFault {
    pub(crate) member: Arc<str>,
    pub(crate) fault: TypeFault,
}

impl Member {
    /// The first byte that the member touches.
    pub const fn byte_offset(&self) -> u64 {
        self.bit_offset / 8
    }

    /// The byte after the last one that the member touches.
    pub const fn byte_end(&self) -> u64 {
        (self.bit_offset + self.bit_size).div_ceil(8)
    }
}

/// Bits that belong to no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Bits from the start of the structure.
    pub bit_offset: u64,
    /// Bits, at least 1.
    pub bit_size: u64,
}

/// The layout of a structure, class or union.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructLayout {
    /// Its name, without `struct`; none for an anonymous one.
    pub name: Option<Arc<str>>,
    /// `struct`, `class` or `union`, as the source calls it.
    pub kind: AggregateKind,
    /// Bytes.
    pub size: u64,
    /// The alignment in bytes that the debug information says the source demands.
    pub alignment: Option<u64>,
    /// The members, by offset; those of one offset in the order of the source.
    pub members: Vec<Member>,
    /// Place of its definition in the source, if that is known.
    pub decl: Option<Decl>,
    /// True if the source is Rust, whose types have names of its own.
    pub is_rust: bool,
    /// Virtual C++ base classes, by name. Each object knows where they are, the type does not: their
    /// bytes show as padding, or as holes of a class that is derived further.
    pub virtual_bases: Vec<Arc<str>>,
    /// True if it, or a base of it, has virtual bases.
    pub(crate) has_virtual_bases: bool,
    /// The part that tells the variants of a Rust enum apart.
    pub discriminant: Option<Discriminant>,
    /// The first member that was left out, or that cannot be where it is.
    pub(crate) fault: Option<MemberFault>,
    /// Between members, and before the first: by offset.
    holes: Vec<Hole>,
    padding_bits: u64,
}

impl StructLayout {
    /// Sorts the members and finds what lies between them.
    pub(crate) fn new(
        name: Option<Arc<str>>,
        kind: AggregateKind,
        size: u64,
        alignment: Option<u64>,
        mut members: Vec<Member>,
    ) -> StructLayout {
        members.sort_by_key(|member| member.bit_offset);
        let mut holes = Vec::new();
        let mut covered = 0;
        for member in &members {
            if member.bit_offset > covered {
                holes.push(Hole {
                    bit_offset: covered,
                    bit_size: member.bit_offset - covered,
                });
            }
            covered = covered.max(member.bit_offset + member.bit_size);
        }
        StructLayout {
            name,
            kind,
            size,
            alignment,
            members,
            decl: None,
            is_rust: false,
            virtual_bases: Vec::new(),
            has_virtual_bases: false,
            discriminant: None,
            fault: None,
            holes,
            padding_bits: (size * 8).saturating_sub(covered),
        }
    }

    /// The layout, unless one of its members cannot be where it is said to be. `file` and `name` are the
    /// places of the error.
    pub(crate) fn sound(self: &Arc<Self>, file: &str, name: &str) -> Result<Arc<Self>, Error> {
        match &self.fault {
            None => Ok(self.clone()),
            Some(fault) => Err(Error::BadMember {
                file: file.to_owned(),
                name: name.to_owned(),
                member: fault.member.to_string(),
                cause: fault.fault,
            }),
        }
    }

    /// The gaps before members (pahole: holes and bit holes), by offset.
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Bits after the last member (pahole: padding and bit padding).
    pub const fn padding_bits(&self) -> u64 {
        self.padding_bits
    }

    /// Whole bytes after the last member.
    pub const fn padding(&self) -> u64 {
        self.padding_bits / 8
    }

    /// Cache lines of `line_size` bytes that the structure takes when it begins at a line's start.
    pub const fn cachelines(&self, line_size: u64) -> u64 {
        self.size.div_ceil(line_size)
    }

    /// Bytes of the last cache line that the structure takes (pahole: last cacheline).
    pub const fn last_cacheline(&self, line_size: u64) -> u64 {
        self.size % line_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, bit_offset: u64, bit_size: u64) -> Member {
        Member {
            name: Some(Arc::from(name)),
            type_id: TypeId(0),
            type_name: Arc::from("int"),
            bit_offset,
            bit_size,
            alignment: None,
            kind: MemberKind::Field,
            decl: None,
        }
    }

    #[test]
    fn holes_and_padding_in_paholes_words() {
        // char c; <7 bytes>; long l; char big[60]; int :3 bits
        let members = vec![
            member("c", 0, 8),
            member("l", 64, 64),
            member("big", 128, 480),
            member("bits", 608, 3),
        ];
        let layout = StructLayout::new(None, AggregateKind::Struct, 80, None, members);
        let hole = Hole {
            bit_offset: 8,
            bit_size: 56,
        };
        assert_eq!(layout.holes(), [hole]);
        assert_eq!((layout.padding(), layout.padding_bits()), (3, 29));
        assert_eq!((layout.cachelines(64), layout.last_cacheline(64)), (2, 16));
    }

    #[test]
    fn overlapping_members_leave_no_hole() {
        let members = vec![member("whole", 0, 64), member("half", 0, 32)];
        let layout = StructLayout::new(None, AggregateKind::Union, 8, None, members);
        assert!(layout.holes().is_empty());
        assert_eq!(layout.padding_bits(), 0);
    }
}
