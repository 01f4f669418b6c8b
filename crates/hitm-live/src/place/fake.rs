//! A kernel for tests: tasks, cpusets of version 1 or 2 with the rules that matter here, and a life that can
//! end between any two changes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::cpus::CpuSet;
use super::system::System;
use super::task::Mounts;

pub(super) const TOP: &str = "/cg";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FakeTask {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) start: u64,
    pub(super) flags: u64,
    pub(super) policy: u32,
    /// Mask that was set explicitly.
    pub(super) own: Option<CpuSet>,
    /// CPUs copied from its parent, not yet corrected.
    pub(super) stale: Option<CpuSet>,
    pub(super) folder: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct FakeGroup {
    cpus: CpuSet,
    mems: String,
    is_threaded: bool,
    has_cpuset_below: bool,
    /// CPUs that it may set aside, and whether it asks to.
    exclusive: CpuSet,
    is_partition: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    tasks: BTreeMap<u32, FakeTask>,
    groups: BTreeMap<PathBuf, FakeGroup>,
    files: BTreeMap<PathBuf, String>,
}

/// Tasks with their CPUs and cgroups; cgroups with their controllers and the CPUs that they set aside.
pub(super) type Snapshot = (Vec<(u32, CpuSet, PathBuf)>, Vec<(PathBuf, bool, CpuSet)>);

/// The kernel.
#[derive(Debug)]
pub(super) struct Fake {
    state: RefCell<State>,
    version: u8,
    /// Set for kernels before 6.2, which forget a mask when a task changes its cpuset.
    forgets_masks: bool,
    /// Changes until the process dies.
    life: Cell<usize>,
    pub(super) changes: Cell<usize>,
    /// Daemons that appear at changes of masks: the changed task, the daemon's origin and the daemon.
    forks: RefCell<Vec<[u32; 3]>>,
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse(list).unwrap()
}

impl Fake {
    /// Eight CPUs; no cgroups for version 0.
    pub(super) fn new(version: u8) -> Fake {
        let mountinfo = match version {
            1 => "34 31 0:31 / /cg rw - cgroup cgroup rw,cpuset\n",
            2 => "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n",
            _ => "",
        };
        let files = [
            ("/proc/self/mountinfo", mountinfo),
            (
                "/proc/self/status",
                "Uid:\t7\t7\t7\t7\nCapEff:\t0000000000800000\n",
            ),
            ("/proc/sys/kernel/random/boot_id", "12-ab\n"),
            ("/sys/devices/system/cpu/online", "0-7\n"),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
        let top = FakeGroup {
            cpus: set("0-7"),
            mems: "0".into(),
            has_cpuset_below: true,
            ..FakeGroup::default()
        };
        let groups = [(PathBuf::from(TOP), top)]
            .into_iter()
            .filter(|_| version > 0);
        Fake {
            state: RefCell::new(State {
                tasks: BTreeMap::new(),
                groups: groups.collect(),
                files: files.into(),
            }),
            version,
            forgets_masks: false,
            life: Cell::new(usize::MAX),
            changes: Cell::new(0),
            forks: RefCell::default(),
        }
    }

    pub(super) fn forgetting_masks(mut self) -> Fake {
        self.forgets_masks = true;
        self
    }

    pub(super) fn mounts(&self) -> Mounts {
        Mounts::read(self).unwrap()
    }

    /// A cgroup with some of the CPUs.
    pub(super) fn group(&self, path: &str, cpus: &str) {
        let group = FakeGroup {
            cpus: set(cpus),
            mems: "0".into(),
            ..FakeGroup::default()
        };
        self.state.borrow_mut().groups.insert(path.into(), group);
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        self.state
            .borrow_mut()
            .files
            .insert(path.into(), text.to_owned());
    }

    /// A thread of process `pid`, in its own session.
    pub(super) fn task(&self, tid: u32, pid: u32, folder: &str, own: Option<&str>) {
        let task = FakeTask {
            pid,
            parent: 1,
            group: pid,
            session: pid,
            start: 100,
            flags: 0,
            policy: 0,
            own: own.map(set),
            stale: None,
            folder: folder.into(),
        };
        self.state.borrow_mut().tasks.insert(tid, task);
    }

    pub(super) fn change_task(&self, tid: u32, change: impl FnOnce(&mut FakeTask)) {
        change(self.state.borrow_mut().tasks.get_mut(&tid).unwrap());
    }

    pub(super) fn end_task(&self, tid: u32) {
        self.state.borrow_mut().tasks.remove(&tid);
    }

    /// A child or a thread of `of`, with its mask and its cgroup.
    pub(super) fn fork(&self, of: u32, tid: u32, is_thread: bool) {
        let mut state = self.state.borrow_mut();
        let mut task = state.tasks[&of].clone();
        task.start = 900;
        if !is_thread {
            task.parent = task.pid;
            task.pid = tid;
        }
        state.tasks.insert(tid, task);
    }

    /// A daemon of `of` appears as soon as a mask is given to task `at`, with the mask that `of` had before.
    pub(super) fn forks_when_changed(&self, at: u32, of: u32, tid: u32) {
        self.forks.borrow_mut().push([at, of, tid]);
    }

    /// A process without a parent, in the session of one that has ended.
    pub(super) fn daemon(&self, of: u32, tid: u32) {
        self.fork(of, tid, false);
        self.change_task(tid, |task| {
            (task.parent, task.session, task.group) = (1, tid - 1, tid - 1);
        });
    }

    /// The process dies after so many more changes.
    pub(super) fn dies_after(&self, changes: usize) {
        self.life.set(changes);
    }

    /// Everything that a placement can change: for each task its CPUs and its cgroup, and the cgroups.
    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state.borrow();
        let tasks = state.tasks.iter();
        let tasks =
            tasks.map(|(tid, task)| (*tid, self.cpus_of(&state, task), task.folder.clone()));
        let groups = state.groups.iter();
        let groups = groups.map(|(path, group)| {
            (
                path.clone(),
                group.has_cpuset_below,
                group.exclusive.clone(),
            )
        });
        (tasks.collect(), groups.collect())
    }

    fn effective(&self, state: &State, folder: &Path) -> CpuSet {
        let Some(group) = state.groups.get(folder) else {
            return set("0-7");
        };
        let all = match (group.cpus.is_empty(), folder.parent()) {
            (true, Some(parent)) => self.effective(state, parent),
            _ => group.cpus.clone(),
        };
        let partitions = state
            .groups
            .iter()
            .filter(|(path, _)| !folder.starts_with(path));
        let aside = partitions.filter(|(path, _)| self.is_valid(state, path));
        aside.fold(all, |all, (_, group)| all.difference(&group.cpus))
    }

    /// A partition is one if its parent is the root, or all on the way to it may set its CPUs aside.
    fn is_valid(&self, state: &State, folder: &Path) -> bool {
        let group = &state.groups[folder];
        let mut way = folder
            .ancestors()
            .take_while(|folder| *folder != Path::new(TOP));
        let may = |folder: &Path| group.cpus.is_subset(&state.groups[folder].exclusive);
        group.is_partition && (folder.parent() == Some(Path::new(TOP)) || way.all(may))
    }

    fn cpus_of(&self, state: &State, task: &FakeTask) -> CpuSet {
        if let Some(stale) = &task.stale {
            return stale.clone();
        }
        let all = self.effective(state, &task.folder);
        let own = task.own.as_ref().map(|own| own.intersection(&all));
        own.filter(|own| !own.is_empty()).unwrap_or(all)
    }

    fn spend(&self) -> io::Result<()> {
        let left = self.life.get().checked_sub(1);
        self.life.set(left.unwrap_or(0));
        self.changes.set(self.changes.get() + 1);
        left.map(|_| ())
            .ok_or_else(|| io::Error::other("the process is dead"))
    }

    fn has_cpuset(&self, state: &State, folder: &Path) -> bool {
        let parent = folder.parent().and_then(|parent| state.groups.get(parent));
        folder == Path::new(TOP) || parent.is_some_and(|parent| parent.has_cpuset_below)
    }

    fn read_group(&self, state: &State, folder: &Path, name: &str) -> io::Result<String> {
        let group = state
            .groups
            .get(folder)
            .ok_or_else(|| error(libc::ENOENT))?;
        let has_cpuset = self.version == 1 || self.has_cpuset(state, folder);
        let list = |matches: &dyn Fn(u32, &FakeTask) -> bool| {
            let inside = state.tasks.iter().filter(|(_, task)| task.folder == folder);
            let inside = inside.filter(|(tid, task)| matches(**tid, task));
            inside
                .map(|(tid, _)| format!("{tid}\n"))
                .collect::<String>()
        };
        match (self.version, name) {
            (1, "tasks") | (2, "cgroup.threads") => Ok(list(&|_, _| true)),
            (_, "cgroup.procs") => Ok(list(&|tid, task| tid == task.pid)),
            (1, "cpuset.effective_cpus") | (2, "cpuset.cpus.effective") if has_cpuset => {
                Ok(self.effective(state, folder).to_string())
            }
            (_, "cpuset.cpus") if has_cpuset => Ok(group.cpus.to_string()),
            (2, "cpuset.cpus.exclusive") if has_cpuset && folder != Path::new(TOP) => {
                Ok(format!("{}\n", group.exclusive))
            }
            (2, "cpuset.cpus.partition") if has_cpuset => Ok(match self.is_valid(state, folder) {
                true => "root\n".into(),
                false => "root invalid (Parent is not a partition root)\n".into(),
            }),
            (1, "cpuset.mems") => Ok(group.mems.clone()),
            (2, "cgroup.type") if folder != Path::new(TOP) => Ok(match group.is_threaded {
                true => "threaded".into(),
                false => "domain".into(),
            }),
            (2, "cgroup.controllers") => Ok(if has_cpuset { "cpuset pids" } else { "pids" }.into()),
            (2, "cgroup.subtree_control") => Ok(if group.has_cpuset_below {
                "cpuset\n"
            } else {
                "\n"
            }
            .into()),
            _ => Err(error(libc::ENOENT)),
        }
    }

    fn move_task(&self, state: &mut State, folder: &Path, text: &str) -> io::Result<()> {
        let tid: u32 = text.parse().map_err(|_| error(libc::EINVAL))?;
        let group = state
            .groups
            .get(folder)
            .ok_or_else(|| error(libc::ENOENT))?;
        if self.version == 1 && (group.cpus.is_empty() || group.mems.is_empty()) {
            return Err(error(libc::ENOSPC));
        }
        let domain = |folder: &Path| {
            let mut threaded = folder.ancestors();
            let is_threaded = |folder: &Path| {
                state
                    .groups
                    .get(folder)
                    .is_some_and(|group| group.is_threaded)
            };
            threaded
                .find(|folder| !is_threaded(folder))
                .map(Path::to_owned)
        };
        let task = state.tasks.get(&tid).ok_or_else(|| error(libc::ESRCH))?;
        if self.version == 2 && domain(folder) != domain(&task.folder) {
            return Err(error(libc::EOPNOTSUPP));
        }
        let forgets = self.forgets_masks;
        let task = state
            .tasks
            .get_mut(&tid)
            .ok_or_else(|| error(libc::ESRCH))?;
        folder.clone_into(&mut task.folder);
        task.stale = None;
        if forgets {
            task.own = None;
        }
        Ok(())
    }
}

impl System for Fake {
    fn read(&self, path: &Path) -> io::Result<String> {
        let state = self.state.borrow();
        if let Some(text) = state.files.get(path) {
            return Ok(text.clone());
        }
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let name = name.to_str().unwrap();
        let Ok(of_task) = folder.strip_prefix("/proc") else {
            return self.read_group(&state, folder, name);
        };
        let tid: u32 = of_task
            .to_str()
            .unwrap()
            .parse()
            .map_err(|_| error(libc::ENOENT))?;
        let task = state.tasks.get(&tid).ok_or_else(|| error(libc::ENOENT))?;
        let FakeTask {
            pid,
            parent,
            group,
            session,
            start,
            flags,
            policy,
            ..
        } = task;
        match name {
            "stat" => Ok(format!(
                "{tid} (a) S {parent} {group} {session} 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 {policy} 0\n"
            )),
            "status" => Ok(format!("Name:\ta\nTgid:\t{pid}\nUid:\t5\t5\t5\t5\n")),
            "cgroup" => {
                let inside = task.folder.strip_prefix(TOP).unwrap_or(Path::new(""));
                Ok(match self.version {
                    1 => format!("3:cpuset:/{}\n", inside.display()),
                    2 => format!("0::/{}\n", inside.display()),
                    _ => String::new(),
                })
            }
            "comm" => Ok("a\n".into()),
            _ => Err(error(libc::ENOENT)),
        }
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.borrow();
        let processes = || state.tasks.values().map(|task| task.pid);
        if folder == Path::new("/proc") {
            let pids: BTreeSet<u32> = processes().collect();
            return Ok(pids.iter().map(ToString::to_string).collect());
        }
        if let Ok(of_task) = folder.strip_prefix("/proc") {
            let pid = of_task.to_str().unwrap().trim_end_matches("/task");
            let threads = state
                .tasks
                .iter()
                .filter(|(_, task)| task.pid.to_string() == pid);
            return Ok(threads.map(|(tid, _)| tid.to_string()).collect());
        }
        if !state.groups.contains_key(folder) {
            return Err(error(libc::ENOENT));
        }
        let below = state
            .groups
            .keys()
            .filter(|path| path.parent() == Some(folder));
        Ok(below
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect())
    }

    fn real_path(&self, folder: &Path) -> io::Result<PathBuf> {
        match self.state.borrow().groups.contains_key(folder) {
            true => Ok(folder.to_owned()),
            false => Err(error(libc::ENOENT)),
        }
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.read(path).is_ok() || self.state.borrow().groups.contains_key(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.spend()?;
        let mut state = self.state.borrow_mut();
        let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let has_cpuset = self.version == 1 || self.has_cpuset(&state, folder);
        let top_of = folder.parent().map(|parent| self.effective(&state, parent));
        let (version, name) = (self.version, name.to_str().unwrap());
        if let (1, "tasks") | (2, "cgroup.threads") = (version, name) {
            return self.move_task(&mut state, folder, text);
        }
        let below = state
            .groups
            .keys()
            .filter(|path| path.parent() == Some(folder));
        let below: Vec<PathBuf> = below.cloned().collect();
        let group = state
            .groups
            .get_mut(folder)
            .ok_or_else(|| error(libc::ENOENT))?;
        match (version, name) {
            (_, "cpuset.cpus") if has_cpuset => {
                let cpus = CpuSet::parse(text).ok_or_else(|| error(libc::EINVAL))?;
                if top_of.is_some_and(|top| !cpus.is_subset(&top)) {
                    return Err(error(libc::EACCES));
                }
                group.cpus = cpus;
            }
            (2, "cpuset.cpus.exclusive") if has_cpuset => {
                group.exclusive = CpuSet::parse(text).ok_or_else(|| error(libc::EINVAL))?;
            }
            (2, "cpuset.cpus.partition") if has_cpuset => group.is_partition = text == "root",
            (1, "cpuset.mems") => text.clone_into(&mut group.mems),
            (2, "cgroup.type") if text == "threaded" => group.is_threaded = true,
            (2, "cgroup.subtree_control") if has_cpuset => {
                group.has_cpuset_below = text == "+cpuset";
                if text == "-cpuset" {
                    for path in below {
                        state.groups.get_mut(&path).unwrap().cpus = CpuSet::default();
                    }
                }
            }
            _ => return Err(error(libc::ENOENT)),
        }
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.spend()?;
        let mut state = self.state.borrow_mut();
        if !state.groups.contains_key(path.parent().unwrap()) {
            return Err(error(libc::ENOENT));
        }
        match state.groups.insert(path.to_owned(), FakeGroup::default()) {
            None => Ok(()),
            Some(_) => Err(error(libc::EEXIST)),
        }
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.spend()?;
        let mut state = self.state.borrow_mut();
        if state.tasks.values().any(|task| task.folder == path) {
            return Err(error(libc::EBUSY));
        }
        let removed = state.groups.remove(path);
        removed.map(|_| ()).ok_or_else(|| error(libc::ENOENT))
    }

    fn affinity(&self, tid: u32) -> io::Result<CpuSet> {
        let state = self.state.borrow();
        let task = state.tasks.get(&tid).ok_or_else(|| error(libc::ESRCH))?;
        Ok(self.cpus_of(&state, task))
    }

    fn set_affinity(&self, tid: u32, cpus: Option<&CpuSet>) -> io::Result<()> {
        self.spend()?;
        let (now, later) = self
            .forks
            .take()
            .into_iter()
            .partition(|[at, ..]| *at == tid);
        self.forks.replace(later);
        let now: Vec<[u32; 3]> = now;
        for [_, of, child] in now {
            self.daemon(of, child);
        }
        let mut state = self.state.borrow_mut();
        let task = state
            .tasks
            .get_mut(&tid)
            .ok_or_else(|| error(libc::ESRCH))?;
        task.own = cpus.cloned();
        Ok(())
    }
}
