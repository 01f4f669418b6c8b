//! The members of a structure, as a flat table.

use hitm_fields::fields;
use hitm_layout::structs::ShownMember;

fields! {
    /// A member of a structure, or of one of its members.
    pub layout_member for ShownMember {
        /// Names from the outermost structure's member down, joined by dots; a member without a name has that of its
        /// owner.
        path => known label "member";
        /// 0 for a member of the structure itself.
        depth => number "depth";
        /// Name of its type.
        r#type => known label "type", |item| item.type_name;
        /// The member as C declares it.
        declaration => known label "declaration", |item| item.declaration;
        /// field, bit-field, base (a C++ base class) or variant (of a Rust enum).
        kind => known label "kind", |item| item.kind;
        /// File and line in the source.
        declared_at => known label "declared at", |item| item.declared_at.as_deref().unwrap_or_default();
        /// First byte that it touches, from the outermost structure's start.
        offset_bytes => offset "offset", |item| item.offset_bytes;
        /// Bytes that it touches.
        size_bytes => bytes "size", |item| item.size_bytes;
        /// Its first bit, from the outermost structure's start.
        bit_offset => count "bit", |item| item.bit_offset;
        /// Its bits.
        bit_size => count "bits", |item| item.bit_size;
        /// Cache line that it begins in, from 0.
        line => number "line", |item| item.line;
        /// Alignment beyond the type's own.
        forced_alignment_bytes => bytes "aligned", |item| item.forced_alignment_bytes;
        /// Whole bytes between it and the next member.
        hole_after_bytes => bytes "hole", |item| item.hole_after_bytes;
        /// Bits that bit-fields leave over before the next member.
        bit_hole_after_bits => count "bit hole", |item| item.bit_hole_after_bits;
    }
}
