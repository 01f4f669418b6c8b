//! Scheduling of a thread: as its task says, then as each phase changes it.

use std::time::Duration;

use hitm_base::Nanos;

use super::{DeadlineTimes, RtApp, SchedParams};
use crate::kernel::{DlParams, Kernel, Policy};

/// rt-app's own default for the real-time policies.
const RT_PRIORITY: i32 = 10;

/// Policy and priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheduling {
    policy: super::Policy,
    /// 1 to 99 for the real-time policies, a nice value for the others.
    priority: i32,
    times: Option<DeadlineTimes>,
}

impl Scheduling {
    /// That of a new thread.
    pub(super) fn of(app: &RtApp, sched: &SchedParams) -> Scheduling {
        let policy = sched.policy.unwrap_or(app.global.default_policy);
        Scheduling {
            policy,
            priority: sched.priority.unwrap_or(usual_priority(policy)),
            times: sched.deadline,
        }
    }

    /// That of a phase, which keeps what it does not state; a policy without a priority has the usual one.
    pub(super) fn then(self, phase: &SchedParams) -> Scheduling {
        let policy = phase.policy.unwrap_or(self.policy);
        let kept = match phase.policy {
            Some(policy) => usual_priority(policy),
            None => self.priority,
        };
        Scheduling {
            policy,
            priority: phase.priority.unwrap_or(kept),
            times: self.times,
        }
    }

    pub(super) fn policy(self, kernel: &Kernel) -> Policy {
        let cycles = |time: Duration| kernel.cycles(Nanos(time.as_nanos() as f64));
        match self.policy {
            super::Policy::Deadline => {
                let times = self.times.expect("the reader wants them of this policy");
                Policy::Deadline(DlParams {
                    runtime: cycles(times.runtime),
                    deadline: cycles(times.deadline),
                    period: cycles(times.period),
                })
            }
            super::Policy::Fifo => Policy::Fifo(self.priority as u8),
            super::Policy::Rr => Policy::Rr(self.priority as u8),
            super::Policy::Other => Policy::Normal(self.priority as i8),
            super::Policy::Batch => Policy::Batch(self.priority as i8),
            super::Policy::Idle => Policy::Idle,
        }
    }
}

/// rt-app's own defaults.
fn usual_priority(policy: super::Policy) -> i32 {
    match policy {
        super::Policy::Fifo | super::Policy::Rr => RT_PRIORITY,
        super::Policy::Other
        | super::Policy::Batch
        | super::Policy::Idle
        | super::Policy::Deadline => 0,
    }
}
