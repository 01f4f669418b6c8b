//! The course of a run: who ran, who waited for which line or lock, who handed it over, and when cycles
//! were lost.
//!
//! A [`Timeline`] takes these as they happen and keeps the longest of each kind, so that memory and output
//! are bounded whatever a run does. Everything else is counted. [`perfetto::write`] writes it as a Perfetto
//! trace.
//!
//! Invariants: sums of lost cycles are those of all accesses, not of the kept ones. Equal calls give equal
//! bytes: among equally long slices a hash of their number decides, never the order of a table.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod background;
mod holders;
mod longest;
mod lost;
pub mod perfetto;
mod timeline;

pub use background::BackgroundTimeline;
pub use longest::LeftOut;
pub use timeline::{Access, Names, Scene, Summary, Timeline, Use};
