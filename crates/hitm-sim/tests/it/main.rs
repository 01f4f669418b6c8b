//! Integration tests of the simulator, in one binary.

mod engine;
mod rt;
mod rt_app;
mod swarm;
mod toy;
mod weave;
