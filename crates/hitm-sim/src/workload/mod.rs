//! What the simulated tasks do.

pub mod rt_app;
pub mod rt_migrate;
