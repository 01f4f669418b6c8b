//! A layout as source: C, C++ or Rust text, assertions that keep it, and a patch to the file that
//! declares the structure.
//!
//! Invariant: what is emitted compiles to the layout that it was made of; the assertions say so to
//! the compiler. Members stand in the order of their offsets; one that begins a line is aligned to
//! it, and what alignment does not reach is padded.
//!
//! A patch changes no meaning. Values that follow the order of members get names or change places, in
//! the patched file; what cannot be rewritten so is refused, with its line.
//!
//! Not done, and why: other files (only the compiler knows which there are). Calls in the values of
//! members run in the new order, and so do destructors: what they do is not in the declaration.

mod align;
mod anonymous;
mod applied;
mod array;
mod body;
mod c;
mod cache_padded;
mod conditions;
mod construct;
mod declarator;
mod declare;
mod diff;
mod fields;
mod go;
mod guards;
mod initialisers;
mod literals;
pub(crate) mod names;
mod open;
mod opened;
mod patch;
mod pieces;
mod positions;
mod rust;
mod rust_types;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

use thiserror::Error;

pub use align::{align_rust, align_variables, declares_rust};
pub use anonymous::{Declaration, Nameless, names_in, randomized};
pub use applied::{difference, patched};
pub use array::patch_array;
pub use c::{c_asserts, c_struct, clang_reorder_fields, cpp_text, kernel_asserts};
pub use cache_padded::{Wrapped, wrap_rust};
pub use declare::{Types, declarations, member_at, type_names};
pub use diff::{Replacement, unified_diff};
pub use go::{declares_go, patch_go};
pub use guards::{Guard, GuardKind, guards};
pub use open::{Flattened, flattened, semantic_patch};
pub use patch::{declares_c, patch_struct};
pub use rust::{patch_rust, rust_struct};

use crate::advise::Subject;
use crate::layout_file::{FileMember, FileStruct};

/// Bytes of a line.
const LINE: u64 = 64;

/// Notation of alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// C11: `_Alignas(64)`.
    C,
    /// C++11: `alignas(64)`.
    Cpp,
    /// The Linux kernel: `____cacheline_aligned_in_smp`.
    Kernel,
}

impl Style {
    /// Text before a declaration, and behind the declared name, that aligns it to a line.
    fn line(self) -> (String, String) {
        match self {
            Style::C | Style::Cpp => self.bytes(LINE),
            Style::Kernel => (String::new(), String::from(" ____cacheline_aligned_in_smp")),
        }
    }

    /// The same for a number of bytes.
    fn bytes(self, align: u64) -> (String, String) {
        match self {
            Style::C => (format!("_Alignas({align}) "), String::new()),
            Style::Cpp => (format!("alignas({align}) "), String::new()),
            Style::Kernel => (String::new(), format!(" __aligned({align})")),
        }
    }
}

/// A layout and how its members are declared. Its names are names, and nothing else to a compiler.
#[derive(Debug, Clone, Copy)]
pub struct Emission<'e> {
    /// The structure as it is.
    subject: &'e Subject,
    /// The layout that its members are to have.
    layout: &'e FileStruct,
    /// The declaration of each of the subject's members, without the semicolon.
    declarations: &'e [String],
    /// Notation of alignment in the text.
    style: Style,
}

impl<'e> Emission<'e> {
    /// `layout` of `subject`, whose members are declared by `declarations` (see [`declarations`] and
    /// [`type_names`]). Fails when the structure or a member has a name that source cannot have.
    pub fn new(
        subject: &'e Subject,
        layout: &'e FileStruct,
        declarations: &'e [String],
        style: Style,
    ) -> Result<Emission<'e>, EmitError> {
        names::check_type(&layout.name)?;
        for member in &layout.members {
            // `(anonymous at 8)` is a member without a name, which is declared without one.
            if !member.name.starts_with("(anonymous at ") {
                names::check_identifier(&member.name)?;
            }
        }
        Ok(Emission {
            subject,
            layout,
            declarations,
            style,
        })
    }

    /// Returns true if padding keeps members apart: the layout is aligned to less than a line.
    fn is_padded(&self) -> bool {
        self.layout.align_bytes.is_some_and(|align| align < LINE)
    }

    /// Notation of alignment in the text.
    pub const fn style(&self) -> Style {
        self.style
    }
}

/// A source file.
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    /// Its name.
    pub file: &'s str,
    /// Its text.
    pub text: &'s str,
}

/// Returns true for a source file of Rust, by its name.
pub fn is_rust(file: &str) -> bool {
    file.ends_with(".rs")
}

/// Returns true for a source file of Go, by its name.
pub fn is_go(file: &str) -> bool {
    file.ends_with(".go")
}

/// Reason for which there is no source text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EmitError {
    /// A name cannot stand in source.
    #[error("cannot write source with the name {found:?}: expected {expected}")]
    Name {
        /// The name.
        found: String,
        /// The kind of name that is needed.
        expected: &'static str,
    },
    /// The source is not written so that it can be rearranged.
    #[error("{file}:{line}: found {found}, expected {expected}")]
    Source {
        /// Name of the file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Text in that place.
        found: String,
        /// A form that can be rearranged.
        expected: String,
    },
}

/// One step of writing a structure: padding or a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'e> {
    /// Bytes that only an explicit member can take up.
    Padding { number: usize, bytes: u64 },
    /// A member, by index in the subject, and whether it must be aligned to a line.
    Member {
        index: usize,
        file: &'e FileMember,
        is_aligned: bool,
    },
}

/// Steps of writing the structure anew, or of its declaration as it is, in order.
fn steps<'e>(emission: &Emission<'e>) -> Vec<Step<'e>> {
    // A declaration that is written anew says the alignment of the first member, too.
    let is_kept = emission.declarations.is_empty() && emission.subject.align_bytes >= LINE;
    steps_beside(emission, is_kept)
}

/// The same; `is_kept` if what is declared aligns the structure to lines already.
fn steps_beside<'e>(emission: &Emission<'e>, is_kept: bool) -> Vec<Step<'e>> {
    let mut steps = Vec::new();
    let mut end = 0;
    let mut padding_count = 0;
    let mut alignment = 1;
    for file in &emission.layout.members {
        let members = &emission.subject.members;
        let index = members
            .iter()
            .position(|member| member.file.name == file.name);
        let index = index.expect("a layout has the members of its subject");
        let align = members[index].align.max(1);
        let start = file.offset_bytes;
        // A bit-field of a unit that has begun already.
        let is_inside = file.bits.is_some() && start < end;
        let by_itself = end.next_multiple_of(align) == start || is_inside;
        let begins_line = start.is_multiple_of(LINE) && !is_inside;
        // No language aligns bits.
        let is_bits = file.bits.is_some();
        let by_line =
            begins_line && !is_bits && !emission.is_padded() && end.next_multiple_of(LINE) == start;
        // A member that begins a line says so, even where it would come to lie there anyway: that
        // keeps the next change from moving it.
        let is_aligned = by_line && align < LINE && (start > 0 || !is_kept);
        alignment = alignment.max(if is_aligned { LINE } else { align });
        if !by_itself && !by_line {
            steps.push(Step::Padding {
                number: padding_count,
                bytes: start - end,
            });
            padding_count += 1;
        }
        steps.push(Step::Member {
            index,
            file,
            is_aligned,
        });
        end = end.max(start + file.size_bytes);
    }
    let size = emission.layout.size_bytes;
    if end.next_multiple_of(alignment) < size {
        let bytes = size - end;
        steps.push(Step::Padding {
            number: padding_count,
            bytes,
        });
    }
    steps
}
