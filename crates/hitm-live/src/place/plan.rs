//! The plan of a placement: threads, their domain, the means, and the tasks left out with their
//! reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hitm_fields::fields;
use hitm_policy::{cpus_of_use, may_form_group};

use super::PlaceError;
use super::backend::{Backend, Obstacle};
use super::cpus::CpuSet;
use super::domain::{Domain, Found, Machine, Wish, tightest};
use super::quota::quota_cpus;
use super::system::System;
use super::task::{Mounts, Task, online, processes, stat, threads};
use crate::procfs::{TaskId, tids};

/// A lock and the threads that contend for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// Share of its time for which a thread holds the lock, above 0 and at most 1.
    pub share: f64,
    /// The threads bound to it. A task that has ended since is left out.
    pub tasks: Vec<TaskId>,
    /// The lock's name, for people.
    pub name: String,
}

impl Contention {
    /// CPUs that the lock can keep busy.
    ///
    /// # Errors
    /// The share is no share of a time.
    pub fn cpus_of_use(&self) -> Result<usize, PlaceError> {
        let share = self.share;
        if !(share > 0.0 && share <= 1.0) {
            return Err(PlaceError::Wrong(format!(
                "a lock is held for {share} of a thread's time, expected more than 0 and at most 1"
            )));
        }
        Ok(cpus_of_use(share))
    }
}

/// Options of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Place all threads of the tasks' processes, and follow new ones.
    pub is_whole: bool,
    /// The only means to use.
    pub backend: Option<Backend>,
    /// Keep other threads off the domain's CPUs meanwhile.
    pub keeps_others_out: bool,
    /// Tasks and CPUs that other placements have.
    pub reserved: Reserved,
}

/// Decision of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The threads go there.
    Place(Domain),
    /// They stay where they are, for this reason.
    Stay(String),
}

impl Decision {
    /// The reason why the threads stay where they are.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Decision::Place(_) => None,
            Decision::Stay(reason) => Some(reason),
        }
    }

    /// The domain that the threads go to.
    pub fn domain(&self) -> Option<&Domain> {
        match self {
            Decision::Place(domain) => Some(domain),
            Decision::Stay(_) => None,
        }
    }
}

fields! {
    /// A task that is not placed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LeftOut in left_out {
        /// Its number.
        pub tid: u32 => number "thread";
        /// Its name, if it is there.
        pub name: String => name "name";
        /// Reason why it is not placed.
        pub reason: String => words "reason";
    }
}

fields! {
    /// Plan of one placement, with the reasons for its decision.
    #[derive(Debug, Clone)]
    pub struct Plan in planned {
        /// The lock's name.
        pub name: String => name "lock";
        /// Share of its time for which a thread holds the lock.
        pub lock_share: f64 => share "held";
        /// CPUs that the lock can keep busy.
        pub needed_cpus: usize => count "CPUs of use";
        /// CPUs on which all of the threads may run.
        pub allowed_cpus: CpuSet => label "allowed";
        /// CPUs that their quotas are worth.
        pub quota_cpus: Option<usize> => count "quota CPUs";
        /// Domain of the threads, or the reason against one.
        pub decision: Decision;
        /// The reason why they stay where they are.
        reason => words "reason", |plan| plan.decision.reason();
        /// The means; none when there is none, for the reasons in `obstacles`.
        pub backend: Option<Backend> => label "means";
        /// Better means, and the reasons why they are not used.
        pub obstacles: Vec<(Backend, Obstacle)>;
        /// The threads that are placed.
        pub tasks: Vec<Task>;
        /// Threads that are not placed.
        pub left_out: Vec<LeftOut>;
        /// Set if new threads of the processes are placed as well.
        pub follows_new_threads: bool => label "new threads";
        /// Set if other threads are kept off the domain's CPUs.
        pub keeps_others_out: bool => label "kept out";
    }
}

/// Tasks and CPUs of present placements.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    pub(super) tasks: BTreeSet<TaskId>,
    pub(super) cpus: CpuSet,
}

impl Reserved {
    /// Nothing.
    pub const NONE: Reserved = Reserved {
        tasks: BTreeSet::new(),
        cpus: CpuSet::EMPTY,
    };
}

/// The present owner of a task number, for a [`Contention`] by hand.
///
/// # Errors
/// There is none.
pub fn task_of(system: &dyn System, tid: u32) -> Result<TaskId, PlaceError> {
    let fields = stat(system, tid);
    let start_ticks = fields.map(|fields| fields.start_ticks);
    let id = start_ticks.map(|start_ticks| TaskId { tid, start_ticks });
    id.ok_or_else(|| PlaceError::Wrong(format!("no task has the number {tid}")))
}

/// All threads of a process.
///
/// # Errors
/// There is no such process.
pub fn tasks_of_process(system: &dyn System, pid: u32) -> Result<Vec<TaskId>, PlaceError> {
    let tids = threads(system, pid);
    if !tids.contains(&pid) {
        return Err(PlaceError::Wrong(format!(
            "no process has the number {pid}"
        )));
    }
    Ok(present(system, tids))
}

/// Of these numbers, the tasks that are there.
fn present(system: &dyn System, tids: impl IntoIterator<Item = u32>) -> Vec<TaskId> {
    let ids = tids.into_iter().filter_map(|tid| task_of(system, tid).ok());
    ids.collect()
}

/// All threads of a cgroup's processes and of the cgroups below it. The cgroup is a folder, or its path in a hierarchy.
///
/// # Errors
/// There is no such cgroup.
pub fn tasks_of_cgroup(
    system: &dyn System,
    mounts: &Mounts,
    cgroup: &str,
) -> Result<Vec<TaskId>, PlaceError> {
    let folder = mounts.folder_of(system, cgroup);
    let folder = folder.ok_or_else(|| {
        PlaceError::Wrong(format!(
            "{cgroup} is neither the folder of a cgroup nor its path"
        ))
    })?;
    let mut tids = BTreeSet::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        tids.extend(tids_of(system, &folder));
        let names = system.names(&folder).unwrap_or_default();
        let below = names.into_iter().map(|name| folder.join(name));
        let is_group = |folder: &PathBuf| system.names(folder).is_ok();
        folders.extend(below.filter(is_group));
    }
    Ok(present(system, tids))
}

fn tids_of(system: &dyn System, folder: &Path) -> Vec<u32> {
    let threads = system.read(&folder.join("cgroup.threads"));
    let text = threads.or_else(|_| system.read(&folder.join("tasks")));
    tids(&text.unwrap_or_default()).collect()
}

/// All means, each with the reason why it cannot place a task's threads here, if there is one.
///
/// # Errors
/// The task's mask or cgroups cannot be read.
pub fn means_for(
    system: &dyn System,
    mounts: &Mounts,
    tid: u32,
) -> Result<Vec<(Backend, Option<Obstacle>)>, PlaceError> {
    let tasks: Vec<Task> = Task::of(system, mounts, tid)?.into_iter().collect();
    let of = |backend: Backend| (backend, backend.obstacle(system, mounts, &tasks, false));
    Ok(Backend::ALL.map(of).into())
}

impl Plan {
    /// Plans the placement of a contention's threads. Changes nothing.
    ///
    /// # Errors
    /// The share is none, a thread cannot be put back, or the kernel hides where threads may run.
    pub fn new(
        system: &dyn System,
        mounts: &Mounts,
        machine: &Machine,
        contention: &Contention,
        options: &PlanOptions,
    ) -> Result<Plan, PlaceError> {
        let of_use = contention.cpus_of_use()?;
        let mut look = Look {
            system,
            mounts,
            reserved: &options.reserved,
            tasks: Vec::new(),
            left_out: Vec::new(),
            of_others: 0,
        };
        look.take(contention, options)?;
        let Look {
            tasks,
            left_out,
            of_others,
            ..
        } = look;
        let allowed = allowed(system, &tasks)?;
        let quota_cpus = quota_cpus(system, mounts, &tasks);
        let wish = Wish {
            of_use,
            allowed: allowed.clone(),
            reserved: options.reserved.cpus.clone(),
            quota_cpus,
            others: running(system, &tasks),
            seats: tasks.iter().map(|task| task.cpu).collect(),
        };
        let decision = match may_form_group(contention.tasks.len(), of_others) {
            true => decide(machine, &wish, &tasks),
            false => Decision::Stay(String::from("another placement has most of the threads")),
        };
        let wanted = Backend::ALL.into_iter();
        let wanted = wanted.filter(|backend| options.backend.is_none_or(|only| only == *backend));
        let (mut backend, mut obstacles) = (None, Vec::new());
        for candidate in wanted.filter(|_| !tasks.is_empty()) {
            let keeps_out = options.keeps_others_out;
            match candidate.obstacle(system, mounts, &tasks, keeps_out) {
                None => {
                    backend = Some(candidate);
                    break;
                }
                Some(obstacle) => obstacles.push((candidate, obstacle)),
            }
        }
        Ok(Plan {
            name: contention.name.clone(),
            lock_share: contention.share,
            needed_cpus: of_use,
            allowed_cpus: allowed,
            quota_cpus,
            decision,
            backend,
            obstacles,
            tasks,
            left_out,
            follows_new_threads: options.is_whole,
            keeps_others_out: options.keeps_others_out,
        })
    }

    /// The domain and the means, if the plan places anything.
    ///
    /// # Errors
    /// There is a domain, and no means.
    pub fn placement(&self) -> Result<Option<(&Domain, Backend)>, PlaceError> {
        let Decision::Place(domain) = &self.decision else {
            return Ok(None);
        };
        if let Some(backend) = self.backend {
            return Ok(Some((domain, backend)));
        }
        let reasons = self.obstacles.iter();
        let reasons: Vec<String> = reasons
            .map(|(backend, obstacle)| format!("{}: {}", backend.id(), obstacle.reason))
            .collect();
        let what = format!("place the threads ({})", reasons.join("; "));
        let mut needed = self.obstacles.iter().rev();
        Err(
            match needed.find_map(|(_, obstacle)| obstacle.needed.clone()) {
                Some(needed) => PlaceError::Missing { what, needed },
                None => PlaceError::Refused(format!("no means to {what}")),
            },
        )
    }
}

fn decide(machine: &Machine, wish: &Wish, tasks: &[Task]) -> Decision {
    if tasks.is_empty() {
        return Decision::Stay(String::from("no thread is left to place"));
    }
    if wish.allowed.is_empty() {
        return Decision::Stay(String::from("no CPU is allowed to all of the threads"));
    }
    let Some(Found {
        domain,
        is_everything,
    }) = tightest(machine, wish)
    else {
        return Decision::Stay(format!(
            "no domain has {} CPUs on which all of the threads may run and which no other placement has",
            wish.need().least
        ));
    };
    let is_there = |task: &Task| task.mask.cpus.is_subset(&domain.cpus);
    if tasks.iter().all(is_there) {
        return Decision::Stay(format!(
            "the tightest domain with room, {} {}, is where the threads already are",
            domain.level, domain.cpus
        ));
    }
    // A quota may be worth fewer CPUs than are allowed: then even the machine is a tighter domain.
    if is_everything {
        return Decision::Stay(String::from("no domain smaller than the machine has room"));
    }
    Decision::Place(domain)
}

/// CPUs on which all tasks may run. A mask lies within its task's cpuset, which is checked again here.
fn allowed(system: &dyn System, tasks: &[Task]) -> Result<CpuSet, PlaceError> {
    let online = online(system)?;
    Ok(tasks.iter().fold(online, |allowed, task| {
        allowed.intersection(&task.mask.cpus)
    }))
}

/// Runnable tasks by the CPU that they ran on last, without those of the group.
fn running(system: &dyn System, members: &[Task]) -> BTreeMap<u16, usize> {
    let members: BTreeSet<u32> = members.iter().map(|task| task.id.tid).collect();
    let mut by_cpu = BTreeMap::new();
    for pid in processes(system) {
        for tid in threads(system, pid) {
            if members.contains(&tid) {
                continue;
            }
            if let Some(fields) = stat(system, tid).filter(|fields| fields.state == 'R') {
                *by_cpu.entry(fields.cpu).or_default() += 1;
            }
        }
    }
    by_cpu
}

/// Looks at the tasks of a contention.
struct Look<'a> {
    system: &'a dyn System,
    mounts: &'a Mounts,
    reserved: &'a Reserved,
    tasks: Vec<Task>,
    left_out: Vec<LeftOut>,
    /// Number of the contention's tasks that another placement has.
    of_others: usize,
}

impl Look<'_> {
    fn take(&mut self, contention: &Contention, options: &PlanOptions) -> Result<(), PlaceError> {
        let mut seen = BTreeSet::new();
        for id in &contention.tasks {
            if !seen.insert(id.tid) {
                continue;
            }
            let task = Task::of(self.system, self.mounts, id.tid)?;
            let Some(task) = task.filter(|task| task.id == *id) else {
                self.leave(id.tid, "", "it has ended");
                continue;
            };
            let pid = task.pid;
            self.consider(task);
            if options.is_whole {
                for tid in threads(self.system, pid) {
                    if seen.insert(tid)
                        && let Some(task) = Task::of(self.system, self.mounts, tid)?
                    {
                        self.consider(task);
                    }
                }
            }
        }
        self.tasks.sort_unstable_by_key(|task| task.id);
        Ok(())
    }

    fn consider(&mut self, task: Task) {
        let reason = if task.is_kernel {
            "it is a kernel thread"
        } else if task.is_deadline {
            "its policy is SCHED_DEADLINE, which keeps all CPUs of its root domain"
        } else if self.reserved.tasks.contains(&task.id) {
            self.of_others += 1;
            "another placement has it"
        } else if task.id.tid == std::process::id() {
            "it is this hitm"
        } else {
            return self.tasks.push(task);
        };
        self.leave(task.id.tid, &task.name, reason);
    }

    fn leave(&mut self, tid: u32, name: &str, reason: &str) {
        self.left_out.push(LeftOut {
            tid,
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    }
}
