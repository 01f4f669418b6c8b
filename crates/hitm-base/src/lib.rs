//! Ids, units, topology and the machine model: the words that every other crate uses.
//!
//! A rule of its own is here only if crates need it that must not know each other; its module says which.
//!
//! Nothing here does I/O. Start with [`Access`] (what a thread did), [`Outcome`] (what the
//! memory system answered) and [`Machine`] (where the prices come from).
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod access;
mod addr_range;
mod architecture;
mod bytes;
pub mod document;
mod go_table;
mod hash;
mod histogram;
mod ids;
mod line_users;
mod lists;
pub mod machine;
mod maps_line;
mod random;
pub mod rt_migrate;
mod text;
mod topology;
mod units;

pub use access::{Access, AccessOp, DataSource, Outcome};
pub use addr_range::AddrRange;
pub use architecture::Architecture;
pub use bytes::{Buffer, Bytes, Unread};
pub use go_table::GoTable;
pub use hash::Fnv1a;
pub use histogram::Histogram;
pub use ids::{CodeAddr, CpuId, LineAddr, ThreadId};
pub use line_users::{LineUse, LineUsers};
pub use lists::of_word;
pub use machine::Machine;
pub use maps_line::MapsLine;
pub use random::Random;
pub use text::{counted, grouped, printable, printable_json, with_note};
pub use topology::{
    CpuPlace, Distance, Numbering, Topology, TopologyError, TopologyShape, cpu_range,
};
pub use units::{Clock, Cycles, Nanos};

/// Bytes in a cache line on every machine that hitm models.
pub const LINE_SIZE: u64 = 64;
