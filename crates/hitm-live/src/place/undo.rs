//! Undoes a placement from its journal, in any process. Doing it twice does no more than once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use hitm_fields::fields;

use super::backend::Backend;
use super::change::{is_gone, is_missing};
use super::dissolve::undo_groups;
use super::journal::{Journal, OldMask, OldTask};
use super::stray::{Tie, tasks_of, tie_of, unclear};
use super::system::System;
use super::task::{Mounts, cpuset_cpus, is_alive, processes, stat};
use crate::procfs::{Stat, TaskId};

/// Rounds of searching for children of tasks that were just put back. Each round finds only
/// children that began before their parents were put back, so three are usual.
pub(super) const ROUNDS_MAX: usize = 16;
/// Rounds without a find after which the search ends. A child has its parent's mask before /proc
/// shows it.
pub(super) const QUIET_ROUNDS: usize = 2;
/// Time between rounds: assumed 20 ms (1 to 100). fork(2) takes 0.1 ms, and longer when it is preempted.
pub(super) const ROUND_PAUSE: Duration = Duration::from_millis(20);

fields! {
    /// Outcome of undoing.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Undone in undone {
        /// Tasks that were put back.
        pub restored: usize => count "restored";
        /// Threads and children of placed tasks that began meanwhile, and got their origin's mask.
        pub inherited: usize => count "inherited";
        /// Tasks that have ended.
        pub ended: usize => count "ended";
        /// Tasks whose mask another process has changed meanwhile: they keep it.
        pub changed: usize => count "changed";
        /// Processes that began meanwhile with the placement's CPUs and may have chosen them: they keep them.
        pub unclear: Vec<String> => words "unclear";
        /// Changes that the kernel refused to undo. The journal stays until there are none.
        pub problems: Vec<String> => words "problems";
    }
}

/// Undoes the changes of a journal.
pub(super) fn undo(system: &dyn System, mounts: &Mounts, journal: &Journal) -> Undone {
    let mut undone = Undone::default();
    match journal.head.backend {
        Backend::Affinity => {
            undo_masks(system, journal, &mut undone);
            undone.unclear = unclear(system, journal);
        }
        Backend::CpusetV1 | Backend::CpusetV2 => {
            undo_groups(system, mounts, journal, &mut undone);
            mend_masks(system, mounts, journal, &mut undone);
        }
    }
    undone
}

fn undo_masks(system: &dyn System, journal: &Journal, undone: &mut Undone) {
    let mut seen = BTreeSet::new();
    for task in journal.tasks() {
        if seen.insert(task.id) {
            let fate = put_back(system, journal, task.id, &task.mask);
            undone.count(fate, task.id.tid);
        }
    }
    let mut quiet = 0;
    for _ in 0..ROUNDS_MAX {
        let heirs = heirs(system, journal, &seen);
        quiet = if heirs.is_empty() { quiet + 1 } else { 0 };
        // If no task was put back, no child can have copied an old mask meanwhile.
        if quiet == QUIET_ROUNDS || undone.restored == 0 && heirs.is_empty() {
            return;
        }
        for (id, mask) in heirs {
            seen.insert(id);
            match put_back(system, journal, id, &mask) {
                Fate::Restored => undone.inherited += 1,
                Fate::Refused(error) => undone.problem(id.tid, &error),
                Fate::Ended | Fate::Changed => {}
            }
        }
        thread::sleep(ROUND_PAUSE);
    }
}

enum Fate {
    Restored,
    Ended,
    Changed,
    Refused(io::Error),
}

impl Undone {
    fn count(&mut self, fate: Fate, tid: u32) {
        match fate {
            Fate::Restored => self.restored += 1,
            Fate::Ended => self.ended += 1,
            Fate::Changed => self.changed += 1,
            Fate::Refused(error) => self.problem(tid, &error),
        }
    }

    fn problem(&mut self, tid: u32, error: &io::Error) {
        self.problems
            .push(format!("cannot give task {tid} its mask back: {error}"));
    }
}

/// Restores a task's mask if it still has the one of the placement.
fn put_back(system: &dyn System, journal: &Journal, id: TaskId, old: &OldMask) -> Fate {
    if !is_alive(system, id) {
        return Fate::Ended;
    }
    let restored = system.affinity(id.tid).and_then(|now| {
        if now == old.cpus {
            return Ok(Fate::Restored);
        }
        if now != journal.head.cpus {
            return Ok(Fate::Changed);
        }
        system.set_affinity(id.tid, own_mask(old))?;
        Ok(Fate::Restored)
    });
    match restored {
        Ok(fate) => fate,
        Err(error) if is_gone(&error) => Fate::Ended,
        Err(error) => Fate::Refused(error),
    }
}

/// A task whose mask was all that its cpuset allowed gets every CPU, so that it follows its cpuset
/// later.
fn own_mask(old: &OldMask) -> Option<&super::cpus::CpuSet> {
    (!old.is_free).then_some(&old.cpus)
}

/// Tasks that began during the placement with its mask: threads of its processes, their
/// descendants, processes of their groups and sessions, and daemons. Each comes with its origin's
/// earlier mask.
fn heirs(
    system: &dyn System,
    journal: &Journal,
    seen: &BTreeSet<TaskId>,
) -> Vec<(TaskId, OldMask)> {
    let mut origins = Origins::of(journal);
    let mut heirs = Vec::new();
    let mut found: BTreeMap<u32, Stat> = BTreeMap::new();
    for pid in processes(system) {
        found.extend(stat(system, pid).map(|fields| (pid, fields)));
    }
    // Children may have lower numbers than their parents.
    while let Some(pid) = found.iter().find_map(|(pid, fields)| {
        (!origins.by_pid.contains_key(pid) && origins.mask_of(*pid, fields).is_some())
            .then_some(*pid)
    }) {
        let mask = origins.mask_of(pid, &found[&pid]).cloned();
        origins.by_pid.extend(mask.map(|mask| (pid, mask)));
    }
    for (pid, fields) in &found {
        if !origins.by_pid.contains_key(pid)
            && let Some(Tie::Daemon(mask)) = tie_of(system, journal, *pid, fields)
        {
            origins.by_pid.insert(*pid, mask);
        }
    }
    for (pid, mask) in &origins.by_pid {
        for id in tasks_of(system, *pid) {
            let is_new = id.start_ticks >= journal.head.tool.start_ticks && !seen.contains(&id);
            let has_mask = || {
                let now = system.affinity(id.tid);
                now.is_ok_and(|now| now == journal.head.cpus)
            };
            if is_new && has_mask() && mask.cpus != journal.head.cpus {
                heirs.push((id, mask.clone()));
            }
        }
    }
    heirs
}

/// Masks of the processes from which a task can descend.
struct Origins {
    since: u64,
    by_pid: BTreeMap<u32, OldMask>,
    by_group: BTreeMap<u32, OldMask>,
    by_session: BTreeMap<u32, OldMask>,
}

impl Origins {
    fn of(journal: &Journal) -> Origins {
        let mut origins = Origins {
            since: journal.head.tool.start_ticks,
            by_pid: BTreeMap::new(),
            by_group: BTreeMap::new(),
            by_session: BTreeMap::new(),
        };
        for process in journal.processes() {
            let mask = || process.mask.clone();
            origins.by_pid.entry(process.id.tid).or_insert_with(mask);
            origins.by_group.entry(process.group).or_insert_with(mask);
            origins
                .by_session
                .entry(process.session)
                .or_insert_with(mask);
        }
        // Processes outside of our PID namespace all have 0.
        origins.by_group.remove(&0);
        origins.by_session.remove(&0);
        origins
    }

    /// Mask of the process's origin, if it began during the placement and has one.
    fn mask_of(&self, pid: u32, fields: &Stat) -> Option<&OldMask> {
        if fields.start_ticks < self.since {
            return None;
        }
        let by_parent = self
            .by_pid
            .get(&pid)
            .or_else(|| self.by_pid.get(&fields.parent));
        let by_group = || self.by_group.get(&fields.group);
        let by_session = || self.by_session.get(&fields.session);
        by_parent.or_else(by_group).or_else(by_session)
    }
}

/// Kernels before 6.2 forget a task's own mask when it changes its cpuset: then it has the whole
/// cpuset.
fn mend_masks(system: &dyn System, mounts: &Mounts, journal: &Journal, undone: &mut Undone) {
    let mut seen = BTreeSet::new();
    for task in journal.tasks().filter(|task| seen.insert(task.id)) {
        let fate = mend_mask(system, mounts, task);
        undone.count(fate, task.id.tid);
    }
    for task in journal.others() {
        if let Fate::Refused(error) = mend_mask(system, mounts, task) {
            undone.problem(task.id.tid, &error);
        }
    }
}

fn mend_mask(system: &dyn System, mounts: &Mounts, task: &OldTask) -> Fate {
    let tid = task.id.tid;
    if !is_alive(system, task.id) {
        return Fate::Ended;
    }
    let mended = system.affinity(tid).and_then(|now| {
        if now == task.mask.cpus {
            return Ok(Fate::Restored);
        }
        let text = system.read(Path::new(&format!("/proc/{tid}/cgroup")))?;
        let whole = cpuset_cpus(system, mounts, &mounts.groups(&text));
        if whole.as_ref() != Some(&now) || task.mask.is_free {
            return Ok(Fate::Changed);
        }
        system.set_affinity(tid, Some(&task.mask.cpus))?;
        Ok(Fate::Restored)
    });
    match mended {
        Ok(fate) => fate,
        Err(error) if is_gone(&error) || is_missing(&error) => Fate::Ended,
        Err(error) => Fate::Refused(error),
    }
}
