//! Files as hitm opens and writes them: inputs that cannot hang it, results that are whole or the former ones.
//!
//! Nothing above this crate opens a file that a user or an input names in another way.

pub mod input_file;
pub mod limits;
pub mod ours;
pub mod output_file;
pub mod streams;
pub mod temporary;
pub mod text_file;

pub use text_file::TextFileError;
