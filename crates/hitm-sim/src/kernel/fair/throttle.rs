//! Queues that have used their share of a quota: kernel/sched/fair.c, v6.12, and v6.18 for tasks.
//!
//! **What Linux does:** a queue of a group with a quota takes slices of 5 ms from it and pays for
//! what runs. When it has nothing left and the quota is empty, it is throttled. Then each queue of
//! the group and below on this CPU counts one throttled queue above it. Until v6.17 the group's
//! entity leaves its parent, so that whatever its tasks hold stays held ([`Throttling::Sync`],
//! `Async`). Since v6.18 nothing leaves; each task is taken off when it returns to user mode
//! ([`Throttling::Task`]; limbo.rs). Unthrottling takes all of that back.
//!
//! **What we do:** the same; walk.rs has the walks over the groups.
//!
//! **What a test could notice:** a queue without load is off the list of leaves at once
//! ([`Kernel::list_add_leaf`]), not when its averages have decayed. Slices expire, as before v5.4,
//! only under [`Mechanism::ExpiringSlices`].

use hitm_base::Cycles;

use super::Throttling;
use super::cfs_rq::CfsId;
use super::group::GroupId;
use super::places::CfsMember;
use super::tree::{Dequeue, Enqueue};
use super::walk::Walked;
use crate::engine::Site;
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::mechanisms::Mechanism;
use crate::kernel::rq::Rq;

impl Kernel {
    /// A queue's tasks ran for `delta`. Its run queue is locked.
    pub(in crate::kernel) async fn account_cfs_rq_runtime(&self, rq: &Rq, cfs: CfsId, delta: u64) {
        let (site, is_short) = (f::ACCOUNT_CFS_RQ_RUNTIME, {
            let mut groups = self.fair.groups.borrow_mut();
            let runtime = &mut groups.tree.q_mut(cfs).runtime;
            if !runtime.is_enabled {
                return;
            }
            runtime.remaining -= delta as i64;
            runtime.remaining <= 0 && !runtime.is_throttled
        });
        let place = self.cfs_member(cfs, CfsMember::RuntimeRemaining);
        self.engine.touch(site, place).await;
        self.engine.dirty(site, place).await;
        let is_short = is_short || self.expire_cfs_rq_runtime(cfs).await;
        if !is_short || self.assign_cfs_rq_runtime(cfs, self.fair.times.slice).await {
            return;
        }
        // The queue is throttled on the way through the scheduler.
        if self.fair.groups.borrow().tree.q(cfs).curr.is_some() {
            self.resched_curr(rq).await;
        }
    }

    /// Fills a queue up to `target` from its group's quota; false when it still has nothing.
    async fn assign_cfs_rq_runtime(&self, cfs: CfsId, target: u64) -> bool {
        let group = self.fair.groups.borrow().group_of(cfs);
        let lock = self.fair.group_places(group).bandwidth_lock;
        self.spin_lock(lock).await;
        let has_some = self.assign_locked(cfs, group, target).await;
        self.spin_unlock(lock).await;
        has_some
    }

    /// `__assign_cfs_rq_runtime`.
    async fn assign_locked(&self, cfs: CfsId, group: GroupId, target: u64) -> bool {
        let (engine, site) = (&self.engine, f::ASSIGN_CFS_RQ_RUNTIME);
        let places = self.fair.group_places(group);
        self.start_cfs_bandwidth(group).await;
        self.load_bandwidth(site, group).await;
        let remaining = {
            let mut groups = self.fair.groups.borrow_mut();
            let remaining = groups.tree.q(cfs).runtime.remaining;
            let wanted = (target as i64 - remaining).max(0) as u64;
            let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth else {
                return true;
            };
            let amount = bandwidth.take(wanted);
            bandwidth.is_idle &= amount == 0;
            let (expires_at, expires_seq) = (bandwidth.expires_at, bandwidth.expires_seq);
            let runtime = &mut groups.tree.q_mut(cfs).runtime;
            runtime.remaining += amount as i64;
            // A deadline that was put off for a clock that is ahead stays where it is.
            if runtime.expires_seq != expires_seq {
                (runtime.expires_at, runtime.expires_seq) = (expires_at, expires_seq);
            }
            runtime.remaining
        };
        self.store_bandwidth(site, group).await;
        engine.store(site, places.bandwidth_flags, 0).await;
        let place = self.cfs_member(cfs, CfsMember::RuntimeRemaining);
        engine.dirty(site, place).await;
        remaining > 0
    }

    /// Throttles a queue that has nothing left; true when it did.
    pub(in crate::kernel) async fn check_cfs_rq_runtime(&self, rq: &Rq, cfs: CfsId) -> bool {
        {
            let groups = self.fair.groups.borrow();
            let runtime = &groups.tree.q(cfs).runtime;
            if !runtime.is_enabled || runtime.remaining > 0 {
                return false;
            }
            if runtime.is_throttled {
                return !self.fair.throttling.is_by_task();
            }
        }
        self.throttle_cfs_rq(rq, cfs).await && !self.fair.throttling.is_by_task()
    }

    /// The first entity came to a queue: it may have no right to run.
    pub(in crate::kernel) async fn check_enqueue_throttle(&self, rq: &Rq, cfs: CfsId) {
        {
            let groups = self.fair.groups.borrow();
            let queue = groups.tree.q(cfs);
            if !queue.runtime.is_enabled || queue.curr.is_some() || queue.runtime.is_throttled {
                return;
            }
        }
        self.account_cfs_rq_runtime(rq, cfs, 0).await;
        if self.fair.groups.borrow().tree.q(cfs).runtime.remaining <= 0 {
            self.throttle_cfs_rq(rq, cfs).await;
        }
    }

    /// The last entity left a queue: what it has beyond 1 ms goes back.
    pub(in crate::kernel) async fn return_cfs_rq_runtime(&self, cfs: CfsId) {
        let (group, slack) = {
            let groups = self.fair.groups.borrow();
            let runtime = &groups.tree.q(cfs).runtime;
            if !runtime.is_enabled {
                return;
            }
            let slack = runtime.remaining - self.fair.times.least_left as i64;
            (groups.group_of(cfs), slack)
        };
        if slack <= 0 {
            return;
        }
        let expires = self.has(Mechanism::ExpiringSlices);
        let (engine, site) = (&self.engine, f::RETURN_CFS_RQ_RUNTIME);
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        self.load_bandwidth(site, group).await;
        let wants_timer = {
            let mut groups = self.fair.groups.borrow_mut();
            let runtime = &mut groups.tree.q_mut(cfs).runtime;
            runtime.remaining -= slack;
            let expires_seq = runtime.expires_seq;
            let bandwidth = groups.groups[group.index()].bandwidth.as_mut();
            bandwidth.is_some_and(|bandwidth| {
                // Time of an earlier refill is lost instead.
                if expires && expires_seq != bandwidth.expires_seq {
                    bandwidth.counts.expired += Cycles(slack as u64);
                    return false;
                }
                bandwidth.runtime += slack as u64;
                bandwidth.counts.handed_out -= slack;
                // A run queue's lock is held here, so that a timer has to give it out.
                bandwidth.runtime > self.fair.times.slice && !bandwidth.throttled.is_empty()
            })
        };
        self.store_bandwidth(site, group).await;
        if wants_timer {
            self.start_cfs_slack_bandwidth(group).await;
        }
        self.spin_unlock(places.bandwidth_lock).await;
        let place = self.cfs_member(cfs, CfsMember::RuntimeRemaining);
        engine.dirty(site, place).await;
    }

    /// Stops a queue; false when its group has got something in the meantime.
    async fn throttle_cfs_rq(&self, rq: &Rq, cfs: CfsId) -> bool {
        let (engine, site) = (&self.engine, f::THROTTLE_CFS_RQ);
        engine.call(site, self.costs.function);
        let group = self.fair.groups.borrow().group_of(cfs);
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        // Wants the least there is: quota may have come back meanwhile, and a throttled queue waits
        // a whole period for the next.
        let has_some = self.assign_locked(cfs, group, 1).await;
        if !has_some {
            let list = self.cfs_member(cfs, CfsMember::ThrottledList);
            engine.dirty(site, list).await;
            engine.dirty(site, places.throttled_cfs_rq).await;
            let mut groups = self.fair.groups.borrow_mut();
            if let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth {
                bandwidth.throttled.push(cfs);
            }
        }
        self.spin_unlock(places.bandwidth_lock).await;
        if has_some {
            return false;
        }
        self.tg_throttle_down(rq, group).await;
        if !self.fair.throttling.is_by_task() {
            self.freeze(rq, cfs).await;
        }
        let now = engine.now().0;
        {
            let mut groups = self.fair.groups.borrow_mut();
            let queue = groups.tree.q_mut(cfs);
            queue.runtime.is_throttled = true;
            // Task by task, the clock starts with the first that is taken off.
            let has_some = queue.nr_queued > 0 && !self.fair.throttling.is_by_task();
            queue.runtime.throttled_clock = has_some.then_some(now);
        }
        let place = self.cfs_member(cfs, CfsMember::ThrottleCount);
        engine.dirty(site, place).await;
        true
    }

    /// Takes the entity of a throttled queue off its parent, and those above that become empty.
    async fn freeze(&self, rq: &Rq, cfs: CfsId) {
        let site = f::THROTTLE_CFS_RQ;
        self.update_averages(rq, None);
        let (first, tasks) = self.entity_and_tasks(cfs);
        let mut is_emptied = true;
        for se in self.entities_up(first) {
            let (above, on_rq, is_delayed) = {
                let groups = self.fair.groups.borrow();
                let entity = groups.tree.se(se);
                (entity.cfs, entity.on_rq, entity.delayed)
            };
            // A queue above is throttled already, or the entity has just been put there.
            if !on_rq {
                return;
            }
            if is_emptied {
                let how = Dequeue {
                    sleeps: true,
                    is_delayed,
                    is_special: true,
                };
                self.dequeue_entity(rq, se, how).await;
            } else {
                self.update_load(above, se, site).await;
            }
            self.change_h_nr(above, -tasks, site).await;
            is_emptied &= self.fair.groups.borrow().tree.q(above).load == 0;
        }
        if tasks > 0 {
            self.sub_nr_running(site, rq, tasks as u64).await;
        }
    }

    fn entity_and_tasks(&self, cfs: CfsId) -> (super::EntityId, i64) {
        let groups = self.fair.groups.borrow();
        let queue = groups.tree.q(cfs);
        let se = queue.se.expect("the root has no quota");
        (se, i64::from(queue.h_nr_queued))
    }

    /// Lets a queue run again. Its run queue is locked.
    pub(in crate::kernel) async fn unthrottle_cfs_rq(&self, rq: &Rq, cfs: CfsId) -> Walked {
        let (engine, site) = (&self.engine, f::UNTHROTTLE_CFS_RQ);
        engine.call(site, self.costs.function);
        let group = {
            let mut groups = self.fair.groups.borrow_mut();
            groups.tree.q_mut(cfs).runtime.is_throttled = false;
            groups.group_of(cfs)
        };
        self.update_rq_clock(rq).await;
        let places = self.fair.group_places(group);
        self.spin_lock(places.bandwidth_lock).await;
        {
            let mut groups = self.fair.groups.borrow_mut();
            let since = groups.tree.q_mut(cfs).runtime.throttled_clock.take();
            if let Some(bandwidth) = &mut groups.groups[group.index()].bandwidth {
                bandwidth.throttled.retain(|other| *other != cfs);
                let span = since.map_or(0, |since| engine.now().0.saturating_sub(since));
                bandwidth.counts.throttled_time += Cycles(span);
            }
        }
        let list = self.cfs_member(cfs, CfsMember::ThrottledList);
        engine.dirty(site, list).await;
        engine.dirty(site, places.throttled_cfs_rq).await;
        self.spin_unlock(places.bandwidth_lock).await;
        let mut walked = self.tg_unthrottle_up(rq, group).await;
        if !self.fair.throttling.is_by_task() {
            walked.tasks += self.thaw(rq, cfs).await;
        }
        let has_tasks = {
            let root = CfsId(u32::from(rq.cpu.0));
            self.fair.groups.borrow().tree.q(root).nr_queued > 0
        };
        if rq.curr.get() == rq.idle && has_tasks {
            self.resched_curr(rq).await;
        }
        walked
    }

    /// Puts the entity of a queue back to its parent, and those above; returns how many tasks came
    /// back.
    async fn thaw(&self, rq: &Rq, cfs: CfsId) -> u64 {
        let site = f::UNTHROTTLE_CFS_RQ;
        self.update_averages(rq, None);
        let (first, tasks) = self.entity_and_tasks(cfs);
        if self.fair.groups.borrow().tree.q(cfs).load == 0 {
            return 0;
        }
        let mut is_new = true;
        for se in self.entities_up(first) {
            let (above, on_rq) = {
                let groups = self.fair.groups.borrow();
                let entity = groups.tree.se(se);
                (entity.cfs, entity.on_rq)
            };
            if is_new && on_rq {
                if self.is_delayed(se) {
                    self.requeue_delayed_entity(rq, se).await;
                }
                is_new = false;
            }
            if is_new {
                self.enqueue_entity(rq, se, Enqueue::default()).await;
            } else {
                self.update_load(above, se, site).await;
            }
            self.change_h_nr(above, tasks, site).await;
            // Up to a queue that is throttled itself: its own unthrottling continues from there.
            if self.is_queue_stopped(above) {
                return tasks as u64;
            }
        }
        self.add_nr_running(site, rq, tasks as u64).await;
        tasks as u64
    }

    /// Returns true if nothing of a queue reaches its parent.
    pub(in crate::kernel) fn is_queue_stopped(&self, cfs: CfsId) -> bool {
        let is_throttled = self.fair.groups.borrow().tree.q(cfs).runtime.is_throttled;
        is_throttled && !self.fair.throttling.is_by_task()
    }

    /// Returns true if a queue or one above it is stopped.
    pub(in crate::kernel) fn is_hierarchy_stopped(&self, cfs: CfsId) -> bool {
        let is_throttled = self.fair.groups.borrow().is_throttled_hierarchy(cfs);
        is_throttled && !self.fair.throttling.is_by_task()
    }

    /// Puts a queue on its CPU's list of leaves, which load balancing goes through.
    pub(in crate::kernel) async fn list_add_leaf(&self, cfs: CfsId) {
        let (is_listed, parent) = {
            let mut groups = self.fair.groups.borrow_mut();
            let queue = groups.tree.q_mut(cfs);
            let is_listed = std::mem::replace(&mut queue.is_on_list, true);
            let se = queue.se;
            (is_listed, se.map(|se| groups.tree.se(se).cfs))
        };
        let site = f::LIST_ADD_LEAF_CFS_RQ;
        let on_list = self.cfs_member(cfs, CfsMember::OnList);
        self.engine.touch(site, on_list).await;
        if is_listed {
            return;
        }
        if let Some(parent) = parent {
            let on_list = self.cfs_member(parent, CfsMember::OnList);
            self.engine.touch(site, on_list).await;
        }
        self.list_write(cfs, site).await;
    }

    pub(in crate::kernel) async fn list_write(&self, cfs: CfsId, site: Site) {
        for member in [CfsMember::LeafList, CfsMember::OnList] {
            let place = self.cfs_member(cfs, member);
            self.engine.dirty(site, place).await;
        }
    }
}

impl Throttling {
    /// Returns true if tasks are taken off one by one, instead of their group.
    pub(in crate::kernel) fn is_by_task(self) -> bool {
        matches!(self, Throttling::Task | Throttling::TaskSync)
    }

    /// Returns true if each CPU unthrottles its own queues.
    pub(in crate::kernel) fn is_async(self) -> bool {
        matches!(self, Throttling::Async | Throttling::Task)
    }
}
