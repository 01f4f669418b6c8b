//! Queues and entities of all CPUs as plain values: EEVDF, kernel/sched/fair.c, v6.12.
//!
//! **What Linux does:** an entity is eligible while it has run no more than its share. That is
//! while its virtual run time is at most the weighted average of its queue. Of the eligible ones
//! the one with the earliest virtual deadline runs, to the end of its slice (`RUN_TO_PARITY`). What
//! an entity is owed when it leaves, its lag, it still has when it comes back (`PLACE_LAG`). One
//! that goes to sleep although it owes time stays queued until it owes none (`DELAY_DEQUEUE`,
//! `DELAY_ZERO`).
//!
//! **What we do:** the same, one queue at a time. Nothing here waits or costs: class.rs walks the
//! hierarchy, prices the lines, and calls this for each level.
//!
//! **Invariant:** `sum_w_vruntime`, `sum_weight`, `load` and `nr_queued` of a queue are the sums
//! over its entities ([`FairTree::check`]). So the weighted sum of all lags is zero but for the
//! rounding of the average.
//!
//! **What a test could notice:** all slices are the base slice, so `PREEMPT_SHORT` and a group's
//! `min_slice` never matter. No `SCHED_IDLE`, no `SCHED_BATCH`. Buddies (`NEXT_BUDDY`, off) are
//! left out. Virtual time is in cycles instead of nanoseconds.

use hitm_coherence::prefetch::prefetch;

use super::cfs_rq::{CfsId, CfsRq};
use super::entity::{Entity, EntityId, Owner};
use super::weight::calc_delta_fair;

/// Arrival of an entity at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Enqueue {
    /// For the first time: half a slice, so that it does not wait for a whole one.
    pub(crate) is_initial: bool,
}

/// Departure of an entity from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Dequeue {
    /// It will not run by itself again; otherwise it moves.
    pub(crate) sleeps: bool,
    /// It left long ago and owes nothing now.
    pub(crate) is_delayed: bool,
    /// It must not stay queued, whatever it owes.
    pub(crate) is_special: bool,
}

/// Run of a queue's entity since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ran {
    /// Cycles.
    pub(crate) delta: u64,
    /// Its slice is over and others wait.
    pub(crate) wants_resched: bool,
}

/// All queues and entities.
#[derive(Debug, Clone)]
pub(crate) struct FairTree {
    pub(crate) entities: Vec<Entity>,
    pub(crate) queues: Vec<CfsRq>,
    /// Cycles that an entity may run before others of the same lag.
    pub(crate) slice: u64,
    /// Cycles between two ticks: how much lag an entity can have beside two slices.
    pub(crate) tick: u64,
}

impl FairTree {
    pub(crate) fn new(slice: u64, tick: u64) -> FairTree {
        FairTree {
            entities: Vec::new(),
            queues: Vec::new(),
            slice,
            tick,
        }
    }

    /// A new entity, on no queue.
    pub(crate) fn add(&mut self, entity: Entity) -> EntityId {
        self.entities.push(entity);
        EntityId(self.entities.len() as u32 - 1)
    }

    pub(crate) fn se(&self, id: EntityId) -> &Entity {
        &self.entities[id.index()]
    }

    pub(crate) fn se_mut(&mut self, id: EntityId) -> &mut Entity {
        &mut self.entities[id.index()]
    }

    pub(crate) fn q(&self, id: CfsId) -> &CfsRq {
        &self.queues[id.index()]
    }

    pub(crate) fn q_mut(&mut self, id: CfsId) -> &mut CfsRq {
        &mut self.queues[id.index()]
    }

    /// Prefetches a queue.
    pub(crate) fn prefetch(&self, id: CfsId) {
        prefetch(&self.queues, id.index());
        // A queue is longer than a cache line.
        prefetch(&self.queues, id.index() + 1);
    }

    /// The average virtual run time of a queue, the running entity included.
    pub(crate) fn avg_vruntime(&self, cfs: CfsId) -> i64 {
        let (sum, load) = self.sums(cfs);
        let zero = self.q(cfs).zero_vruntime;
        if load == 0 {
            return zero;
        }
        // Rounded down on both sides of zero, so that an average never makes nobody eligible.
        zero + sum.div_euclid(i128::from(load)) as i64
    }

    /// Keys times weights and weights, the running entity included.
    fn sums(&self, cfs: CfsId) -> (i128, u64) {
        let queue = self.q(cfs);
        let (mut sum, mut load) = (queue.sum_w_vruntime, queue.sum_weight);
        if let Some(curr) = self.queued_curr(cfs) {
            let se = self.se(curr);
            sum += i128::from(se.vruntime - queue.zero_vruntime) * i128::from(se.weight);
            load += se.weight;
        }
        (sum, load)
    }

    fn queued_curr(&self, cfs: CfsId) -> Option<EntityId> {
        self.q(cfs).curr.filter(|curr| self.se(*curr).on_rq)
    }

    /// Returns true if an entity of a queue has run no more than its share.
    pub(crate) fn is_eligible(&self, cfs: CfsId, se: EntityId) -> bool {
        let (sum, load) = self.sums(cfs);
        let key = self.se(se).vruntime - self.q(cfs).zero_vruntime;
        sum >= i128::from(key) * i128::from(load)
    }

    /// Lag of an entity, which is what it is owed, bounded: `entity_lag`.
    pub(crate) fn lag(&self, cfs: CfsId, se: EntityId) -> i64 {
        let entity = self.se(se);
        let limit = calc_delta_fair((2 * self.slice).max(self.tick), entity.weight);
        (self.avg_vruntime(cfs) - entity.vruntime).clamp(-limit, limit)
    }

    /// Charges the running entity of a queue for the time until `now`.
    pub(crate) fn update_curr(&mut self, cfs: CfsId, now: u64) -> Ran {
        let Some(curr) = self.q(cfs).curr else {
            return Ran::default();
        };
        let slice = self.slice;
        let se = self.se_mut(curr);
        let delta = now.saturating_sub(se.exec_start);
        if delta == 0 {
            return Ran::default();
        }
        se.exec_start = now;
        se.sum_exec += delta;
        se.vruntime += calc_delta_fair(delta, se.weight);
        let is_over = se.vruntime >= se.deadline;
        if is_over {
            se.deadline = se.vruntime + calc_delta_fair(slice, se.weight);
        }
        self.update_zero(cfs);
        Ran {
            delta,
            wants_resched: is_over && self.q(cfs).nr_queued > 1,
        }
    }

    /// Moves the origin of a queue to its average.
    fn update_zero(&mut self, cfs: CfsId) {
        let average = self.avg_vruntime(cfs);
        let queue = self.q_mut(cfs);
        let step = average - queue.zero_vruntime;
        queue.sum_w_vruntime -= i128::from(step) * i128::from(queue.sum_weight);
        queue.zero_vruntime = average;
    }

    /// The entity to run; the running one stays while its slice lasts.
    pub(crate) fn pick_eevdf(&self, cfs: CfsId) -> Option<EntityId> {
        let queue = self.q(cfs);
        let curr = self.queued_curr(cfs);
        if queue.nr_queued == 1 {
            return curr.or(queue.waiting.first().copied());
        }
        let (sum, load) = self.sums(cfs);
        let is_eligible = |id: &EntityId| {
            let key = self.se(*id).vruntime - queue.zero_vruntime;
            sum >= i128::from(key) * i128::from(load)
        };
        let curr = curr.filter(is_eligible);
        if let Some(id) = curr {
            let se = self.se(id);
            // `RUN_TO_PARITY`: its deadline is that of when it got the CPU, so its slice is not
            // over.
            if se.vlag == se.deadline {
                return curr;
            }
        }
        // Of equal deadlines the running one continues, then the oldest entity.
        let by_deadline = |id: &EntityId| (self.se(*id).deadline, Some(*id) != curr, *id);
        let waiting = queue.waiting.iter().copied().filter(is_eligible);
        waiting.chain(curr).min_by_key(by_deadline)
    }

    /// Puts an entity where its lag says, with a new slice.
    fn place(&mut self, cfs: CfsId, id: EntityId, how: Enqueue) {
        let average = self.avg_vruntime(cfs);
        let (_, load) = self.sums(cfs);
        let slice = self.slice;
        let is_empty = self.q(cfs).nr_queued == 0;
        let se = self.se_mut(id);
        let mut lag = 0;
        if !is_empty && se.vlag != 0 {
            // It moves the average as it comes; this makes its lag right afterwards.
            let weight = i128::from(se.weight);
            let scaled = i128::from(se.vlag) * (i128::from(load) + weight);
            lag = (scaled / i128::from(load.max(1))) as i64;
        }
        se.vruntime = average - lag;
        if std::mem::take(&mut se.rel_deadline) {
            se.deadline += se.vruntime;
            return;
        }
        let slice = if how.is_initial { slice / 2 } else { slice };
        se.deadline = se.vruntime + calc_delta_fair(slice, se.weight);
    }

    /// Puts an entity on its queue.
    pub(crate) fn enqueue(&mut self, id: EntityId, now: u64, how: Enqueue) -> Ran {
        let cfs = self.se(id).cfs;
        let ran = self.update_curr(cfs, now);
        self.place(cfs, id, how);
        let weight = self.se(id).weight;
        let queue = self.q_mut(cfs);
        queue.load += weight;
        queue.nr_queued += 1;
        self.se_mut(id).on_rq = true;
        if self.q(cfs).curr != Some(id) {
            self.link(cfs, id);
        }
        ran
    }

    /// Takes an entity off its queue; false when it sleeps but has to stay for what it owes.
    pub(crate) fn dequeue(&mut self, id: EntityId, now: u64, how: Dequeue) -> (Ran, bool) {
        let cfs = self.se(id).cfs;
        let ran = self.update_curr(cfs, now);
        let may_stay = how.sleeps && !how.is_special && !how.is_delayed;
        if may_stay && !self.is_eligible(cfs, id) {
            self.se_mut(id).delayed = true;
            return (ran, false);
        }
        let lag = self.lag(cfs, id);
        let se = self.se_mut(id);
        se.vlag = lag;
        if how.is_delayed {
            se.delayed = false;
            // `DELAY_ZERO`: it must not earn anything by having been queued while it slept.
            se.vlag = lag.min(0);
        }
        if !how.sleeps {
            // It moves with the rest of its slice: the next queue has another virtual time.
            se.deadline -= se.vruntime;
            se.rel_deadline = true;
        }
        if self.q(cfs).curr != Some(id) {
            self.unlink(cfs, id);
        }
        let weight = self.se(id).weight;
        self.se_mut(id).on_rq = false;
        let queue = self.q_mut(cfs);
        queue.load -= weight;
        queue.nr_queued -= 1;
        (ran, true)
    }

    /// A delayed entity is woken: it keeps what it owes, but not what it is owed.
    pub(crate) fn requeue_delayed(&mut self, id: EntityId, now: u64) {
        let cfs = self.se(id).cfs;
        self.update_curr(cfs, now);
        let lag = self.lag(cfs, id);
        self.se_mut(id).delayed = false;
        // One that still owes keeps its place.
        if lag <= 0 {
            return;
        }
        let is_waiting = self.q(cfs).curr != Some(id);
        if is_waiting {
            self.unlink(cfs, id);
        }
        self.q_mut(cfs).nr_queued -= 1;
        self.se_mut(id).vlag = 0;
        self.place(cfs, id, Enqueue::default());
        self.q_mut(cfs).nr_queued += 1;
        if is_waiting {
            self.link(cfs, id);
        }
    }

    /// An entity gets the CPU.
    pub(crate) fn set_next(&mut self, id: EntityId, now: u64) {
        let cfs = self.se(id).cfs;
        if self.se(id).on_rq && self.q(cfs).curr != Some(id) {
            self.unlink(cfs, id);
        }
        let se = self.se_mut(id);
        // Not needed while it runs: has the deadline for `pick_eevdf`.
        se.vlag = se.deadline;
        se.exec_start = now;
        self.q_mut(cfs).curr = Some(id);
    }

    /// The running entity of a queue loses the CPU.
    pub(crate) fn put_prev(&mut self, id: EntityId, now: u64) -> Ran {
        let cfs = self.se(id).cfs;
        let mut ran = Ran::default();
        if self.q(cfs).curr != Some(id) {
            return ran;
        }
        if self.se(id).on_rq {
            ran = self.update_curr(cfs, now);
        }
        self.q_mut(cfs).curr = None;
        if self.se(id).on_rq {
            self.link(cfs, id);
        }
        ran
    }

    /// Gives an entity another weight; its lag in CPU time stays.
    pub(crate) fn reweight(&mut self, id: EntityId, weight: u64, now: u64) {
        let (cfs, old) = (self.se(id).cfs, self.se(id).weight);
        if old == weight {
            return;
        }
        let scale = |span: i64| (i128::from(span) * i128::from(old) / i128::from(weight)) as i64;
        if !self.se(id).on_rq {
            let se = self.se_mut(id);
            // A lag off the queue is virtual time, too.
            se.vlag = scale(se.vlag);
            se.deadline = if se.rel_deadline {
                scale(se.deadline)
            } else {
                se.deadline
            };
            se.weight = weight;
            return;
        }
        self.update_curr(cfs, now);
        let average = self.avg_vruntime(cfs);
        let is_waiting = self.q(cfs).curr != Some(id);
        if is_waiting {
            self.unlink(cfs, id);
        }
        let se = self.se_mut(id);
        let is_protected = !is_waiting && se.vlag == se.deadline;
        se.vruntime = average - scale(average - se.vruntime);
        se.deadline = average + scale(se.deadline - average);
        if is_protected {
            se.vlag = se.deadline;
        }
        se.weight = weight;
        let queue = self.q_mut(cfs);
        queue.load = queue.load - old + weight;
        if is_waiting {
            self.link(cfs, id);
        }
    }

    /// The running entity gives the rest of its slice away: `yield_task_fair`.
    pub(crate) fn yield_curr(&mut self, cfs: CfsId, now: u64) -> Ran {
        let ran = self.update_curr(cfs, now);
        let slice = self.slice;
        if let Some(curr) = self.q(cfs).curr {
            let se = self.se_mut(curr);
            se.deadline += calc_delta_fair(slice, se.weight);
        }
        ran
    }

    fn link(&mut self, cfs: CfsId, id: EntityId) {
        let se = self.se(id);
        let (vruntime, weight) = (se.vruntime, se.weight);
        let queue = self.q_mut(cfs);
        let key = i128::from(vruntime - queue.zero_vruntime);
        queue.sum_w_vruntime += key * i128::from(weight);
        queue.sum_weight += weight;
        queue.waiting.push(id);
    }

    fn unlink(&mut self, cfs: CfsId, id: EntityId) {
        let se = self.se(id);
        let (vruntime, weight) = (se.vruntime, se.weight);
        let queue = self.q_mut(cfs);
        let at = queue.waiting.iter().position(|other| *other == id);
        let at = at.expect("an entity that is queued and does not run waits");
        queue.waiting.swap_remove(at);
        let key = i128::from(vruntime - queue.zero_vruntime);
        queue.sum_w_vruntime -= key * i128::from(weight);
        queue.sum_weight -= weight;
    }

    /// The task at the end of the chain of running entities below a queue.
    pub(crate) fn task_of(&self, id: EntityId) -> Option<crate::kernel::TaskId> {
        match self.se(id).owner {
            Owner::Task(task) => Some(task),
            Owner::Group(_) => None,
        }
    }
}
