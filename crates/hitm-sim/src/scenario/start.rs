//! From what a scenario says of a workload to tasks on a kernel.

use std::rc::Rc;

use super::groups::{self, RunningGroup};
use super::{CpuChoice, RunRequest};
use crate::engine::SimError;
use crate::kernel::{CpuMask, GroupId, Kernel};
use crate::workload::figures::{Figures, Window};
use crate::workload::metric::{Metric, WorkloadResult};
use crate::workload::requests::TracedRequest;
use crate::workload::rt_app::{GroupPaths, RtApp};

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
            let start = Start {
                kernel,
                group: workload.group.map_or(GroupId::ROOT, |number| ids[number]),
                name: &workload.name,
                request,
                ids: &ids,
            };
            let tasks = workload.kind.program().start(&start)?;
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

/// The running scenario, as a workload that starts sees it.
pub(crate) struct Start<'a> {
    pub(crate) kernel: &'a Rc<Kernel>,
    /// The group of its threads.
    pub(crate) group: GroupId,
    name: &'a str,
    request: &'a RunRequest<'a>,
    /// The scenario's groups, as they were made.
    ids: &'a [GroupId],
}

impl Start<'_> {
    pub(crate) fn cpu_count(&self) -> usize {
        self.kernel.cpu_count()
    }

    /// The CPUs that each thread may run on.
    pub(crate) fn masks(&self, choice: &CpuChoice) -> Vec<CpuMask> {
        choice.masks(self.request.scenario, self.cpu_count())
    }

    /// The load of this variant.
    pub(crate) fn wakeups_per_second(&self) -> Option<u64> {
        self.request.variant.wakeups_per_second
    }

    /// The workload's trace.
    pub(crate) fn trace(&self) -> Vec<TracedRequest> {
        self.request.traces[self.name].clone()
    }

    /// The workload's rt-app file.
    pub(crate) fn rt_app(&self) -> &RtApp {
        &self.request.rt_apps[self.name]
    }

    /// Groups by the paths that rt-app files have for them.
    pub(crate) fn group_paths(&self) -> GroupPaths {
        GroupPaths::new(groups::paths(&self.request.scenario.groups, self.ids))
    }

    /// True if a duration ends the run.
    pub(crate) fn has_end(&self) -> bool {
        self.request.duration().is_some()
    }
}
