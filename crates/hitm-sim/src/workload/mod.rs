//! What the simulated tasks do.

pub mod rt_app;
