//! The scheduler on a priced memory: workloads, a model of the kernel, and the engine that runs them.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod workload;
