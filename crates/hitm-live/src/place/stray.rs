//! Daemons that placed processes made: no parent, process group or session ties them to their origin.
//!
//! A process that forks twice leaves a child whose parent is init, in the session of a process that
//! has ended. What remains is that it began during the placement with exactly its CPUs, as the same
//! user and in the same cgroups. One that looks otherwise like somebody's own choice is named, and
//! keeps its CPUs.

use hitm_base::with_note;

use super::journal::{Home, Journal, OldMask};
use super::system::System;
use super::task::{home_of, processes, stat, threads};
use crate::procfs::{Stat, TaskId};

/// The relation of a process to a placement whose CPUs it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// It is a daemon of placed processes, which all had this mask.
    Daemon(OldMask),
    /// It may have chosen its CPUs by itself.
    Unclear,
}

/// Judges a process that is no known descendant of placed ones; none for one that has nothing to do
/// with them.
pub(super) fn tie_of(
    system: &dyn System,
    journal: &Journal,
    pid: u32,
    fields: &Stat,
) -> Option<Tie> {
    let head = &journal.head;
    let is_new = fields.start_ticks >= head.tool.start_ticks && !fields.is_kernel;
    let has_mask = || system.affinity(pid).is_ok_and(|now| now == head.cpus);
    if !is_new || is_ours(journal, pid) || !has_mask() {
        return None;
    }
    let own = home_of(system, pid)?;
    let is_same = |home: &&Home| home.uid == own.uid && home.cgroups == own.cgroups;
    let mut masks = journal.homes().filter(is_same).filter_map(|home| {
        let mut processes = journal.processes();
        Some(&processes.find(|process| process.id.tid == home.pid)?.mask)
    });
    let mask = masks.next()?;
    let is_clear = masks.all(|other| other == mask) && is_adrift(system, fields);
    Some(match is_clear {
        true => Tie::Daemon(mask.clone()),
        false => Tie::Unclear,
    })
}

/// The tool and its guards.
fn is_ours(journal: &Journal, pid: u32) -> bool {
    let is_guard = || journal.guards().any(|guard| guard.tid == pid);
    pid == journal.head.tool.tid || pid == std::process::id() || is_guard()
}

/// Returns true for a process whose session's leader has ended. A leader may be anybody's.
fn is_adrift(system: &dyn System, fields: &Stat) -> bool {
    let leader = stat(system, fields.session);
    leader.is_none_or(|leader| !leader.is_alive() || leader.start_ticks > fields.start_ticks)
}

/// Processes that keep the placement's CPUs, each by number and name.
pub(super) fn unclear(system: &dyn System, journal: &Journal) -> Vec<String> {
    let known = |pid: u32| {
        let mut tasks = journal.tasks();
        tasks.any(|task| task.id.tid == pid)
    };
    let unclear = processes(system).into_iter().filter(|pid| {
        let tie = stat(system, *pid).and_then(|fields| tie_of(system, journal, *pid, &fields));
        !known(*pid) && tie == Some(Tie::Unclear)
    });
    let named = unclear.map(|pid| {
        let name = system.read(format!("/proc/{pid}/comm").as_ref());
        with_note(&pid.to_string(), name.unwrap_or_default().trim_end())
    });
    named.collect()
}

/// Threads of a process, each with its start.
pub(super) fn tasks_of(system: &dyn System, pid: u32) -> Vec<TaskId> {
    let ids = threads(system, pid).into_iter().filter_map(|tid| {
        let start_ticks = stat(system, tid)?.start_ticks;
        Some(TaskId { tid, start_ticks })
    });
    ids.collect()
}
