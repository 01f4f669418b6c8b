//! perf.data: files with known samples, in every layout that the reader knows.

mod features;
mod file;
mod made;
mod out;
pub mod vendors;

pub use file::{Content, Event, Happened, Layout, Mapped, bits, generate};
pub use made::made;
