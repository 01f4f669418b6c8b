//! Means of placing: cgroups of version 2, of version 1, and masks of single threads.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst ("Threads", "Cpuset"), cgroup-v1/cpusets.rst, and
//! kernel/cgroup/cgroup.c of Linux 6.12.

use std::collections::BTreeSet;
use std::path::Path;

use hitm_fields::{Reported, Value, fields};

use super::journal::EXCLUSIVE_FILE;
use super::system::System;
use super::task::{Mounts, Task};

/// Controllers that a threaded cgroup can have: `cgrp_dfl_threaded_ss_mask` (`cgroup.threads` in the manual).
const THREADED_CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "perf_event", "pids"];
/// `CAP_SYS_NICE` of include/uapi/linux/capability.h.
const CAP_SYS_NICE: u32 = 23;

hitm_base::words! {
    /// Means of placing threads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Backend {
        /// A threaded child cgroup with `cpuset.cpus`.
        CpusetV2 = "cpuset-v2",
        /// A child cpuset of version 1.
        CpusetV1 = "cpuset-v1",
        /// sched_setaffinity(2) of each thread; new ones are followed.
        Affinity = "affinity",
    }
}

impl Backend {
    /// The file of a cgroup that takes and lists single threads.
    pub(super) const fn threads_file(self) -> &'static str {
        match self {
            Backend::CpusetV2 => "cgroup.threads",
            Backend::CpusetV1 | Backend::Affinity => "tasks",
        }
    }

    /// Cgroup of a task in which this means makes a child.
    pub(super) fn parent(self, task: &Task) -> Option<&Path> {
        match self {
            Backend::CpusetV2 => task.cgroups.unified.as_deref(),
            Backend::CpusetV1 => task.cgroups.cpuset.as_deref(),
            Backend::Affinity => None,
        }
    }

    /// Cgroups of all tasks.
    pub(super) fn parents(self, tasks: &[Task]) -> BTreeSet<&Path> {
        tasks.iter().filter_map(|task| self.parent(task)).collect()
    }

    /// Returns nothing if this means can place the tasks and put them back, or else the reason why
    /// not.
    pub(super) fn obstacle(
        self,
        system: &dyn System,
        mounts: &Mounts,
        tasks: &[Task],
        keeps_others_out: bool,
    ) -> Option<Obstacle> {
        if self == Backend::Affinity {
            let keeps_nobody = || Obstacle::absent(String::from("a mask keeps nobody else out"));
            return match keeps_others_out {
                true => Some(keeps_nobody()),
                false => affinity_obstacle(system, tasks),
            };
        }
        let (mount, name) = match self {
            Backend::CpusetV2 => (&mounts.unified, "cgroup version 2"),
            _ => (&mounts.cpuset, "the cpuset controller of cgroup version 1"),
        };
        let Some(mount) = mount else {
            return Some(Obstacle::absent(format!("{name} is not mounted")));
        };
        for task in tasks {
            let Some(folder) = self.parent(task) else {
                let tid = task.id.tid;
                return Some(Obstacle::absent(format!(
                    "the cgroup of task {tid} is outside of {}",
                    mount.point.display()
                )));
            };
            if folder
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("hitm-"))
            {
                return Some(Obstacle::absent(format!(
                    "{} is a placement",
                    folder.display()
                )));
            }
        }
        let parents = self.parents(tasks);
        if keeps_others_out && parents.len() > 1 {
            return Some(Obstacle::absent(String::from(
                "the threads are in several cgroups, and CPUs are set aside for one",
            )));
        }
        if keeps_others_out
            && self == Backend::CpusetV2
            && let Some(obstacle) = partition_obstacle(system, &mount.point, &parents)
        {
            return Some(obstacle);
        }
        parents.into_iter().find_map(|parent| match self {
            Backend::CpusetV2 => unified_obstacle(system, parent, parent == mount.point),
            _ => unwritable(system, parent, &["", "tasks"]),
        })
    }
}

impl Reported for Backend {
    fn value(&self) -> Value {
        self.id().value()
    }
}

fields! {
    /// A reason not to use a means.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Obstacle in obstacle {
        /// The reason.
        pub reason: String => words "reason";
        /// The right that this process lacks, if that is the reason.
        pub needed: Option<String> => words "needed";
    }
}

impl Obstacle {
    fn absent(reason: String) -> Obstacle {
        Obstacle {
            reason,
            needed: None,
        }
    }
}

fn unwritable(system: &dyn System, folder: &Path, names: &[&str]) -> Option<Obstacle> {
    let mut paths = names.iter().map(|name| match name.is_empty() {
        true => folder.to_owned(),
        false => folder.join(name),
    });
    let path = paths.find(|path| !system.is_writable(path))?;
    Some(Obstacle {
        reason: format!("{} is not writable", path.display()),
        needed: Some(format!("write access to {}", path.display())),
    })
}

/// A cgroup with threads of its own can have a threaded child, unless it or a child of it has a
/// feature of whole processes.
fn unified_obstacle(system: &dyn System, parent: &Path, is_root: bool) -> Option<Obstacle> {
    let read = |name: &str| system.read(&parent.join(name)).unwrap_or_default();
    let shown = parent.display();
    let has_cpuset = read("cgroup.controllers")
        .split_whitespace()
        .any(|name| name == "cpuset");
    if !has_cpuset {
        return Some(Obstacle::absent(format!(
            "{shown} has no cpuset controller"
        )));
    }
    if !is_root {
        let kind = read("cgroup.type");
        if kind.trim() == "domain invalid" {
            return Some(Obstacle::absent(format!(
                "{shown} is in the threaded part of another cgroup"
            )));
        }
        let on = read("cgroup.subtree_control");
        let domain = on
            .split_whitespace()
            .find(|name| !THREADED_CONTROLLERS.contains(name));
        if let Some(domain) = domain.filter(|_| kind.trim() == "domain") {
            return Some(Obstacle::absent(format!(
                "{shown} gives {domain} to its children, which threads cannot have"
            )));
        }
        let names = system.names(parent).unwrap_or_default();
        let is_domain = |name: &&String| {
            let kind = system.read(&parent.join(name).join("cgroup.type"));
            kind.is_ok_and(|kind| kind.trim().starts_with("domain"))
        };
        if let Some(child) = names.iter().find(is_domain) {
            return Some(Obstacle::absent(format!(
                "{shown} has {child}, a cgroup of processes"
            )));
        }
    }
    let names = [
        "",
        "cgroup.procs",
        "cgroup.threads",
        "cgroup.subtree_control",
    ];
    unwritable(system, parent, &names)
}

/// CPUs are set aside below every cgroup on the path from the root.
fn partition_obstacle(
    system: &dyn System,
    top: &Path,
    parents: &BTreeSet<&Path>,
) -> Option<Obstacle> {
    let ways = parents.iter().flat_map(|parent| below_root(top, parent));
    let mut files = ways.map(|folder| folder.join(EXCLUSIVE_FILE));
    let file = files.find(|file| system.read(file).is_err() || !system.is_writable(file))?;
    let reason = format!(
        "{} cannot be written: CPUs are set aside by it",
        file.display()
    );
    Some(Obstacle {
        needed: Some(String::from("Linux 6.7 or later, and root")),
        reason,
    })
}

/// Cgroups on the path from the root to one, without the root.
pub(super) fn below_root<'a>(top: &Path, folder: &'a Path) -> Vec<&'a Path> {
    let mut way: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| *folder != top)
        .collect();
    way.reverse();
    way
}

/// sched_setaffinity(2): the same user, or CAP_SYS_NICE.
fn affinity_obstacle(system: &dyn System, tasks: &[Task]) -> Option<Obstacle> {
    let status = system
        .read(Path::new("/proc/self/status"))
        .unwrap_or_default();
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    let rights = of("CapEff:").and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
    if rights.is_some_and(|rights| rights >> CAP_SYS_NICE & 1 != 0) {
        return None;
    }
    let user: Option<u32> =
        of("Uid:").and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    let others = |task: &&Task| user.is_none_or(|user| !task.uids.contains(&user));
    let task = tasks.iter().find(others)?;
    Some(Obstacle {
        reason: format!("{} is another user's", task.title()),
        needed: Some(String::from("CAP_SYS_NICE")),
    })
}
