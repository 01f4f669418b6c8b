//! The members of a structure, as a flat table.

use hitm_layout::structs::MemberRow;

use super::{Field, Unit, Value};

/// A member of a structure, or of one of its members.
pub const LAYOUT_MEMBER_FIELDS: &[Field<MemberRow>] = &[
    Field {
        id: "path",
        title: "member",
        unit: Unit::None,
        description: "Names from the outermost structure's member down, joined by dots; a member without a name has that of its owner",
        value: |item| Value::text_or_missing(&item.path),
    },
    Field {
        id: "depth",
        title: "depth",
        unit: Unit::None,
        description: "0 for a member of the structure itself",
        value: |item| Value::Whole(item.depth),
    },
    Field {
        id: "type",
        title: "type",
        unit: Unit::None,
        description: "Name of its type",
        value: |item| Value::text_or_missing(&item.type_name),
    },
    Field {
        id: "declaration",
        title: "declaration",
        unit: Unit::None,
        description: "The member as C declares it",
        value: |item| Value::text_or_missing(&item.declaration),
    },
    Field {
        id: "kind",
        title: "kind",
        unit: Unit::None,
        description: "field, bit-field, base (a C++ base class) or variant (of a Rust enum)",
        value: |item| Value::text_or_missing(item.kind),
    },
    Field {
        id: "declared_at",
        title: "declared at",
        unit: Unit::None,
        description: "File and line in the source",
        value: |item| {
            item.declared_at
                .as_deref()
                .map_or(Value::Missing, Value::text_or_missing)
        },
    },
    Field {
        id: "offset_bytes",
        title: "offset",
        unit: Unit::Offset,
        description: "First byte that it touches, from the outermost structure's start",
        value: |item| Value::Whole(item.offset_bytes),
    },
    Field {
        id: "size_bytes",
        title: "size",
        unit: Unit::Bytes,
        description: "Bytes that it touches",
        value: |item| Value::Whole(item.size_bytes),
    },
    Field {
        id: "bit_offset",
        title: "bit",
        unit: Unit::Count,
        description: "Its first bit, from the outermost structure's start",
        value: |item| Value::Whole(item.bit_offset),
    },
    Field {
        id: "bit_size",
        title: "bits",
        unit: Unit::Count,
        description: "Its bits",
        value: |item| Value::Whole(item.bit_size),
    },
    Field {
        id: "line",
        title: "line",
        unit: Unit::None,
        description: "Cache line that it begins in, from 0",
        value: |item| Value::Whole(item.line),
    },
    Field {
        id: "forced_alignment_bytes",
        title: "aligned",
        unit: Unit::Bytes,
        description: "Alignment beyond the type's own",
        value: |item| Value::whole_or_missing(item.forced_alignment_bytes),
    },
    Field {
        id: "hole_after_bytes",
        title: "hole",
        unit: Unit::Bytes,
        description: "Whole bytes between it and the next member",
        value: |item| Value::Whole(item.hole_after_bytes),
    },
    Field {
        id: "bit_hole_after_bits",
        title: "bit hole",
        unit: Unit::Count,
        description: "Bits that bit-fields leave over before the next member",
        value: |item| Value::Whole(item.bit_hole_after_bits),
    },
];
