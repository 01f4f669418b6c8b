//! The members of a structure, as a flat table.

use hitm_fields::fields;
use hitm_layout::structs::MemberRow;

fields! {
    /// A member of a structure, or of one of its members.
    pub layout_member for MemberRow {
        /// Names from the outermost structure's member down, joined by dots; a member without a name has that of its
        /// owner.
        path => known label "member";
        /// 0 for a member of the structure itself.
        depth => number "depth";
        /// Name of its type.
        r#type => known label "type", |item| item.type_name;
        /// The member as C declares it.
        declaration => known label "declaration";
        /// field, bit-field, base (a C++ base class) or variant (of a Rust enum).
        kind => known label "kind";
        /// File and line in the source.
        declared_at => known label "declared at", |item| item.declared_at.as_deref().unwrap_or_default();
        /// First byte that it touches, from the outermost structure's start.
        offset_bytes => offset "offset";
        /// Bytes that it touches.
        size_bytes => bytes "size";
        /// Its first bit, from the outermost structure's start.
        bit_offset => count "bit";
        /// Its bits.
        bit_size => count "bits";
        /// Cache line that it begins in, from 0.
        line => number "line";
        /// Alignment beyond the type's own.
        forced_alignment_bytes => bytes "aligned";
        /// Whole bytes between it and the next member.
        hole_after_bytes => bytes "hole";
        /// Bits that bit-fields leave over before the next member.
        bit_hole_after_bits => count "bit hole";
    }
}
