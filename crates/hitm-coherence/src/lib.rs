//! Cache-line states, the transfers between CPUs, and what they cost. Knows no scheduler and no file.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod bits;
pub mod cache;
pub mod core;
pub mod directory;
pub mod parts;
pub mod prefetch;
pub mod price;
pub mod queue;
pub mod replay;
pub mod services;
pub mod sharing;
pub mod stats;
pub mod tree;
