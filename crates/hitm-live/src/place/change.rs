//! Changes: cgroups are made, threads moved, masks set. Everything here is in the journal already.

use std::io;
use std::path::{Path, PathBuf};

use super::PlaceError;
use super::backend::Backend;
use super::journal::{Head, OldTask, Record};
use super::system::System;
use super::task::{Task, is_alive};

/// Outcome of placing tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placed {
    /// Tasks that now run on the chosen CPUs.
    pub placed: usize,
    /// Tasks that ended meanwhile.
    pub ended: usize,
}

/// Records of the cgroups that placing these tasks makes; `shared` are control files of other placements.
pub(super) fn group_records(
    system: &dyn System,
    (backend, tag): (Backend, &str),
    tasks: &[Task],
    shared: &[PathBuf],
) -> Vec<Record> {
    let mut records = Vec::new();
    for parent in backend.parents(tasks) {
        let control = parent.join("cgroup.subtree_control");
        let on = system.read(&control).unwrap_or_default();
        let is_on = on.split_whitespace().any(|name| name == "cpuset");
        if backend == Backend::CpusetV2 && (!is_on || shared.contains(&control)) {
            records.push(Record::Control(control));
        }
        records.push(Record::Group(parent.join(tag)));
    }
    records
}

/// Makes the cgroups of the records.
pub(super) fn make_groups(
    system: &dyn System,
    head: &Head,
    records: &[Record],
) -> Result<(), PlaceError> {
    for record in records {
        match record {
            Record::Control(control) => write(system, control, "+cpuset")?,
            Record::Group(group) => make_group(system, head, group)?,
            Record::Guard(_) | Record::Process(_) | Record::Task(_) => {}
        }
    }
    Ok(())
}

fn make_group(system: &dyn System, head: &Head, group: &Path) -> Result<(), PlaceError> {
    let made = system.make_folder(group);
    made.map_err(PlaceError::system(format!("make {}", group.display())))?;
    match head.backend {
        Backend::CpusetV2 => write(system, &group.join("cgroup.type"), "threaded")?,
        Backend::CpusetV1 => {
            let parent = group.parent().unwrap_or(group);
            let mems = parent.join("cpuset.mems");
            let text = system.read(&mems);
            let text = text.map_err(PlaceError::system(format!("read {}", mems.display())))?;
            write(system, &group.join("cpuset.mems"), text.trim())?;
        }
        Backend::Affinity => return Ok(()),
    }
    write(system, &group.join("cpuset.cpus"), &head.cpus.to_string())
}

fn write(system: &dyn System, path: &Path, text: &str) -> Result<(), PlaceError> {
    let written = system.write(path, text);
    written.map_err(PlaceError::system(format!(
        "write {text:?} to {}",
        path.display()
    )))
}

/// Places tasks; `groups` are the cgroups that were made for them.
pub(super) fn place(
    system: &dyn System,
    head: &Head,
    tasks: &[(OldTask, Option<PathBuf>)],
) -> Result<Placed, PlaceError> {
    let mut placed = Placed::default();
    for (task, group) in tasks {
        // Its number may be another task's by now.
        let done = is_alive(system, task.id) && place_one(system, head, (task, group.as_deref()))?;
        match done {
            true => placed.placed += 1,
            false => placed.ended += 1,
        }
    }
    Ok(placed)
}

/// Returns false when the task has ended.
fn place_one(
    system: &dyn System,
    head: &Head,
    (task, group): (&OldTask, Option<&Path>),
) -> Result<bool, PlaceError> {
    let tid = task.id.tid;
    let done = match group {
        Some(group) => move_thread(system, &group.join(head.backend.threads_file()), tid),
        None if task.mask.cpus == head.cpus => Ok(()),
        None => system.set_affinity(tid, Some(&head.cpus)),
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(PlaceError::system(format!("place task {tid}"))(error)),
    }
}

pub(super) fn move_thread(system: &dyn System, file: &Path, tid: u32) -> io::Result<()> {
    system.write(file, &tid.to_string())
}

/// Returns true if an error means that the task has ended.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH))
}

/// Returns true if an error means that a cgroup is not there, or not any more.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// The group of a task's own cgroup among those that were made.
pub(super) fn group_of<'a>(
    task: &Task,
    backend: Backend,
    mut groups: impl Iterator<Item = &'a Path>,
) -> Option<PathBuf> {
    let parent = backend.parent(task)?;
    groups
        .find(|group| group.parent() == Some(parent))
        .map(Path::to_owned)
}

/// Returns true if a task is where a placement puts it.
pub(super) fn is_inside(task: &Task, head: &Head, groups: &[PathBuf]) -> bool {
    match head.backend {
        Backend::Affinity => task.mask.cpus == head.cpus,
        backend => {
            let own = backend.parent(task);
            own.is_some_and(|own| groups.iter().any(|group| group == own))
        }
    }
}
