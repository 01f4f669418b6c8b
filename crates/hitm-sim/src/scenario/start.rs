//! From what a scenario says of a workload to tasks on a kernel.

use std::rc::Rc;

use hitm_base::{CpuId, Nanos};

use super::RunRequest;
use super::groups::{self, RunningGroup};
use super::workload::{CpuChoice, PoolSpec, Workload, WorkloadKind};
use crate::engine::SimError;
use crate::kernel::{CpuMask, GroupId, Kernel};
use crate::workload::cgroup_hogs::CgroupHogs;
use crate::workload::cyclic::{Cyclic, Hogs, spawn_hogs};
use crate::workload::figures::{Figures, Window};
use crate::workload::file_copy::{FileCopy, FileCopyConfig};
use crate::workload::hackbench::Hackbench;
use crate::workload::lock_bench::LockBench;
use crate::workload::lock_holder::LockHolder;
use crate::workload::metric::{Metric, WorkloadResult};
use crate::workload::pi_stress::PiStress;
use crate::workload::policy_changer::PolicyChanger;
use crate::workload::pool::{PoolConfig, Pools};
use crate::workload::program_lock::ProgramLock;
use crate::workload::request_response::RequestResponse;
use crate::workload::requests::{Load, Requests};
use crate::workload::rt_app::{self, GroupPaths};
use crate::workload::rt_migrate::{self, RtMigrateConfig};
use crate::workload::schbench::Schbench;

/// A workload that runs.
pub(super) struct Running {
    name: String,
    tasks: Rc<dyn Figures>,
    /// Its operations when the warm-up ended.
    warm: u64,
}

impl Running {
    /// Makes the groups of a scenario and starts its workloads: the groups first.
    pub(super) fn start_all(
        kernel: &Rc<Kernel>,
        request: &RunRequest<'_>,
    ) -> Result<Vec<Running>, SimError> {
        let scenario = request.scenario;
        let ids = groups::create(kernel, &scenario.groups)?;
        let running = |(name, tasks)| Running {
            name,
            tasks,
            warm: 0,
        };
        let groups = RunningGroup::all(&scenario.groups, &ids);
        let mut all: Vec<Running> = groups.into_iter().map(running).collect();
        for workload in &scenario.workloads {
            let tasks = start(kernel, request, workload, &ids)?;
            all.push(running((workload.name.clone(), tasks)));
        }
        Ok(all)
    }

    /// The warm-up is over: counts from here on are reported.
    pub(super) fn warmed_up(&mut self) {
        self.warm = self.tasks.operations();
    }

    pub(super) fn result(&self, window: Window<'_>) -> WorkloadResult {
        let per_second = (self.tasks.operations() - self.warm) as f64 / window.seconds;
        let window = Window {
            per_second,
            ..window
        };
        let mut metrics = Vec::new();
        let mut add = |figure, value| metrics.push(Metric::of(&self.name, figure, value));
        let own = self.tasks.figures(window, &mut add);
        WorkloadResult {
            name: self.name.clone(),
            metrics,
            ..own
        }
    }
}

fn start(
    kernel: &Rc<Kernel>,
    request: &RunRequest<'_>,
    workload: &Workload,
    ids: &[GroupId],
) -> Result<Rc<dyn Figures>, SimError> {
    let cpus = kernel.cpu_count();
    let group = workload.group.map_or(GroupId::ROOT, |number| ids[number]);
    let masks = |choice: &CpuChoice| choice.masks(request.scenario, cpus);
    Ok(match &workload.kind {
        WorkloadKind::RtMigrateTest { tasks, config } => {
            let tasks = tasks.unwrap_or(cpus + 1);
            rt_migrate::Running::spawn(kernel, RtMigrateConfig { tasks, ..*config })?
        }
        WorkloadKind::Pool(spec) => {
            let config = pool_config(spec, kernel, request.variant.wakeups_per_second);
            Pools::spawn(kernel, config)?
        }
        WorkloadKind::Cyclictest(placed) | WorkloadKind::Cyclic(placed) => {
            Cyclic::spawn(kernel, group, &masks(&placed.cpus), placed.config)?
        }
        WorkloadKind::Hogs(placed) => {
            let tasks = spawn_hogs(kernel, group, &masks(&placed.cpus), placed.config)?;
            Rc::new(Hogs(tasks))
        }
        WorkloadKind::CgroupHogs(config) => Rc::new(CgroupHogs::spawn(kernel, *config)?),
        WorkloadKind::LockHolder(config) => Rc::new(LockHolder::spawn(kernel, *config)?),
        WorkloadKind::FileCopy(placed) => {
            let config = file_copy_config(&placed.cpus, &placed.config, cpus);
            Rc::new(FileCopy::spawn(kernel, &config)?)
        }
        WorkloadKind::Hackbench(config) => Hackbench::spawn(kernel, *config)?,
        WorkloadKind::Schbench(config) => Schbench::spawn(kernel, *config)?,
        WorkloadKind::PiStress { groups, config } => {
            // As the program does: from the second CPU on, in turn.
            let groups =
                (1..=groups.unwrap_or(cpus.div_ceil(2))).map(|group| CpuId((group % cpus) as u16));
            PiStress::spawn(kernel, &groups.collect::<Vec<_>>(), *config)?
        }
        WorkloadKind::LockBench(placed) => {
            LockBench::spawn(kernel, &masks(&placed.cpus), placed.config)?
        }
        WorkloadKind::RequestResponse(config) => RequestResponse::spawn(kernel, config)?,
        WorkloadKind::PolicyChanger(placed) => {
            PolicyChanger::spawn(kernel, &masks(&placed.cpus), &placed.config)?
        }
        WorkloadKind::Requests { placed, trace } => {
            let mut config = placed.config.clone();
            if trace.is_some() {
                config.load = Load::Trace(request.traces[&workload.name].clone());
            }
            if config.arrival_cpus.is_empty() {
                let all = || (0..cpus as u16).collect();
                let own = placed.cpus.cpus.clone().unwrap_or_else(all);
                config.arrival_cpus = own.into_iter().map(CpuId).collect();
            }
            Requests::spawn(kernel, group, &masks(&placed.cpus), &config)?
        }
        WorkloadKind::ProgramLock(placed) => {
            ProgramLock::spawn(kernel, group, &masks(&placed.cpus), placed.config)?
        }
        WorkloadKind::RtApp(_) => {
            let app = &request.rt_apps[&workload.name];
            let groups = GroupPaths::new(groups::paths(&request.scenario.groups, ids));
            let has_end = request.duration().is_some();
            rt_app::Running::spawn(kernel, app, groups, has_end)?
        }
    })
}

fn file_copy_config(
    choice: &CpuChoice,
    config: &FileCopyConfig,
    cpu_count: usize,
) -> FileCopyConfig {
    let cpus = choice.cpus.as_ref();
    let allowed = cpus.map(|cpus| CpuMask::of(cpu_count, cpus.iter().copied().map(CpuId)));
    let own = allowed.as_ref().map_or(cpu_count, CpuMask::count);
    FileCopyConfig {
        threads: choice.threads.unwrap_or(own),
        allowed,
        ..config.clone()
    }
}

/// Bursts between `least` and `burst_ratio` times that, of the mean that gives the load. In each
/// mean, as many of an instance's CPUs as have a runnable worker finish a burst.
fn pool_config(spec: &PoolSpec, kernel: &Kernel, wakeups_per_second: Option<u64>) -> PoolConfig {
    let mut instances = PoolConfig::per_cores(kernel, spec.cores_per_instance);
    instances.truncate(spec.instances.unwrap_or(instances.len()));
    let cpus = instances[0].count();
    let busy = spec.runnable.min(cpus) as f64 / cpus as f64;
    let rate = wakeups_per_second.unwrap_or(spec.wakeups_per_second[0]) as f64;
    let mean_ns = busy * 1e9 / rate;
    let least_ns = 2.0 * mean_ns / (1.0 + spec.burst_ratio as f64);
    let frame_bursts = (spec.frame_time.0 / mean_ns).round();
    PoolConfig {
        instances,
        workers: spec.workers,
        tokens: spec.runnable,
        fair: spec.fair,
        slices: spec.slices,
        policy: spec.policy,
        burst_least: Nanos(least_ns),
        burst_most: Nanos(least_ns * spec.burst_ratio as f64),
        frame_bursts: (frame_bursts as u64).max(1),
    }
}
