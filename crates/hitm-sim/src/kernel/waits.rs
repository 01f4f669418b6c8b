//! Waits of tasks for a CPU, by cause.
//!
//! **What Linux does:** `cpu.stat` has for how long queues were throttled, and schedstat for how long
//! a task was ready without a CPU. `hitm live throttle` splits a throttling by its cause.
//!
//! **What we do:** the same split of every wait: each moment of it belongs to one cause. Counting costs
//! nothing here.
//!
//! **What a test could notice:** a wait counts when it ends. One that lasts to the end of the run
//! does not count.

use hitm_base::Cycles;

use super::Kernel;
use super::fair::GroupId;
use super::task::Task;

/// Time for which a task was ready and did not run, by cause: the causes of `hitm live throttle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitCauses {
    /// The quota: until the timer was due that gave it.
    pub quota: Cycles,
    /// The timer: it started late, and walked until it reached the task's CPU.
    pub timer: Cycles,
    /// The interrupt to the task's CPU, and that CPU's own walk over its queues.
    pub interrupt: Cycles,
    /// The CPU: the task could run, and others ran or the CPU was on its way.
    pub cpu: Cycles,
}

impl WaitCauses {
    /// Sum of all causes.
    pub fn total(&self) -> Cycles {
        self.throttled() + self.cpu
    }

    /// Time for which a group without quota stopped the task.
    pub fn throttled(&self) -> Cycles {
        self.quota + self.timer + self.interrupt
    }

    /// Adds the parts of `other`.
    pub fn add(&mut self, other: &WaitCauses) {
        self.quota += other.quota;
        self.timer += other.timer;
        self.interrupt += other.interrupt;
        self.cpu += other.cpu;
    }

    /// The parts that came after those of `before`.
    #[must_use]
    pub fn since(&self, before: &WaitCauses) -> WaitCauses {
        WaitCauses {
            quota: self.quota.saturating_sub(before.quota),
            timer: self.timer.saturating_sub(before.timer),
            interrupt: self.interrupt.saturating_sub(before.interrupt),
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
}

/// A span for which a queue was stopped by its group or one above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) begin: Cycles,
    /// Time at which the timer was due that let it run.
    pub(super) due: Cycles,
    /// Time at which that timer asked the queue's CPU, if it did.
    pub(super) asked: Option<Cycles>,
    pub(super) end: Cycles,
}

impl Stop {
    /// The part from `from` on, by cause.
    fn causes(&self, from: Cycles) -> WaitCauses {
        let from = from.max(self.begin).min(self.end);
        let asked = self.asked.unwrap_or(self.end).clamp(from, self.end);
        let due = self.due.clamp(from, asked);
        WaitCauses {
            quota: due - from,
            timer: asked - due,
            interrupt: self.end - asked,
            cpu: Cycles::ZERO,
        }
    }
}

/// A wait that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ready {
    since: Cycles,
    /// Stops are counted up to here.
    counted: Cycles,
    stopped: WaitCauses,
}

impl Ready {
    fn at(now: Cycles) -> Ready {
        Ready {
            since: now,
            counted: now,
            stopped: WaitCauses::default(),
        }
    }

    fn add(&mut self, stop: &Stop) {
        self.stopped.add(&stop.causes(self.counted));
        self.counted = self.counted.max(stop.end);
    }

    /// The whole wait: what no stop explains is the CPU's.
    fn end(self, now: Cycles) -> WaitCauses {
        let total = now.saturating_sub(self.since);
        WaitCauses {
            cpu: total.saturating_sub(self.stopped.throttled()),
            ..self.stopped
        }
    }
}

impl Kernel {
    /// A task was woken.
    pub(super) fn note_ready(&self, task: &Task) {
        task.ready.set(Some(Ready::at(self.engine.now())));
    }

    /// A task gives its CPU to another one: it waits if it still wants to run.
    pub(super) fn note_off_cpu(&self, task: &Task) {
        // A sleeper may stay queued until it owes no time.
        let wants_cpu = !task.is_idle && task.on_rq.get() && !self.is_delayed(task.se);
        self.note_holder(task, Some(wants_cpu));
        if wants_cpu {
            task.ready.set(Some(Ready::at(self.engine.now())));
        }
    }

    /// A task has its CPU.
    pub(super) fn note_on_cpu(&self, task: &Task) {
        self.note_holder(task, None);
        let Some(ready) = task.ready.take() else {
            return;
        };
        let wait = ready.end(self.engine.now());
        task.count(|totals| totals.waits.add(&wait));
    }

    /// A queue that a task waits on is not stopped any more.
    pub(super) fn note_stop(&self, task: &Task, stop: &Stop) {
        if let Some(mut ready) = task.ready.get() {
            ready.add(stop);
            task.ready.set(Some(ready));
        }
    }

    /// CPU time that the tasks of a group and those in it have used by `at`, and their waits that have
    /// ended.
    pub fn group_totals(&self, group: GroupId, at: Cycles) -> (Cycles, WaitCauses) {
        let groups = self.fair.subtree(group);
        let (mut used, mut waits) = (Cycles::ZERO, WaitCauses::default());
        for task in &*self.tasks.borrow() {
            if !task.is_idle && groups.contains(&task.group) {
                used += self.used(task, at);
                waits.add(&task.totals().waits);
            }
        }
        (used, waits)
    }

    /// CPU time that a task has used by `at`, the present or the end of the run.
    pub fn used(&self, task: &Task, at: Cycles) -> Cycles {
        let runs = self.rq(task.cpu.get()).curr.get() == task.id;
        let since = task.on_cpu_since.get();
        let last = if runs {
            at.saturating_sub(since)
        } else {
            Cycles::ZERO
        };
        task.on_cpu_sum.get() + last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Stop = Stop {
        begin: Cycles(100),
        due: Cycles(500),
        asked: Some(Cycles(520)),
        end: Cycles(550),
    };

    fn causes([quota, timer, interrupt, cpu]: [u64; 4]) -> WaitCauses {
        WaitCauses {
            quota: Cycles(quota),
            timer: Cycles(timer),
            interrupt: Cycles(interrupt),
            cpu: Cycles(cpu),
        }
    }

    #[test]
    fn a_stop_has_three_parts() {
        assert_eq!(STOP.causes(Cycles(0)), causes([400, 20, 30, 0]));
        assert_eq!(STOP.causes(Cycles(510)), causes([0, 10, 30, 0]));
        assert_eq!(STOP.causes(Cycles(900)), causes([0; 4]));
        // The timer's own CPU asks nobody; a timer that gave before it was due, as a change of the
        // quota does, was not late.
        let own = Stop {
            asked: None,
            ..STOP
        };
        assert_eq!(own.causes(Cycles(100)), causes([400, 50, 0, 0]));
        let early = Stop {
            due: Cycles(600),
            ..STOP
        };
        assert_eq!(early.causes(Cycles(100)), causes([420, 0, 30, 0]));
    }

    #[test]
    fn what_no_stop_explains_is_the_cpus() {
        let mut ready = Ready::at(Cycles(80));
        ready.add(&STOP);
        // Stops do not count twice, in whatever order queues have them.
        ready.add(&Stop {
            begin: Cycles(300),
            end: Cycles(540),
            ..STOP
        });
        ready.add(&Stop {
            begin: Cycles(600),
            due: Cycles(700),
            asked: None,
            end: Cycles(700),
        });
        let wait = ready.end(Cycles(1000));
        assert_eq!(wait, causes([500, 20, 30, 370]));
        assert_eq!(wait.total(), Cycles(920));
        assert_eq!(
            wait.since(&causes([500, 0, 0, 0])),
            causes([0, 20, 30, 370])
        );
    }
}
