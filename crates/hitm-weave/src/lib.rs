//! Bound and weave: threads run ahead of each other by a bounded span of virtual time. Then their
//! accesses are woven into one order and priced, and their waits go into their clocks.
//!
//! The method is that of zsim (Sanchez and Kozyrakis, ISCA 2013, section 3.2) with the weave phase
//! on single accesses. Nothing here knows QEMU, files or host threads: a driver pushes what each
//! thread did and asks which may continue.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod board;
mod calls;
mod clears;
mod cpus;
mod events;
mod expected;
mod filter;
mod group;
mod log;
mod order;
mod output;
mod pages;
mod placement;
mod relocation;
pub mod replay;
pub mod session;
mod thread;
mod wakes;
mod weave;

pub use calls::{Call, CallTree, NODES_MAX, PathId, UnknownCall};
pub use cpus::{CpuChoice, CpuError, ProgramCpus};
pub use filter::{HAND_OVER_EPOCHS, REPRIVATISE_RUN};
pub use group::{
    Counters, Doings, Doubt, Group, LockSleep, Newcomer, Pinned, Spin, State, TimerName, TimerTimes,
};
pub use hitm_coherence::core::Position;
pub use log::WorkLog;
pub use output::{Lonely, Output};
pub use pages::TemporaryFiles;
pub use placement::{Placement, PlacementError};
pub use relocation::{MovedSpan, PageMemory, Relocation, SlabCache};
pub use thread::{ThreadEvent, ThreadTotals};
pub use wakes::Wake;
pub use weave::{Slot, Weave};
