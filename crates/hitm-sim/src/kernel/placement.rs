//! Policies of placement: the CPUs on which fair tasks run.
//!
//! **What Linux does:** one rule for all tasks, in kernel/sched/fair.c; others come as patches, or as BPF
//! programs of a class of their own (`sched_ext`).
//!
//! **What we do:** the fair class asks the policy of the scenario where it chooses a CPU. A policy is a type
//! that is a [`PlacementPolicy`], in a file of its own, and a line of the list below. What it does not answer
//! itself is as in Linux. [`group_cpus`] is the smallest; `docs/guide/policies.md` takes it apart.
//!
//! **What a test could notice:** with passive balancing there is no choice for woken tasks, and no policy is
//! asked.

mod group_cpus;

use std::fmt::Debug;
use std::ops::Deref;

use hitm_base::{CpuId, Cycles};

use self::group_cpus::GroupCpus;
use super::costs::Costs;
use super::lock_affinity::LockAffinity;
use super::lock_stat::{LockId, Use};
use super::task::Task;
use super::{Kernel, KernelConfig};
use crate::engine::{Engine, Site};

/// The answers of a policy. Run queues are locked where a task is moved, and not where it is woken.
pub(super) trait PlacementPolicy: Debug {
    /// Makes it, before the kernel begins.
    fn new(engine: &Engine, config: &KernelConfig, costs: &Costs) -> Self
    where
        Self: Sized;

    /// Chooses the CPU of a woken task, which was on `cpu` and may run there; `None` leaves it to the class.
    async fn select_task_rq(&self, _kernel: &Kernel, _p: &Task, _cpu: CpuId) -> Option<CpuId>
    where
        Self: Sized,
    {
        None
    }

    /// Returns true if balancing may move a task to a CPU of its affinity.
    fn can_migrate(&self, _kernel: &Kernel, _p: &Task, _to: CpuId) -> bool {
        true
    }

    /// Returns true if load is balanced between two CPUs.
    fn may_balance(&self, _one: CpuId, _other: CpuId) -> bool {
        true
    }

    /// Returns true if the class leaves a CPU alone when it searches one for a task.
    fn is_reserved(&self, _cpu: CpuId) -> bool {
        false
    }

    /// Returns true if a task should leave a CPU that is reserved for others.
    fn is_stranger(&self, _p: &Task, _cpu: CpuId) -> bool {
        false
    }

    /// A tick of this CPU is over.
    fn task_tick(&self, _kernel: &Kernel, _site: Site) {}

    /// Returns true if a task that wants a sleeping lock may spin for it on this CPU.
    fn may_spin(&self, _p: &Task, _cpu: CpuId) -> bool {
        true
    }

    /// A task, which has had so much CPU time, wants a lock for writing.
    fn lock_wanted(&self, _p: &Task, _lock: LockId, _cpu_time: Cycles) {}

    /// It has it, after this wait.
    fn lock_taken(&self, _p: &Task, _lock: LockId, _wait: Cycles, _is_contended: bool) {}

    /// It has given it back.
    fn lock_released(&self, _kernel: &Kernel, _p: &Task, _lock: LockId, _used: Use) {}

    /// The state of lock-aware placement.
    fn lock_affinity(&self) -> Option<&LockAffinity> {
        None
    }
}

/// The fair class as it is.
#[derive(Debug)]
pub(super) struct Linux;

impl PlacementPolicy for Linux {
    fn new(_engine: &Engine, _config: &KernelConfig, _costs: &Costs) -> Linux {
        Linux
    }
}

/// Declares the policies: the word of each in scenarios, and its type.
macro_rules! policies {
    ($($(#[$meta:meta])+ $item:ident($policy:ident) = $word:literal,)+) => {
        hitm_base::words! {
            /// Placement of fair tasks.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Placement {
                $($(#[$meta])+ $item = $word,)+
            }
        }

        /// The policy of a kernel.
        #[derive(Debug)]
        pub(super) enum ActivePolicy {
            $($item($policy),)+
        }

        impl ActivePolicy {
            pub(super) fn new(engine: &Engine, config: &KernelConfig, costs: &Costs) -> ActivePolicy {
                match config.placement {
                    $(Placement::$item => {
                        ActivePolicy::$item($policy::new(engine, config, costs))
                    })+
                }
            }

            /// [`PlacementPolicy::select_task_rq`], without a box for its future.
            pub(super) async fn select_task_rq(
                &self,
                kernel: &Kernel,
                p: &Task,
                cpu: CpuId,
            ) -> Option<CpuId> {
                match self {
                    $(ActivePolicy::$item(policy) => policy.select_task_rq(kernel, p, cpu).await,)+
                }
            }
        }

        impl Deref for ActivePolicy {
            type Target = dyn PlacementPolicy;

            fn deref(&self) -> &(dyn PlacementPolicy + 'static) {
                match self {
                    $(ActivePolicy::$item(policy) => policy,)+
                }
            }
        }
    };
}

policies! {
    /// Wherever the class puts them, as in Linux.
    Default(Linux) = "default",
    /// Threads that fight for a lock together, on as many CPUs as the lock can keep busy.
    LockAware(LockAffinity) = "lock-aware",
    /// The tasks of a group with a quota on as many CPUs as the quota is worth.
    GroupCpus(GroupCpus) = "group-cpus",
}
