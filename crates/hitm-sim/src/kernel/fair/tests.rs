//! EEVDF and its hierarchy against what they promise, on plain values: one CPU, no machine.

use proptest::prelude::*;

use super::cfs_rq::CfsId;
use super::entity::{Entity, EntityId, Owner};
use super::group::{GroupId, Groups};
use super::tree::{Dequeue, Enqueue, FairTree};
use super::weight::NICE_0_WEIGHT;
use crate::kernel::TaskId;

const SLICE: u64 = 3_000_000;
const TICK: u64 = 4_000_000;

/// One CPU that runs the class by hand.
struct OneCpu {
    groups: Groups,
    tasks: Vec<EntityId>,
    asleep: Vec<bool>,
    running: Option<EntityId>,
    now: u64,
}

impl OneCpu {
    fn new() -> OneCpu {
        OneCpu {
            groups: Groups::new(FairTree::new(SLICE, TICK), 1),
            tasks: Vec::new(),
            asleep: Vec::new(),
            running: None,
            now: 1,
        }
    }

    fn task(&mut self, group: GroupId, weight: u64) -> usize {
        let id = TaskId(self.tasks.len() as u32);
        let cfs = self.groups.queue(group, 0);
        let parent = self.groups.tree.q(cfs).se;
        let entity = Entity::new(Owner::Task(id), cfs, parent, weight);
        self.tasks.push(self.groups.tree.add(entity));
        self.asleep.push(true);
        self.tasks.len() - 1
    }

    fn wake(&mut self, task: usize) {
        self.asleep[task] = false;
        let mut next = Some(self.tasks[task]);
        if self.groups.tree.se(self.tasks[task]).delayed {
            self.groups.tree.requeue_delayed(self.tasks[task], self.now);
            return;
        }
        while let Some(se) = next {
            next = self.groups.tree.se(se).parent;
            if !self.groups.tree.se(se).on_rq {
                self.groups.tree.enqueue(se, self.now, Enqueue::default());
            } else if self.groups.tree.se(se).delayed {
                self.groups.tree.requeue_delayed(se, self.now);
            }
        }
    }

    fn sleep(&mut self, task: usize, is_delayed: bool) {
        self.asleep[task] = true;
        self.leave(self.tasks[task], is_delayed);
    }

    fn leave(&mut self, se: EntityId, is_delayed: bool) {
        let mut how = Dequeue {
            sleeps: true,
            is_delayed,
            is_special: false,
        };
        let mut next = Some(se);
        while let Some(se) = next {
            let cfs = self.groups.tree.se(se).cfs;
            if !self.groups.tree.dequeue(se, self.now, how).1 {
                return;
            }
            how.is_delayed = false;
            if self.groups.tree.q(cfs).load > 0 {
                return;
            }
            next = self.groups.tree.se(se).parent;
        }
    }

    fn chain(&self, se: EntityId) -> Vec<EntityId> {
        std::iter::successors(Some(se), |se| self.groups.tree.se(*se).parent).collect()
    }

    /// Picks the task to run and switches to it.
    fn schedule(&mut self) -> Option<usize> {
        let picked = loop {
            let mut cfs = CfsId(0);
            let end = loop {
                self.groups.tree.update_curr(cfs, self.now);
                let Some(se) = self.groups.tree.pick_eevdf(cfs) else {
                    break None;
                };
                if self.groups.tree.se(se).delayed {
                    self.leave(se, true);
                    break Some(None);
                }
                match self.groups.tree.se(se).owner {
                    Owner::Task(task) => break Some(Some((se, task))),
                    Owner::Group(below) => cfs = below,
                }
            };
            match end {
                None => break None,
                Some(None) => {}
                Some(Some(found)) => break Some(found),
            }
        };
        let next = picked.map(|(se, _)| se);
        if next != self.running {
            if let Some(prev) = self.running.take() {
                for se in self.chain(prev) {
                    self.groups.tree.put_prev(se, self.now);
                }
            }
            if let Some(next) = next {
                for se in self.chain(next) {
                    self.groups.tree.set_next(se, self.now);
                }
            }
            self.running = next;
        }
        picked.map(|(_, task)| task.index())
    }

    /// Runs for `span`, with a look at the scheduler every `quantum`.
    fn run(&mut self, span: u64, quantum: u64) {
        let end = self.now + span;
        while self.now < end {
            self.schedule();
            self.now += quantum;
            if let Some(running) = self.running {
                for se in self.chain(running) {
                    let cfs = self.groups.tree.se(se).cfs;
                    self.groups.tree.update_curr(cfs, self.now);
                }
            }
            self.check();
        }
    }

    fn ran(&self, task: usize) -> u64 {
        self.groups.tree.se(self.tasks[task]).sum_exec
    }

    /// The part of the CPU that is due to a task.
    fn share(&self, task: usize) -> f64 {
        let of = |se: &EntityId| {
            let entity = self.groups.tree.se(*se);
            entity.weight as f64 / self.groups.tree.q(entity.cfs).load as f64
        };
        self.chain(self.tasks[task]).iter().map(of).product()
    }

    /// The sums of every queue are those of its entities, and lags add up to nothing.
    fn check(&self) {
        for number in 0..self.groups.tree.queues.len() {
            let cfs = CfsId(number as u32);
            let queue = self.groups.tree.q(cfs);
            let entities = &self.groups.tree.entities;
            let ids = (0..entities.len() as u32).map(EntityId);
            let queued: Vec<EntityId> = ids
                .filter(|id| self.groups.tree.se(*id).cfs == cfs && self.groups.tree.se(*id).on_rq)
                .collect();
            assert_eq!(queued.len(), queue.nr_queued as usize);
            let weight = |id: &EntityId| self.groups.tree.se(*id).weight;
            assert_eq!(queued.iter().map(weight).sum::<u64>(), queue.load);
            let waiting = queued.iter().filter(|id| queue.curr != Some(**id));
            let sum = |id: &EntityId| {
                let se = self.groups.tree.se(*id);
                i128::from(se.vruntime - queue.zero_vruntime) * i128::from(se.weight)
            };
            assert_eq!(waiting.map(sum).sum::<i128>(), queue.sum_w_vruntime);
            if queued.is_empty() {
                continue;
            }
            let average = self.groups.tree.avg_vruntime(cfs);
            let lag = |id: &EntityId| {
                let se = self.groups.tree.se(*id);
                i128::from(average - se.vruntime) * i128::from(se.weight)
            };
            let lags: i128 = queued.iter().map(lag).sum();
            assert!(
                lags <= 0 && lags > -i128::from(queue.load),
                "lags of queue {number} add up to {lags}"
            );
            let eligible = |id: &&EntityId| self.groups.tree.is_eligible(cfs, **id);
            assert!(queued.iter().any(|id| eligible(&id)), "nobody may run");
        }
    }
}

#[test]
fn equal_tasks_stay_within_a_slice_of_each_other() {
    let mut cpu = OneCpu::new();
    for _ in 0..7 {
        let task = cpu.task(GroupId::ROOT, NICE_0_WEIGHT);
        cpu.wake(task);
    }
    for _ in 0..200 {
        cpu.run(5_000_000, 100_000);
        let ran: Vec<u64> = (0..7).map(|task| cpu.ran(task)).collect();
        let (least, most) = (ran.iter().min().unwrap(), ran.iter().max().unwrap());
        // A slice, and what is run until the next look at the scheduler.
        assert!(most - least <= SLICE + 100_000, "{ran:?}");
    }
}

#[test]
fn time_is_shared_by_weight() {
    let mut cpu = OneCpu::new();
    let weights = [1024, 2048, 335];
    for weight in weights {
        let task = cpu.task(GroupId::ROOT, weight);
        cpu.wake(task);
    }
    cpu.run(3_407_000_000, 100_000);
    for (task, weight) in weights.into_iter().enumerate() {
        let fair = weight * 1_000_000;
        assert!(cpu.ran(task).abs_diff(fair) <= SLICE + 100_000);
    }
}

#[test]
fn a_group_has_its_share_however_many_tasks_it_has() {
    let mut cpu = OneCpu::new();
    let crowd = cpu.groups.add(GroupId::ROOT, NICE_0_WEIGHT, None);
    let alone = cpu.task(GroupId::ROOT, NICE_0_WEIGHT);
    cpu.wake(alone);
    for _ in 0..9 {
        let task = cpu.task(crowd, NICE_0_WEIGHT);
        cpu.wake(task);
    }
    cpu.run(1_000_000_000, 100_000);
    assert!(cpu.ran(alone).abs_diff(500_000_000) <= SLICE + 100_000);
}

#[test]
fn a_sleeper_that_owes_time_stays_queued_until_it_owes_none() {
    let mut cpu = OneCpu::new();
    let (a, b) = (
        cpu.task(GroupId::ROOT, NICE_0_WEIGHT),
        cpu.task(GroupId::ROOT, NICE_0_WEIGHT),
    );
    cpu.wake(a);
    cpu.wake(b);
    let first = cpu.schedule().unwrap();
    cpu.now += 2_000_000;
    cpu.sleep(first, false);
    let se = cpu.tasks[first];
    assert!(cpu.groups.tree.se(se).delayed);
    assert!(cpu.groups.tree.se(se).on_rq);
    // The other one catches up; then the sleeper goes.
    cpu.run(5_000_000, 100_000);
    assert!(!cpu.groups.tree.se(se).on_rq);
    assert_eq!(cpu.groups.tree.se(se).vlag.max(0), 0);
    assert_eq!(cpu.running, Some(cpu.tasks[a + b - first]));
}

/// A step in the life of a random tree.
#[derive(Debug, Clone, Copy)]
enum Step {
    Wake(usize),
    Sleep,
    Run(u64),
    Reweight(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0usize..12).prop_map(Step::Wake),
        2 => Just(Step::Sleep),
        4 => (1u64..8_000_000).prop_map(Step::Run),
        1 => (0usize..5, 2u64..90_000).prop_map(|(group, weight)| Step::Reweight(group, weight)),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever happens to whatever tree: sums hold, lags add up to zero, somebody may run, and
    /// at the end nobody starves.
    #[test]
    fn random_trees_keep_their_sums_and_starve_nobody(
        parents in prop::collection::vec(0usize..5, 4),
        places in prop::collection::vec((0usize..5, 256u64..3_000), 12),
        steps in steps(),
    ) {
        let mut cpu = OneCpu::new();
        for (number, parent) in parents.iter().enumerate() {
            cpu.groups.add(GroupId((*parent).min(number) as u32), NICE_0_WEIGHT, None);
        }
        for (group, weight) in places {
            cpu.task(GroupId(group as u32), weight);
        }
        for step in steps {
            match step {
                Step::Wake(task) if cpu.asleep[task] => cpu.wake(task),
                Step::Wake(_) => {}
                Step::Sleep => {
                    if let Some(task) = cpu.schedule() {
                        cpu.now += 50_000;
                        cpu.sleep(task, false);
                    }
                }
                Step::Run(span) => cpu.run(span, span.min(1_000_000)),
                Step::Reweight(group, weight) => {
                    let cfs = cpu.groups.queue(GroupId(group as u32), 0);
                    if let Some(se) = cpu.groups.tree.q(cfs).se {
                        cpu.groups.tree.reweight(se, weight, cpu.now);
                    }
                }
            }
            cpu.check();
        }
        starve_nobody(&mut cpu)?;
    }
}

/// Equal weights again, all awake: each task gets time.
fn starve_nobody(cpu: &mut OneCpu) -> Result<(), TestCaseError> {
    for group in 1..cpu.groups.groups.len() {
        let cfs = cpu.groups.queue(GroupId(group as u32), 0);
        if let Some(se) = cpu.groups.tree.q(cfs).se {
            cpu.groups.tree.reweight(se, NICE_0_WEIGHT, cpu.now);
        }
    }
    for task in 0..cpu.tasks.len() {
        if cpu.asleep[task] {
            cpu.wake(task);
        }
    }
    let before: Vec<u64> = (0..cpu.tasks.len()).map(|task| cpu.ran(task)).collect();
    // At each level up to two slices ahead of its share, and one slice at a time.
    let patience = |task: usize| (6.0 * SLICE as f64 / cpu.share(task)) as u64;
    let patience: Vec<u64> = (0..cpu.tasks.len()).map(patience).collect();
    let span = 10_000_000_000;
    for _ in 0..span / SLICE {
        cpu.schedule();
        cpu.now += SLICE;
    }
    cpu.schedule();
    for (task, before) in before.into_iter().enumerate() {
        let starves = cpu.ran(task) == before && patience[task] < span;
        prop_assert!(!starves, "task {task} starves");
    }
    Ok(())
}
