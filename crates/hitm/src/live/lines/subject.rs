//! Processes and threads that are looked at, from one look to the next.

use std::process::Child;

use hitm_live::procfs::{self, Stat, TaskId};

use super::super::{LiveTarget, Members, members, programs};
use super::LinesError;
use crate::record::exit_code_of;

/// Target of an observation of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinesTarget {
    /// All threads of a process, of a cgroup or of a program; the whole system for the kernel alone.
    All(LiveTarget),
    /// All threads of these processes and of those that they start.
    Processes(Vec<u32>),
    /// These threads alone, of one process or of several.
    Threads(Vec<u32>),
}

impl LinesTarget {
    /// The target in words.
    pub(super) fn text(&self) -> String {
        match self {
            LinesTarget::All(target) => target.text(),
            LinesTarget::Processes(pids) => {
                let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!("processes {}", numbers.join(", "))
            }
            LinesTarget::Threads(tids) => {
                let numbers: Vec<String> = tids.iter().map(u32::to_string).collect();
                let word = if tids.len() == 1 { "thread" } else { "threads" };
                format!("{word} {}", numbers.join(", "))
            }
        }
    }

    /// The command of a recording of it.
    pub(super) fn args(&self) -> Vec<String> {
        match self {
            LinesTarget::All(LiveTarget::Program(command)) => command.clone(),
            target => vec![target.text()],
        }
    }
}

/// The target, found on this host.
#[derive(Debug)]
pub(super) struct Subject {
    members: Members,
    /// Threads that alone are looked at; all where there are none.
    only: Vec<u32>,
    /// Processes or threads whose end is that of the target. A cgroup has none: it may fill again; nor has the whole system.
    tasks: Vec<TaskId>,
    child: Option<Child>,
    /// Exit code of the program that was started, once it has ended.
    pub(super) exit_code: Option<u8>,
}

impl Subject {
    /// Finds the target, or starts its program.
    pub(super) fn begin(target: &LinesTarget) -> Result<Subject, LinesError> {
        let (child, members, only) = match target {
            LinesTarget::All(target) => {
                let (child, members) = members(target, None)?;
                (child, members, Vec::new())
            }
            LinesTarget::Processes(pids) => (None, Members::Processes(pids.clone()), Vec::new()),
            LinesTarget::Threads(tids) => {
                let members = Members::Processes(processes_of(tids)?);
                (None, members, tids.clone())
            }
        };
        let tasks = match (&members, &only[..]) {
            (Members::Processes(processes), []) => processes,
            _ => &only,
        };
        Ok(Subject {
            tasks: tasks.iter().filter_map(|tid| TaskId::of(*tid)).collect(),
            members,
            only,
            child,
            exit_code: None,
        })
    }

    /// Threads that alone are looked at; all where there are none.
    pub(super) fn only(&self) -> Vec<u32> {
        self.only.clone()
    }

    /// Processes that are looked at now, with those that they have started.
    pub(super) fn processes(&self) -> Vec<u32> {
        let first = match &self.members {
            Members::All => Vec::new(),
            Members::Processes(processes) if !self.only.is_empty() => return processes.clone(),
            Members::Processes(processes) => processes.clone(),
            Members::Cgroup(path) => programs::in_cgroup(path),
        };
        let mut all = programs::with_descendants(first);
        all.retain(|pid| *pid != std::process::id());
        all
    }

    /// Returns true if it may have threads again when it has none.
    pub(super) fn may_be_empty(&self) -> bool {
        matches!(self.members, Members::All | Members::Cgroup(_))
    }

    /// Asks for the end of the program that was started.
    pub(super) fn reap(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            self.exit_code = Some(exit_code_of(status));
            self.child = None;
        }
    }

    /// Ends the program that was started: an unobserved run of it is of no use.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }

    /// Returns true until the target has ended.
    pub(super) fn is_there(&mut self) -> bool {
        self.reap();
        let is_whole = self.only.is_empty();
        let is_alive = |task: &TaskId| {
            let tids = match is_whole {
                true => procfs::threads(task.tid).unwrap_or_default(),
                false => vec![task.tid],
            };
            let mut threads = tids.into_iter().filter_map(Stat::of);
            task.is_alive() && threads.any(|thread| thread.is_alive())
        };
        self.exit_code.is_none() && (self.may_be_empty() || self.tasks.iter().any(is_alive))
    }
}

/// Processes of these threads, each once.
fn processes_of(tids: &[u32]) -> Result<Vec<u32>, LinesError> {
    let process = |tid: &u32| {
        let process = procfs::process_of(*tid);
        process.ok_or(LinesError::NoThread { tid: *tid })
    };
    let mut processes: Vec<u32> = tids.iter().map(process).collect::<Result<_, _>>()?;
    processes.sort_unstable();
    processes.dedup();
    Ok(processes)
}
