//! One lock and the threads that want it: how long they hold it and wait, and what follows.

use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{Cycles, Distance};
use hitm_policy::{Need, Step, Watch, Window, cpus_of_use, hold_share};

use crate::kernel::costs::LockCosts;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::lock_stat::Use;
use crate::kernel::task::TaskId;

/// A mean that forgets.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, span: Cycles) {
        self.sum += span.0;
        self.count += 1;
    }

    /// Half of what it knows counts no more.
    fn fade(&mut self) {
        self.sum /= 2;
        self.count /= 2;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// A thread that had to wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Member {
    /// Time at which it gave the lock back last, in its own CPU time.
    released: Option<Cycles>,
    /// From then to when it wanted it again.
    between: Option<Cycles>,
}

/// One lock and the threads that want it.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Threads that had to wait.
    pub(super) members: BTreeMap<TaskId, Member>,
    /// By distance of the use before.
    holds: [Mean; Distance::COUNT],
    between: Mean,
    /// Of the window: since when, and how long threads waited.
    pub(super) since: Cycles,
    waited: Cycles,
    /// Threads that want it now.
    pub(super) waiting: u32,
    watch: Watch,
    pub(super) placed: Option<Rc<CpuMask>>,
}

impl Group {
    /// A thread wants the lock: what it did since it had it last was its own.
    pub(super) fn wanted(&mut self, task: TaskId, cpu_time: Cycles) {
        self.waiting += 1;
        if let Some(member) = self.members.get_mut(&task) {
            let released = member.released.take();
            member.between = released.map(|released| cpu_time.saturating_sub(released));
        }
    }

    /// It has it, after so long a wait; returns whether it had to wait, which makes it a member.
    pub(super) fn taken(&mut self, task: TaskId, wait: Cycles, contended: bool) -> bool {
        self.waiting -= 1;
        if contended {
            self.waited += wait;
            let member = self.members.entry(task).or_default();
            if let Some(between) = member.between.take() {
                self.between.add(between);
            }
        }
        contended
    }

    /// It has given it back.
    pub(super) fn released(&mut self, task: TaskId, used: Use, cpu_time: Cycles) {
        if let Some(member) = self.members.get_mut(&task) {
            member.released = Some(cpu_time);
        }
        if let (Some(distance), true) = (used.distance, used.is_contended) {
            self.holds[distance.index()].add(used.hold);
        }
    }

    /// Share of its time for which a thread holds the lock.
    pub(super) fn hold_share(&self, costs: &LockCosts) -> Option<f64> {
        let mut holds = self.holds.iter();
        let near = holds.find(|mean| mean.count >= costs.uses_min)?;
        let (hold, between) = (near.value()?, self.between.value()?);
        Some(hold_share(hold, between))
    }

    /// Judges the group at the end of a window of this length, where quotas are worth so many CPUs.
    pub(super) fn judge(
        &mut self,
        window: Cycles,
        costs: &LockCosts,
        quota_cpus: Option<usize>,
    ) -> Step {
        let of_use = self.hold_share(costs).map(cpus_of_use);
        let seen = Window {
            waiting: self.waited.0 as f64 / window.0 as f64,
            needed: of_use.map(|of_use| Need::new(of_use, quota_cpus).least),
        };
        self.watch.observe(seen, costs.limits)
    }

    /// It has these CPUs from now on, or none, and then no members either.
    pub(super) fn settle(&mut self, domain: Option<Rc<CpuMask>>) {
        self.watch
            .settle(domain.as_ref().map(|domain| domain.count()));
        if domain.is_none() {
            self.members.clear();
        }
        self.placed = domain;
    }

    /// Begins a window.
    pub(super) fn next_window(&mut self, now: Cycles) {
        self.since = now;
        self.waited = Cycles::ZERO;
        self.between.fade();
        self.holds.iter_mut().for_each(Mean::fade);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::CostOverrides;

    fn costs() -> LockCosts {
        LockCosts::new(
            hitm_base::Clock::from_khz(1_000_000),
            &CostOverrides::default(),
        )
    }

    #[test]
    fn the_nearest_uses_decide_the_share() {
        let mut group = Group::default();
        for _ in 0..costs().uses_min {
            group.between.add(Cycles(570));
            group.holds[Distance::Remote.index()].add(Cycles(2000));
        }
        assert_eq!(group.hold_share(&costs()), Some(2000.0 / 2570.0));
        for _ in 0..costs().uses_min {
            group.holds[Distance::Cluster.index()].add(Cycles(430));
        }
        assert_eq!(group.hold_share(&costs()), Some(0.43));
    }

    #[test]
    fn one_crowded_window_is_not_enough_and_calm_ones_end_it() {
        let mut group = Group::default();
        let window = Cycles(100);
        let mut judge = |waited: u64| {
            for _ in 0..costs().uses_min {
                group.between.add(Cycles(60));
                group.holds[0].add(Cycles(40));
            }
            group.waited = Cycles(waited);
            let step = group.judge(window, &costs(), None);
            group.next_window(Cycles::ZERO);
            match step {
                Step::Stay => 's',
                Step::Release => 'r',
                Step::Place(_) => {
                    group.settle(Some(Rc::new(CpuMask::all(4))));
                    'p'
                }
            }
        };
        let verdicts: String = [300, 100, 300, 300, 20, 20, 200, 20, 20, 20, 20]
            .into_iter()
            .map(&mut judge)
            .collect();
        assert_eq!(verdicts, "ssspssssssr");
    }
}
