//! The real-time class, kernel/sched/rt.c, v6.12.
//!
//! **What Linux does:** a list for each priority; tasks that may run elsewhere are also in a
//! priority list of pushable ones. A run queue with such tasks is overloaded: it stands in the root
//! domain's `rto_mask`. Tasks are pushed to CPUs of lower priority when they are woken or
//! preempted, best first until one does not fit. A CPU that is about to run something worse pulls
//! from overloaded ones, itself or by asking them through a chain of interrupts (`RT_PUSH_IPI`).
//!
//! **What we do:** the same functions with the same accesses to the members that CPUs share, under
//! the same locks. Lists are kept by value, with an access for each list head and node that the
//! kernel would touch.
//!
//! **What a test could notice:** no RT groups; no `migrate_disable`, so no stop task pushes a
//! running one away; no capacity or uclamp fitness; `SCHED_DEADLINE` does not exist. Throttling is
//! that of a run queue on its own, without lending among CPUs. Since v6.12 Linux has it for groups
//! only, and the fair server in its place ([`super::KernelConfig::rt_runtime`]). The source is
//! Debian's 6.12.117. What later stable releases changed in it and the model has as an option is in
//! [`super::Mechanism`]. Forms before 4.15 are those of 2.6.32 (push and pull) and 2.6.24
//! (passive).

mod balance;
mod cpusets;
mod prio_array;
mod queue;

pub use balance::Balancing;
pub(in crate::kernel) use prio_array::{PrioArray, USUAL_ROOM};
