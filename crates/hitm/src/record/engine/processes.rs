//! The processes of a recording: who runs, who is about to, and who is gone.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use hitm_base::Cycles;
use hitm_trace::{EndReason, ProcessExit, ProcessStart, SHARED_FIRST};

use super::names::Threads;

/// A process, or one program of it.
#[derive(Debug)]
struct Process {
    pid: u32,
    program: String,
    /// Its name on the board.
    name: u32,
    threads: Threads,
    /// Time of its start by the host's clock, which tells two processes of one pid apart.
    began: u64,
    is_running: bool,
    /// A program that takes it over unrecorded, and why, if that succeeds.
    left_alone: Option<String>,
    /// Forks that have begun and not been answered.
    forking: u32,
    /// Added to the seats of its threads.
    first_seat: u32,
    mailbox: u32,
}

#[derive(Debug, Default)]
pub(super) struct Processes {
    /// By number.
    all: Vec<Process>,
    /// Numbers of running processes, by pid.
    running: BTreeMap<u32, u32>,
    /// The same by their names on the board.
    named: BTreeMap<u32, u32>,
    /// Forked children that have not come yet.
    expected: Vec<u32>,
    /// Pids of ended processes whose channels are not free yet.
    ending: Vec<u32>,
    /// Time of the next look for the dead.
    next_look: Option<Instant>,
}

/// Looks for the dead, each of which reads a file of /proc for each process, take one such part of the time.
const LOOKS_SHARE: u32 = 20;

impl Processes {
    /// The process `pid` begins, which has this name on the board; returns its record and its mailbox. None
    /// when there are too many.
    pub(super) fn begin(
        &mut self,
        (name, pid): (u32, u32),
        parent: Option<u32>,
        program: String,
        time: Cycles,
    ) -> Option<(ProcessStart, u32)> {
        let number = self.all.len() as u32;
        if number >= SHARED_FIRST {
            return None;
        }
        self.expected.retain(|expected| *expected != pid);
        self.ending.retain(|ending| *ending != pid);
        let before = self.all.iter().rposition(|process| process.pid == pid);
        let known_parent = parent.filter(|parent| (*parent as usize) < self.all.len());
        let first_seat = match (known_parent, before) {
            // A new program in a process sits where the process was.
            (None, Some(before)) => self.all[before].first_seat,
            _ => self.running.len() as u32,
        };
        let taken: Vec<u32> = self
            .running
            .values()
            .map(|one| self.all[*one as usize].mailbox)
            .collect();
        let mailbox = (0..)
            .find(|mailbox| !taken.contains(mailbox))
            .unwrap_or(u32::MAX);
        self.all.push(Process {
            pid,
            program: program.clone(),
            name,
            threads: Threads::of(pid),
            began: status(pid).map_or(0, |(_, began)| began),
            is_running: true,
            left_alone: None,
            forking: 0,
            first_seat,
            mailbox,
        });
        self.running.insert(pid, number);
        self.named.insert(name, number);
        let parent = known_parent.or(before.map(|before| before as u32));
        let start = ProcessStart {
            process: number,
            pid,
            parent: parent.unwrap_or(number),
            time,
            program,
        };
        Some((start, mailbox))
    }

    /// The number of the running process `pid`.
    pub(super) fn running(&self, pid: u32) -> Option<u32> {
        self.running.get(&pid).copied()
    }

    /// The number of the running process of this name on the board.
    pub(super) fn named(&self, name: u32) -> Option<u32> {
        self.named.get(&name).copied()
    }

    /// Name on the board of the process that was `pid` last.
    pub(super) fn last_name(&self, pid: u32) -> Option<u32> {
        let last = self.all.iter().rfind(|process| process.pid == pid);
        last.map(|process| process.name)
    }

    /// The threads of a process.
    pub(super) fn threads(&mut self, process: u32) -> &mut Threads {
        &mut self.all[process as usize].threads
    }

    pub(super) fn is_running(&self, process: u32) -> bool {
        self.all
            .get(process as usize)
            .is_some_and(|process| process.is_running)
    }

    pub(super) fn pid(&self, process: u32) -> u32 {
        self.all[process as usize].pid
    }

    /// Path of the program that a process runs.
    pub(super) fn program(&self, process: u32) -> &str {
        &self.all[process as usize].program
    }

    /// Returns true if another program may have taken the process over, unrecorded.
    pub(super) fn is_left_alone(&self, process: u32) -> bool {
        self.all[process as usize].left_alone.is_some()
    }

    /// Pids of processes that run, and of children that have not come yet.
    pub(super) fn all_pids(&self) -> Vec<u32> {
        let expected = self.expected.iter().copied();
        self.running.keys().copied().chain(expected).collect()
    }

    pub(super) fn running_pids(&self) -> Vec<u32> {
        self.running.keys().copied().collect()
    }

    /// The seat of a process's thread with this index: processes sit side by side.
    pub(super) fn seat(&self, process: u32, index: u32) -> u32 {
        index.wrapping_add(self.all[process as usize].first_seat)
    }

    /// The mailbox of a running process.
    pub(super) fn mailbox(&self, process: u32) -> Option<u32> {
        let process = self.all.get(process as usize)?;
        process.is_running.then_some(process.mailbox)
    }

    pub(super) fn begin_fork(&mut self, process: u32) {
        self.all[process as usize].forking += 1;
    }

    /// The process has forked `child`; 0 if it could not.
    pub(super) fn end_fork(&mut self, process: u32, child: u32) {
        let process = &mut self.all[process as usize];
        process.forking = process.forking.saturating_sub(1);
        let has_come = self
            .all
            .iter()
            .any(|other| other.pid == child && other.began >= began_of(child));
        if child != 0 && !has_come {
            self.expected.push(child);
        }
    }

    /// The process runs this unrecorded, or continues.
    pub(super) fn set_left_alone(&mut self, process: u32, left_alone: Option<String>) {
        self.all[process as usize].left_alone = left_alone;
    }

    /// The process has ended; its record, and what it ran unrecorded. None when it had before.
    pub(super) fn end(
        &mut self,
        number: u32,
        reason: EndReason,
        time: Cycles,
    ) -> Option<(ProcessExit, Option<String>)> {
        let process = &mut self.all[number as usize];
        if !std::mem::replace(&mut process.is_running, false) {
            return None;
        }
        process.forking = 0;
        self.running.remove(&process.pid);
        self.named.remove(&process.name);
        if reason != EndReason::Exec {
            self.ending.push(process.pid);
        }
        let exit = ProcessExit {
            process: number,
            time,
            reason,
        };
        Some((exit, process.left_alone.take()))
    }

    /// Processes that are gone since the last call, or that another program runs in unrecorded. Looks for them
    /// only so often that it takes little time.
    pub(super) fn take_dead(&mut self) -> Vec<u32> {
        let began = Instant::now();
        if self.next_look.is_some_and(|next| began < next) {
            return Vec::new();
        }
        let dead = self.look_for_dead();
        self.next_look = Some(Instant::now() + began.elapsed() * LOOKS_SHARE);
        dead
    }

    fn look_for_dead(&mut self) -> Vec<u32> {
        let is_dead = |pid: u32, began: u64| match status(pid) {
            Some((state, since)) => matches!(state, 'Z' | 'X') || since != began,
            None => true,
        };
        let mut dead: Vec<u32> = self
            .running
            .iter()
            .filter(|(pid, number)| is_dead(**pid, self.all[**number as usize].began))
            .map(|(pid, _)| *pid)
            .collect();
        self.expected
            .retain(|pid| status(*pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X')));
        let all = &self.all;
        self.ending.retain(|pid| {
            let began = all.iter().rfind(|process| process.pid == *pid);
            let is_gone = is_dead(*pid, began.map_or(0, |process| process.began));
            if is_gone {
                dead.push(*pid);
            }
            !is_gone
        });
        dead
    }

    /// Returns true if a process runs recorded, or is about to.
    pub(super) fn any_is_left(&self) -> bool {
        let numbers = self.running.values();
        let mut running = numbers.map(|number| &self.all[*number as usize]);
        let runs = running.any(|process| process.left_alone.is_none());
        runs || !self.expected.is_empty()
    }
}

/// Returns true if a thread sleeps in the kernel, or is gone.
pub(super) fn is_asleep(tid: u32) -> bool {
    state_of(tid).is_none_or(|state| !matches!(state, 'R' | 'D'))
}

/// State of a thread in the letters of proc(5); none when it is gone.
pub(super) fn state_of(tid: u32) -> Option<char> {
    status(tid).map(|(state, _)| state)
}

fn began_of(pid: u32) -> u64 {
    status(pid).map_or(u64::MAX, |(_, began)| began)
}

/// State of a process and the time at which it began, from proc(5).
fn status(pid: u32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_over_is_the_next_process_in_its_place() {
        let mut processes = Processes::default();
        let own = std::process::id();
        let begin = |processes: &mut Processes, pid, parent| {
            let begun = processes.begin((7, pid), parent, "x".into(), Cycles(1));
            let (start, _) = begun.unwrap();
            (start.process, start.parent)
        };
        assert_eq!(begin(&mut processes, own, None), (0, 0));
        processes.begin_fork(0);
        assert_eq!(begin(&mut processes, 1, Some(0)), (1, 0));
        processes.end_fork(0, 1);
        assert_eq!(processes.seat(1, 2), 3, "beside the first one");
        assert!(processes.end(1, EndReason::Exec, Cycles(2)).is_some());
        assert!(processes.end(1, EndReason::Exec, Cycles(2)).is_none());
        assert_eq!(begin(&mut processes, 1, None), (2, 1));
        assert_eq!(processes.seat(2, 2), 3);
        assert!(processes.look_for_dead().is_empty(), "both are there");
        processes.set_left_alone(2, Some("setuid:/bin/su".into()));
        processes.end(0, EndReason::Exited { status: 0 }, Cycles(3));
        assert!(!processes.any_is_left());
        processes.set_left_alone(2, None);
        assert!(processes.any_is_left());
    }

    #[test]
    fn a_child_is_expected_until_it_is_gone() {
        let mut processes = Processes::default();
        processes.begin((1, std::process::id()), None, "x".into(), Cycles(1));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        processes.end_fork(0, child.id());
        processes.end(0, EndReason::Exited { status: 0 }, Cycles(1));
        assert!(processes.any_is_left());
        child.wait().unwrap();
        processes.look_for_dead();
        assert!(!processes.any_is_left());
    }
}
