//! Calls of core.rs to the fair class: kernel/sched/fair.c, v6.12.
//!
//! Each call walks from a task's entity up to the root, or down. At each level it does what
//! [`super::tree`] says and prices the lines that Linux touches there. Of the queue: counts and
//! load (line 0), tree (line 1), averages (line 2). Of the entity: weight and tree node (line 0),
//! run times (line 1), averages (line 3). Neighbours of a node in the tree are priced by the tree's
//! root: which of them rotate is not followed.

use std::rc::Rc;

use super::cfs_rq::CfsId;
use super::entity::{EntityId, Owner};
use super::places::{CfsMember, SeMember};
use super::tree::{Dequeue, Enqueue, Ran};
use crate::engine::{LoadFuture, Place, Site, StoreFuture};
use crate::kernel::Kernel;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::task::Task;

impl Kernel {
    /// Place of a member of a queue.
    pub(in crate::kernel) fn cfs_place(&self, cfs: CfsId, member: CfsMember) -> Place {
        match self.rqs.get(cfs.index()) {
            Some(rq) => rq.p.cfs[member as usize],
            None => self.fair.pools.queue(cfs, member),
        }
    }

    /// Place of a member of an entity.
    pub(in crate::kernel) fn se_place(&self, se: EntityId, member: SeMember) -> Place {
        let owner = self.fair.groups.borrow().tree.se(se).owner;
        match owner {
            Owner::Task(task) => self.task(task).p.se[member as usize],
            Owner::Group(cfs) => self.fair.pools.entity(cfs, member),
        }
    }

    fn load_cfs(&self, site: Site, cfs: CfsId, member: CfsMember) -> LoadFuture<'_> {
        self.engine.load(site, self.cfs_place(cfs, member))
    }

    fn store_cfs(&self, site: Site, cfs: CfsId, member: CfsMember, value: u64) -> StoreFuture<'_> {
        let place = self.cfs_place(cfs, member);
        self.engine.store(site, place, value)
    }

    fn load_se(&self, site: Site, se: EntityId, member: SeMember) -> LoadFuture<'_> {
        self.engine.load(site, self.se_place(se, member))
    }

    fn store_se(&self, site: Site, se: EntityId, member: SeMember, value: u64) -> StoreFuture<'_> {
        let place = self.se_place(se, member);
        self.engine.store(site, place, value)
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

    /// Puts a task on a run queue, which is locked; a sleeper that never left just continues.
    pub(in crate::kernel) async fn enqueue_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::ENQUEUE_TASK_FAIR);
        engine.call(site, self.costs.function);
        self.update_averages(rq, Some(p));
        if p.is_throttled.get() {
            let cfs = self.queue_of(p.se);
            p.is_throttled.set(false);
            if self.fair.groups.borrow().is_throttled_hierarchy(cfs) {
                self.enter_limbo(cfs, p).await;
                return;
            }
        }
        if self.is_delayed(p.se) {
            self.requeue_delayed_entity(rq, p.se).await;
            return;
        }
        self.fair.cpu_tasks.borrow_mut()[rq.cpu.index()].push(p.id);
        let is_initial = !p.is_placed.replace(true);
        let mut how = Enqueue { is_initial };
        let mut is_new = true;
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            // From here up entities are queued already: their loads and weights change.
            if is_new && self.fair.groups.borrow().tree.se(se).on_rq {
                if self.is_delayed(se) {
                    self.requeue_delayed_entity(rq, se).await;
                }
                is_new = false;
            }
            if is_new {
                self.enqueue_entity(rq, se, how).await;
                how = Enqueue::default();
            } else {
                self.update_load(cfs, se, site).await;
                self.update_cfs_group(rq, se).await;
            }
            self.change_h_nr(cfs, 1, site).await;
            if self.is_queue_stopped(cfs) {
                return;
            }
        }
        self.add_nr_running(site, rq, 1).await;
    }

    /// Takes a task off a run queue, which is locked; false when it has to stay for what it owes.
    pub(in crate::kernel) async fn dequeue_task_fair(
        &self,
        rq: &Rq,
        p: &Task,
        how: Dequeue,
    ) -> bool {
        self.update_averages(rq, Some(p));
        if p.is_throttled.get() {
            self.dequeue_throttled_task(p);
            p.is_throttled.set(true);
            return true;
        }
        let is_off = self.dequeue_entities(rq, p.se, how).await;
        if is_off {
            self.fair.cpu_tasks.borrow_mut()[rq.cpu.index()].retain(|id| *id != p.id);
        }
        is_off
    }

    /// Takes an entity off, and those above it that have nothing queued any more.
    pub(in crate::kernel) async fn dequeue_entities(
        &self,
        rq: &Rq,
        first: EntityId,
        mut how: Dequeue,
    ) -> bool {
        let (engine, site) = (&self.engine, f::DEQUEUE_TASK_FAIR);
        engine.call(site, self.costs.function);
        let tasks = self.tasks_under(first);
        let is_task = self.task_of_entity(first).is_some();
        let mut is_emptied = true;
        for se in self.entities_up(first) {
            let cfs = self.queue_of(se);
            if is_emptied {
                if !self.dequeue_entity(rq, se, how).await {
                    if se == first && is_task {
                        return false;
                    }
                    is_emptied = false;
                }
                // A group's entity sleeps when its queue is empty, even if the task only moves.
                how = Dequeue {
                    sleeps: true,
                    ..Dequeue::default()
                };
            } else {
                self.update_load(cfs, se, site).await;
                self.update_cfs_group(rq, se).await;
            }
            // A group's entity that left late took its tasks along when they left.
            self.change_h_nr(cfs, -tasks, site).await;
            if self.is_queue_stopped(cfs) {
                return true;
            }
            is_emptied &= self.fair.groups.borrow().tree.q(cfs).load == 0;
        }
        if tasks > 0 {
            self.sub_nr_running(site, rq, tasks as u64).await;
        }
        true
    }

    /// Tasks that leave with an entity.
    fn tasks_under(&self, se: EntityId) -> i64 {
        let groups = self.fair.groups.borrow();
        match groups.tree.se(se).owner {
            Owner::Task(_) => 1,
            Owner::Group(cfs) => i64::from(groups.tree.q(cfs).h_nr_queued),
        }
    }

    fn task_of_entity(&self, se: EntityId) -> Option<Rc<Task>> {
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
        let load = self.fair.groups.borrow().tree.q(cfs).load;
        self.store_cfs(site, cfs, CfsMember::Load, load).await;
        self.store_se(site, se, SeMember::Vruntime, now).await;
        self.load_cfs(site, cfs, CfsMember::Timeline).await;
        self.store_se(site, se, SeMember::RunNode, 1).await;
        self.store_cfs(site, cfs, CfsMember::Timeline, 1).await;
        self.store_se(site, se, SeMember::OnRq, 1).await;
        if self.fair.groups.borrow().tree.q(cfs).nr_queued == 1 {
            self.check_enqueue_throttle(rq, cfs).await;
            self.list_add_leaf(cfs).await;
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
            self.store_se(site, se, SeMember::OnRq, 3).await;
            return false;
        }
        self.load_se(site, se, SeMember::RunNode).await;
        self.store_cfs(site, cfs, CfsMember::Timeline, 1).await;
        self.store_se(site, se, SeMember::OnRq, 0).await;
        let load = self.fair.groups.borrow().tree.q(cfs).load;
        self.store_cfs(site, cfs, CfsMember::Load, load).await;
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
        self.store_se(site, se, SeMember::OnRq, 1).await;
    }

    /// `count` more tasks are queued on a queue and below.
    pub(in crate::kernel) async fn change_h_nr(&self, cfs: CfsId, count: i64, site: Site) {
        let after = {
            let mut groups = self.fair.groups.borrow_mut();
            let queue = groups.tree.q_mut(cfs);
            queue.h_nr_queued = (i64::from(queue.h_nr_queued) + count) as u32;
            u64::from(queue.h_nr_queued)
        };
        let place = self.cfs_place(cfs, CfsMember::NrQueued);
        self.engine.store(site, place, after).await;
    }

    /// `update_load_avg`: brings the averages of an entity and its queue up to date.
    pub(in crate::kernel) async fn update_load(&self, cfs: CfsId, se: EntityId, site: Site) {
        let engine = &self.engine;
        self.load_se(site, se, SeMember::Avg).await;
        self.store_se(site, se, SeMember::Avg, 1).await;
        self.load_cfs(site, cfs, CfsMember::Avg).await;
        self.store_cfs(site, cfs, CfsMember::Avg, 1).await;
        let now = engine.now().0;
        let interval = self.fair.load_interval;
        let reported = self
            .fair
            .groups
            .borrow_mut()
            .report_load(cfs, now, interval);
        if reported {
            let group = self.fair.groups.borrow().group_of(cfs);
            let place = self.cfs_place(cfs, CfsMember::TgLoadAvgContrib);
            let load_avg = self.fair.group_places(group).load_avg;
            engine.fetch_add(f::UPDATE_TG_LOAD_AVG, load_avg, 1).await;
            engine.store(f::UPDATE_TG_LOAD_AVG, place, now).await;
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
        self.load_cfs(site, cfs, CfsMember::Load).await;
        let group = self.fair.groups.borrow().group_of(cfs);
        engine
            .load(site, self.fair.group_places(group).load_avg)
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
        self.store_se(site, se, SeMember::Load, weight).await;
        self.store_se(site, se, SeMember::Vruntime, now).await;
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
            let place = self.se_place(curr, SeMember::ExecStart);
            engine.load(site, place).await;
            engine.store(site, place, engine.now().0).await;
        }
        self.account_cfs_rq_runtime(rq, cfs, ran.delta).await;
        if ran.wants_resched {
            self.resched_curr(rq).await;
        }
    }

    /// The task to run, the running one included.
    pub(in crate::kernel) async fn pick_task_fair(&self, rq: &Rq) -> Option<Rc<Task>> {
        let site = f::PICK_NEXT_TASK_FAIR;
        let root = CfsId(u32::from(rq.cpu.0));
        'again: loop {
            self.load_cfs(site, root, CfsMember::NrQueued).await;
            if self.fair.groups.borrow().tree.q(root).nr_queued == 0 {
                return None;
            }
            let mut cfs = root;
            loop {
                self.update_curr_fair(rq, cfs).await;
                if self.check_cfs_rq_runtime(rq, cfs).await {
                    continue 'again;
                }
                let se = self.fair.groups.borrow().tree.pick_eevdf(cfs);
                let Some(se) = se else {
                    continue 'again;
                };
                self.load_cfs(site, cfs, CfsMember::Timeline).await;
                self.load_se(site, se, SeMember::Deadline).await;
                if self.is_delayed(se) {
                    self.leave_late(rq, se).await;
                    continue 'again;
                }
                let owner = self.fair.groups.borrow().tree.se(se).owner;
                match owner {
                    Owner::Task(task) => {
                        let task = self.task(task);
                        self.setup_throttle_work(&task).await;
                        return Some(task);
                    }
                    Owner::Group(below) => cfs = below,
                }
            }
        }
    }

    /// A delayed entity owes nothing any more.
    async fn leave_late(&self, rq: &Rq, se: EntityId) {
        let how = Dequeue {
            sleeps: true,
            is_delayed: true,
            ..Dequeue::default()
        };
        match self.task_of_entity(se) {
            Some(task) => self.finish_delayed(rq, &task).await,
            None => {
                self.dequeue_entities(rq, se, how).await;
            }
        }
    }

    /// A task that sleeps and is still queued leaves its run queue, which is locked.
    pub(in crate::kernel) async fn finish_delayed(&self, rq: &Rq, task: &Task) {
        if !self.is_delayed(task.se) {
            return;
        }
        let how = Dequeue {
            sleeps: true,
            is_delayed: true,
            ..Dequeue::default()
        };
        self.dequeue_task_fair(rq, task, how).await;
        task.on_rq.set(false);
        self.engine.store(f::SCHEDULE, task.p.on_rq, 0).await;
    }

    pub(in crate::kernel) async fn set_next_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PICK_NEXT_TASK_FAIR);
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            self.load_se(site, se, SeMember::RunNode).await;
            self.store_cfs(site, cfs, CfsMember::Timeline, 1).await;
            self.update_load(cfs, se, site).await;
            self.store_se(site, se, SeMember::ExecStart, 0).await;
            self.store_cfs(site, cfs, CfsMember::Curr, 1).await;
            let now = engine.now().0;
            self.fair.groups.borrow_mut().tree.set_next(se, now);
        }
        p.exec_start.set(engine.now());
    }

    pub(in crate::kernel) async fn put_prev_task_fair(&self, rq: &Rq, p: &Task) {
        let (engine, site) = (&self.engine, f::PUT_PREV_TASK_FAIR);
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            let now = engine.now().0;
            if self.fair.groups.borrow().tree.se(se).on_rq {
                self.update_curr_fair(rq, cfs).await;
                self.store_se(site, se, SeMember::RunNode, 1).await;
                self.store_cfs(site, cfs, CfsMember::Timeline, 1).await;
                self.update_load(cfs, se, site).await;
            }
            self.fair.groups.borrow_mut().tree.put_prev(se, now);
            self.store_cfs(site, cfs, CfsMember::Curr, 0).await;
        }
    }

    pub(in crate::kernel) async fn task_tick_fair(&self, rq: &Rq, p: &Task) {
        let site = f::TASK_TICK_FAIR;
        self.update_averages(rq, Some(p));
        for se in self.entities_up(p.se) {
            let cfs = self.queue_of(se);
            self.update_curr_fair(rq, cfs).await;
            self.update_load(cfs, se, site).await;
            self.update_cfs_group(rq, se).await;
        }
    }

    pub(in crate::kernel) async fn yield_task_fair(&self, rq: &Rq, p: &Task) {
        let cfs = self.queue_of(p.se);
        self.update_curr_fair(rq, cfs).await;
        let now = self.engine.now().0;
        self.fair.groups.borrow_mut().tree.yield_curr(cfs, now);
        let place = self.se_place(p.se, SeMember::Deadline);
        self.engine.store(f::TASK_TICK_FAIR, place, now).await;
    }

    /// Reschedules the CPU if a woken task should take it from the running one.
    pub(in crate::kernel) async fn wakeup_preempt_fair(&self, rq: &Rq, p: &Task, curr: &Task) {
        let (engine, site) = (&self.engine, f::WAKEUP_PREEMPT_FAIR);
        engine.call(site, self.costs.function);
        if curr.is_idle {
            self.resched_curr(rq).await;
            return;
        }
        let Some((se, cfs)) = self.matching_se(p.se, curr.se) else {
            return;
        };
        if self.is_hierarchy_stopped(cfs) {
            return;
        }
        self.update_curr_fair(rq, cfs).await;
        self.load_cfs(site, cfs, CfsMember::Timeline).await;
        let picked = self.fair.groups.borrow().tree.pick_eevdf(cfs);
        if picked == Some(se) {
            self.resched_curr(rq).await;
        }
    }

    /// The entity above `se` on the lowest queue that has one of `curr`, too: `find_matching_se`.
    fn matching_se(&self, se: EntityId, curr: EntityId) -> Option<(EntityId, CfsId)> {
        let of_curr = self.entities_up(curr);
        let queues: Vec<CfsId> = of_curr.iter().map(|se| self.queue_of(*se)).collect();
        let mut up = self.entities_up(se).into_iter();
        up.find_map(|se| {
            let cfs = self.queue_of(se);
            queues.contains(&cfs).then_some((se, cfs))
        })
    }
}
