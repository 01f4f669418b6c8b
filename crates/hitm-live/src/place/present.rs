//! Placements that are there, of any process: found, shown, and undone from outside.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hitm_fields::fields;

use super::PlaceError;
use super::cpus::CpuSet;
use super::journal::{Head, Journal};
use super::plan::Reserved;
use super::session::{Place, boot_id};
use super::store::remove;
use super::system::System;
use super::task::is_alive;
use super::undo::{Undone, undo};
use crate::procfs::TaskId;

/// Longest time of another process's undoing.
const UNDO_PATIENCE: Duration = Duration::from_secs(15);
const UNDO_PAUSE: Duration = Duration::from_millis(20);

/// Result of searching for placements of dead processes.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Placements whose tool and guard had died, now undone.
    pub undone: Vec<(String, Undone)>,
    /// Journals of other boots, of which nothing is left.
    pub discarded: usize,
    /// Journals that cannot be parsed, and what has a journal's name and is none. They stay.
    pub damaged: Vec<PlaceError>,
    /// Tasks and CPUs of the placements that are there; of those in other folders the tasks alone.
    pub reserved: Reserved,
}

fields! {
    /// A present placement.
    #[derive(Debug, Clone)]
    pub struct Status in status {
        /// Its journal, as read from `path`.
        pub journal: Journal;
        /// The lock, or the caller's own name for the placement.
        name => name "lock", |status| &status.journal.head.name;
        /// CPUs of the placement.
        cpus => label "CPUs", |status| &status.journal.head.cpus;
        /// The means by which it placed.
        backend => label "means", |status| status.journal.head.backend;
        /// Seconds since 1970.
        since => number "since", |status| status.journal.head.since;
        /// The process that placed.
        tool => number "process", |status| status.journal.head.tool.tid;
        /// Set while the process that placed lives.
        pub has_tool: bool => label "lives";
        /// The process that undoes it when that one has ended.
        guard => number "guard", |status| status.journal.guard().map(|guard| guard.tid);
        /// Set while its guard lives.
        pub has_guard: bool => label "lives";
        /// The file of its journal.
        pub path: PathBuf;
        /// The file of its journal.
        journal => name "journal", |status| status.path.to_string_lossy().into_owned();
        /// Cgroups that it made.
        cgroups => words "cgroups", |status| status.cgroups();
        /// Its living tasks.
        pub tasks: Vec<StatusTask>;
        /// Number of its tasks that have ended.
        pub ended: usize => count "ended";
    }
}

fields! {
    /// A living task of a placement.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StatusTask in status_task {
        /// Its number.
        pub tid: u32 => number "thread";
        /// Its name.
        pub name: String => name "name";
        /// CPUs that it might run on before.
        pub cpus_before: CpuSet => label "before";
        /// CPUs that it may run on.
        pub cpus: CpuSet => label "CPUs";
    }
}

impl Status {
    fn cgroups(&self) -> Vec<String> {
        let groups = self.journal.groups();
        groups
            .map(|path| path.to_string_lossy().into_owned())
            .collect()
    }
}

impl Place<'_> {
    /// Undoes placements whose tool and guard have died, and drops those of other boots.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn recover(&self) -> Result<Recovered, PlaceError> {
        let boot = boot_id(self.system)?;
        let _lock = self.store.lock()?;
        let mut recovered = Recovered::default();
        let elsewhere = self.store.elsewhere().into_iter();
        let elsewhere = elsewhere.filter(|journal| journal.head.boot == boot);
        for journal in elsewhere {
            let tasks = journal.tasks().map(|task| task.id);
            recovered.reserved.tasks.extend(tasks);
        }
        for found in self.store.list()? {
            let journal = match found.journal {
                Ok(journal) => journal,
                Err(error) => {
                    recovered.damaged.push(error);
                    continue;
                }
            };
            if journal.head.boot != boot {
                remove(&found.path)?;
                recovered.discarded += 1;
            } else if found.is_held {
                let reserved = &mut recovered.reserved;
                reserved.tasks.extend(journal.tasks().map(|task| task.id));
                reserved.cpus = reserved.cpus.union(&journal.head.cpus);
            } else {
                let undone = undo(self.system, self.mounts, &journal);
                if undone.problems.is_empty() {
                    remove(&found.path)?;
                }
                recovered.undone.push((journal.head.name, undone));
            }
        }
        Ok(recovered)
    }

    /// Present placements.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn status(&self) -> Result<Vec<Status>, PlaceError> {
        let _lock = self.store.lock()?;
        let mut all = Vec::new();
        for found in self.store.list()? {
            all.extend(
                found
                    .journal
                    .ok()
                    .map(|journal| self.status_of(journal, found.path)),
            );
        }
        Ok(all)
    }

    fn status_of(&self, journal: Journal, path: PathBuf) -> Status {
        let mut tasks = Vec::new();
        let mut ended = 0;
        let mut seen = BTreeSet::new();
        for task in journal.tasks().filter(|task| seen.insert(task.id)) {
            let tid = task.id.tid;
            let now = self
                .system
                .affinity(tid)
                .ok()
                .filter(|_| is_alive(self.system, task.id));
            match now {
                Some(now) => {
                    let name = self.system.read(Path::new(&format!("/proc/{tid}/comm")));
                    let name = name.unwrap_or_default().trim_end_matches('\n').to_owned();
                    tasks.push(StatusTask {
                        tid,
                        name,
                        cpus_before: task.mask.cpus.clone(),
                        cpus: now,
                    });
                }
                None => ended += 1,
            }
        }
        let lives = |id: TaskId| is_alive(self.system, id);
        Status {
            path,
            has_tool: lives(journal.head.tool),
            has_guard: journal.guard().is_some_and(lives),
            tasks,
            ended,
            journal,
        }
    }

    /// Asks the guard of a placement, or else its tool, to undo it, and waits for the end.
    ///
    /// # Errors
    /// Neither does it, or the kernel forbids the request.
    pub fn undo(&self, status: &Status) -> Result<(), PlaceError> {
        let Head { tool, name, .. } = &status.journal.head;
        let guard = status.journal.guard().filter(|_| status.has_guard);
        let asked = guard.or(status.has_tool.then_some(*tool));
        if let Some(id) = asked {
            terminate(self.system, id)?;
        }
        let mut waited = Duration::ZERO;
        while status.path.exists() {
            if waited >= UNDO_PATIENCE {
                return Err(PlaceError::Refused(format!(
                    "the placement for {name} was not undone within {} seconds",
                    UNDO_PATIENCE.as_secs()
                )));
            }
            thread::sleep(UNDO_PAUSE);
            waited += UNDO_PAUSE;
            // The process that was asked may have been killed.
            if asked.is_none_or(|id| !is_alive(self.system, id)) {
                let recovered = self.recover()?;
                let problem = recovered
                    .undone
                    .into_iter()
                    .find(|(_, undone)| !undone.problems.is_empty());
                if let Some((_, undone)) = problem {
                    return Err(PlaceError::Refused(undone.problems.join("; ")));
                }
            }
        }
        Ok(())
    }
}

/// Sends SIGTERM to a process, and to no other that got its number.
fn terminate(system: &dyn System, id: TaskId) -> Result<(), PlaceError> {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    let failed = || {
        PlaceError::system(format!("ask process {} to undo", id.tid))(io::Error::last_os_error())
    };
    // SAFETY: plain system calls; the descriptor is ours.
    let process = unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, id.tid as libc::pid_t, 0);
        if descriptor < 0 {
            return match io::Error::last_os_error().raw_os_error() {
                Some(libc::ESRCH) => Ok(()),
                _ => Err(failed()),
            };
        }
        OwnedFd::from_raw_fd(descriptor as libc::c_int)
    };
    if !is_alive(system, id) {
        return Ok(());
    }
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is that of the process, which is the one that was meant.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGTERM,
            none,
            0,
        )
    };
    match sent {
        0 => Ok(()),
        _ => match io::Error::last_os_error().raw_os_error() {
            Some(libc::ESRCH) => Ok(()),
            _ => Err(failed()),
        },
    }
}
