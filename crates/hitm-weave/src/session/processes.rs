//! The processes of a recording: who runs, who is about to, and who is gone.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::Cycles;
use hitm_trace::{EndReason, ProcessExit, ProcessStart, SHARED_FIRST};

use super::Host;

/// A process, or one program of it.
#[derive(Debug)]
struct Process {
    pid: u32,
    program: String,
    /// Its name on the board.
    name: u32,
    /// Time of its start by the host's clock, which tells two processes of one pid apart.
    began: u64,
    is_running: bool,
    /// A program that takes it over unrecorded, and why, if that succeeds.
    left_alone: Option<String>,
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
}

/// A process that begins.
#[derive(Debug)]
pub(super) struct Begin {
    /// Its name on the board.
    pub(super) name: u32,
    pub(super) pid: u32,
    /// Time of its start by the host's clock.
    pub(super) began: u64,
    /// Number of the process that has forked it; none for a program in place of another one.
    pub(super) parent: Option<u32>,
    pub(super) program: String,
}

impl Processes {
    /// A process begins; its record. None when there are too many.
    pub(super) fn begin(&mut self, begin: Begin, time: Cycles) -> Option<ProcessStart> {
        let number = self.all.len() as u32;
        if number >= SHARED_FIRST {
            return None;
        }
        let pid = begin.pid;
        self.expected.retain(|expected| *expected != pid);
        self.ending.retain(|ending| *ending != pid);
        let before = self.all.iter().rposition(|process| process.pid == pid);
        let parent = begin.parent;
        let known_parent = parent.filter(|parent| (*parent as usize) < self.all.len());
        let first_seat = match (known_parent, before) {
            // A new program in a process sits where the process was.
            (None, Some(before)) => self.all[before].first_seat,
            _ => self.running.len() as u32,
        };
        let parent = known_parent.or(before.map(|before| before as u32));
        let start = ProcessStart {
            process: number,
            pid,
            parent: parent.unwrap_or(number),
            time,
            program: begin.program.clone(),
        };
        self.all.push(Process {
            pid,
            program: begin.program,
            name: begin.name,
            began: begin.began,
            is_running: true,
            left_alone: None,
            first_seat,
            mailbox: self.free_mailbox(),
        });
        self.running.insert(pid, number);
        self.named.insert(begin.name, number);
        Some(start)
    }

    fn free_mailbox(&self) -> u32 {
        let running = self.running.values();
        let taken = running.map(|one| self.all[*one as usize].mailbox);
        let taken: BTreeSet<u32> = taken.collect();
        let free = (0..).find(|mailbox| !taken.contains(mailbox));
        free.unwrap_or(u32::MAX)
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

    /// A process has forked `child`; 0 if it could not.
    pub(super) fn end_fork(&mut self, child: u32, host: &dyn Host) {
        let began = host.status(child).map_or(u64::MAX, |status| status.began);
        let mut all = self.all.iter();
        let has_come = all.any(|other| other.pid == child && other.began >= began);
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

    /// Processes that are gone since the last call, or that another program runs in unrecorded.
    pub(super) fn take_dead(&mut self, host: &dyn Host) -> Vec<u32> {
        let running = self.running.iter();
        let dead =
            running.filter(|(pid, number)| host.is_gone(**pid, self.all[**number as usize].began));
        let mut dead: Vec<u32> = dead.map(|(pid, _)| *pid).collect();
        self.expected.retain(|pid| {
            let status = host.status(*pid);
            status.is_some_and(|status| !status.is_dead())
        });
        let all = &self.all;
        self.ending.retain(|pid| {
            let last = all.iter().rfind(|process| process.pid == *pid);
            let is_gone = host.is_gone(*pid, last.map_or(0, |process| process.began));
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

#[cfg(test)]
mod tests {
    use super::super::tests::Kernel;
    use super::*;

    fn begin(processes: &mut Processes, pid: u32, parent: Option<u32>) -> ProcessStart {
        let begin = Begin {
            name: 7,
            pid,
            began: 0,
            parent,
            program: "x".into(),
        };
        processes.begin(begin, Cycles(1)).expect("there is room")
    }

    #[test]
    fn a_program_that_takes_over_is_the_next_process_in_its_place() {
        let mut processes = Processes::default();
        let kernel = Kernel::default();
        let begin = |processes: &mut Processes, pid, parent| {
            let start = begin(processes, pid, parent);
            (start.process, start.parent)
        };
        assert_eq!(begin(&mut processes, 50, None), (0, 0));
        assert_eq!(begin(&mut processes, 1, Some(0)), (1, 0));
        processes.end_fork(1, &kernel);
        assert_eq!(processes.seat(1, 2), 3, "beside the first one");
        assert!(processes.end(1, EndReason::Exec, Cycles(2)).is_some());
        assert!(processes.end(1, EndReason::Exec, Cycles(2)).is_none());
        assert_eq!(begin(&mut processes, 1, None), (2, 1));
        assert_eq!(processes.seat(2, 2), 3);
        assert!(processes.take_dead(&kernel).is_empty(), "both are there");
        processes.set_left_alone(2, Some("setuid:/bin/su".into()));
        processes.end(0, EndReason::Exited { status: 0 }, Cycles(3));
        assert!(!processes.any_is_left());
        processes.set_left_alone(2, None);
        assert!(processes.any_is_left());
    }

    #[test]
    fn a_child_is_expected_until_it_is_gone() {
        let mut processes = Processes::default();
        let mut kernel = Kernel::default();
        begin(&mut processes, 50, None);
        processes.end_fork(60, &kernel);
        processes.end(0, EndReason::Exited { status: 0 }, Cycles(1));
        assert!(processes.any_is_left());
        kernel.gone.insert(60);
        processes.take_dead(&kernel);
        assert!(!processes.any_is_left());
    }
}
