//! Shared by the fuzz targets: statements that must hold of any input, one module a format. A target
//! of any bytes and one of made files check the same.

pub mod btf;
pub mod elf;
pub mod generated;
pub mod hotspot;
pub mod journal;
pub mod layout;
pub mod live;
mod memory_file;
pub mod perf_data;
pub mod plan;
pub mod recording;
pub mod scenario;
pub mod source;
pub mod trace;

pub use memory_file::MemoryFile;
