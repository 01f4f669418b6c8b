//! Recordings and samples, read: their accesses counted and named.
//!
//! A [`Recording`] is what `hitm record`, `hitm vm` or perf wrote, with its statistics; [`AddressNames`] says what lies
//! at its addresses. Files come through `hitm_files`.

mod block_writer;
mod cache;
mod debug_packages;
pub mod generated;
mod kernel_code;
mod kernel_files;
mod kernel_names;
pub mod perf_data;
pub mod recording;

pub use block_writer::BlockWriter;
pub use cache::{default_cache, user_folder};
pub use debug_packages::missing_debug_hint;
pub use kernel_files::{KERNEL_PATH, KernelFiles, build_id};
pub use kernel_names::MOVED;
pub use recording::*;

/// File name of the library that observes malloc and free in recorded programs.
pub const HEAP_OBSERVER: &str = "libhitm_heap.so";
