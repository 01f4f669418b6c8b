//! Integration tests of the simulator, in one binary.

mod engine;
mod toy;
mod weave;
