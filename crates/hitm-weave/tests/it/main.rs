//! The weave as its callers see it.

mod clears;
mod core;
mod counters;
mod moves;
mod properties;
mod replay;
mod run;
mod wakes;
