//! ELF files with symbols and debug information, assembled without a compiler.

mod container;
mod dwarf;
mod line;
mod made;

pub use container::{Elf, Symbol};
pub use dwarf::{Dwarf, Value, attribute, tag};
pub use line::LineProgram;
pub use made::{Files, made};
