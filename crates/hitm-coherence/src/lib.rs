//! Cache-line states, the transfers between CPUs, and what they cost. Knows no scheduler and no file.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod stats;
