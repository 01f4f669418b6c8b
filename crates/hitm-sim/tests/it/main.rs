//! Integration tests of the simulator, in one binary.

mod balance;
mod bandwidth;
mod benches;
mod cpusets;
mod determinism;
mod engine;
mod fair;
mod group_cpus;
mod hand_over;
mod idle;
mod join;
mod kinds;
mod lock_affinity;
mod locks;
mod preempt;
mod program_lock;
mod requests;
mod rt;
mod rt_app;
mod rt_class;
mod small;
mod spinlocks;
mod swarm;
mod timing;
mod toy;
mod weave;
