//! Tasks that compete for the CPUs with a group or a process, by the group that they compete in.
//!
//! CPUs are shared between groups first: a hundred tasks of one session compete as one. So tasks are counted by the
//! sibling group or autogroup that they are in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cgroups::Hierarchy;
use crate::procfs::{self, Stat};

/// Tasks that compete as one with the group.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherGroup {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: Weight,
    /// Mean number of its runnable tasks.
    pub runnable: f64,
}

/// Part of the CPUs that a group or a task has among those beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// That of a cgroup: 1024 is usual.
    Shares(u64),
    /// That of an autogroup or a task, as a nice value.
    Nice(i8),
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::Nice(0)
    }
}

/// Interval between scans of all tasks of the host. A scan takes some 10 us a task: 1 % of a CPU
/// for 1,000 tasks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same for one process, whose observation is short.
const LOOK_OFTEN: Duration = Duration::from_millis(250);
/// Limit on groups, and on tasks that are groups of their own.
const OTHERS_MAX: usize = 4096;

/// Returns true for the group at `path` and those below it.
fn is_below(group: &str, path: &str) -> bool {
    let rest = group.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Rivals by the place in which they compete, in the order of their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RivalGroups {
    /// Beside the observed group: cgroups, autogroups, and single tasks of the root.
    pub others: Vec<OtherGroup>,
    /// Within the observed process's group: processes and groups below it.
    pub inside: Vec<OtherGroup>,
}

/// Weight and runnable tasks of each group, the tasks summed over scans.
type Sums = BTreeMap<String, (Weight, u64)>;

/// Counts the rivals of a group, or of a process.
#[derive(Debug)]
pub(crate) struct Rivals {
    hierarchy: Hierarchy,
    /// Path of the group.
    path: String,
    /// The process, if it is one that is observed.
    process: Option<u32>,
    others: Sums,
    inside: Sums,
    looks: u64,
    looked: Option<Instant>,
}

/// Place in which a rival competes.
enum Arena {
    Beside,
    Inside,
}

impl Rivals {
    /// Those of a group: whoever is not in it.
    pub(crate) fn of_group(hierarchy: &Hierarchy, path: &str) -> Rivals {
        Rivals {
            hierarchy: hierarchy.clone(),
            path: path.to_owned(),
            process: None,
            others: Sums::new(),
            inside: Sums::new(),
            looks: 0,
            looked: None,
        }
    }

    /// Those of a process: also whoever is in its group. None when it has ended.
    pub(crate) fn of_process(hierarchy: &Hierarchy, pid: u32) -> Option<Rivals> {
        let path = hierarchy.group_of(pid)?;
        Some(Rivals {
            process: Some(pid),
            ..Rivals::of_group(hierarchy, &path)
        })
    }

    /// Path of the group.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The group's weight among its siblings.
    pub(crate) fn weight(&self) -> Weight {
        self.weight_of(&self.path)
    }

    fn weight_of(&self, path: &str) -> Weight {
        let shares = self.hierarchy.shares(&self.hierarchy.folder(path));
        shares.map_or(Weight::default(), Weight::Shares)
    }

    /// Scans the running tasks, if the last scan was long ago. Must be called some ten times a second.
    pub(crate) fn look(&mut self) {
        let every = match self.process {
            None => LOOK_EVERY,
            Some(_) => LOOK_OFTEN,
        };
        if self.looked.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.looked = Some(Instant::now());
        self.looks += 1;
        for pid in procfs::processes().unwrap_or_default() {
            // This process runs only for the scan.
            if pid == std::process::id() || Some(pid) == self.process {
                continue;
            }
            let threads = procfs::threads(pid).unwrap_or_default().into_iter();
            let running =
                threads.filter(|tid| Stat::of(*tid).is_some_and(|stat| stat.state == 'R'));
            let count = running.count() as u64;
            if count > 0
                && self.others.len() + self.inside.len() < OTHERS_MAX
                && let Some((arena, name, weight)) = self.place(pid)
            {
                let sums = match arena {
                    Arena::Beside => &mut self.others,
                    Arena::Inside => &mut self.inside,
                };
                sums.entry(name).or_insert((weight, 0)).1 += count;
            }
        }
    }

    /// Place in which a process competes, and the group that it does so in; none for those of the observed group.
    fn place(&self, pid: u32) -> Option<(Arena, String, Weight)> {
        let path = self.hierarchy.group_of(pid)?;
        if is_below(&path, &self.path) {
            self.process?;
            let (name, weight) = self.below(&self.path, &path, pid)?;
            return Some((Arena::Inside, name, weight));
        }
        let (parent, _) = self.path.rsplit_once('/')?;
        let parent = if is_below(&path, parent) { parent } else { "" };
        let (name, weight) = self.below(parent, &path, pid)?;
        Some((Arena::Beside, name, weight))
    }

    /// The group right below `parent` that a process is in, or else its autogroup or itself.
    fn below(&self, parent: &str, path: &str, pid: u32) -> Option<(String, Weight)> {
        let parent = parent.trim_end_matches('/');
        let rest = path.get(parent.len()..)?.trim_start_matches('/');
        match rest.split('/').next() {
            Some(name) if !name.is_empty() => {
                let path = format!("{parent}/{name}");
                let weight = self.weight_of(&path);
                Some((path, weight))
            }
            _ => {
                let alone = || {
                    let stat = Stat::of(pid)?;
                    Some((format!("process {pid}"), stat.nice))
                };
                let (name, nice) = procfs::autogroup(pid).or_else(alone)?;
                Some((name, Weight::Nice(nice)))
            }
        }
    }

    /// Returns the rivals, with the mean number of their runnable tasks.
    pub(crate) fn end(self) -> RivalGroups {
        let looks = self.looks.max(1) as f64;
        let groups = |sums: Sums| {
            let groups = sums.into_iter();
            let groups = groups.map(|(name, (weight, count))| OtherGroup {
                name,
                weight,
                runnable: count as f64 / looks,
            });
            groups.collect()
        };
        RivalGroups {
            others: groups(self.others),
            inside: groups(self.inside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_below_itself_and_what_is_above() {
        assert!(is_below("/a/b", "/a") && is_below("/a", "/a") && is_below("/a", "/"));
        assert!(!is_below("/ab", "/a"));
    }
}
