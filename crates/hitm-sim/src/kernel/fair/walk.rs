//! Walks over a group and those below it, when its queue on a CPU is throttled or let run:
//! kernel/sched/fair.c, v6.12, and v6.18 for tasks.
//!
//! **What we do:** a walk over the groups reads, on each, the pointer to the queue and the lines of
//! the queue that Linux reads. The walk's loads do not depend on each other but through pointers
//! that stay cached. So a core overlaps as many visits as its load window has room for.

use hitm_base::Cycles;

use super::cfs_rq::CfsId;
use super::group::GroupId;
use super::places::{CfsMember, CfsWord};
use crate::engine::{Place, PrefetchStep, Site};
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::waits::Stop;
use crate::kernel::{Kernel, TaskId};

/// Result of an unthrottling walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::kernel) struct Walked {
    pub(in crate::kernel) cfs_rqs: u64,
    pub(in crate::kernel) tasks: u64,
}

impl Kernel {
    /// Counts one more throttled queue above each queue of a group and below on this CPU.
    pub(in crate::kernel) async fn tg_throttle_down(&self, rq: &Rq, group: GroupId) {
        let (engine, site) = (&self.engine, f::TG_THROTTLE_DOWN);
        let begin = engine.now();
        let below = self.fair.groups.borrow().subtree(group);
        let places_of = |cfs: CfsId| {
            let [count, on_list] = [CfsMember::ThrottleCount, CfsMember::OnList]
                .map(|member| Place::from(self.cfs_member(cfs, member)));
            vec![count, on_list, self.cfs_word(cfs, CfsWord::NrQueued)]
        };
        for visited in below.chunks(self.visits_at_once()) {
            self.load_visited(rq, visited, places_of, site).await;
            for group in visited {
                let cfs = self.fair.groups.borrow().queue(*group, rq.cpu.index());
                let (count, is_listed) = {
                    let mut groups = self.fair.groups.borrow_mut();
                    let queue = groups.tree.q_mut(cfs);
                    queue.runtime.throttle_count += 1;
                    let is_first = queue.runtime.throttle_count == 1;
                    if is_first {
                        queue.runtime.stopped_at = engine.now().0;
                    }
                    let is_listed = is_first && std::mem::take(&mut queue.is_on_list);
                    (queue.runtime.throttle_count, is_listed)
                };
                engine.work(site, self.visit_work());
                let place = self.cfs_member(cfs, CfsMember::ThrottleCount);
                engine.dirty(site, place).await;
                if count == 1 {
                    let clock = self.cfs_member(cfs, CfsMember::ThrottledClockPelt);
                    engine.dirty(site, clock).await;
                }
                if is_listed {
                    self.list_write(cfs, site).await;
                }
            }
        }
        let cfs_rqs = below.len() as u64;
        self.fair
            .note_throttle(rq.cpu, begin..engine.now(), cfs_rqs);
    }

    /// Takes that back, children first, and with it what waits in limbo.
    pub(in crate::kernel) async fn tg_unthrottle_up(&self, rq: &Rq, group: GroupId) -> Walked {
        let (engine, site) = (&self.engine, f::TG_UNTHROTTLE_UP);
        let below = self.fair.groups.borrow().subtree_up(group);
        let mut walked = Walked {
            cfs_rqs: below.len() as u64,
            tasks: 0,
        };
        let top = self.fair.groups.borrow().queue(group, rq.cpu.index());
        let is_by_task = self.fair.throttling.is_by_task();
        let places_of = |cfs: CfsId| {
            let member = |member| Place::from(self.cfs_member(cfs, member));
            let mut places = vec![
                member(CfsMember::ThrottleCount),
                member(CfsMember::Load),
                self.cfs_word(cfs, CfsWord::Avg),
                member(CfsMember::OnList),
            ];
            places.extend(is_by_task.then(|| member(CfsMember::Limbo)));
            places
        };
        for visited in below.chunks(self.visits_at_once()) {
            self.load_visited(rq, visited, places_of, site).await;
            for group in visited {
                let cfs = self.fair.groups.borrow().queue(*group, rq.cpu.index());
                let (count, has_load, limbo) = {
                    let mut groups = self.fair.groups.borrow_mut();
                    let queue = groups.tree.q_mut(cfs);
                    let runtime = &mut queue.runtime;
                    runtime.throttle_count -= 1;
                    let is_free = runtime.throttle_count == 0;
                    let limbo = if is_free {
                        std::mem::take(&mut runtime.limbo)
                    } else {
                        Vec::new()
                    };
                    (runtime.throttle_count, queue.load > 0, limbo)
                };
                engine.work(site, self.visit_work());
                let place = self.cfs_member(cfs, CfsMember::ThrottleCount);
                engine.dirty(site, place).await;
                if count > 0 {
                    continue;
                }
                let clock = self.cfs_member(cfs, CfsMember::ThrottledClockPelt);
                engine.dirty(site, clock).await;
                walked.tasks += limbo.len() as u64;
                self.note_stops(cfs, top, &limbo);
                self.leave_limbo(rq, cfs, &limbo).await;
                if has_load {
                    self.list_add_leaf(cfs).await;
                }
            }
        }
        walked
    }

    /// Tells the tasks of a queue that it is not stopped any more: `top` let it run, its own group's
    /// queue or one above. Those that are taken off one by one are in `limbo`.
    fn note_stops(&self, cfs: CfsId, top: CfsId, limbo: &[TaskId]) {
        let groups = self.fair.groups.borrow();
        let (queue, by) = (groups.tree.q(cfs), &groups.tree.q(top).runtime);
        let stop = Stop {
            begin: Cycles(queue.runtime.stopped_at),
            due: Cycles(by.due_at),
            asked: by.asked_at.map(Cycles),
            end: self.engine.now(),
        };
        let note = |id: TaskId| self.note_stop(&self.task(id), &stop);
        if self.fair.throttling.is_by_task() {
            limbo.iter().copied().for_each(note);
        } else {
            let waiting = queue.waiting.iter();
            waiting
                .filter_map(|se| groups.tree.task_of(*se))
                .for_each(note);
        }
    }

    /// Loads what the visits to some groups read, overlapped: the pointers, then the queues.
    async fn load_visited(
        &self,
        rq: &Rq,
        visited: &[GroupId],
        places_of: impl Fn(CfsId) -> Vec<Place>,
        site: Site,
    ) {
        self.prefetch_visited(rq, visited);
        let mut places = Vec::new();
        for group in visited {
            let of_group = self.fair.group_places(*group);
            let members = [of_group.children, of_group.siblings, of_group.cfs_rq];
            places.extend(members.map(Place::from));
            places.push(self.fair.pools.queue_pointer(*group, rq.cpu));
        }
        self.engine.load_all(site, &places, |_, _| {}).await;
        places.clear();
        for group in visited {
            let cfs = self.fair.groups.borrow().queue(*group, rq.cpu.index());
            places.extend(places_of(cfs));
        }
        self.engine.load_all(site, &places, |_, _| {}).await;
    }

    /// Prefetches what visits to some groups will look at.
    fn prefetch_visited(&self, rq: &Rq, visited: &[GroupId]) {
        let groups = self.fair.groups.borrow();
        for step in [PrefetchStep::Index, PrefetchStep::Places] {
            for group in visited {
                let cfs = groups.queue(*group, rq.cpu.index());
                self.fair.pools.prefetch(*group, cfs, step);
                groups.tree.prefetch(cfs);
            }
        }
    }

    /// Number of visits that a core has under way at once.
    fn visits_at_once(&self) -> usize {
        let window = u64::from(self.engine.machine().core.load_window_insns);
        (window / self.costs.visit_instructions).max(1) as usize
    }

    fn visit_work(&self) -> hitm_base::Cycles {
        hitm_base::Cycles(self.costs.visit_instructions)
    }
}
