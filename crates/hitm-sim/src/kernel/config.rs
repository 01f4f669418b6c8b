//! Configuration of a kernel and of its tasks.

use hitm_base::{CpuId, Cycles, Nanos};

use super::Kernel;
use super::costs::CostOverrides;
use super::cpumask::CpuMask;
use super::fair::{LoadBalancing, Throttling};
use super::idle::{IdleGovernor, IdleWake};
use super::mechanisms::Mechanism;
use super::osq::OsqKind;
use super::placement::Placement;
use super::preempt::Preemption;
use super::rt::Balancing;
use super::spinlock::SpinlockKind;
use super::task::Policy;
use super::topology::Partition;

/// Configuration of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelConfig {
    /// Balancing of real-time tasks.
    pub balancing: Balancing,
    /// True if a waker leaves the woken task to its CPU when that shares no cache or is idle
    /// (`TTWU_QUEUE`, since 3.0; for idle CPUs since 6.0). Otherwise it always takes the other's
    /// lock itself.
    pub wake_lists: bool,
    /// Partition of the machine by cpusets.
    pub partition: Partition,
    /// The preemption model.
    pub preemption: Preemption,
    /// Ticks a second (`CONFIG_HZ`; Debian has 250).
    pub hz: u32,
    /// Time that RT tasks may take of each period on a CPU (`sched_rt_runtime_us`); `None` for no
    /// limit (-1).
    pub rt_runtime: Option<Nanos>,
    /// The period (`sched_rt_period_us`).
    pub rt_period: Nanos,
    /// Passive balancing: time between two looks of a busy CPU at the others. Assumed 64 ms (16 to
    /// 256 ms: 2.6.23 starts at the number of CPUs in milliseconds, times a busy factor of 32, and
    /// doubles it up to a limit). It bounds how long a queued task stays where it is.
    pub balance_interval: Nanos,
    /// Balancing of fair tasks between CPUs; [`Balancing::Passive`] has its own way.
    pub load_balancing: LoadBalancing,
    /// Handling of a group that has used its quota.
    pub throttling: Throttling,
    /// Slice of a quota that a queue takes at once (`sched_cfs_bandwidth_slice_us`, 5 ms).
    pub cfs_bandwidth_slice: Nanos,
    /// Placement of fair tasks.
    pub placement: Placement,
    /// The chooser of idle states.
    pub idle: IdleGovernor,
    /// The end of an idle state other than polling.
    pub idle_wake: IdleWake,
    /// The protocol of spinlocks.
    pub spinlock: SpinlockKind,
    /// The CPUs whose optimistic spinners wait in one queue.
    pub osq: OsqKind,
    /// Least time between two reports of a queue's load to its group (`update_tg_load_avg`; 1 ms since
    /// 6.7, none before).
    pub load_avg_interval: Nanos,
    /// Costs other than those of the machine and the kernel's defaults.
    pub costs: CostOverrides,
    /// Time between two judgements of a lock by lock-aware placement. Assumed 5 ms (1 to 100 ms):
    /// how soon placement begins and ends.
    pub lock_window: Nanos,
    /// Mechanisms that are modelled beyond the usual.
    pub mechanisms: Vec<Mechanism>,
}

impl KernelConfig {
    /// Returns true if cpusets share CPUs, as in 2007.
    pub fn has_overlapping_cpusets(&self) -> bool {
        matches!(self.partition, Partition::Overlapping(_))
    }

    /// One root domain, no preemption of kernel code, 250 Hz, no RT limit, and wake-ups as the kernels of that balancing do them.
    pub fn new(balancing: Balancing) -> KernelConfig {
        KernelConfig {
            balancing,
            wake_lists: balancing == Balancing::PushIpi,
            partition: Partition::Whole,
            preemption: Preemption::None,
            hz: 250,
            rt_runtime: None,
            rt_period: Nanos(1e9),
            balance_interval: Nanos(64e6),
            load_balancing: LoadBalancing::NewlyIdle,
            throttling: Throttling::Async,
            cfs_bandwidth_slice: Nanos(5e6),
            placement: Placement::Default,
            idle: IdleGovernor::Shallow,
            idle_wake: IdleWake::Write,
            spinlock: SpinlockKind::Queued,
            osq: OsqKind::Global,
            load_avg_interval: Nanos(1e6),
            costs: CostOverrides::default(),
            lock_window: Nanos(5e6),
            mechanisms: Vec::new(),
        }
    }
}

/// A task to be made.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// Its scheduling policy.
    pub policy: Policy,
    /// CPUs that it may run on; `None` for all in its root domain.
    pub allowed: Option<CpuMask>,
    /// The CPU on which it begins.
    pub cpu: CpuId,
    /// Time at which it begins.
    pub start: Cycles,
}

impl TaskSpec {
    /// A task of the usual policy that is bound to a CPU.
    pub fn bound(kernel: &Kernel, name: String, cpu: CpuId, start: Cycles) -> TaskSpec {
        TaskSpec {
            name,
            policy: Policy::Normal(0),
            allowed: Some(CpuMask::of(kernel.cpu_count(), [cpu])),
            cpu,
            start,
        }
    }
}
