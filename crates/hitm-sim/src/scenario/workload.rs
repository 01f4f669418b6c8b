//! Workloads of a scenario, before it is known on which machine they run.

use hitm_base::Nanos;
use hitm_base::rt_migrate::RtMigrateConfig;

use crate::kernel::Policy;
use crate::workload::cgroup_hogs::{self, CgroupHogsConfig};
use crate::workload::cyclic::{self, CyclicConfig, HogsConfig};
use crate::workload::figures::Figure;
use crate::workload::file_copy::{self, FileCopyConfig};
use crate::workload::hackbench::{self, HackbenchConfig};
use crate::workload::lock_bench::{self, LockBenchConfig};
use crate::workload::lock_holder::{self, LockHolderConfig};
use crate::workload::pi_stress::{self, PiStressConfig};
use crate::workload::policy_changer::{self, PolicyChangerConfig};
use crate::workload::pool;
use crate::workload::program_lock::{self, ProgramLockConfig};
use crate::workload::request_response::{self, RequestResponseConfig};
use crate::workload::requests::{self, RequestsConfig};
use crate::workload::schbench::{self, SchbenchConfig};
use crate::workload::{rt_app, rt_migrate};

/// A workload of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name: what its metrics begin with.
    pub name: String,
    /// The group of its threads, by number; the root when absent.
    pub group: Option<usize>,
    /// Its program, with the options.
    pub kind: WorkloadKind,
}

/// The program of a workload, with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadKind {
    /// `rt-migrate-test` of rt-tests.
    RtMigrateTest {
        /// Its threads; absent for one more than CPUs. Those of `config` do not count.
        tasks: Option<usize>,
        /// Its options.
        config: RtMigrateConfig,
    },
    /// Thread pools as FFmpeg runs them.
    Pool(PoolSpec),
    /// `cyclictest` of rt-tests: absolute sleeps, lateness of each.
    Cyclictest(Placed<CyclicConfig>),
    /// `stress-ng --cyclic`: relative sleeps, counted.
    Cyclic(Placed<CyclicConfig>),
    /// Threads that burn their CPU.
    Hogs(Placed<HogsConfig>),
    /// Threads that burn their CPU in a tree of groups with quotas.
    CgroupHogs(CgroupHogsConfig),
    /// Tasks with a quota that hold a lock of the kernel, and tasks without one that want it.
    LockHolder(LockHolderConfig),
    /// The file copy of UnixBench. Threads and CPUs of its `config` do not count.
    FileCopy(Placed<FileCopyConfig>),
    /// `hackbench -p`: groups of senders and receivers over pipes.
    Hackbench(HackbenchConfig),
    /// schbench: message threads and workers.
    Schbench(SchbenchConfig),
    /// `pi_stress` of rt-tests: groups of three threads that provoke priority inversions.
    PiStress {
        /// Groups (`-g`); absent for half as many as CPUs.
        groups: Option<usize>,
        /// Its options.
        config: PiStressConfig,
    },
    /// Threads that fight for one lock.
    LockBench(Placed<LockBenchConfig>),
    /// Requests and responses between pairs of CPUs.
    RequestResponse(RequestResponseConfig),
    /// Threads that change their own policy.
    PolicyChanger(Placed<PolicyChangerConfig>),
    /// Requests that a pool of threads serves.
    Requests {
        /// Its options. Requests of a trace, and CPUs for arrivals that are not stated, come later.
        placed: Placed<RequestsConfig>,
        /// The trace, by its path from the scenario's folder.
        trace: Option<String>,
    },
    /// Threads that spin for a lock of their own, and touch fresh memory under it.
    ProgramLock(Placed<ProgramLockConfig>),
    /// An rt-app file, by its path from the scenario's folder.
    RtApp(String),
}

impl WorkloadKind {
    /// The figures that a run of it may have, after the workload's name.
    pub fn figures(&self) -> Vec<Figure> {
        let lists: &[&[Figure]] = match self {
            WorkloadKind::RtMigrateTest { .. } => &[rt_migrate::FIGURES],
            WorkloadKind::Pool(_) => &[pool::FIGURES],
            WorkloadKind::Cyclictest(_) => &[cyclic::LATENESS],
            WorkloadKind::Cyclic(_) => &[cyclic::OPERATIONS, cyclic::LATENESS],
            WorkloadKind::Hogs(_) => &[cyclic::HOGS],
            WorkloadKind::CgroupHogs(_) => &[cgroup_hogs::FIGURES],
            WorkloadKind::LockHolder(_) => &[lock_holder::FIGURES],
            WorkloadKind::FileCopy(_) => &[file_copy::FIGURES],
            WorkloadKind::Hackbench(_) => &[hackbench::FIGURES],
            WorkloadKind::Schbench(_) => &[schbench::FIGURES],
            WorkloadKind::PiStress { .. } => &[pi_stress::FIGURES],
            WorkloadKind::LockBench(_) => &[lock_bench::FIGURES],
            WorkloadKind::RequestResponse(_) => &[request_response::FIGURES],
            WorkloadKind::PolicyChanger(_) => &[policy_changer::FIGURES],
            WorkloadKind::Requests { .. } => &[requests::FIGURES],
            WorkloadKind::ProgramLock(_) => &[program_lock::FIGURES],
            WorkloadKind::RtApp(_) => &[rt_app::FIGURES],
        };
        lists.concat()
    }

    /// CPUs that its threads may run on, for kinds that leave the choice.
    pub(super) fn cpus(&self) -> Option<&CpuChoice> {
        Some(match self {
            WorkloadKind::Cyclictest(placed) | WorkloadKind::Cyclic(placed) => &placed.cpus,
            WorkloadKind::Hogs(placed) => &placed.cpus,
            WorkloadKind::FileCopy(placed) => &placed.cpus,
            WorkloadKind::LockBench(placed) => &placed.cpus,
            WorkloadKind::PolicyChanger(placed) => &placed.cpus,
            WorkloadKind::Requests { placed, .. } => &placed.cpus,
            WorkloadKind::ProgramLock(placed) => &placed.cpus,
            _ => return None,
        })
    }
}

/// A program whose threads may be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<C> {
    /// CPUs that its threads may run on, and their number.
    pub cpus: CpuChoice,
    /// Its other options.
    pub config: C,
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

/// Thread pools.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSpec {
    /// Instances; absent for as many as the machine's cores make.
    pub instances: Option<usize>,
    /// Cores of each instance, with all their threads.
    pub cores_per_instance: usize,
    /// Worker threads of an instance.
    pub workers: usize,
    /// Number of them that want a CPU at any time.
    pub runnable: usize,
    /// Threads of the fair class of an instance that never sleep.
    pub fair: usize,
    /// True if these wake up together, as slices of one frame.
    pub slices: bool,
    /// Their policy.
    pub policy: Policy,
    /// Wake-ups a second and CPU that the pool would make if the kernel cost nothing: one variant
    /// each.
    pub wakeups_per_second: Vec<u64>,
    /// The longest burst over the shortest.
    pub burst_ratio: u64,
    /// Time of a CPU that a frame takes.
    pub frame_time: Nanos,
}
