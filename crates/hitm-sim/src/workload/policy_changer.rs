//! Threads that change their own policy again and again, as `stress-ng --schedpolicy` does. Each
//! call takes a running task off its queue and puts it back under another class.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::figures::{Add, Figures, Window, figures};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{CpuMask, Kernel, Policy, TaskSpec};

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
