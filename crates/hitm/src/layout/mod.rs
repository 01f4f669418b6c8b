//! Layouts of a file's structures: show, list, compare, check against rules.

mod check;
mod diff;
mod json;
mod list;
mod parts;
mod rules;
mod source;

use hitm_base::Printout;
use hitm_files::text_file::TextFileError;
use hitm_layout::{StructLayout, TextLayout, TypeStore, c_source, layout_text};
use thiserror::Error;

pub use check::{CheckReport, Violation, check};
pub(crate) use diff::pair_by;
pub use diff::{Change, LayoutDiff, MemberDiff, MemberPlace, WholePlace, diff};
pub use json::{MemberRow, member_rows, show_json};
pub use list::{LayoutList, ListOptions, ListRow, list};
pub(crate) use parts::{Names, Part, parts};
pub use rules::{Rule, Rules, WithinLines};
pub use source::{LayoutFile, VMLINUX};

/// Errors of reading and showing layouts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The rules cannot be read.
    #[error(transparent)]
    RulesFile(#[from] TextFileError),
    /// No file was named, and this kernel has no BTF.
    #[error("this kernel has no BTF ({VMLINUX}: {cause}): name a file with -i")]
    NoKernelTypes {
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The file or the type is wrong.
    #[error(transparent)]
    Type(#[from] hitm_layout::Error),
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

/// A layout in pahole's notation.
pub fn show_text(
    file: &mut LayoutFile,
    name: &str,
    options: &ShowOptions,
) -> Result<Printout, LayoutError> {
    let layout = file.struct_layout(name)?;
    let options = TextLayout {
        line_size: options.line_size,
        expand: options.expand,
    };
    Ok(layout_text(file.types(), &layout, bare(name), &options))
}

/// A layout as C that compiles on its own and asserts its own offsets.
pub fn show_c(file: &mut LayoutFile, name: &str) -> Result<String, LayoutError> {
    let layout = file.struct_layout(name)?;
    let source = c_source(file.types(), &layout, bare(name));
    source.map_err(|cause| LayoutError::NotC {
        file: file.name().to_owned(),
        name: name.to_owned(),
        cause,
    })
}

/// Name of a type without `struct`, `class` or `union`.
pub(crate) fn bare(name: &str) -> &str {
    let words = ["struct ", "class ", "union "];
    let found = words.iter().find_map(|word| name.strip_prefix(word));
    found.unwrap_or(name)
}

/// Sums that `list` and JSON show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) line_count: u64,
    pub(crate) hole_count: usize,
    pub(crate) hole_bytes: u64,
    pub(crate) bit_hole_count: usize,
    pub(crate) bit_hole_bits: u64,
    pub(crate) padding_bytes: u64,
}

impl Sums {
    pub(crate) fn of(store: &TypeStore, layout: &StructLayout, line_size: u64) -> Sums {
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
