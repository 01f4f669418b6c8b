//! Integration tests of the simulator, in one binary.

mod engine;
mod rt;
mod toy;
mod weave;
