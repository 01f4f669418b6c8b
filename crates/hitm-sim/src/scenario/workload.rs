//! Workloads of a scenario, before it is known on which machine they run.

use std::time::Duration;

use crate::kernel::{Hold, Policy};
use crate::workload::lock_bench::LockKind;

/// A workload of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name: what its metrics begin with.
    pub name: String,
    /// Its program, with the options.
    pub kind: WorkloadKind,
}

/// The program of a workload, with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadKind {
    /// `rt-migrate-test` of rt-tests.
    RtMigrateTest(RtMigrateSpec),
    /// Thread pools as FFmpeg runs them.
    Pool(PoolSpec),
    /// `cyclictest` of rt-tests: absolute sleeps, lateness of each.
    Cyclictest(CyclicSpec),
    /// `stress-ng --cyclic`: relative sleeps, counted.
    Cyclic(CyclicSpec),
    /// Threads that burn their CPU.
    Hogs(HogsSpec),
    /// Threads that burn their CPU in a tree of groups with quotas.
    CgroupHogs(CgroupHogsSpec),
    /// Tasks with a quota that hold a lock of the kernel, and tasks without one that want it.
    LockHolder(LockHolderSpec),
    /// The file copy of UnixBench.
    FileCopy(FileCopySpec),
    /// `hackbench -p`: groups of senders and receivers over pipes.
    Hackbench(HackbenchSpec),
    /// schbench: message threads and workers.
    Schbench(SchbenchSpec),
    /// `pi_stress` of rt-tests: groups of three threads that provoke priority inversions.
    PiStress(PiStressSpec),
    /// Threads that fight for one lock.
    LockBench(LockBenchSpec),
    /// Requests and responses between pairs of CPUs.
    RequestResponse(RequestResponseSpec),
    /// Threads that change their own policy.
    PolicyChanger(PolicyChangerSpec),
    /// An rt-app file.
    RtApp(RtAppSpec),
}

/// Scheduling of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedSpec {
    /// The policy with its priority or nice value.
    pub policy: Policy,
}

/// CPUs that threads may run on, and their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuChoice {
    /// The CPUs; absent for all.
    pub cpus: Option<Vec<u16>>,
    /// True if each thread has one of them to itself.
    pub pinned: bool,
    /// Number of threads; absent for one for each of the CPUs.
    pub threads: Option<usize>,
}

/// Options of `rt-migrate-test`; what is absent is the test's own default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtMigrateSpec {
    /// Threads (`nr_tasks`); absent for one more than CPUs.
    pub tasks: Option<usize>,
    /// Priority of the first (`-p`).
    pub base_prio: u8,
    /// Busy time (`-r`).
    pub run_time: Duration,
    /// Pause between iterations (`-s`).
    pub sleep: Duration,
    /// Allowed lateness (`-m`).
    pub max_error: Duration,
    /// Iterations (`-l`).
    pub loops: usize,
    /// Equal priorities (`-e`).
    pub equal: bool,
    /// Stop at the first failure (`-c`).
    pub check: bool,
}

/// Thread pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// Instances; absent for as many as the machine's cores make.
    pub instances: Option<usize>,
    /// Cores of each instance, with all their threads.
    pub cores_per_instance: usize,
    /// Worker threads of an instance.
    pub workers: usize,
    /// Number of them that want a CPU at any time.
    pub runnable: usize,
    /// True if these wake up together, as slices of one frame.
    pub slices: bool,
    /// Their scheduling.
    pub sched: SchedSpec,
    /// Wake-ups a second and CPU that the pool would make if the kernel cost nothing: one variant
    /// each.
    pub wakeups_per_second: Vec<u64>,
    /// The longest burst over the shortest.
    pub burst_ratio: u64,
    /// Time of a CPU that a frame takes.
    pub frame_time: Duration,
}

/// Threads that sleep and wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CyclicSpec {
    /// CPUs that they may run on, and their number.
    pub cpus: CpuChoice,
    /// Their scheduling.
    pub sched: SchedSpec,
    /// The interval or the sleep.
    pub interval: Duration,
    /// User code after each wake-up.
    pub work: Duration,
}

/// Threads that burn their CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HogsSpec {
    /// CPUs that they may run on, and their number.
    pub cpus: CpuChoice,
    /// Their scheduling.
    pub sched: SchedSpec,
    /// Time at which they begin.
    pub start: Duration,
}

/// A tree of groups with quotas and hogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupHogsSpec {
    /// Groups of the first level.
    pub subtrees: usize,
    /// Groups in each of them.
    pub children: usize,
    /// Groups in each of these.
    pub leaves: usize,
    /// Hogs in each of those.
    pub hogs: usize,
    /// CPU time that a first-level group may use in each period.
    pub quota: Duration,
    /// Period that the quota is of.
    pub period: Duration,
    /// Unused quota that may be saved up beside it.
    pub burst: Duration,
}

/// Holders of a lock in a group with a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolderSpec {
    /// CPU time that the group may use in each period.
    pub quota: Duration,
    /// Period that the quota is of.
    pub period: Duration,
    /// Mode in which its tasks hold the lock.
    pub holds: Hold,
    /// Kernel code under the lock.
    pub work: Duration,
    /// Time that holders wait for a page while they have it.
    pub page_wait: Duration,
    /// Time between two uses.
    pub pause: Duration,
}

/// The file copy of UnixBench.
#[derive(Debug, Clone, PartialEq)]
pub struct FileCopySpec {
    /// CPUs that its threads may run on, and their number.
    pub cpus: CpuChoice,
    /// Pairs of files.
    pub files: usize,
    /// Bytes of a block.
    pub buffer_bytes: u64,
    /// Blocks of a file.
    pub blocks: u64,
    /// KB/s that make 10 points.
    pub baseline: u64,
    /// Time that a block takes one thread alone.
    pub cycle: Duration,
    /// The share of it for which the thread holds the lock, in per cent.
    pub hold_percent: u64,
}

/// Options of `hackbench -p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HackbenchSpec {
    /// Groups (`-g`).
    pub groups: usize,
    /// Senders, and as many receivers, of a group (`-f`).
    pub pairs: usize,
    /// Messages of each sender to each receiver (`-l`).
    pub loops: usize,
    /// Bytes of a message (`-s`).
    pub size_bytes: u64,
}

/// Options of schbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchbenchSpec {
    /// Message threads (`-m`).
    pub message_threads: usize,
    /// Workers of each (`-t`).
    pub workers: usize,
    /// Time that a request takes.
    pub work: Duration,
    /// Time that a message thread waits between two rounds.
    pub pause: Duration,
}

/// Options of `pi_stress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiStressSpec {
    /// Groups (`-g`); absent for half as many as CPUs.
    pub groups: Option<usize>,
    /// Priority of the low threads; medium and high are the next two.
    pub base_prio: u8,
    /// Work of the low thread with the mutex.
    pub hold: Duration,
}

/// A benchmark of one lock.
#[derive(Debug, Clone, PartialEq)]
pub struct LockBenchSpec {
    /// Kind of the lock.
    pub lock: LockKind,
    /// CPUs that threads may run on.
    pub cpus: CpuChoice,
    /// Their scheduling.
    pub sched: SchedSpec,
    /// Work under the lock.
    pub hold: Duration,
    /// Work without it.
    pub pause: Duration,
}

/// Requests and responses.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestResponseSpec {
    /// The CPU of each client.
    pub clients: Vec<u16>,
    /// The CPU of each one's server.
    pub servers: Vec<u16>,
    /// Scheduling of the threads.
    pub sched: SchedSpec,
    /// Bytes of a request and of its response.
    pub size_bytes: u64,
    /// The server's work for a request.
    pub work: Duration,
}

/// Threads that change their own policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChangerSpec {
    /// CPUs that threads may run on.
    pub cpus: CpuChoice,
    /// The policies, in turn.
    pub policies: Vec<Policy>,
    /// User code after each change.
    pub work: Duration,
}

/// An rt-app file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtAppSpec {
    /// Its path, from the scenario's folder.
    pub file: String,
}
