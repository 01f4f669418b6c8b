//! Kernel code in virtual time on a priced memory.
//!
//! A simulated CPU runs ordinary async Rust. Each access to shared memory is an await whose price
//! the coherence engine sets, and whose value is real. Stale masks and lost races happen as they do
//! in Linux.
//!
//! - [`engine`]: time, CPUs, memory, interrupts. Knows no scheduler. Start there.
//! - [`kernel`]: the scheduler on it.
//! - [`layout`]: which member lies where, as data.
//! - [`workload`]: what runs.
//! - [`scenario`]: all of it from one file, and what a run says.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod engine;
pub mod kernel;
pub mod layout;
pub mod scenario;
pub mod workload;
