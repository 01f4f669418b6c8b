//! Facts about tasks for placing, and the folders of their cgroups.

use std::io;
use std::path::{Path, PathBuf};

use hitm_base::with_note;
use hitm_fields::fields;

use super::PlaceError;
use super::backend::Backend;
use super::cpus::CpuSet;
use super::journal::{Home, OldMask};
use super::system::{System, read};
use crate::procfs::{Stat, TaskId, parse_cgroups, parse_mounts};

/// Reads /proc/TID/stat; none when the task has ended.
pub(super) fn stat(system: &dyn System, tid: u32) -> Option<Stat> {
    let path = PathBuf::from(format!("/proc/{tid}/stat"));
    Stat::parse(&system.read(&path).ok()?)
}

/// Returns true while the task runs or sleeps; false when it has ended, is a zombie, or its number
/// is another task's.
pub(super) fn is_alive(system: &dyn System, id: TaskId) -> bool {
    let now = stat(system, id.tid);
    now.is_some_and(|now| now.start_ticks == id.start_ticks && now.is_alive())
}

/// A task that could be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The task.
    pub id: TaskId,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// CPUs that it may run on.
    pub mask: OldMask,
    /// The CPU that it ran on last.
    pub cpu: u16,
    pub(super) uids: [u32; 2],
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) is_kernel: bool,
    pub(super) is_deadline: bool,
    /// Its cgroups: folders of the unified hierarchy, of version 1's cpuset and of version 1's cpu.
    pub(super) cgroups: TaskGroups,
}

fields! {
    /// A task that could be placed.
    pub placeable for Task {
        /// Its number.
        tid => number "thread", |task| task.id.tid;
        /// Its process.
        pid => number "process";
        /// Its name.
        name => name "name";
        /// CPUs that it may run on.
        cpus => label "CPUs", |task| &task.mask.cpus;
        /// The CPU that it ran on last.
        last_cpu => number "last CPU", |task| task.cpu;
    }
}

/// The folders of a task's cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TaskGroups {
    pub(super) unified: Option<PathBuf>,
    pub(super) cpuset: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
}

impl Task {
    /// Its number and its name, in words.
    pub(super) fn title(&self) -> String {
        with_note(&format!("task {}", self.id.tid), &self.name)
    }

    /// Reads a task; `None` when it has ended.
    ///
    /// # Errors
    /// Its mask or cgroups cannot be read, so they could not be put back.
    pub(super) fn of(
        system: &dyn System,
        mounts: &Mounts,
        tid: u32,
    ) -> Result<Option<Task>, PlaceError> {
        let Some(fields) = stat(system, tid) else {
            return Ok(None);
        };
        let gone_or = |error: io::Error, what: &str| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Ok(None),
            _ => Err(PlaceError::system(format!("read the {what} of task {tid}"))(error)),
        };
        let cgroups = match system.read(Path::new(&format!("/proc/{tid}/cgroup"))) {
            Ok(text) => mounts.groups(&text),
            Err(error) => return gone_or(error, "cgroups"),
        };
        let status = match system.read(Path::new(&format!("/proc/{tid}/status"))) {
            Ok(status) => status,
            Err(error) => return gone_or(error, "status"),
        };
        let cpus = match system.affinity(tid) {
            Ok(cpus) => cpus,
            Err(error) => return gone_or(error, "CPU mask"),
        };
        let Some((pid, uids)) = owner(&status) else {
            return Err(PlaceError::Refused(format!(
                "the status of task {tid} names no process"
            )));
        };
        let is_free = cpuset_cpus(system, mounts, &cgroups).as_ref() == Some(&cpus);
        Ok(Some(Task {
            id: TaskId {
                tid,
                start_ticks: fields.start_ticks,
            },
            pid,
            name: line_of(&status, "Name:").unwrap_or_default().to_owned(),
            mask: OldMask { cpus, is_free },
            cpu: fields.cpu,
            uids,
            group: fields.group,
            session: fields.session,
            is_kernel: fields.is_kernel,
            is_deadline: fields.is_deadline,
            cgroups,
        }))
    }
}

fn line_of<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.map(str::trim)
}

/// The process, and its real and effective user.
fn owner(status: &str) -> Option<(u32, [u32; 2])> {
    let pid = line_of(status, "Tgid:")?.parse().ok()?;
    let mut uids = line_of(status, "Uid:")?.split_whitespace();
    let mut uid = || uids.next()?.parse().ok();
    Some((pid, [uid()?, uid()?]))
}

/// A process's user and cgroups; none when it has ended.
pub(super) fn home_of(system: &dyn System, pid: u32) -> Option<Home> {
    let status = system
        .read(Path::new(&format!("/proc/{pid}/status")))
        .ok()?;
    let cgroups = system
        .read(Path::new(&format!("/proc/{pid}/cgroup")))
        .ok()?;
    let (_, [uid, _]) = owner(&status)?;
    Some(Home { pid, uid, cgroups })
}

/// Threads of a process, sorted; none when it has ended.
pub(super) fn threads(system: &dyn System, pid: u32) -> Vec<u32> {
    numbers(system, Path::new(&format!("/proc/{pid}/task")))
}

/// All processes, sorted.
pub(super) fn processes(system: &dyn System) -> Vec<u32> {
    numbers(system, Path::new("/proc"))
}

fn numbers(system: &dyn System, folder: &Path) -> Vec<u32> {
    let names = system.names(folder).unwrap_or_default();
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Online CPUs.
///
/// # Errors
/// sysfs cannot be read.
pub fn online(system: &dyn System) -> Result<CpuSet, PlaceError> {
    const PATH: &str = "/sys/devices/system/cpu/online";
    let text = read(system, Path::new(PATH))?;
    let cpus = CpuSet::parse(&text).filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| PlaceError::Refused(format!("{PATH} lists no CPU: {text:?}")))
}

/// CPUs that a task's cpuset allows, online ones only.
pub(super) fn cpuset_cpus(
    system: &dyn System,
    mounts: &Mounts,
    groups: &TaskGroups,
) -> Option<CpuSet> {
    let listed = |folder: &Path, name: &str| {
        let text = system.read(&folder.join(name)).ok()?;
        CpuSet::parse(&text).filter(|cpus| !cpus.is_empty())
    };
    if let Some(folder) = &groups.cpuset {
        let effective = listed(folder, "cpuset.effective_cpus");
        return effective.or_else(|| listed(folder, "cpuset.cpus"));
    }
    let top = mounts.unified.as_ref().map(|mount| mount.point.as_path());
    let folders = groups.unified.iter().flat_map(|folder| folder.ancestors());
    let mut folders = folders.take_while(|folder| top.is_some_and(|top| folder.starts_with(top)));
    let nearest = folders.find_map(|folder| listed(folder, "cpuset.cpus.effective"));
    nearest.or_else(|| online(system).ok())
}

/// Mount of a cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Cgroup that is mounted.
    root: PathBuf,
    pub(super) point: PathBuf,
}

impl Mount {
    /// Folder of a cgroup, unless it is outside of the mounted one.
    fn folder(&self, cgroup: &Path) -> Option<PathBuf> {
        let inside = cgroup.strip_prefix(&self.root).ok()?;
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if !inside.components().all(is_plain) {
            return None;
        }
        let mut folder = self.point.clone();
        folder.extend(inside.components());
        Some(folder)
    }
}

/// Hierarchies that limit where tasks run and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    pub(super) unified: Option<Mount>,
    pub(super) cpuset: Option<Mount>,
    pub(super) cpu: Option<Mount>,
}

impl Mounts {
    /// Reads this process's mounts.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn read(system: &dyn System) -> Result<Mounts, PlaceError> {
        Ok(Mounts::parse(&read(
            system,
            Path::new("/proc/self/mountinfo"),
        )?))
    }

    /// The first mount of each hierarchy is used: proc_pid_mountinfo(5).
    fn parse(text: &str) -> Mounts {
        let mut mounts = Mounts::default();
        for mounted in parse_mounts(text) {
            let mount = || Mount {
                root: mounted.root.clone(),
                point: mounted.point.clone(),
            };
            if mounted.kind == "cgroup2" {
                mounts.unified.get_or_insert_with(mount);
            }
            if mounted.controls("cpuset") {
                mounts.cpuset.get_or_insert_with(mount);
            }
            if mounted.controls("cpu") {
                mounts.cpu.get_or_insert_with(mount);
            }
        }
        mounts
    }

    /// Refuses a folder outside of the hierarchy in which a backend makes cgroups. Of a
    /// folder that is gone, what is left of its path must be inside.
    ///
    /// # Errors
    /// A sentence that names the folder, and where it would have to be.
    pub(super) fn check_inside(
        &self,
        system: &dyn System,
        backend: Backend,
        folder: &Path,
    ) -> Result<(), String> {
        let mount = match backend {
            Backend::CpusetV2 => self.unified.as_ref(),
            Backend::CpusetV1 => self.cpuset.as_ref(),
            Backend::Affinity => None,
        };
        // Cgroup file systems hold no links: what is inside now stays inside.
        let is_inside = mount.is_some_and(|mount| {
            let mut ancestors = folder.ancestors();
            let is_real = ancestors.find_map(|there| match system.real_path(there) {
                Ok(real) => Some(real == there),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(_) => Some(false),
            });
            folder.starts_with(&mount.point) && is_real == Some(true)
        });
        match (is_inside, mount) {
            (true, _) => Ok(()),
            (false, Some(mount)) => Err(format!(
                "{} is left alone: it is no cgroup below {}",
                folder.display(),
                mount.point.display()
            )),
            (false, None) => Err(format!(
                "{} is left alone: cgroups for {} are mounted nowhere",
                folder.display(),
                backend.id()
            )),
        }
    }

    /// Folders of the cgroups in a task's /proc/TID/cgroup.
    pub(super) fn groups(&self, text: &str) -> TaskGroups {
        let mut groups = TaskGroups::default();
        for (controllers, path) in parse_cgroups(text) {
            let folder = |mount: &Option<Mount>| mount.as_ref()?.folder(&path);
            let has = |name| controllers.split(',').any(|controller| controller == name);
            if controllers.is_empty() {
                groups.unified = folder(&self.unified);
            }
            if has("cpuset") {
                groups.cpuset = folder(&self.cpuset);
            }
            if has("cpu") {
                groups.cpu = folder(&self.cpu);
            }
        }
        groups
    }

    /// Folder of the cgroup that a user named: the folder itself, or its path in a hierarchy.
    pub(super) fn folder_of(&self, system: &dyn System, cgroup: &str) -> Option<PathBuf> {
        let path = Path::new(cgroup);
        let is_group = |folder: &PathBuf| system.read(&folder.join("cgroup.procs")).is_ok();
        let itself = path.is_absolute().then(|| path.to_owned()).filter(is_group);
        let rooted = Path::new("/").join(cgroup.trim_start_matches('/'));
        let mounts = [&self.unified, &self.cpuset, &self.cpu];
        let mut inside = mounts.into_iter().flatten();
        let inside = || inside.find_map(|mount| mount.folder(&rooted).filter(is_group));
        itself.or_else(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 /inner /a\\040b rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn folders_of_cgroups_follow_from_the_mounts() {
        let mounts = Mounts::parse(MOUNTS);
        let groups = mounts.groups("4:cpuset:/inner/x:y\n2:cpu,cpuacct:/\n0::/init\n");
        let expected = TaskGroups {
            unified: Some("/sys/fs/cgroup/unified/init".into()),
            cpuset: Some("/a b/x:y".into()),
            cpu: Some("/sys/fs/cgroup/cpu,cpuacct".into()),
        };
        assert_eq!(groups, expected);
    }

    #[test]
    fn a_cgroup_outside_of_the_mount_has_no_folder() {
        let mounts = Mounts::parse(MOUNTS);
        let groups = mounts.groups("4:cpuset:/outer\n0::/../other\n");
        assert_eq!(groups, TaskGroups::default());
    }

    #[test]
    fn a_link_and_a_path_outside_are_in_no_hierarchy() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let top = folder.join("mount");
        std::fs::create_dir_all(top.join("inside")).unwrap();
        std::fs::create_dir(folder.join("outside")).unwrap();
        std::os::unix::fs::symlink("../outside", top.join("link")).unwrap();
        let mounts = Mounts {
            unified: Some(Mount {
                root: "/".into(),
                point: top.clone(),
            }),
            ..Mounts::default()
        };
        let check =
            |backend, path: PathBuf| mounts.check_inside(&super::super::Linux, backend, &path);
        for inside in ["", "inside", "gone"] {
            assert_eq!(check(Backend::CpusetV2, top.join(inside)), Ok(()));
            assert!(check(Backend::CpusetV1, top.join(inside)).is_err());
        }
        for outside in [
            "mount/link",
            "mount/link/gone",
            "mount/../outside",
            "outside",
            "mounted",
        ] {
            let said = check(Backend::CpusetV2, folder.join(outside));
            assert!(said.is_err(), "{outside}");
        }
    }
}
