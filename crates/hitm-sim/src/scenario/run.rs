//! Runs one variant of a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use hitm_base::{Cycles, Machine, Nanos};
use hitm_coherence::directory::Capacity;

use super::outcome::{Ended, Outcome, Snapshot};
use super::quantity::nanos;
use super::start::Running;
use super::{Scenario, Variant};
use crate::engine::{Engine, EngineConfig, Executor, SimError, Trace};
use crate::kernel::{Kernel, KernelConfig, functions};
use crate::layout::Layouts;
use crate::workload::figures::Window;
use crate::workload::requests::TracedRequest;
use crate::workload::rt_app::RtApp;

/// A run that no duration ends is ended by its workload, or after this much virtual time.
const END_NS: f64 = 3.6e12;
/// Progress reports of a run.
const PROGRESS_STEPS: u64 = 200;

/// Input of a run.
#[derive(Debug)]
pub struct RunRequest<'a> {
    /// The scenario, checked against `machine`.
    pub scenario: &'a Scenario,
    /// The machine that [`Scenario::check`] answered.
    pub machine: &'a Machine,
    /// Places of members; that of the variant.
    pub layouts: Layouts,
    /// The variant of the scenario to run.
    pub variant: &'a Variant,
    /// Seed of this run.
    pub seed: u64,
    /// Hash of everything that was read, for the header.
    pub scenario_hash: u64,
    /// The rt-app files, by workload.
    pub rt_apps: &'a BTreeMap<String, RtApp>,
    /// The traces of requests, by workload.
    pub traces: &'a BTreeMap<String, Vec<TracedRequest>>,
}

impl RunRequest<'_> {
    /// The scenario's duration, or that of its rt-app files: the longest of them.
    pub(super) fn duration(&self) -> Option<Duration> {
        let of_apps = self.rt_apps.values().map(|app| app.global.duration);
        self.scenario.run.duration.or(of_apps.max().flatten())
    }
}

/// Runs to the end; `progress` gets the virtual time done and to do, in nanoseconds.
///
/// # Errors
/// Layouts that lack what the model needs, tasks that cannot be, more events than allowed.
pub fn run(
    request: &RunRequest<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Outcome, SimError> {
    run_kernel(request, progress, false).map(|(outcome, _)| outcome)
}

/// Like [`run`], and returns the course of the run, its warm-up included.
///
/// # Errors
/// Those of [`run`].
pub fn run_traced(
    request: &RunRequest<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(Outcome, Trace), SimError> {
    let (outcome, trace) = run_kernel(request, progress, true)?;
    Ok((outcome, trace.expect("the run was traced")))
}

fn run_kernel(
    request: &RunRequest<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
    is_traced: bool,
) -> Result<(Outcome, Option<Trace>), SimError> {
    let scenario = request.scenario;
    let clock = request.machine.clock;
    let end = request.duration().map_or(Nanos(END_NS), nanos);
    let engine = Engine::new(&EngineConfig {
        machine: request.machine.clone(),
        capacity: if scenario.machine.finite_caches {
            Capacity::Finite
        } else {
            Capacity::Infinite
        },
        seed: request.seed,
        scenario_hash: request.scenario_hash,
        end: clock.cycles(end),
        events_max: scenario.run.events_max,
        sites: functions::NAMES,
    });
    let kernel = Kernel::new(&engine, request.layouts.clone(), kernel_config(request))?;
    let mut workloads = Running::start_all(&kernel, request)?;
    if is_traced {
        kernel.start_trace();
    }
    let mut executor = Executor::new(engine);
    let mut snapshot = Snapshot {
        profile: None,
        counts: kernel.counts(),
        latency_count: 0,
    };
    let warm_up = clock.cycles(nanos(scenario.run.warm_up));
    if warm_up > Cycles::ZERO {
        executor.run_until(warm_up)?;
        snapshot = Snapshot {
            profile: Some(executor.totals().profile),
            counts: kernel.counts(),
            latency_count: kernel.wake_latencies().len(),
        };
        workloads.iter_mut().for_each(Running::warmed_up);
    }
    run_in_steps(&mut executor, &kernel, request, progress)?;
    let totals = executor.totals();
    let counted = totals.end.saturating_sub(warm_up);
    let window = Window {
        seconds: clock.nanos(counted).0.max(1.0) / 1e9,
        clock,
        kernel: &kernel,
        end: totals.end,
        per_second: 0.0,
    };
    let ended = Ended {
        clock,
        variant: request.variant,
        run: scenario.run,
        has_overlapping_cpusets: kernel.config().has_overlapping_cpusets(),
        snapshot,
        counts: kernel.counts(),
        cpu_loads: kernel.cpu_loads(),
        wake_latencies: kernel.wake_latencies(),
        workloads: workloads
            .iter()
            .map(|running| running.result(window))
            .collect(),
        totals,
    };
    let trace = kernel.engine().take_trace(functions::NAMES);
    Ok((ended.outcome(), trace))
}

fn run_in_steps(
    executor: &mut Executor,
    kernel: &Kernel,
    request: &RunRequest<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), SimError> {
    let clock = kernel.engine().machine().clock;
    let all_ns = request.duration().map(|time| time.as_nanos() as u64);
    // Without a known end, progress is reported each 100 ms of virtual time.
    let step_ns = all_ns.map_or(100_000_000, |all| all / PROGRESS_STEPS + 1);
    let mut done_ns = request.scenario.run.warm_up.as_nanos() as u64;
    loop {
        done_ns += step_ns;
        let until = clock.cycles(Nanos(done_ns as f64));
        if executor.run_until(until)? < until || kernel.engine().end() <= until {
            return Ok(());
        }
        progress(done_ns, all_ns);
    }
}

fn kernel_config(request: &RunRequest<'_>) -> KernelConfig {
    let spec = &request.scenario.kernel;
    let cpus = request.machine.topology.cpu_count();
    let balancing = request.variant.balancing;
    let of_policy = || KernelConfig::new(balancing).wake_lists;
    KernelConfig {
        balancing,
        wake_lists: spec.wake_lists.unwrap_or_else(of_policy),
        partition: request.scenario.partition(cpus),
        throttling: request.variant.throttling,
        preemption: request.variant.preempt,
        placement: request.variant.placement,
        mechanisms: request.variant.mechanisms.clone(),
        ..spec.shared.clone()
    }
}
