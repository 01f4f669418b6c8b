//! Inputs for tests and fuzz targets: files of every format that hitm reads, valid and extreme.
//!
//! Each module has a builder that writes one format, and a `made` function that drives the builder
//! with [`Choices`]: bytes of a fuzzer, or [`noise`] of a seed. The same bytes make the same file.
//! Most files are well-formed, with numbers at the ends of their ranges and structures that no
//! ordinary program writes; byte mutation alone seldom gets that far.

pub mod btf;
mod choice;
pub mod elf;
pub mod growth;
pub mod hotspot;
pub mod perf_data;
pub mod perf_script;
pub mod perfetto;
pub mod process;
pub mod program;
pub mod recording;
pub mod text;

pub use choice::{Choices, noise};

/// Appends an unsigned LEB128.
fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
