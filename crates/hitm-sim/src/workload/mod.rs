//! What the simulated tasks do.

pub mod cgroup_hogs;
pub mod cyclic;
mod deck;
pub mod file_copy;
pub mod hackbench;
pub mod lock_holder;
pub mod pi_stress;
pub mod pool;
pub mod rt_app;
pub mod rt_migrate;
pub mod schbench;
