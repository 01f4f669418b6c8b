//! BTF, assembled record by record.

mod assembler;
mod made;

pub use assembler::{Assembler, Info, kind};
pub use made::{made, made_split};
