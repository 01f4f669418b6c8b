//! Throttling: the time that tasks of groups with a quota stand still, and its causes.
//!
//! [`Observation`] sums the events of the BPF programs in tables of limited size; [`observe`] runs
//! it on this host. An episode is the time from a task's leaving its CPU because its group is
//! throttled until it runs again. It has four parts, by cause ([`Causes`]).

mod demand;
mod episodes;
mod json;
mod run;
mod text;
mod trace;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hitm_base::{Histogram, Nanos, grouped, printable};
pub use hitm_bpf::ThrottleCounts;
use hitm_bpf::{Episode, LockWaiter, ThrottleEvent, Work};

use crate::cgroups::{Bandwidth, CpuStat, Tree};
use crate::spread::Spread;

pub use demand::{Demand, OtherGroup, ThreadDemand, Weight};
pub use episodes::{Causes, Queues};
pub use json::json;
pub use run::{Error, Options, ThrottleWindows, observe, observe_load};
pub use text::{losses, text};
pub use trace::trace_lines;

/// Limit on rows of tasks.
const TASKS_MAX: usize = 4096;

/// Limit on rows of groups.
const GROUPS_MAX: usize = 4096;

/// Limit on rows of locks.
const LOCKS_MAX: usize = 1024;

/// Durations of one kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkTimes {
    /// Durations by powers of two.
    pub histogram: Histogram,
    /// The same durations, for percentiles.
    pub spread: Spread,
}

impl WorkTimes {
    fn add(&mut self, work: &Work) {
        let ns = work.end_ns.saturating_sub(work.begin_ns);
        self.histogram.record(Nanos(ns as f64));
        self.spread.add(ns);
    }
}

/// Episodes of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// The number of its group.
    pub cgroup: u64,
    /// Number of the group whose quota throttles it: its own, or an ancestor.
    pub throttled_by: u64,
    /// The number of its throttlings.
    pub episodes: u64,
    /// Time of its episodes by cause.
    pub causes: Causes,
    /// Its longest episode.
    pub longest_ns: u64,
}

/// A kernel lock that a throttled task held while others waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    /// The lock's address.
    pub lock: u64,
    /// The throttled thread that held it.
    pub holder: u32,
    /// Waits that began meanwhile.
    pub waits: u64,
    /// The last thread that began to wait.
    pub waiter: u32,
    /// Its name.
    pub waiter_comm: String,
}

/// A group with a quota, and the effect on its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupRow {
    /// The number of the group.
    pub id: u64,
    /// Its folder below the root of the hierarchy.
    pub path: String,
    /// Its quota; none when the group or its quota has been removed.
    pub bandwidth: Option<Bandwidth>,
    /// Growth of the counters of its cpu.stat.
    pub stat: CpuStat,
    /// Sums over all episodes of its tasks.
    pub causes: Causes,
    /// The lengths of the episodes.
    pub spread: Spread,
    /// Like `spread`, without the wait for a CPU afterwards.
    pub throttled: Spread,
    /// The episode that lasted longest.
    pub longest: Option<Episode>,
    /// Time that its queues were throttled, each CPU's once: the quantity of cpu.stat.
    pub queues_ns: u64,
    /// Walks of its timers.
    pub walks: Spread,
    /// Locks that its tasks held while throttled.
    pub locks: Vec<HeldLock>,
    /// CPU time that its tasks waited for while ready, by /proc/TID/schedstat; without BPF only.
    pub run_delay_ns: Option<u64>,
}

/// The source of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Every episode, from BPF programs.
    Bpf {
        /// Timers ask other CPUs to unthrottle (Linux 6.4 and later).
        is_asynchronous: bool,
    },
    /// The kernel's counters alone, with the reason.
    Counters(String),
}

/// Result of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleReport {
    /// The source of figures.
    pub source: Source,
    /// Length of the observation.
    pub duration_ns: u64,
    /// Walks of period timers.
    pub period_timer: WorkTimes,
    /// Walks of slack timers, which give back quota that other CPUs did not use.
    pub slack_timer: WorkTimes,
    /// Work of CPUs that unthrottled at a timer's request.
    pub handlers: WorkTimes,
    /// Throttled groups, longest time first.
    pub groups: Vec<GroupRow>,
    /// Throttled tasks, longest time first.
    pub tasks: Vec<TaskRow>,
    /// Groups that have a quota.
    pub limited_groups: u64,
    /// Tasks that are throttled at the end.
    pub throttled_still: u64,
    /// The programs' own totals and losses.
    pub counts: ThrottleCounts,
    /// Rows of tasks and of groups that did not fit into tables.
    pub left_out: u64,
}

impl ThrottleReport {
    /// Returns true if each throttling was observed, with its causes; otherwise only the kernel's
    /// counters are known.
    pub fn has_causes(&self) -> bool {
        matches!(self.source, Source::Bpf { .. })
    }
}

impl HeldLock {
    /// Describes the lock, its holder and its waiters in one line.
    pub fn text(&self) -> String {
        format!(
            "lock {:#x}, held by throttled thread {}: {} waits began meanwhile, the last by {} ({})",
            self.lock,
            self.holder,
            grouped(self.waits),
            printable(&self.waiter_comm),
            self.waiter
        )
    }
}

/// Sums of one group.
#[derive(Debug, Default)]
struct GroupSum {
    causes: Causes,
    spread: Spread,
    throttled: Spread,
    longest: Option<(u64, Episode)>,
    queues: Queues,
    walks: Spread,
    locks: BTreeMap<(u64, u32), HeldLock>,
}

/// Sums of events, in bounded tables.
#[derive(Debug)]
pub struct Observation {
    tree: Tree,
    /// Observes only tasks and timers of this group and its descendants.
    only: Option<u64>,
    period_timer: WorkTimes,
    slack_timer: WorkTimes,
    handlers: WorkTimes,
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
            period_timer: WorkTimes::default(),
            slack_timer: WorkTimes::default(),
            handlers: WorkTimes::default(),
            groups: BTreeMap::new(),
            tasks: BTreeMap::new(),
            left_out: 0,
            has_unknown: false,
        }
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
        match event {
            ThrottleEvent::Episode(episode) => self.add_episode(episode),
            ThrottleEvent::Timer(work) if self.is_wanted(work.cgroup) => self.add_timer(work),
            ThrottleEvent::Handler(work) if self.is_wanted(work.cgroup) => self.handlers.add(work),
            ThrottleEvent::Lock(waiter) => self.add_lock(waiter),
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
        let times = match work.is_slack {
            true => &mut self.slack_timer,
            false => &mut self.period_timer,
        };
        times.add(work);
        let ns = work.end_ns.saturating_sub(work.begin_ns);
        if let Some(group) = self.group(work.cgroup) {
            group.walks.add(ns);
        }
    }

    fn add_episode(&mut self, episode: &Episode) {
        self.has_unknown |= self.tree.get(episode.cgroup).is_none();
        if !self.is_below(episode.cgroup) {
            return;
        }
        let causes = Causes::of(episode);
        let ns = causes.total_ns();
        let throttling = self.tree.limited(episode.cgroup).unwrap_or(episode.cgroup);
        if let Some(group) = self.group(throttling) {
            group.causes.add(&causes);
            group.spread.add(ns);
            group.throttled.add(ns - causes.cpu_ns);
            group.queues.add(episode);
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
        let throttling = self.tree.limited(waiter.cgroup).unwrap_or(waiter.cgroup);
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

    /// Finishes at `end_ns`: `open` are the unfinished episodes, `stats` the growth of each group's
    /// counters.
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
        let throttled_still = open.iter().filter(|episode| episode.back_ns == 0).count() as u64;
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
            throttled_still,
            counts: ThrottleCounts::default(),
            left_out: self.left_out,
        }
    }
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
            queues_ns: self.queues.total_ns(),
            walks: self.walks,
            locks: self.locks.into_values().collect(),
            run_delay_ns: None,
        }
    }
}

impl TaskRow {
    fn of(episode: &Episode, throttled_by: u64) -> TaskRow {
        TaskRow {
            tid: episode.tid,
            pid: episode.pid,
            comm: episode.comm.clone(),
            cgroup: episode.cgroup,
            throttled_by,
            episodes: 0,
            causes: Causes::default(),
            longest_ns: 0,
        }
    }
}
