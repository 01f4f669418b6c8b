//! The weave as its callers see it.

mod core;
mod counters;
mod properties;
mod replay;
mod run;
