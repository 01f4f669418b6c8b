//! Integration tests of the simulator, in one binary.

mod bandwidth;
mod engine;
mod fair;
mod rt;
mod rt_app;
mod swarm;
mod toy;
mod weave;
