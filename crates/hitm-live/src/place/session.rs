//! Placements of this process, and those that dead processes left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::PlaceError;
use super::backend::Backend;
use super::change::{
    Placed, group_of, group_records, keep_out, make_groups, make_partitions, others_records, place,
};
use super::cpus::CpuSet;
use super::follow::{Follower, has_tasks, old_task, records};
use super::guard::{Guard, Launcher, follow, undo_held};
use super::journal::{GROUP_PREFIX, Head, Journal, OldProcess, OldTask, Record};
use super::plan::Plan;
use super::store::{Held, Store};
use super::system::{System, read};
use super::task::{Mounts, Task, home_of, stat};
use super::undo::Undone;
use crate::procfs::TaskId;

/// A task, and the cgroup that it goes to.
type Target = (OldTask, Option<PathBuf>);

/// The kernel, its cgroups, and the folder of the journals: all that a placement works with.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The kernel.
    pub system: &'a dyn System,
    /// Its cgroups.
    pub mounts: &'a Mounts,
    /// The folder of the journals.
    pub store: &'a Store,
}

impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("store", self.store)
            .finish_non_exhaustive()
    }
}

/// State of a placement at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// It is there.
    Placed,
    /// Its tasks have ended.
    NoTasks,
    /// Another process has undone it.
    Undone,
}

/// A placement of this process. When the process ends without undoing it, the guard does.
#[derive(Debug)]
pub struct Session<'a> {
    place: Place<'a>,
    launcher: &'a Launcher,
    held: Held,
    journal: Journal,
    follower: Follower,
    guard: Option<Guard>,
    keeps_others_out: bool,
    /// Outcome of placing.
    pub placed: Placed,
    /// Guards that had to be restarted because they were killed.
    pub guards_lost: usize,
}

impl<'a> Place<'a> {
    /// Carries out a plan: journal first, then a guard, then the change.
    ///
    /// # Errors
    /// The plan places nothing or has no means, a thread has been moved since, or the kernel refuses. Nothing
    /// is changed then.
    pub fn apply(self, plan: &Plan, launcher: &'a Launcher) -> Result<Session<'a>, PlaceError> {
        let tool = TaskId::of(std::process::id());
        let hidden = || PlaceError::Refused(String::from("/proc does not show this process"));
        let lock = self.store.lock()?;
        let registered = self.store.register()?;
        let (journal, targets) = self.prepare(plan, tool.ok_or_else(hidden)?)?;
        let held = self.store.create(&journal)?;
        drop(registered);
        let mut session = Session {
            place: self,
            launcher,
            follower: Follower::new(&journal),
            held,
            journal,
            guard: None,
            placed: Placed::default(),
            guards_lost: 0,
            keeps_others_out: plan.keeps_others_out,
        };
        match session.change(&targets) {
            Ok(placed) => {
                session.placed = placed;
                Ok(session)
            }
            Err(error) => {
                // Undoing takes the lock itself.
                drop(lock);
                session.undo()?;
                Err(error)
            }
        }
    }

    /// Returns the journal of a plan's changes, and the threads with the groups they go to.
    pub(super) fn prepare(
        &self,
        plan: &Plan,
        tool: TaskId,
    ) -> Result<(Journal, Vec<Target>), PlaceError> {
        let Some((domain, backend)) = plan.placement()? else {
            return Err(PlaceError::Wrong(String::from("the plan places nothing")));
        };
        let others = self.store.list()?.into_iter();
        let others: Vec<Journal> = others.filter_map(|found| found.journal.ok()).collect();
        let tasks = self.present(plan, &domain.cpus)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let head = Head {
            boot: boot_id(self.system)?,
            tool,
            since: now.unwrap_or_default().as_secs(),
            backend,
            cpus: domain.cpus.clone(),
            name: plan.name.clone(),
        };
        self.check_free(&tasks, &others, &head.boot)?;
        let shared = others.iter().flat_map(Journal::controls);
        let shared: Vec<PathBuf> = shared.map(Path::to_owned).collect();
        let tag = format!("{GROUP_PREFIX}{}-{}", tool.tid, tool.start_ticks);
        let mut journal = Journal {
            head,
            records: group_records(self.system, backend, &tag, &tasks, &shared),
        };
        if plan.keeps_others_out {
            // Settings come before the groups below them, the rest after the group of the placed.
            let more = others_records(self.system, self.mounts, &journal.head, &tag, &tasks)?;
            let is_setting = |record: &Record| matches!(record, Record::Setting(..));
            let (settings, rest): (Vec<Record>, Vec<Record>) =
                more.into_iter().partition(is_setting);
            let groups = std::mem::replace(&mut journal.records, settings);
            journal.records.extend(groups.into_iter().chain(rest));
        }
        let target = |task| (old_task(task), group_of(task, backend, journal.groups()));
        let targets: Vec<Target> = tasks.iter().map(target).collect();
        journal
            .records
            .extend(self.process_records(&tasks, plan.follows_new_threads));
        if backend == Backend::Affinity {
            let homes = homes(self.system, &journal);
            journal.records.extend(homes);
        }
        journal.records.extend(records(&targets));
        Ok((journal, targets))
    }

    /// Refuses tasks that were placed since the plan was made, with a journal here or elsewhere.
    fn check_free(&self, tasks: &[Task], others: &[Journal], boot: &str) -> Result<(), PlaceError> {
        let elsewhere = self.store.elsewhere();
        let journals = others.iter().chain(&elsewhere);
        for journal in journals.filter(|journal| journal.head.boot == boot) {
            let taken = journal.tasks().map(|task| task.id);
            let taken: BTreeSet<TaskId> = taken.collect();
            if let Some(task) = tasks.iter().find(|task| taken.contains(&task.id)) {
                return Err(PlaceError::Refused(format!(
                    "another placement, {}, has {} since the plan was made",
                    journal.head.name,
                    task.title()
                )));
            }
        }
        Ok(())
    }

    /// Present state of the plan's tasks, without those that have ended.
    fn present(&self, plan: &Plan, cpus: &CpuSet) -> Result<Vec<Task>, PlaceError> {
        let mut tasks = Vec::new();
        for planned in &plan.tasks {
            let tid = planned.id.tid;
            let task = Task::of(self.system, self.mounts, tid)?;
            let Some(task) = task.filter(|task| task.id == planned.id) else {
                continue;
            };
            let is_same = task.cgroups == planned.cgroups && cpus.is_subset(&task.mask.cpus);
            if !is_same {
                return Err(PlaceError::Refused(format!(
                    "somebody has moved {} since the plan was made",
                    task.title()
                )));
            }
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// Threads come in the order of their numbers, so a process gets the mask of its first placed thread.
    fn process_records(&self, tasks: &[Task], is_whole: bool) -> Vec<Record> {
        let mut processes = BTreeMap::new();
        for task in tasks {
            processes.entry(task.pid).or_insert(task);
        }
        let record = |(pid, task): (u32, &Task)| {
            let leader = stat(self.system, pid);
            let start_ticks = leader.map_or(task.id.start_ticks, |leader| leader.start_ticks);
            Record::Process(OldProcess {
                id: TaskId {
                    tid: pid,
                    start_ticks,
                },
                group: task.group,
                session: task.session,
                is_whole,
                mask: task.mask.clone(),
            })
        };
        processes.into_iter().map(record).collect()
    }

    /// Makes the changes of a journal.
    pub(super) fn change(
        &self,
        journal: &Journal,
        targets: &[Target],
        keeps_others_out: bool,
    ) -> Result<Placed, PlaceError> {
        let (system, head) = (self.system, &journal.head);
        make_groups(system, head, &journal.records)?;
        let placed = place(system, head, targets)?;
        if keeps_others_out {
            let is_below_root = journal.settings().next().is_none();
            make_partitions(system, head, is_below_root, &journal.records)?;
            keep_out(system, head, &journal.records)?;
        }
        Ok(placed)
    }
}

impl Session<'_> {
    fn change(&mut self, targets: &[Target]) -> Result<Placed, PlaceError> {
        self.start_guard()?;
        self.place
            .change(&self.journal, targets, self.keeps_others_out)
    }

    fn start_guard(&mut self) -> Result<(), PlaceError> {
        let guard = Guard::start(self.launcher, &self.held)?;
        let record = Record::Guard(guard.id);
        self.guard = Some(guard);
        self.held.append(std::slice::from_ref(&record))?;
        self.journal.records.push(record);
        Ok(())
    }

    /// The journal as it is on disk.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Places new threads and restarts a dead guard. Must be called several times a second.
    ///
    /// # Errors
    /// A thread cannot be placed, or no guard be started again.
    pub fn tick(&mut self) -> Result<Tick, PlaceError> {
        let (held, follower) = (&mut self.held, &mut self.follower);
        if !follow(self.place, held, follower, &mut self.journal)? {
            return Ok(Tick::Undone);
        }
        if self.guard.as_mut().is_some_and(|guard| !guard.is_alive()) {
            let _lock = self.place.store.lock()?;
            // The guard has undone everything, or was killed.
            if !self.held.is_there() {
                return Ok(Tick::Undone);
            }
            self.guards_lost += 1;
            self.start_guard()?;
        }
        match has_tasks(self.place.system, &self.journal) {
            true => Ok(Tick::Placed),
            false => Ok(Tick::NoTasks),
        }
    }

    /// Undoes the placement; `None` when another process did.
    ///
    /// # Errors
    /// The journal cannot be read or removed.
    pub fn undo(mut self) -> Result<Option<Undone>, PlaceError> {
        let undone = undo_held(self.place, &self.held);
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
        undone
    }

    /// Leaves the placement to its guard, until [`Place::undo`] or the end of its tasks; returns the guard.
    ///
    /// # Errors
    /// The guard is gone. The placement is then undone at the next start of hitm at the latest.
    pub fn keep(mut self) -> Result<TaskId, PlaceError> {
        let guard = self.guard.take();
        let guard =
            guard.ok_or_else(|| PlaceError::Refused(String::from("the placement has no guard")))?;
        guard.keep()
    }
}

/// Users and cgroups of a journal's processes.
fn homes(system: &dyn System, journal: &Journal) -> Vec<Record> {
    let homes = journal.processes();
    let homes = homes.filter_map(|process| home_of(system, process.id.tid));
    homes.map(Record::Home).collect()
}

pub(super) fn boot_id(system: &dyn System) -> Result<String, PlaceError> {
    let text = read(system, Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}
