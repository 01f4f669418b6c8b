//! Undoing cgroups: their tasks return to the parent cgroup, and they are removed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::change::{is_gone, is_missing, is_rest, move_thread};
use super::cpus::CpuSet;
use super::journal::{GROUP_PREFIX, Journal};
use super::system::System;
use super::task::{Mounts, stat};
use super::undo::{QUIET_ROUNDS, ROUND_PAUSE, ROUNDS_MAX, Undone};
use crate::procfs::tids;

/// Attempts to remove a cgroup whose last tasks are ending, and the pause between them: a second in
/// all.
const REMOVALS_MAX: usize = 200;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// Moves all tasks back to the parents of the groups, removes the groups and restores what was
/// changed beside them. Nothing is written outside of the cgroup hierarchy, whatever the journal
/// names.
pub(super) fn undo_groups(
    system: &dyn System,
    mounts: &Mounts,
    journal: &Journal,
    undone: &mut Undone,
) {
    let backend = journal.head.backend;
    let outside = |folder: &Path| mounts.check_inside(system, backend, folder).err();
    for group in journal.groups().rev() {
        let parent = group.parent().unwrap_or(group);
        let dissolve = Dissolve {
            system,
            parent: parent.join(backend.threads_file()),
            list: group.join(backend.threads_file()),
            group,
            journal,
        };
        let problem = outside(parent).or_else(|| outside(group)).or_else(|| {
            let error = dissolve.run(undone).err()?;
            Some(format!("cannot remove {}: {error}", group.display()))
        });
        undone.problems.extend(problem);
    }
    for (file, old) in journal.settings().rev() {
        // An empty write changes nothing, an empty line does.
        let problem = outside(folder_of(file));
        let problem = problem.or_else(|| write_back(system, file, &format!("{old}\n")));
        undone.problems.extend(problem);
    }
    for control in journal.controls().rev() {
        let problem = outside(folder_of(control));
        // Another placement may still need it, and has it in its own journal.
        let problem = problem.or_else(|| match has_groups(system, folder_of(control)) {
            true => None,
            false => write_back(system, control, "-cpuset"),
        });
        undone.problems.extend(problem);
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(file)
}

/// Writes to a control file; returns the problem. A file that is gone is none.
fn write_back(system: &dyn System, file: &Path, text: &str) -> Option<String> {
    let error = system.write(file, text).err()?;
    (!is_missing(&error)).then(|| format!("cannot write to {}: {error}", file.display()))
}

/// Returns true if a cgroup holds one of a placement.
fn has_groups(system: &dyn System, folder: &Path) -> bool {
    let names = system.names(folder).unwrap_or_default();
    names.iter().any(|name| {
        name.starts_with(GROUP_PREFIX)
            && system.read(&folder.join(name).join("cgroup.type")).is_ok()
    })
}

/// Undoing of one group.
struct Dissolve<'a> {
    system: &'a dyn System,
    group: &'a Path,
    /// The files that take and list single threads.
    parent: PathBuf,
    list: PathBuf,
    journal: &'a Journal,
}

impl Dissolve<'_> {
    fn run(&self, undone: &mut Undone) -> io::Result<()> {
        if !self.empty(undone)? {
            return Ok(());
        }
        self.resettle(undone)?;
        let mut tries = 0;
        while let Err(error) = self.system.remove_folder(self.group) {
            if is_missing(&error) {
                return Ok(());
            }
            tries += 1;
            if error.raw_os_error() != Some(libc::EBUSY) || tries == REMOVALS_MAX {
                return Err(error);
            }
            thread::sleep(REMOVAL_PAUSE);
            self.empty(undone)?;
        }
        Ok(())
    }

    /// Moves all of its tasks back; false when there is no such group.
    fn empty(&self, undone: &mut Undone) -> io::Result<bool> {
        let text = match self.system.read(&self.list) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => return Ok(false),
            // A group that did not become threaded before its maker died has no list, and no threads.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => String::new(),
            Err(error) => return Err(error),
        };
        let known = |tid: u32| self.journal.tasks().any(|task| task.id.tid == tid);
        for tid in tids(&text) {
            if self.move_to(&self.parent, tid)? && !known(tid) && !is_rest(self.group) {
                undone.inherited += 1;
            }
        }
        Ok(true)
    }

    /// Returns false when the task has ended.
    fn move_to(&self, file: &Path, tid: u32) -> io::Result<bool> {
        match move_thread(self.system, file, tid) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Finds children that have returned with the group's CPUs, and makes the kernel compute theirs
    /// anew.
    ///
    /// fork(2) copies the parent's CPUs first and reads its cgroup later. If the parent returns in
    /// between, the child begins in the parent cgroup, and in the root cpuset the kernel does not
    /// correct its CPUs (`cpuset_fork` in kernel/cgroup/cpuset.c). Passing through the group once
    /// more does, and keeps a mask that the child chose.
    fn resettle(&self, undone: &mut Undone) -> io::Result<()> {
        let cpus = self.system.read(&self.group.join("cpuset.cpus"));
        let cpus = cpus.ok().and_then(|list| CpuSet::parse(&list));
        let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) else {
            return Ok(());
        };
        let mut seen = BTreeSet::new();
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            let text = self.system.read(&self.parent)?;
            let tids = tids(&text);
            let new: Vec<u32> = tids
                .filter(|tid| !seen.contains(tid) && self.is_late(*tid, &cpus))
                .collect();
            quiet = if new.is_empty() { quiet + 1 } else { 0 };
            if quiet == QUIET_ROUNDS {
                return Ok(());
            }
            for tid in new {
                seen.insert(tid);
                // One that cannot be moved keeps its CPUs; the removal finds one that stays inside.
                let moved = |file: &Path| self.move_to(file, tid).unwrap_or(false);
                if moved(&self.list) && moved(&self.parent) {
                    let is_mended = self.system.affinity(tid).is_ok_and(|now| now != cpus);
                    undone.inherited += usize::from(is_mended);
                }
            }
            thread::sleep(ROUND_PAUSE);
        }
        Ok(())
    }

    fn is_late(&self, tid: u32, cpus: &CpuSet) -> bool {
        let since = self.journal.head.tool.start_ticks;
        let has_cpus = self.system.affinity(tid).is_ok_and(|now| now == *cpus);
        let begun =
            || stat(self.system, tid).is_some_and(|now| now.start_ticks >= since && !now.is_kernel);
        has_cpus && begun()
    }
}
