//! Limits on what the keys of a scenario make together: each key has a limit of its own, and their
//! products have one each.

use hitm_base::Topology;

use super::workload::{CpuChoice, WorkloadKind};
use super::{MESSAGE_BYTES_MAX, QUEUES_MAX, Scenario, ScenarioError, TASKS_MAX};

/// A product of keys.
struct Product {
    /// The key that an error is about.
    key: &'static str,
    /// The factors, each with its key.
    factors: Vec<(&'static str, u64)>,
}

impl Product {
    fn new(key: &'static str, factors: &[(&'static str, u64)]) -> Product {
        let factors = factors.to_vec();
        Product { key, factors }
    }

    fn value(&self) -> u64 {
        let factors = self.factors.iter().map(|(_, factor)| *factor);
        factors.fold(1, u64::saturating_mul)
    }

    /// `2097152 (2 x 4096 groups x 256 pairs)`.
    fn text(&self) -> String {
        let factors = self.factors.iter().map(|(key, factor)| match *key {
            "" => factor.to_string(),
            key => format!("{factor} {key}"),
        });
        let factors: Vec<String> = factors.collect();
        match factors.len() {
            1 => self.value().to_string(),
            _ => format!("{} ({})", self.value(), factors.join(" x ")),
        }
    }
}

impl Scenario {
    /// Fails when the workloads make more together than a simulation has memory for.
    pub(super) fn check_products(&self, topology: &Topology) -> Result<(), ScenarioError> {
        let (mut tasks, mut message_bytes) = (0_u64, 0);
        // Groups of their own have at most 256 tables.
        let mut queues = (self.groups.len() * topology.cpu_count()) as u64;
        for (index, workload) in self.workloads.iter().enumerate() {
            let kind = &workload.kind;
            let limited = [
                (
                    Some(task_count(kind, topology)),
                    &mut tasks,
                    TASKS_MAX,
                    "tasks",
                ),
                (
                    queue_count(kind, topology),
                    &mut queues,
                    QUEUES_MAX,
                    "queues of groups",
                ),
                (
                    bytes_in_pipes(kind),
                    &mut message_bytes,
                    MESSAGE_BYTES_MAX,
                    "bytes in pipes",
                ),
            ];
            for (product, sum, most, what) in limited {
                let Some(product) = product else { continue };
                let before = *sum;
                *sum = before.saturating_add(product.value());
                if *sum > most {
                    let with_others = match before {
                        0 => String::new(),
                        before => format!(" beside {before} of workloads before"),
                    };
                    let found = format!("{} {what}{with_others}", product.text());
                    let key = format!("workload[{index}].{}", product.key);
                    let expected = format!("at most {most} in all workloads");
                    return Err(self.error(&key, found, expected));
                }
            }
        }
        Ok(())
    }
}

/// Tasks that a workload begins with; rt-app files have a limit of their own.
fn task_count(kind: &WorkloadKind, topology: &Topology) -> Product {
    let cpus = topology.cpu_count() as u64;
    let threads = |choice: &CpuChoice| {
        let own = choice.cpus.as_ref().map_or(topology.cpu_count(), Vec::len);
        let count = choice.threads.unwrap_or(own) as u64;
        Product::new("threads", &[("threads", count)])
    };
    match kind {
        WorkloadKind::RtMigrateTest { tasks, .. } => {
            let count = tasks.map_or(cpus + 1, |tasks| tasks as u64);
            Product::new("tasks", &[("tasks", count)])
        }
        WorkloadKind::Pool(spec) => {
            let of_cores = topology.core_count() / spec.cores_per_instance;
            let instances = spec.instances.unwrap_or(of_cores) as u64;
            let workers = spec.workers as u64;
            Product::new("workers", &[("instances", instances), ("workers", workers)])
        }
        WorkloadKind::CgroupHogs(spec) => {
            let factors = [
                ("subtrees", spec.subtrees as u64),
                ("children", spec.children as u64),
                ("leaves", spec.leaves as u64),
                ("hogs", spec.hogs as u64),
            ];
            Product::new("hogs", &factors)
        }
        WorkloadKind::LockHolder(_) => Product::new("kind", &[("", 3), ("CPUs", cpus)]),
        WorkloadKind::Hackbench(spec) => {
            let (groups, pairs) = (spec.groups as u64, spec.pairs as u64);
            Product::new("pairs", &[("", 2), ("groups", groups), ("pairs", pairs)])
        }
        WorkloadKind::Schbench(spec) => {
            let (messengers, workers) = (spec.message_threads as u64, spec.workers as u64);
            let factors = [
                ("message_threads", messengers),
                ("(1 + workers)", workers + 1),
            ];
            Product::new("workers", &factors)
        }
        WorkloadKind::PiStress { groups, .. } => {
            let groups = groups.map_or(cpus / 2, |groups| groups as u64);
            Product::new("groups", &[("", 3), ("groups", groups)])
        }
        WorkloadKind::RequestResponse(spec) => {
            let clients = spec.pairs.len() as u64;
            Product::new("clients", &[("", 2), ("clients", clients)])
        }
        kind => kind
            .cpus()
            .map_or_else(|| Product::new("file", &[("", 0)]), threads),
    }
}

/// Queues of a workload's groups: each group has one on each CPU.
fn queue_count(kind: &WorkloadKind, topology: &Topology) -> Option<Product> {
    let WorkloadKind::CgroupHogs(spec) = kind else {
        return None;
    };
    let (children, leaves) = (spec.children as u64, spec.leaves as u64);
    let factors = [
        ("subtrees", spec.subtrees as u64),
        (
            "(1 + children + children x leaves)",
            1 + children + children * leaves,
        ),
        ("CPUs", topology.cpu_count() as u64),
    ];
    Some(Product::new("children", &factors))
}

fn bytes_in_pipes(kind: &WorkloadKind) -> Option<Product> {
    let WorkloadKind::Hackbench(spec) = kind else {
        return None;
    };
    let factors = [
        ("groups", spec.groups as u64),
        ("pairs", spec.pairs as u64),
        ("size_bytes", spec.size_bytes),
    ];
    Some(Product::new("size_bytes", &factors))
}
