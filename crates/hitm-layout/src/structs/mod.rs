//! The structures of a file with types: shown, listed, compared, checked against rules.

mod check;
mod diff;
mod list;
mod parts;
mod rules;
mod shown;
mod types_file;

use serde::Serialize;
use thiserror::Error;

use crate::{StructLayout, TypeStore, c_source};

pub use check::{CheckReport, Violation, check};
pub use diff::{Change, LayoutDiff, MemberDiff, MemberPlace, Pairing, WholePlace, diff};
pub use list::{LayoutList, ListOptions, ListRow, list};
pub use parts::{Names, Part, parts, place_in_types};
pub use rules::{Rule, Rules, WithinLines};
pub use shown::{Shown, ShownMember, member_rows, shown};
pub use types_file::TypesFile;

/// Errors of looking at structures.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StructsError {
    /// The file or the type is wrong.
    #[error(transparent)]
    Type(#[from] crate::Error),
    /// The file has no types.
    #[error("{file}: expected BTF or debug information, found neither (compile with -g)")]
    NoTypes {
        /// The file.
        file: String,
    },
    /// The structure has parts that C cannot express.
    #[error("{file}: {name} cannot be written as C: {cause}")]
    NotC {
        /// The file.
        file: String,
        /// The structure.
        name: String,
        /// The part that C cannot express.
        cause: String,
    },
    /// A rules file that cannot be applied.
    #[error("{file}: {cause}")]
    Rules {
        /// The file.
        file: String,
        /// Description of the fault, with its place.
        cause: String,
    },
}

/// Options of a shown layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShowOptions {
    /// Bytes of a cache line.
    pub line_size: u64,
    /// Shows the members of named structures inside.
    pub expand: bool,
}

impl ShowOptions {
    /// Bytes of a cache line on the machines that hitm has models of.
    pub const LINE_SIZE_DEFAULT: u64 = 64;
}

/// Returns true if a cache line can have this size.
pub const fn is_line_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes >= 8 && bytes <= 1 << 16
}

/// A layout as C that compiles on its own and asserts its own offsets.
///
/// # Errors
/// The file has no such structure, or C cannot express it.
pub fn show_c(file: &mut TypesFile, name: &str) -> Result<String, StructsError> {
    let layout = file.struct_layout(name)?;
    let source = c_source(file.types(), &layout, bare(name));
    source.map_err(|cause| StructsError::NotC {
        file: file.name().to_owned(),
        name: name.to_owned(),
        cause,
    })
}

/// Name of a type without `struct`, `class` or `union`.
pub fn bare(name: &str) -> &str {
    let words = ["struct ", "class ", "union "];
    let found = words.iter().find_map(|word| name.strip_prefix(word));
    found.unwrap_or(name)
}

/// Sums that `list` and JSON show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Cache lines that the structure takes.
    pub line_count: u64,
    /// Holes between members.
    pub hole_count: usize,
    /// Bytes of the holes.
    pub hole_bytes: u64,
    /// Places where bit-fields leave bits over.
    pub bit_hole_count: usize,
    /// Bits that they leave over.
    pub bit_hole_bits: u64,
    /// Bytes after the last member.
    pub padding_bytes: u64,
}

impl Sums {
    /// The sums of a structure, for cache lines of this size.
    pub fn of(store: &TypeStore, layout: &StructLayout, line_size: u64) -> Sums {
        let shape = store.shape(layout);
        let (hole_count, hole_bytes) = shape.holes();
        let (bit_hole_count, bit_hole_bits) = shape.bit_holes();
        Sums {
            line_count: layout.cachelines(line_size),
            hole_count,
            hole_bytes,
            bit_hole_count,
            bit_hole_bits,
            padding_bytes: shape.padding,
        }
    }
}
