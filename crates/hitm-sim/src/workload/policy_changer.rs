//! Threads that change their own policy again and again, as `stress-ng --schedpolicy` does. Each
//! call takes a running task off its queue and puts it back under another class.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use super::placed::{CpuChoice, Placed};
use crate::engine::SimError;
use crate::kernel::{CpuMask, Kernel, Policy, TaskSpec};
use crate::scenario::ScenarioError;
use crate::scenario::start::Start;

/// Configuration of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChangerConfig {
    /// The policies, in turn.
    pub policies: Vec<Policy>,
    /// User code after each change.
    pub work: Nanos,
}

/// A run.
#[derive(Debug, Default)]
pub struct PolicyChanger {
    changes: Cell<u64>,
}

impl PolicyChanger {
    /// Makes a thread for each mask, which may run there.
    ///
    /// # Errors
    /// A task that cannot be.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        threads: &[CpuMask],
        config: &PolicyChangerConfig,
    ) -> Result<Rc<PolicyChanger>, SimError> {
        let run = Rc::new(PolicyChanger::default());
        let mut random = kernel.engine().random("policy-changer");
        let work = kernel.cycles(config.work);
        for (number, mask) in threads.iter().enumerate() {
            let cpus: Vec<CpuId> = mask.iter().collect();
            let spec = TaskSpec {
                name: format!("policy_changer/{number}"),
                policy: config.policies[0],
                allowed: Some(mask.clone()),
                cpu: cpus[number % cpus.len()],
                start: Cycles(random.below(kernel.cycles(Nanos(1e5)).0)),
            };
            let (run, policies) = (Rc::clone(&run), config.policies.clone());
            kernel.spawn(&spec, move |thread| async move {
                for policy in policies.iter().copied().cycle().skip(1) {
                    let own = Rc::clone(thread.task());
                    thread.sched_setscheduler(&own, policy).await;
                    run.changes.set(run.changes.get() + 1);
                    thread.run(work).await;
                }
            })?;
        }
        Ok(run)
    }

    /// Changes so far, of all threads.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }
}

figures! {
    FIGURES {
        CHANGES_PER_SECOND: "changes_per_second", "1/s", "Changes of policy of all threads a second";
    }
}

impl Figures for PolicyChanger {
    fn operations(&self) -> u64 {
        self.changes()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        add(CHANGES_PER_SECOND, window.per_second);
        WorkloadResult::default()
    }
}

/// Policies that the threads go through unless they are told others.
const CHANGED_TO: [Policy; 3] = [Policy::Fifo(1), Policy::Rr(1), Policy::Normal(0)];

pub(super) const KIND: Kind = Kind {
    name: "policy-changer",
    default_name: "policy_changer",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: "",
    optional: r#"
policies = "fifo" | ["fifo", "normal"] | ["batch", "idle", "rr"]
work = "0s" | "5us"
threads = 2 | 1
cpus = "0-3" | "3"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let policies = keys::some_of(table, "policies", &keys::policies())?;
    let work = keys::span(table, "work", keys::ANY, Nanos(0.0))?;
    Ok(WorkloadKind::PolicyChanger(Placed {
        cpus: keys::cpu_choice(table)?,
        config: PolicyChangerConfig {
            policies: policies.unwrap_or_else(|| CHANGED_TO.to_vec()),
            work,
        },
    }))
}

impl Program for Placed<PolicyChangerConfig> {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let masks = start.masks(&self.cpus);
        Ok(PolicyChanger::spawn(start.kernel, &masks, &self.config)?)
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }
}
