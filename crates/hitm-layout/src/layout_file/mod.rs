//! The layout file: structures as tables of members, in TOML. `docs/formats/layout-file.md`
//! describes it.
//!
//! A file says where the members of a few structures are. It can be a whole table
//! (`layouts/linux-6.12.toml`) or a variant that replaces some structures of another
//! ([`LayoutTable::overlay`]). The advisor writes such files; a replay or a simulation reads them
//! to move members. Unlike a [`crate::StructLayout`] it has no types, but it has what no compiler
//! lays out: members with one element per CPU or NUMA node, inline or behind a pointer.
//!
//! Invariants of a [`LayoutFile`] that was parsed: names are unique in their scope; members lie
//! inside their structure, in order of offset, and no two share a bit. A nested structure of the
//! same file has the size that the member has, at an offset that suits its alignment, and contains
//! itself nowhere. A [`LayoutTable`] holds the same between the structures of several files, and
//! every type that it names exists.
//!
//! Not modelled: unions (a union is one member), and what bits mean.

mod check;
mod parse;
mod shipped;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use shipped::{shipped, shipped_names};
pub use table::{LayoutTable, Place};

use std::collections::BTreeMap;

use hitm_base::document::TextPlace;
use thiserror::Error;

/// Alignment of a structure that states none, and of what an allocator returns. 8 bytes, the least
/// that Linux's `kmalloc` and every 64-bit ABI's `malloc` give.
pub const DEFAULT_ALIGN_BYTES: u64 = 8;

/// Layouts of a few structures, with their origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutFile {
    /// Short name; a shipped file's is its file name.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Origin of the layout, in one line.
    pub source: String,
    /// The structures, in file order.
    pub structs: Vec<FileStruct>,
}

impl LayoutFile {
    /// The structure of that name.
    pub fn get(&self, name: &str) -> Option<&FileStruct> {
        self.structs.iter().find(|known| known.name == name)
    }
}

/// One structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStruct {
    /// The type's name.
    pub name: String,
    /// Bytes from one instance to the next in an array.
    pub size_bytes: u64,
    /// Alignment of an instance's address, where the file says so.
    pub align_bytes: Option<u64>,
    /// The members, by offset.
    pub members: Vec<FileMember>,
}

impl FileStruct {
    /// Returns the alignment of an instance's address.
    pub fn align(&self) -> u64 {
        self.align_bytes.unwrap_or(DEFAULT_ALIGN_BYTES)
    }

    /// The members by name.
    pub fn by_name(&self) -> BTreeMap<&str, &FileMember> {
        let members = self.members.iter();
        members.map(|member| (&*member.name, member)).collect()
    }

    /// Cache lines of `line_size` bytes, for an instance that begins at a line's start.
    pub fn cachelines(&self, line_size: u64) -> u64 {
        self.size_bytes.div_ceil(line_size)
    }
}

/// A member of a structure, as a layout file states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMember {
    /// Name, unique in the structure; that of a member of an opened structure has dots in it.
    pub name: String,
    /// Bytes from the structure's start; a bit-field's: of its storage unit.
    pub offset_bytes: u64,
    /// Bytes that it takes in the structure; 0 for a flexible array.
    pub size_bytes: u64,
    /// The bits of the storage unit, for a bit-field.
    pub bits: Option<BitRange>,
    /// The nested structure; an array's: of each element; behind a pointer: of what it points to.
    pub type_name: Option<String>,
    /// Elements, for an array.
    pub array: Option<Array>,
    /// One element for each of these.
    pub per: Option<Per>,
    /// Place of the elements.
    pub storage: Storage,
    /// True for a bitmap with one bit for each CPU.
    pub cpu_bitmap: bool,
}

/// The bits of a bit-field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitRange {
    /// Bits from the storage unit's first byte. Bit 0 of a byte is its least significant one.
    pub offset: u64,
    /// Bits, at least 1.
    pub size: u64,
}

/// An array of elements that lie at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// Number of elements, at least 1.
    pub count: u64,
    /// Bytes from one to the next.
    pub stride_bytes: u64,
}

/// The part of a machine for each of which a member has one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// Logical CPU.
    Cpu,
    /// NUMA node.
    Node,
}

impl Per {
    /// The word in files.
    pub const fn name(self) -> &'static str {
        match self {
            Per::Cpu => "cpu",
            Per::Node => "node",
        }
    }
}

/// Place of a member's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In the structure.
    Inline {
        /// Bytes from one element to the next, for a member with `per`.
        stride_bytes: Option<u64>,
    },
    /// Behind a pointer: allocated on their own.
    Pointer {
        /// Bytes of one element, where the file says so. A bitmap's follow from the CPU count.
        element_bytes: Option<u64>,
        /// Alignment of an element's address, where the file says so.
        element_align_bytes: Option<u64>,
    },
}

impl Storage {
    /// In the structure itself.
    pub const INLINE: Storage = Storage::Inline { stride_bytes: None };
}

impl FileMember {
    /// A plain member in the structure.
    pub fn plain(name: impl Into<String>, offset_bytes: u64, size_bytes: u64) -> FileMember {
        FileMember {
            name: name.into(),
            offset_bytes,
            size_bytes,
            bits: None,
            type_name: None,
            array: None,
            per: None,
            storage: Storage::INLINE,
            cpu_bitmap: false,
        }
    }

    /// The first bit that the member owns, from the structure's start, and the one after its last.
    pub fn bit_span(&self) -> (u64, u64) {
        let start = self.offset_bytes * 8;
        match self.bits {
            Some(bits) => (start + bits.offset, start + bits.offset + bits.size),
            None => (start, start + self.size_bytes * 8),
        }
    }
}

/// A mistake in a layout file, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}: {key}: found {found}, expected {expected}",
    place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default())]
pub struct LayoutFileError {
    /// Name of the file.
    pub origin: String,
    /// Place in the file; none for what only several files together show.
    pub place: Option<TextPlace>,
    /// The key, with the names of its structure and member: `root_domain.rto_mask.size_bytes`.
    pub key: String,
    /// Content of that place.
    pub found: String,
    /// Content that would be right there.
    pub expected: String,
}
