//! Decaying averages of load: kernel/sched/pelt.c, v6.12.
//!
//! **What Linux does:** tasks, queues and CPUs have averages of their load (weight while runnable), of
//! the time that they are runnable and of the time that they run. What happened 32 periods of
//! 1024 us ago counts half. Each queue of a group has averages that are handed up.
//!
//! **What we do:** one set for each task and one for each CPU's root queue, brought up to date when
//! the class touches them. A task's part in its CPU's load is its own load. At each level that is
//! scaled by what its group's entity weighs among that level's present load
//! ([`Kernel::task_h_load`]).
//!
//! **What a test could notice:** time is counted in steps of 32 us; `util_est` does not exist.
//! Frequency and capacity do not change: a CPU's capacity is 1024 less nothing.

use super::entity::EntityId;
use crate::kernel::Kernel;
use crate::kernel::class::Class;
use crate::kernel::rq::Rq;
use crate::kernel::task::Task;

/// A CPU that is always busy; weight of nice 0.
pub(super) const SCALE: u64 = 1024;
/// Parts of a unit that averages are kept in.
const FRACTION_BITS: u32 = 10;
/// Steps of a half-life.
const STEPS: u64 = 1024;
/// 2^63 times the part of an average that is left after a step: 2^(-1 / STEPS).
const STEP_FACTOR: u64 = 9_217_130_834_664_616_069;
/// The half-life: 32 periods of 1024 us.
pub(in crate::kernel) const HALF_LIFE_NS: f64 = 32.0 * 1024e3;

/// The averages of a task or a CPU, in 2^-10 of the units that [`Load`] has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::kernel) struct Averages {
    /// Cycles.
    at: u64,
    parts: [u64; 3],
}

/// A load at a moment, or its average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::kernel) struct Load {
    /// Weight of what is runnable.
    pub(in crate::kernel) load: u64,
    /// 1024 for each task that is.
    pub(in crate::kernel) runnable: u64,
    /// 1024 while one of them runs.
    pub(in crate::kernel) util: u64,
}

/// Bits of each part of a word with averages: enough for a load of 268 million, 4,095 runnable tasks and 15
/// that run.
const LOAD_BITS: u32 = 28;
const RUNNABLE_BITS: u32 = 22;
const UTIL_BITS: u32 = 14;

impl Load {
    /// The word in which a CPU tells others: `load_avg`, `runnable_avg` and `util_avg` lie in one line and are
    /// written together.
    pub(super) fn to_word(self) -> u64 {
        let part = |value: u64, bits: u32| value.min((1 << bits) - 1);
        part(self.load, LOAD_BITS) << (RUNNABLE_BITS + UTIL_BITS)
            | part(self.runnable, RUNNABLE_BITS) << UTIL_BITS
            | part(self.util, UTIL_BITS)
    }

    pub(super) fn from_word(word: u64) -> Load {
        Load {
            load: word >> (RUNNABLE_BITS + UTIL_BITS),
            runnable: word >> UTIL_BITS & ((1 << RUNNABLE_BITS) - 1),
            util: word & ((1 << UTIL_BITS) - 1),
        }
    }

    fn parts(self) -> [u64; 3] {
        [self.load, self.runnable, self.util].map(|part| part << FRACTION_BITS)
    }
}

impl Averages {
    /// Of something that has had this load for ever.
    pub(in crate::kernel) fn of(load: Load) -> Averages {
        Averages {
            at: 0,
            parts: load.parts(),
        }
    }

    pub(in crate::kernel) fn value(&self) -> Load {
        let [load, runnable, util] = self.parts.map(|part| part >> FRACTION_BITS);
        Load {
            load,
            runnable,
            util,
        }
    }

    /// The load was `load` since the last update.
    pub(in crate::kernel) fn update(&mut self, now: u64, half_life: u64, load: Load) {
        let steps = now.saturating_sub(self.at) / (half_life / STEPS).max(1);
        if steps == 0 {
            return;
        }
        self.at += steps * (half_life / STEPS).max(1);
        let kept = kept_after(steps);
        for (part, target) in self.parts.iter_mut().zip(load.parts()) {
            let old = u128::from(*part) * kept;
            let new = u128::from(target) * ((1 << 63) - kept);
            *part = ((old + new) >> 63) as u64;
        }
    }

    fn add(&mut self, other: Load) {
        for (part, more) in self.parts.iter_mut().zip(other.parts()) {
            *part += more;
        }
    }

    fn subtract(&mut self, other: Load) {
        for (part, less) in self.parts.iter_mut().zip(other.parts()) {
            *part = part.saturating_sub(less);
        }
    }
}

/// 2^63 times what is left after so many steps.
fn kept_after(steps: u64) -> u128 {
    if steps >= 63 * STEPS {
        return 0;
    }
    let (mut kept, mut factor, mut left) = (1_u128 << 63, u128::from(STEP_FACTOR), steps);
    while left > 0 {
        if left & 1 == 1 {
            kept = (kept * factor) >> 63;
        }
        factor = (factor * factor) >> 63;
        left >>= 1;
    }
    kept
}

impl Kernel {
    /// Brings the averages of a run queue's CPU, and of a task on it, to the present, before something
    /// changes.
    pub(in crate::kernel) fn update_averages(&self, rq: &Rq, p: Option<&Task>) {
        if self.balancer.is_none() {
            return;
        }
        self.update_cpu_load(rq);
        let Some(p) = p else { return };
        let is_running = rq.curr.get() == p.id;
        let is_runnable = p.on_rq.get();
        let weight = self.fair.groups.borrow().tree.se(p.se).weight;
        let load = Load {
            load: weight * u64::from(is_runnable),
            runnable: SCALE * u64::from(is_runnable),
            util: SCALE * u64::from(is_running),
        };
        let mut averages = p.averages.get();
        if !p.is_placed.get() {
            // A new task counts as if it had run half of the time (`post_init_entity_util_avg`).
            let new = Load {
                load: weight,
                runnable: SCALE / 2,
                util: SCALE / 2,
            };
            averages = Averages::of(new);
            averages.at = self.engine.now().0;
            let mut of_cpu = rq.averages.get();
            of_cpu.add(new);
            rq.averages.set(of_cpu);
        }
        averages.update(self.engine.now().0, self.fair.half_life, load);
        p.averages.set(averages);
    }

    /// Brings the averages of a CPU, whose run queue is locked, to the present. Others know those that it
    /// stored last (`CfsWord::Avg`).
    pub(super) fn update_cpu_load(&self, rq: &Rq) -> Load {
        let now = {
            let groups = self.fair.groups.borrow();
            let root = groups
                .tree
                .q(groups.queue(super::GroupId::ROOT, rq.cpu.index()));
            Load {
                load: root.load,
                runnable: SCALE * u64::from(root.h_nr_queued),
                util: SCALE * u64::from(root.curr.is_some()),
            }
        };
        let mut averages = rq.averages.get();
        averages.update(self.engine.now().0, self.fair.half_life, now);
        rq.averages.set(averages);
        averages.value()
    }

    /// Load that a task adds to its CPU: `task_h_load`.
    pub(super) fn task_h_load(&self, p: &Task) -> u64 {
        let groups = self.fair.groups.borrow();
        let parent = |se: &EntityId| groups.tree.se(*se).parent;
        let mut load = u128::from(p.averages.get().value().load);
        for se in std::iter::successors(groups.tree.se(p.se).parent, parent) {
            let entity = groups.tree.se(se);
            let below = entity.my_q().map_or(0, |cfs| groups.tree.q(cfs).load);
            load = load * u128::from(entity.weight) / u128::from(below.max(1));
        }
        load as u64
    }

    /// A task goes from one CPU to another, and its load with it.
    pub(in crate::kernel) fn move_averages(&self, p: &Task, from: &Rq, to: &Rq) {
        if self.balancer.is_none() || p.class() != Class::Fair || !p.is_placed.get() {
            return;
        }
        self.update_cpu_load(from);
        self.update_cpu_load(to);
        let moved = Load {
            load: self.task_h_load(p),
            ..p.averages.get().value()
        };
        let (mut old, mut new) = (from.averages.get(), to.averages.get());
        old.subtract(moved);
        new.add(moved);
        from.averages.set(old);
        to.averages.set(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_an_average_is_left_after_a_half_life() {
        let busy = Load {
            load: 2048,
            runnable: 2048,
            util: 1024,
        };
        let mut averages = Averages::of(busy);
        averages.update(1_024_000, 1_024_000, Load::default());
        assert_eq!(averages.value().util, 511);
        averages.update(2_048_000, 1_024_000, Load::default());
        assert_eq!(averages.value().load, 511);
        averages.update(2_048_000 + 100 * 1_024_000, 1_024_000, busy);
        assert_eq!(averages.value(), busy);
    }

    #[test]
    fn a_word_has_all_parts_up_to_its_bounds() {
        let check = |load, runnable, util| {
            let load = Load {
                load,
                runnable,
                util,
            };
            assert_eq!(Load::from_word(load.to_word()), load);
        };
        check(0, 0, 0);
        check(88_761, 1024, 1023);
        check((1 << 28) - 1, (1 << 22) - 1, (1 << 14) - 1);
        let more = Load {
            load: 1 << 40,
            runnable: 1 << 30,
            util: 1 << 20,
        };
        assert_eq!(more.to_word(), u64::MAX);
    }

    #[test]
    fn many_small_updates_are_one_large_one() {
        let half = Load {
            load: 512,
            ..Load::default()
        };
        let mut often = Averages::default();
        let mut once = Averages::default();
        for now in 0..=5_000 {
            often.update(now * 997, 1_024_000, half);
        }
        once.update(5_000 * 997, 1_024_000, half);
        assert!(often.value().load.abs_diff(once.value().load) <= 1);
    }
}
