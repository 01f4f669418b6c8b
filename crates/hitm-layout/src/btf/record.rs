//! One type record.

use super::blob::Endian;

/// Declares the kinds of records, in the order of their numbers.
macro_rules! kinds {
    ($($kind:ident),+) => {
        /// Kind of a record (`BTF_KIND_*`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind {
            $($kind),+
        }

        /// All kinds. Number 0 is `void`, which has no record.
        const KINDS: &[Kind] = &[$(Kind::$kind),+];
    };
}

kinds! {
    Int, Ptr, Array, Struct, Union, Enum, Fwd, Typedef, Volatile, Const, Restrict, Func, FuncProto, Var,
    Datasec, Float, DeclTag, TypeTag, Enum64
}

impl Kind {
    fn from_number(number: u32) -> Option<Kind> {
        KINDS.get((number as usize).checked_sub(1)?).copied()
    }

    /// Bytes that follow the record's first twelve: fixed ones, and ones for each of its parts.
    const fn extra(self) -> (usize, usize) {
        match self {
            Kind::Int | Kind::Var | Kind::DeclTag => (4, 0),
            Kind::Array => (12, 0),
            Kind::Struct | Kind::Union | Kind::Datasec | Kind::Enum64 => (0, 12),
            Kind::Enum | Kind::FuncProto => (0, 8),
            _ => (0, 0),
        }
    }

    /// Returns true if a name of this kind is one that types are found by.
    pub(super) const fn names_a_type(self) -> bool {
        matches!(
            self,
            Kind::Int
                | Kind::Struct
                | Kind::Union
                | Kind::Enum
                | Kind::Enum64
                | Kind::Typedef
                | Kind::Float
        )
    }

    /// Returns true if it is another name of a type, or a qualifier or tag on one.
    pub(super) const fn is_alias(self) -> bool {
        matches!(
            self,
            Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag
        )
    }

    /// The word before the name of such a type.
    pub(super) const fn keyword(self) -> &'static str {
        match self {
            Kind::Struct => "struct ",
            Kind::Union => "union ",
            Kind::Enum | Kind::Enum64 => "enum ",
            _ => "",
        }
    }
}

/// A record. Invariant: `extra` has the bytes that its kind and count of parts ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    endian: Endian,
    /// Offset of the name in the strings.
    pub(super) name: u32,
    pub(super) kind: Kind,
    /// Number of its parts: members, parameters, values, variables.
    pub(super) part_count: usize,
    /// The meaning depends on the kind: see [`Record::member`] and [`Record::fwd_keyword`].
    pub(super) kind_flag: bool,
    /// Bytes, or the id of another type.
    pub(super) size_or_type: u32,
    extra: &'a [u8],
}

/// A member of a structure or union.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawMember {
    pub(super) name: u32,
    pub(super) type_id: u32,
    pub(super) bit_offset: u32,
    /// Bits, if the record says that it is a bit-field.
    pub(super) bit_field: Option<u32>,
}

/// A variable in a section of data.
#[derive(Debug, Clone, Copy)]
pub(super) struct SectionEntry {
    pub(super) variable: u32,
    pub(super) offset: u32,
    pub(super) size: u32,
}

/// Reason for which there is no record at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRecord {
    /// It begins or continues behind the section.
    BeyondEnd,
    /// The kind of this number is not known, and so not its size.
    UnknownKind(u32),
}

impl<'a> Record<'a> {
    /// Reads the record that `bytes` begin with. Also returns how long it is.
    pub(super) fn parse(bytes: &'a [u8], endian: Endian) -> Result<(Record<'a>, usize), NoRecord> {
        const HEAD: usize = 12;
        let head = bytes.get(..HEAD).ok_or(NoRecord::BeyondEnd)?;
        let word = |index: usize| endian.u32_at(head, index * 4).ok_or(NoRecord::BeyondEnd);
        let info = word(1)?;
        // Five bits in the kernel's header; the two above are reserved. They are part of the number
        // here, so that a record that uses them is refused.
        let number = (info >> 24) & 0x7f;
        let kind = Kind::from_number(number).ok_or(NoRecord::UnknownKind(number))?;
        let part_count = (info & 0xffff) as usize;
        let (fixed, each) = kind.extra();
        let end = HEAD + fixed + each * part_count;
        let extra = bytes.get(HEAD..end).ok_or(NoRecord::BeyondEnd)?;
        let record = Record {
            endian,
            name: word(0)?,
            kind,
            part_count,
            kind_flag: info >> 31 == 1,
            size_or_type: word(2)?,
            extra,
        };
        Ok((record, end))
    }

    /// The word at an index of what follows the head.
    fn word(&self, index: usize) -> u32 {
        // The invariant: callers ask for words that the kind has.
        self.endian
            .u32_at(self.extra, index * 4)
            .unwrap_or_default()
    }

    /// A member of a structure or union. With the flag of the record set, the upper 8 bits of the
    /// offset are the size of a bit-field.
    pub(super) fn member(&self, index: usize) -> RawMember {
        let place = self.word(index * 3 + 2);
        let (bit_offset, bits) = match self.kind_flag {
            true => (place & 0x00ff_ffff, place >> 24),
            false => (place, 0),
        };
        RawMember {
            name: self.word(index * 3),
            type_id: self.word(index * 3 + 1),
            bit_offset,
            bit_field: (bits > 0).then_some(bits),
        }
    }

    /// The element's type and the number of elements of an array.
    pub(super) fn array(&self) -> (u32, u32) {
        (self.word(0), self.word(2))
    }

    /// Of an integer: the bits that are used, and how far they are from the start. Older encoders
    /// have an integer type of its own for each bit-field.
    pub(super) fn int_bits(&self) -> (u32, u32) {
        let encoding = self.word(0);
        (encoding & 0xff, (encoding >> 16) & 0xff)
    }

    /// The type of a function's parameter; 0 for the `...` at the end.
    pub(super) fn parameter(&self, index: usize) -> u32 {
        self.word(index * 2 + 1)
    }

    /// Name and value of an enumeration. The flag of the record says whether values are signed.
    pub(super) fn enumerator(&self, index: usize) -> (u32, i128) {
        match (self.kind, self.kind_flag) {
            (Kind::Enum64, is_signed) => {
                let (low, high) = (self.word(index * 3 + 1), self.word(index * 3 + 2));
                let value = u64::from(high) << 32 | u64::from(low);
                let signed = i128::from(value.cast_signed());
                let value = if is_signed { signed } else { value.into() };
                (self.word(index * 3), value)
            }
            (_, true) => {
                let value = self.word(index * 2 + 1).cast_signed();
                (self.word(index * 2), i128::from(value))
            }
            (_, false) => (self.word(index * 2), i128::from(self.word(index * 2 + 1))),
        }
    }

    /// A variable's linkage: 0 static, 1 global.
    pub(super) fn linkage(&self) -> u32 {
        self.word(0)
    }

    /// A variable of a section of data.
    pub(super) fn section_entry(&self, index: usize) -> SectionEntry {
        SectionEntry {
            variable: self.word(index * 3),
            offset: self.word(index * 3 + 1),
            size: self.word(index * 3 + 2),
        }
    }

    /// The word before the name of a forward declaration.
    pub(super) fn fwd_keyword(&self) -> &'static str {
        if self.kind_flag { "union " } else { "struct " }
    }
}
