//! Bound and weave: threads run ahead of each other by a bounded span of virtual time, then their
//! accesses are woven into one order and priced, and what they waited for goes into their clocks.
//!
//! The method is that of zsim (Sanchez and Kozyrakis, ISCA 2013, section 3.2) with the weave phase
//! on single accesses. Nothing here knows QEMU, files or host threads: a driver pushes what each
//! thread did and asks which may go on.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod events;
mod filter;
mod log;
mod order;
mod pages;
mod placement;
mod relocation;
pub mod replay;
mod thread;
mod weave;

pub use filter::{HAND_OVER_EPOCHS, REPRIVATISE_RUN};
pub use hitm_coherence::core::Position;
pub use log::WorkLog;
pub use pages::TemporaryFiles;
pub use placement::{Placement, PlacementError};
pub use relocation::{MovedSpan, Relocation};
pub use thread::{ThreadEvent, ThreadTotals};
pub use weave::{Slot, Weave};
