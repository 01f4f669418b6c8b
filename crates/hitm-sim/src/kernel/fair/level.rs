//! One level of the walks of the fair class: a queue, and an entity on it. Source:
//! kernel/sched/fair.c, v6.12.
//!
//! At each level a walk does what [`super::tree`] says and prices the lines that Linux touches
//! there. Of the queue: counts and load (line 0), tree (line 1), averages (line 2). Of the entity:
//! weight and tree node (line 0), run times (line 1), averages (line 3). Neighbours of a node in the
//! tree are priced by the tree's root: which of them rotate is not followed.

use std::rc::Rc;

use super::cfs_rq::CfsId;
use super::entity::{EntityId, Owner};
use super::places::{CfsMember, CfsWord, SeMember};
use super::tree::{Dequeue, Enqueue, Ran};
use crate::engine::{Opaque, Place, Site, StoreFuture, TouchFuture};
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::task::Task;

impl Kernel {
    /// A word of a queue that other CPUs read.
    pub(in crate::kernel) fn cfs_word(&self, cfs: CfsId, word: CfsWord) -> Place {
        match self.rqs.get(cfs.index()) {
            Some(rq) => rq.p.cfs[word as usize],
            None => self.fair.pools.word(cfs, word),
        }
    }

    /// A member of a queue.
    pub(in crate::kernel) fn cfs_member(&self, cfs: CfsId, member: CfsMember) -> Opaque {
        match self.rqs.get(cfs.index()) {
            Some(rq) => rq.p.cfs_opaque[member as usize],
            None => self.fair.pools.queue(cfs, member),
        }
    }

    /// A member of an entity.
    pub(in crate::kernel) fn se_member(&self, se: EntityId, member: SeMember) -> Opaque {
        let owner = self.fair.groups.borrow().tree.se(se).owner;
        match owner {
            Owner::Task(task) => self.task(task).p.se[member as usize],
            Owner::Group(cfs) => self.fair.pools.entity(cfs, member),
        }
    }

    pub(super) fn touch_cfs(&self, site: Site, cfs: CfsId, member: CfsMember) -> TouchFuture<'_> {
        self.engine.touch(site, self.cfs_member(cfs, member))
    }

    pub(super) fn dirty_cfs(&self, site: Site, cfs: CfsId, member: CfsMember) -> StoreFuture<'_> {
        self.engine.dirty(site, self.cfs_member(cfs, member))
    }

    pub(super) fn touch_se(&self, site: Site, se: EntityId, member: SeMember) -> TouchFuture<'_> {
        self.engine.touch(site, self.se_member(se, member))
    }

    pub(super) fn dirty_se(&self, site: Site, se: EntityId, member: SeMember) -> StoreFuture<'_> {
        self.engine.dirty(site, self.se_member(se, member))
    }

    /// The entity, its parent, and so on to the root.
    pub(in crate::kernel) fn entities_up(&self, se: EntityId) -> Vec<EntityId> {
        let groups = self.fair.groups.borrow();
        let up = std::iter::successors(Some(se), |se| groups.tree.se(*se).parent);
        up.collect()
    }

    pub(in crate::kernel) fn queue_of(&self, se: EntityId) -> CfsId {
        self.fair.groups.borrow().tree.se(se).cfs
    }

    pub(super) fn task_of_entity(&self, se: EntityId) -> Option<Rc<Task>> {
        let task = self.fair.groups.borrow().tree.task_of(se);
        task.map(|task| self.task(task))
    }

    pub(in crate::kernel) fn is_delayed(&self, se: EntityId) -> bool {
        self.fair.groups.borrow().tree.se(se).delayed
    }

    /// One level of [`Kernel::enqueue_task_fair`].
    pub(in crate::kernel) async fn enqueue_entity(&self, rq: &Rq, se: EntityId, how: Enqueue) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_FAIR);
        let cfs = self.queue_of(se);
        self.update_cfs_group(rq, se).await;
        let now = engine.now().0;
        let ran = self.fair.groups.borrow_mut().tree.enqueue(se, now, how);
        self.charge(rq, cfs, ran).await;
        self.update_load(cfs, se, site).await;
        self.dirty_cfs(site, cfs, CfsMember::Load).await;
        self.dirty_se(site, se, SeMember::Vruntime).await;
        self.touch_cfs(site, cfs, CfsMember::Timeline).await;
        self.dirty_se(site, se, SeMember::RunNode).await;
        self.dirty_cfs(site, cfs, CfsMember::Timeline).await;
        self.dirty_se(site, se, SeMember::OnRq).await;
        if self.fair.groups.borrow().tree.q(cfs).nr_queued == 1 {
            self.check_enqueue_throttle(rq, cfs).await;
            self.list_add_leaf(cfs).await;
            if !self.fair.throttling.is_by_task() {
                self.fair.note_taken_off(cfs, engine.now().0);
            }
        }
    }

    /// One level of [`Kernel::dequeue_entities`]; false when the entity stays.
    pub(in crate::kernel) async fn dequeue_entity(
        &self,
        rq: &Rq,
        se: EntityId,
        how: Dequeue,
    ) -> bool {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_FAIR);
        let cfs = self.queue_of(se);
        let now = engine.now().0;
        let (ran, is_off) = self.fair.groups.borrow_mut().tree.dequeue(se, now, how);
        self.charge(rq, cfs, ran).await;
        self.update_load(cfs, se, site).await;
        if !is_off {
            self.dirty_se(site, se, SeMember::OnRq).await;
            return false;
        }
        self.touch_se(site, se, SeMember::RunNode).await;
        self.dirty_cfs(site, cfs, CfsMember::Timeline).await;
        self.dirty_se(site, se, SeMember::OnRq).await;
        self.dirty_cfs(site, cfs, CfsMember::Load).await;
        self.update_cfs_group(rq, se).await;
        if self.fair.groups.borrow().tree.q(cfs).nr_queued == 0 {
            self.return_cfs_rq_runtime(cfs).await;
        }
        true
    }

    pub(in crate::kernel) async fn requeue_delayed_entity(&self, rq: &Rq, se: EntityId) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_FAIR);
        let cfs = self.queue_of(se);
        self.update_curr_fair(rq, cfs).await;
        let now = engine.now().0;
        self.fair.groups.borrow_mut().tree.requeue_delayed(se, now);
        self.update_load(cfs, se, site).await;
        self.dirty_se(site, se, SeMember::OnRq).await;
    }

    /// `count` more tasks are queued on a queue and below.
    pub(in crate::kernel) async fn change_h_nr(&self, cfs: CfsId, count: i64, site: Site) {
        let after = {
            let mut groups = self.fair.groups.borrow_mut();
            let queue = groups.tree.q_mut(cfs);
            queue.h_nr_queued = (i64::from(queue.h_nr_queued) + count) as u32;
            u64::from(queue.h_nr_queued)
        };
        let place = self.cfs_word(cfs, CfsWord::NrQueued);
        self.engine.store(site, place, after).await;
    }

    /// `update_load_avg`: brings the averages of an entity and its queue up to date.
    pub(in crate::kernel) async fn update_load(&self, cfs: CfsId, se: EntityId, site: Site) {
        let engine = &self.engine;
        self.touch_se(site, se, SeMember::Avg).await;
        self.dirty_se(site, se, SeMember::Avg).await;
        self.tell_averages(site, cfs).await;
        let now = engine.now().0;
        let interval = self.fair.load_interval;
        let reported = self
            .fair
            .groups
            .borrow_mut()
            .report_load(cfs, now, interval);
        if reported {
            let group = self.fair.groups.borrow().group_of(cfs);
            let contrib = self.cfs_member(cfs, CfsMember::TgLoadAvgContrib);
            let load_avg = self.fair.group_places(group).load_avg;
            engine
                .fetch_add(f::UPDATE_TG_LOAD_AVG, load_avg.into(), 1)
                .await;
            engine.dirty(f::UPDATE_TG_LOAD_AVG, contrib).await;
        }
    }

    /// Brings the averages of a queue up to date for those who read them without its lock.
    pub(super) async fn tell_averages(&self, site: Site, cfs: CfsId) {
        let place = self.cfs_word(cfs, CfsWord::Avg);
        // Only the lock's holders write them, and they have the whole averages.
        let _told = self.engine.load(site, place).await;
        let averages = self.averages_word(cfs);
        self.engine.store(site, place, averages).await;
    }

    /// Averages of a queue, whose CPU's run queue is locked, as others see them. Those of groups' queues
    /// are not modelled, and nobody reads them.
    pub(super) fn averages_word(&self, cfs: CfsId) -> u64 {
        let rq = self.rqs.get(cfs.index());
        match rq.filter(|_| self.balancer.is_some()) {
            Some(rq) => self.update_cpu_load(rq).to_word(),
            None => 0,
        }
    }

    /// Gives a group's entity the weight that its queue's load makes.
    pub(in crate::kernel) async fn update_cfs_group(&self, rq: &Rq, se: EntityId) {
        let (engine, site) = (&self.engine, f::UPDATE_CFS_GROUP);
        let cfs = {
            let groups = self.fair.groups.borrow();
            let Some(cfs) = groups.tree.se(se).my_q() else {
                return;
            };
            if groups.tree.q(cfs).load == 0 || groups.is_throttled_hierarchy(cfs) {
                return;
            }
            cfs
        };
        self.touch_cfs(site, cfs, CfsMember::Load).await;
        let group = self.fair.groups.borrow().group_of(cfs);
        engine
            .touch(site, self.fair.group_places(group).load_avg)
            .await;
        let (weight, before, queue) = {
            let groups = self.fair.groups.borrow();
            let entity = groups.tree.se(se);
            (groups.shares_of(cfs), entity.weight, entity.cfs)
        };
        if weight == before {
            return;
        }
        self.update_curr_fair(rq, queue).await;
        let now = engine.now().0;
        self.fair.groups.borrow_mut().tree.reweight(se, weight, now);
        self.dirty_se(site, se, SeMember::Load).await;
        self.dirty_se(site, se, SeMember::Vruntime).await;
    }

    /// Charges the running entity of a queue.
    pub(in crate::kernel) async fn update_curr_fair(&self, rq: &Rq, cfs: CfsId) {
        let now = self.engine.now().0;
        let ran = self.fair.groups.borrow_mut().tree.update_curr(cfs, now);
        self.charge(rq, cfs, ran).await;
    }

    /// Accounts the running time of a queue's entity: to its task and to its quota.
    async fn charge(&self, rq: &Rq, cfs: CfsId, ran: Ran) {
        if ran.delta == 0 {
            return;
        }
        let curr = self.fair.groups.borrow().tree.q(cfs).curr;
        if let Some(curr) = curr {
            let (engine, site) = (&self.engine, f::UPDATE_CURR);
            if let Some(task) = self.task_of_entity(curr) {
                task.count(|totals| totals.run_time += hitm_base::Cycles(ran.delta));
            }
            let exec_start = self.se_member(curr, SeMember::ExecStart);
            engine.touch(site, exec_start).await;
            engine.dirty(site, exec_start).await;
        }
        self.account_cfs_rq_runtime(rq, cfs, ran.delta).await;
        if ran.wants_resched {
            self.resched_curr_lazy(rq).await;
        }
    }
}
