//! Starts benchmarks of locks, requests and policies, and says what they gave.

use std::rc::Rc;

use hitm_base::CpuId;

use super::Scenario;
use super::start::{Add, nanos};
use super::workload::{LockBenchSpec, PolicyChangerSpec, RequestResponseSpec, WorkloadKind};
use crate::engine::SimError;
use crate::kernel::Kernel;
use crate::workload::lock_bench::{LockBench, LockBenchConfig};
use crate::workload::policy_changer::{PolicyChanger, PolicyChangerConfig};
use crate::workload::request_response::{RequestResponse, RequestResponseConfig};

/// A benchmark that runs.
pub(super) enum Bench {
    Lock(Rc<LockBench>),
    Requests(Rc<RequestResponse>),
    Policies(Rc<PolicyChanger>),
}

impl Bench {
    /// Starts the benchmark that a workload asks for; none for other workloads.
    pub(super) fn start(
        kernel: &Rc<Kernel>,
        scenario: &Scenario,
        kind: &WorkloadKind,
    ) -> Result<Option<Bench>, SimError> {
        Ok(Some(match kind {
            WorkloadKind::LockBench(spec) => Bench::Lock(lock_bench(kernel, scenario, spec)?),
            WorkloadKind::RequestResponse(spec) => Bench::Requests(request_response(kernel, spec)?),
            WorkloadKind::PolicyChanger(spec) => {
                Bench::Policies(policy_changer(kernel, scenario, spec)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Operations so far.
    pub(super) fn operations(&self) -> u64 {
        match self {
            Bench::Lock(bench) => bench.acquisitions().iter().sum(),
            Bench::Requests(run) => run.transactions(),
            Bench::Policies(run) => run.changes(),
        }
    }

    pub(super) fn metrics(&self, per_second: f64, add: Add<'_>) {
        match self {
            Bench::Lock(bench) => lock_bench_metrics(bench, per_second, add),
            Bench::Requests(_) => {
                let text = "Transactions of all pairs a second";
                add("transactions_per_second", "1/s", per_second, text);
            }
            Bench::Policies(_) => {
                let text = "Changes of policy of all threads a second";
                add("changes_per_second", "1/s", per_second, text);
            }
        }
    }
}

fn lock_bench(
    kernel: &Rc<Kernel>,
    scenario: &Scenario,
    spec: &LockBenchSpec,
) -> Result<Rc<LockBench>, SimError> {
    let config = LockBenchConfig {
        lock: spec.lock,
        threads: spec.cpus.masks(scenario, kernel.cpu_count()),
        policy: spec.sched.policy,
        hold: nanos(spec.hold),
        pause: nanos(spec.pause),
    };
    LockBench::spawn(kernel, &config)
}

fn request_response(
    kernel: &Rc<Kernel>,
    spec: &RequestResponseSpec,
) -> Result<Rc<RequestResponse>, SimError> {
    let pairs = spec.clients.iter().zip(&spec.servers);
    let config = RequestResponseConfig {
        pairs: pairs
            .map(|(client, server)| (CpuId(*client), CpuId(*server)))
            .collect(),
        policy: spec.sched.policy,
        size_bytes: spec.size_bytes,
        work: nanos(spec.work),
    };
    RequestResponse::spawn(kernel, &config)
}

fn policy_changer(
    kernel: &Rc<Kernel>,
    scenario: &Scenario,
    spec: &PolicyChangerSpec,
) -> Result<Rc<PolicyChanger>, SimError> {
    let config = PolicyChangerConfig {
        threads: spec.cpus.masks(scenario, kernel.cpu_count()),
        policies: spec.policies.clone(),
        work: nanos(spec.work),
    };
    PolicyChanger::spawn(kernel, &config)
}

fn lock_bench_metrics(bench: &LockBench, per_second: f64, add: Add<'_>) {
    let text = "Acquisitions of all threads a second";
    add("acquisitions_per_second", "1/s", per_second, text);
    let counts = bench.acquisitions();
    let ends = counts.iter().min().zip(counts.iter().max());
    if let Some((least, most)) = ends.filter(|(_, most)| **most > 0) {
        let text = "Acquisitions of the thread with the fewest over those of the one with the most, in the \
                    whole run";
        add("least_of_most", "ratio", *least as f64 / *most as f64, text);
    }
}
