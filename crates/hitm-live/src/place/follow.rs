//! New threads of placed processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::PlaceError;
use super::change::{group_of, is_inside};
use super::journal::{Journal, OldTask, Record};
use super::system::System;
use super::task::{Mounts, Task, is_alive, stat, threads};

/// Threads of the placed processes, and which of them were checked.
#[derive(Debug, Default)]
pub(super) struct Follower {
    seen: BTreeSet<u32>,
}

impl Follower {
    pub(super) fn new(journal: &Journal) -> Follower {
        Follower {
            seen: journal.tasks().map(|task| task.id.tid).collect(),
        }
    }

    /// Returns further threads to place, each with its group.
    ///
    /// Threads and children of placed threads start in their place. The rest are threads that an
    /// unplaced thread made while its process was being placed. A thread that chose a mask of its
    /// own keeps it.
    pub(super) fn new_threads(
        &mut self,
        system: &dyn System,
        mounts: &Mounts,
        journal: &Journal,
    ) -> Result<Vec<(OldTask, Option<PathBuf>)>, PlaceError> {
        let groups: Vec<PathBuf> = journal.groups().map(Path::to_owned).collect();
        let (mut present, mut found) = (BTreeSet::new(), Vec::new());
        for process in journal.processes().filter(|process| process.is_whole) {
            for tid in threads(system, process.id.tid) {
                present.insert(tid);
                if self.seen.contains(&tid) {
                    continue;
                }
                let Some(task) = Task::of(system, mounts, tid)? else {
                    continue;
                };
                if is_inside(&task, &journal.head, &groups) || task.mask.cpus != process.mask.cpus {
                    continue;
                }
                let group = group_of(
                    &task,
                    journal.head.backend,
                    groups.iter().map(PathBuf::as_path),
                );
                let is_placeable =
                    journal.head.backend == super::Backend::Affinity || group.is_some();
                if is_placeable {
                    found.push((old_task(&task), group));
                }
            }
        }
        self.seen = present;
        Ok(found)
    }
}

/// A task as the journal keeps it.
pub(super) fn old_task(task: &Task) -> OldTask {
    OldTask {
        id: task.id,
        pid: task.pid,
        mask: task.mask.clone(),
    }
}

pub(super) fn records(tasks: &[(OldTask, Option<PathBuf>)]) -> Vec<Record> {
    tasks
        .iter()
        .map(|(task, _)| Record::Task(task.clone()))
        .collect()
}

/// Returns true while a placed task, or a thread of a placed process, lives.
pub(super) fn has_tasks(system: &dyn System, journal: &Journal) -> bool {
    if journal.tasks().any(|task| is_alive(system, task.id)) {
        return true;
    }
    let mut whole = journal.processes().filter(|process| process.is_whole);
    whole.any(|process| {
        let of_process = threads(system, process.id.tid);
        let begun = |tid: &u32| {
            let now = stat(system, *tid);
            now.is_some_and(|now| now.start_ticks >= process.id.start_ticks && now.is_alive())
        };
        of_process.iter().any(begun)
    })
}
