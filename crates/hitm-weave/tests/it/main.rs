//! The weave as its callers see it.

mod clears;
mod core;
mod counters;
mod lost;
mod moves;
mod properties;
mod replay;
mod run;
mod wakes;
