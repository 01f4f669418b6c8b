//! Workloads: the programs of the simulated tasks.

pub mod cgroup_hogs;
pub mod cyclic;
mod deck;
pub(crate) mod figures;
pub mod file_copy;
pub mod hackbench;
pub mod lock_bench;
pub mod lock_holder;
pub(crate) mod metric;
pub mod pi_stress;
pub mod policy_changer;
pub mod pool;
pub mod program_lock;
pub mod request_response;
pub mod requests;
pub mod rt_app;
pub mod rt_migrate;
pub mod schbench;
