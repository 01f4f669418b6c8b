//! Results, and the quantities that are reported of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_bpf::{NeighbourTable, Taker, Taking};
use hitm_fields::fields;

use crate::cgroups::Tree;
use crate::containers::Containers;

/// Processes that are named of each waiting group. The time of all is in the rows of groups.
const PROCESSES_MAX: usize = 256;

fields! {
    /// A group that ran while another one waited.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupTaker in group_taker {
        /// Time for which its tasks ran meanwhile, once for each task that waited.
        pub ns: u64 => nanos "ran";
        /// All time for which the waiting group waited.
        pub of_ns: u64;
        /// ns as a part of all time for which the waiting group waited.
        share => share "of wait", |taker| share(taker.ns, taker.of_ns);
        /// True for what was asked for: the process, the cgroup with those below it, else the waiting group itself.
        pub is_own: bool => label "own";
        /// Its folder below the root of the hierarchy.
        pub path: String => name "group";
        /// Its container: the name, or twelve digits of the number.
        pub container: Option<String> => name "container";
    }
}

fields! {
    /// A process that ran while a group waited.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessTaker in process_taker {
        /// Time for which it ran meanwhile, once for each task that waited.
        pub ns: u64 => nanos "ran";
        /// Its number.
        pub pid: u32 => number "process";
        /// The name of its thread that ran first.
        pub comm: String => name "name";
        /// The folder of its group.
        pub path: String => name "group";
    }
}

fields! {
    /// A group whose tasks were ready to run and had no CPU. Times count once for each task.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WaitingGroup in waiting_group {
        /// Its folder below the root of the hierarchy.
        pub path: String => name "group";
        /// Its container: the name, or twelve digits of the number.
        pub container: Option<String> => name "container";
        /// Time for which its tasks were ready to run and had no CPU, in all.
        pub waited_ns: u64 => nanos "waited";
        /// Its part while others ran: tasks outside of what was asked for.
        pub others_ns: u64 => nanos "others";
        /// Its part while its own other tasks ran: those of the process, of the cgroup that was asked for, or of the group.
        pub own_ns: u64 => nanos "own tasks";
        /// Its part for which the quota of the group, or of one above it, was used up.
        pub quota_ns: u64 => nanos "quota";
        /// Its part while the CPU was idle, and had to wake up first.
        pub idle_ns: u64 => nanos "idle CPU";
        /// Its part for which interrupts had the CPU, as the kernel counts them; none where it does not.
        pub interrupt_ns: Option<u64> => nanos "interrupts";
        /// Its part for which the host of this machine gave its CPU to others; none where the kernel does not count it.
        pub steal_ns: Option<u64> => nanos "steal";
        /// Those that ran meanwhile, longest time first.
        pub takers: Vec<GroupTaker>;
        /// The processes among them, longest time first.
        pub processes: Vec<ProcessTaker>;
    }
}

fields! {
    /// Waits of a window.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct NeighbourReport in neighbour_report {
        /// Length of the window.
        pub duration_ns: u64 => nanos "time";
        /// Time that all groups waited.
        waited_ns => nanos "waited", |report| report.groups.iter().map(|group| group.waited_ns).sum::<u64>();
        /// Groups that waited, longest time first.
        pub groups: Vec<WaitingGroup>;
        /// Waits that are missing because the tasks of 64 groups waited on one CPU already.
        pub lost_places: u64 => count "no place";
        /// Waits that are missing because the kernel had no memory for them.
        pub lost_tasks: u64 => count "no memory";
        /// Times that are missing because 16,384 rows have takers already.
        pub lost_rows: u64 => count "no row";
        /// Waits that were cut short because their end was not seen.
        pub unseen_ends: u64 => count "ends not seen";
    }
}

/// Tasks that count as a victim's own others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// Those of its group.
    Group,
    /// Those of this group and of groups below it.
    Below(u64),
    /// Those of this process.
    Process(u32),
}

fn share(part_ns: u64, all_ns: u64) -> Option<f64> {
    (all_ns > 0).then(|| part_ns as f64 / all_ns as f64)
}

/// Names of groups.
pub(super) struct Names<'a> {
    pub(super) tree: &'a Tree,
    pub(super) containers: &'a Containers,
}

impl Names<'_> {
    /// The group of tasks. Those of sessions, which the kernel groups by itself, belong to the root.
    fn group(&self, id: u64) -> u64 {
        let mut groups = self.tree.iter();
        let root = groups.find(|(_, group)| group.parent.is_none());
        root.map_or(id, |(root, _)| if id == 0 { root } else { id })
    }

    /// The folder of a group; one that is gone has its number.
    fn path(&self, id: u64) -> String {
        match (id, self.tree.get(id)) {
            (_, Some(group)) => group.path.clone(),
            (0, None) => "/".to_owned(),
            (_, None) => format!("cgroup {id}, which is gone"),
        }
    }

    fn container(&self, id: u64) -> Option<String> {
        self.containers.name(&self.tree.get(id)?.path)
    }
}

impl NeighbourReport {
    /// Sums a table by waiting group.
    pub(super) fn of(table: &NeighbourTable, own: Own, names: &Names<'_>) -> NeighbourReport {
        let mut by_victim: BTreeMap<u64, Vec<&Taking>> = BTreeMap::new();
        for taking in &table.takings {
            let victim = names.group(taking.victim);
            by_victim.entry(victim).or_default().push(taking);
        }
        let groups = by_victim.iter();
        let mut groups: Vec<WaitingGroup> = groups
            .map(|(victim, takings)| {
                let mut group = WaitingGroup::of(*victim, takings, own, names);
                group.interrupt_ns = group.interrupt_ns.filter(|_| table.knows_interrupts);
                group.steal_ns = group.steal_ns.filter(|_| table.knows_steal);
                group
            })
            .collect();
        groups
            .sort_by(|a, b| (Reverse(a.waited_ns), &a.path).cmp(&(Reverse(b.waited_ns), &b.path)));
        NeighbourReport {
            duration_ns: 0,
            groups,
            lost_places: table.lost_places,
            lost_tasks: table.lost_tasks,
            lost_rows: table.lost_rows,
            unseen_ends: table.unseen_ends,
        }
    }
}

impl WaitingGroup {
    fn of(victim: u64, takings: &[&Taking], own: Own, names: &Names<'_>) -> WaitingGroup {
        let sum = |is_it: fn(&Taker) -> bool| -> u64 {
            let those = takings.iter().filter(|taking| is_it(&taking.taker));
            those.map(|taking| taking.ns).sum()
        };
        let waited_ns = takings.iter().map(|taking| taking.ns).sum();
        let mut group = WaitingGroup {
            path: names.path(victim),
            container: names.container(victim),
            waited_ns,
            others_ns: 0,
            own_ns: 0,
            quota_ns: sum(|taker| *taker == Taker::Quota),
            idle_ns: sum(|taker| *taker == Taker::Idle),
            interrupt_ns: Some(sum(|taker| *taker == Taker::Interrupt)),
            steal_ns: Some(sum(|taker| *taker == Taker::Steal)),
            takers: Vec::new(),
            processes: Vec::new(),
        };
        let mut by_group: BTreeMap<(u64, bool), u64> = BTreeMap::new();
        for taking in takings {
            let Taker::Process { cgroup, pid } = taking.taker else {
                continue;
            };
            let cgroup = names.group(cgroup);
            let is_own = match own {
                Own::Group => cgroup == victim,
                Own::Below(top) => names.tree.upwards(cgroup).any(|id| id == top),
                Own::Process(target) => pid == target,
            };
            match is_own {
                true => group.own_ns += taking.ns,
                false => group.others_ns += taking.ns,
            }
            *by_group.entry((cgroup, is_own)).or_default() += taking.ns;
            group.processes.push(ProcessTaker {
                ns: taking.ns,
                pid,
                comm: taking.comm.clone(),
                path: names.path(cgroup),
            });
        }
        group.takers = by_group
            .into_iter()
            .map(|((cgroup, is_own), ns)| GroupTaker {
                ns,
                of_ns: waited_ns,
                is_own,
                path: names.path(cgroup),
                container: names.container(cgroup),
            })
            .collect();
        group.takers.sort_by_key(|taker| Reverse(taker.ns));
        group
            .processes
            .sort_by_key(|taker| (Reverse(taker.ns), taker.pid));
        group.processes.truncate(PROCESSES_MAX);
        group
    }
}
