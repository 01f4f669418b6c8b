//! Workloads: the programs of the simulated tasks.

pub mod cgroup_hogs;
pub mod cyclic;
mod deck;
pub(crate) mod figures;
pub mod file_copy;
pub mod hackbench;
pub(crate) mod keys;
pub(crate) mod kind;
pub mod lock_bench;
pub mod lock_holder;
pub(crate) mod metric;
pub mod pi_stress;
pub(crate) mod placed;
pub mod policy_changer;
pub mod pool;
pub mod program_lock;
pub mod request_response;
pub mod requests;
pub mod rt_app;
pub mod rt_migrate;
pub mod schbench;

use self::placed::Placed;

kind::kinds! {
    RtMigrateTest(rt_migrate::RtMigrateSpec): rt_migrate::KIND;
    Pool(pool::PoolSpec): pool::KIND;
    Cyclic(Placed<cyclic::CyclicConfig>): cyclic::CYCLICTEST, cyclic::CYCLIC;
    Hogs(Placed<cyclic::HogsConfig>): cyclic::HOGS_KIND, cyclic::PINNED;
    CgroupHogs(cgroup_hogs::CgroupHogsConfig): cgroup_hogs::KIND;
    LockHolder(lock_holder::LockHolderConfig): lock_holder::KIND;
    FileCopy(Placed<file_copy::FileCopyConfig>): file_copy::KIND;
    Hackbench(hackbench::HackbenchConfig): hackbench::KIND;
    Schbench(schbench::SchbenchConfig): schbench::KIND;
    PiStress(pi_stress::PiStressSpec): pi_stress::KIND;
    LockBench(Placed<lock_bench::LockBenchConfig>): lock_bench::KIND;
    RequestResponse(request_response::RequestResponseConfig): request_response::KIND;
    PolicyChanger(Placed<policy_changer::PolicyChangerConfig>): policy_changer::KIND;
    Requests(requests::RequestsSpec): requests::KIND;
    ProgramLock(Placed<program_lock::ProgramLockConfig>): program_lock::KIND;
    RtApp(rt_app::RtAppFile): rt_app::KIND;
}

impl WorkloadKind {
    /// The figures that a run of it may have, after the workload's name.
    pub fn figures(&self) -> Vec<figures::Figure> {
        self.program().kind().figures.concat()
    }
}
