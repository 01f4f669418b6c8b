//! Changes to cgroups, threads and masks. The journal has each of them before.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hitm_fields::fields;

use super::PlaceError;
use super::backend::{Backend, below_root};
use super::cpus::CpuSet;
use super::follow::old_task;
use super::journal::{EXCLUSIVE_FILE, Head, OldTask, Record};
use super::system::{System, read};
use super::task::{Mounts, Task, is_alive, stat};
use crate::procfs::tids;

fields! {
    /// Outcome of placing tasks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Placed in placed {
        /// Tasks that now run on the chosen CPUs.
        pub placed: usize => count "placed";
        /// Tasks that ended meanwhile.
        pub ended: usize => count "ended";
    }
}

/// End of the name of a cgroup for excluded tasks.
const REST: &str = "-rest";
/// Rounds in which new tasks are excluded too. Two are usual.
const ROUNDS_MAX: usize = 16;

/// Returns true if a cgroup of ours holds the excluded tasks.
pub(super) fn is_rest(group: &Path) -> bool {
    group.to_string_lossy().ends_with(REST)
}

/// Records of the cgroups and settings that excluding others changes, and of the excluded tasks.
pub(super) fn others_records(
    system: &dyn System,
    mounts: &Mounts,
    head: &Head,
    tag: &str,
    tasks: &[Task],
) -> Result<Vec<Record>, PlaceError> {
    let mut records = Vec::new();
    for parent in head.backend.parents(tasks) {
        if head.backend == Backend::CpusetV2 {
            let top = mounts
                .unified
                .as_ref()
                .map_or(Path::new("/"), |mount| &mount.point);
            for folder in below_root(top, parent) {
                let file = folder.join(EXCLUSIVE_FILE);
                let old = read(system, &file)?.trim().to_owned();
                records.push(Record::Setting(file, old));
            }
            continue;
        }
        if rest_cpus(system, head, parent)?.is_empty() {
            return Err(PlaceError::Refused(format!(
                "no CPU of {} is left for those who are kept out",
                parent.display()
            )));
        }
        records.push(Record::Group(parent.join(format!("{tag}{REST}"))));
        let placed: BTreeSet<u32> = tasks.iter().map(|task| task.pid).collect();
        for tid in tids(&read(system, &parent.join("tasks"))?) {
            let other = Task::of(system, mounts, tid)?;
            let other = other.filter(|other| !other.is_kernel && !placed.contains(&other.pid));
            records.extend(other.map(|other| Record::Other(old_task(&other))));
        }
    }
    Ok(records)
}

fn rest_cpus(system: &dyn System, head: &Head, parent: &Path) -> Result<CpuSet, PlaceError> {
    let all = read(system, &parent.join("cpuset.cpus"))?;
    Ok(CpuSet::parse(&all)
        .unwrap_or_default()
        .difference(&head.cpus))
}

/// Moves all other tasks out of the domain, except kernel threads and threads of the placed
/// processes.
pub(super) fn keep_out(
    system: &dyn System,
    head: &Head,
    records: &[Record],
) -> Result<(), PlaceError> {
    let rests = records.iter().filter_map(|record| match record {
        Record::Group(group) if is_rest(group) => Some(group),
        _ => None,
    });
    let placed: BTreeSet<u32> = records
        .iter()
        .filter_map(|record| match record {
            Record::Process(process) => Some(process.id.tid),
            _ => None,
        })
        .collect();
    for group in rests {
        let parent = group.parent().unwrap_or(group);
        for _ in 0..ROUNDS_MAX {
            let mut moved = 0;
            for tid in tids(&read(system, &parent.join("tasks"))?) {
                if !can_leave(system, tid, head.tool.tid, &placed) {
                    continue;
                }
                match move_thread(system, &group.join("tasks"), tid) {
                    Ok(()) => moved += 1,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => {
                        return Err(PlaceError::system(format!("move task {tid}"))(error));
                    }
                }
            }
            if moved == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// hitm and its children stay: its own change must not keep hitm from ending.
fn can_leave(system: &dyn System, tid: u32, tool: u32, placed: &BTreeSet<u32>) -> bool {
    let Some(fields) = stat(system, tid) else {
        return false;
    };
    let status = system
        .read(Path::new(&format!("/proc/{tid}/status")))
        .unwrap_or_default();
    let pid = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
    let is_ours = tid == tool || fields.parent == tool;
    !fields.is_kernel && !is_ours && pid.is_some_and(|pid| !placed.contains(&pid))
}

/// Records of the cgroups that placing these tasks makes; `shared` are control files of other placements.
pub(super) fn group_records(
    system: &dyn System,
    backend: Backend,
    tag: &str,
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
            Record::Setting(file, old) => {
                let old = CpuSet::parse(old).unwrap_or_default();
                write(system, file, &old.union(&head.cpus).to_string())?;
            }
            Record::Group(group) => make_group(system, head, group)?,
            _ => {}
        }
    }
    Ok(())
}

/// Sets the groups' CPUs aside: no task outside of them runs there.
pub(super) fn make_partitions(
    system: &dyn System,
    head: &Head,
    is_below_root: bool,
    records: &[Record],
) -> Result<(), PlaceError> {
    let groups = records.iter().filter_map(|record| match record {
        Record::Group(group) => Some(group),
        _ => None,
    });
    for group in groups.filter(|_| head.backend == Backend::CpusetV2) {
        // Below another cgroup, a partition needs exclusive CPUs of its own.
        if !is_below_root {
            write(system, &group.join(EXCLUSIVE_FILE), &head.cpus.to_string())?;
        }
        let file = group.join("cpuset.cpus.partition");
        // Not isolated: its threads are balanced between its CPUs.
        write(system, &file, "root")?;
        let state = read(system, &file)?;
        if state.trim() != "root" {
            return Err(PlaceError::Refused(format!(
                "the kernel does not set CPUs {} aside: {} says {:?}",
                head.cpus,
                file.display(),
                state.trim()
            )));
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
            // A new cpuset of version 1 has no memory nodes, and takes no task without.
            let text = read(system, &parent.join("cpuset.mems"))?;
            write(system, &group.join("cpuset.mems"), text.trim())?;
        }
        Backend::Affinity => return Ok(()),
    }
    let cpus = match is_rest(group) {
        true => rest_cpus(system, head, group.parent().unwrap_or(group))?,
        false => head.cpus.clone(),
    };
    write(system, &group.join("cpuset.cpus"), &cpus.to_string())
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
        let done = is_alive(system, task.id) && place_one(system, head, task, group.as_deref())?;
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
    task: &OldTask,
    group: Option<&Path>,
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
        .find(|group| group.parent() == Some(parent) && !is_rest(group))
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
