//! Throttling: the time that tasks of groups with a quota stand still, and its causes.
//!
//! [`Observation`] sums the events of the BPF programs in tables of limited size; [`observe`] runs
//! it on this host. An episode is the time from a task's leaving its CPU because its group is
//! throttled until it runs again. It has four parts, by cause ([`Causes`]).

mod demand;
mod episodes;
mod report;
mod run;
mod trace;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use hitm_bpf::{Episode, ThrottleCounts};
use hitm_bpf::{LockWaiter, QueueTime, ThrottleEvent, Work};

use crate::cgroups::{CpuStat, Tree};
use crate::spread::Spread;

pub use crate::rivals::{OtherGroup, Weight};
pub use demand::{Arrival, Demand, Rhythm, ThreadDemand};
pub use episodes::Causes;
pub use report::{
    Caused, GroupRow, HasCauses, HeldLock, Source, TaskRow, ThrottleReport, causes, episode,
    group_row, held_lock, task_row, throttle_counts, throttle_report, work_times,
};
pub use run::{Error, ThrottleWindows, observe, observe_load};
pub use trace::trace_lines;

/// Limit on rows of tasks.
const TASKS_MAX: usize = 4096;

/// Limit on rows of groups.
const GROUPS_MAX: usize = 4096;

/// Limit on rows of locks.
const LOCKS_MAX: usize = 1024;

/// Sums of one group.
#[derive(Debug, Default)]
struct GroupSum {
    causes: Causes,
    spread: Spread,
    throttled: Spread,
    longest: Option<(u64, Episode)>,
    queues_ns: u64,
    walks: Spread,
    timer_due_ns: Option<u64>,
    locks: BTreeMap<(u64, u32), HeldLock>,
}

/// Sums of events, in bounded tables.
#[derive(Debug)]
pub struct Observation {
    tree: Tree,
    /// Observes only tasks and timers of this group and its descendants.
    only: Option<u64>,
    /// Begin of the first window: what was before is cut off.
    begin_ns: u64,
    /// By group: the moment at which its cpu.stat was read. Queues' times that ended before are in that already.
    counted_ns: BTreeMap<u64, u64>,
    period_timer: Spread,
    slack_timer: Spread,
    handlers: Spread,
    groups: BTreeMap<u64, GroupSum>,
    tasks: BTreeMap<u32, TaskRow>,
    left_out: u64,
    has_unknown: bool,
}

impl Observation {
    /// Observes the groups of `tree`, or the one of number `only` and its descendants.
    pub fn new(tree: Tree, only: Option<u64>) -> Observation {
        Observation {
            tree,
            only,
            begin_ns: 0,
            counted_ns: BTreeMap::new(),
            period_timer: Spread::default(),
            slack_timer: Spread::default(),
            handlers: Spread::default(),
            groups: BTreeMap::new(),
            tasks: BTreeMap::new(),
            left_out: 0,
            has_unknown: false,
        }
    }

    /// Cuts off what is before `begin_ns`: programs run while others are loaded, which takes a while. Queues' times
    /// count from the moment at which their group's cpu.stat was read, `counted_ns` by group.
    pub(crate) fn begin_at(&mut self, begin_ns: u64, counted_ns: BTreeMap<u64, u64>) {
        self.begin_ns = begin_ns;
        self.counted_ns = counted_ns;
    }

    /// Tree of groups, as last read.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Takes the present groups, and keeps those that have vanished.
    pub fn merge_tree(&mut self, tree: Tree) {
        self.tree.merge(tree);
        self.has_unknown = false;
    }

    /// True when an event was in a group that the tree does not have.
    pub fn has_unknown(&self) -> bool {
        self.has_unknown
    }

    /// Adds an event.
    pub fn take(&mut self, event: &ThrottleEvent) {
        let begin_ns = match event {
            ThrottleEvent::Queue(time) => self.counted_ns.get(&time.cgroup).copied(),
            _ => None,
        };
        let begin_ns = begin_ns.unwrap_or(self.begin_ns);
        let Some(event) = episodes::cut_before(event, begin_ns) else {
            return;
        };
        match event.as_ref() {
            ThrottleEvent::Episode(episode) => self.add_episode(episode),
            ThrottleEvent::Timer(work) if self.is_wanted(work.cgroup) => self.add_timer(work),
            ThrottleEvent::Handler(work) if self.is_wanted(work.cgroup) => {
                self.handlers.add(duration_ns(work))
            }
            ThrottleEvent::Lock(waiter) => self.add_lock(waiter),
            ThrottleEvent::Queue(time) if self.is_wanted(time.cgroup) => self.add_queue(time),
            _ => {}
        }
    }

    /// True for the observed group, its descendants, and its ancestors, whose quota it shares.
    fn is_wanted(&self, cgroup: u64) -> bool {
        self.only.is_none_or(|only| {
            self.tree.upwards(cgroup).any(|id| id == only)
                || self.tree.upwards(only).any(|id| id == cgroup)
        })
    }

    fn is_below(&self, cgroup: u64) -> bool {
        self.only
            .is_none_or(|only| self.tree.upwards(cgroup).any(|id| id == only))
    }

    fn add_timer(&mut self, work: &Work) {
        let ns = duration_ns(work);
        let times = match work.is_slack {
            true => &mut self.slack_timer,
            false => &mut self.period_timer,
        };
        times.add(ns);
        if let Some(group) = self.group(work.cgroup) {
            group.walks.add(ns);
            if !work.is_slack {
                group.timer_due_ns = Some(work.due_ns);
            }
        }
    }

    fn add_queue(&mut self, time: &QueueTime) {
        self.has_unknown |= self.tree.get(time.cgroup).is_none();
        if let Some(group) = self.group(time.cgroup) {
            group.queues_ns += time.throttled_ns;
        }
    }

    /// The group whose quota throttles: the one that was seen, else the nearest one with a quota.
    fn throttling(&self, charged: u64, cgroup: u64) -> u64 {
        match charged {
            0 => self.tree.limited(cgroup).unwrap_or(cgroup),
            charged => charged,
        }
    }

    fn add_episode(&mut self, episode: &Episode) {
        self.has_unknown |= self.tree.get(episode.cgroup).is_none();
        if !self.is_below(episode.cgroup) {
            return;
        }
        let causes = Causes::of(episode);
        let ns = causes.total_ns();
        let throttling = self.throttling(episode.charged, episode.cgroup);
        if let Some(group) = self.group(throttling) {
            group.causes.add(&causes);
            group.spread.add(ns);
            group.throttled.add(ns - causes.cpu_ns);
            if group
                .longest
                .as_ref()
                .is_none_or(|(longest, _)| *longest < ns)
            {
                group.longest = Some((ns, episode.clone()));
            }
        }
        if self.tasks.len() >= TASKS_MAX && !self.tasks.contains_key(&episode.tid) {
            self.left_out += 1;
            return;
        }
        let row = self
            .tasks
            .entry(episode.tid)
            .or_insert_with(|| TaskRow::of(episode, throttling));
        row.episodes += 1;
        row.causes.add(&causes);
        row.longest_ns = row.longest_ns.max(ns);
    }

    fn add_lock(&mut self, waiter: &LockWaiter) {
        if !self.is_below(waiter.cgroup) {
            return;
        }
        let throttling = self.throttling(waiter.charged, waiter.cgroup);
        let Some(group) = self.group(throttling) else {
            return;
        };
        let key = (waiter.lock, waiter.holder);
        if group.locks.len() >= LOCKS_MAX && !group.locks.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let held = group.locks.entry(key).or_insert_with(|| HeldLock {
            lock: waiter.lock,
            holder: waiter.holder,
            waits: 0,
            waiter: 0,
            waiter_comm: String::new(),
        });
        held.waits += 1;
        held.waiter = waiter.waiter;
        held.waiter_comm.clone_from(&waiter.comm);
    }

    fn group(&mut self, id: u64) -> Option<&mut GroupSum> {
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&id) {
            self.left_out += 1;
            return None;
        }
        Some(self.groups.entry(id).or_default())
    }

    /// Finishes at `end_ns`: `open` are episodes that have not ended, `stats` the growth of each
    /// group's counters.
    pub fn finish(
        mut self,
        open: &[Episode],
        end_ns: u64,
        stats: &BTreeMap<u64, CpuStat>,
    ) -> ThrottleReport {
        for episode in open {
            self.take(&ThrottleEvent::Episode(episodes::cut(episode, end_ns)));
        }
        for (id, stat) in stats {
            // cpu.stat may count throttling of which no episode was seen.
            if stat.throttled_periods > 0 && self.is_below(*id) {
                let _ = self.group(*id);
            }
        }
        let throttled = |sum: &GroupSum, id: &u64| {
            sum.spread.count() > 0 || stats.get(id).is_some_and(|stat| stat.throttled_periods > 0)
        };
        let tree = &self.tree;
        let groups = std::mem::take(&mut self.groups).into_iter();
        let groups = groups.filter(|(id, sum)| throttled(sum, id));
        let mut groups: Vec<GroupRow> = groups.map(|(id, sum)| sum.row(id, tree, stats)).collect();
        groups.sort_by_key(|group| {
            (
                std::cmp::Reverse(group.causes.total_ns().max(group.stat.throttled_ns)),
                group.id,
            )
        });
        let mut tasks: Vec<TaskRow> = self.tasks.into_values().collect();
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.causes.total_ns()), task.tid));
        ThrottleReport {
            source: Source::Bpf {
                is_asynchronous: true,
            },
            duration_ns: 0,
            period_timer: self.period_timer,
            slack_timer: self.slack_timer,
            handlers: self.handlers,
            groups,
            tasks,
            limited_groups: tree
                .iter()
                .filter(|(_, group)| group.bandwidth.is_some())
                .count() as u64,
            throttled_still: still(open),
            counts: ThrottleCounts::default(),
            left_out: self.left_out,
        }
    }
}

/// Tasks that have not been put back.
fn still(open: &[Episode]) -> u64 {
    open.iter().filter(|episode| episode.back_ns == 0).count() as u64
}

fn duration_ns(work: &Work) -> u64 {
    work.end_ns.saturating_sub(work.begin_ns)
}

impl GroupSum {
    fn row(self, id: u64, tree: &Tree, stats: &BTreeMap<u64, CpuStat>) -> GroupRow {
        let group = tree.get(id);
        GroupRow {
            id,
            path: group.map_or_else(
                || format!("(cgroup {id}, gone)"),
                |group| group.path.clone(),
            ),
            bandwidth: group.and_then(|group| group.bandwidth),
            stat: stats.get(&id).copied().unwrap_or_default(),
            causes: self.causes,
            spread: self.spread,
            throttled: self.throttled,
            longest: self.longest.map(|(_, episode)| episode),
            queues_ns: self.queues_ns,
            walks: self.walks,
            timer_due_ns: self.timer_due_ns,
            locks: self.locks.into_values().collect(),
            run_delay_ns: None,
        }
    }
}
