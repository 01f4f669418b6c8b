//! Limits on what the keys of a scenario make together: each key has a limit of its own, and their
//! products have one each.

use hitm_base::Topology;

use super::{MESSAGE_BYTES_MAX, QUEUES_MAX, Scenario, ScenarioError, TASKS_MAX};

/// A product of keys.
pub(crate) struct Product {
    /// The key that an error is about.
    key: &'static str,
    /// The factors, each with its key.
    factors: Vec<(&'static str, u64)>,
}

impl Product {
    pub(crate) fn new(key: &'static str, factors: &[(&'static str, u64)]) -> Product {
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
            let program = workload.kind.program();
            let limited = [
                (
                    Some(program.tasks(topology)),
                    &mut tasks,
                    TASKS_MAX,
                    "tasks",
                ),
                (
                    program.queues(topology),
                    &mut queues,
                    QUEUES_MAX,
                    "queues of groups",
                ),
                (
                    program.bytes_in_pipes(),
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
