//! perf.data in and out.
//!
//! - [`DataSrc`] describes the data source of a sample's access, and converts to and from our own
//!   [`DataSource`](hitm_base::DataSource).
//! - [`mod@write`] makes a perf.data file that stock perf opens; [`export`] makes its samples from the
//!   accesses of a recording.
//! - [`read`] and [`script`] read samples out of perf.data and out of perf's text; [`import`] makes
//!   accesses of a recording of them.
//! - [`c2c`] counts samples into the tables of `perf c2c report`.
//!
//! - [`maps`] finds the mapping of an address.
//!
//! The format is that of Linux' `tools/perf/Documentation/perf.data-file-format.txt` and of
//! `include/uapi/linux/perf_event.h`. docs/formats/perf-data.md lists what is lost each way.
//! Nothing here opens a file or resolves a symbol.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod c2c;
mod data_src;
pub mod export;
pub mod format;
pub mod import;
mod left_out;
pub mod maps;
pub mod read;
mod sample;
pub mod script;
mod spaces;
mod task;
mod text;
pub mod write;

pub use data_src::{DataSrc, HitLevel, level, level_number, lock, op, snoop, snoopx, tlb};
pub use sample::{CpuMode, EventKind, Sample};
pub use spaces::Spaces;
pub use task::{Lives, TaskId};
