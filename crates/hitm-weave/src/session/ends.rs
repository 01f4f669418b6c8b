//! Ends: of threads, of processes, and of the recording.

use hitm_trace::{Caveat, Counter, EndReason, Loss, ProcessExit, Record};

use super::{Action, Host, Session};
use crate::Slot;
use crate::board::Incoming;

impl Session {
    /// The first process has ended, as its parent sees it.
    pub fn first_ends(&mut self, reason: EndReason) {
        self.first_end = Some(reason);
    }

    /// Processes, by their names on the board, have told that they run on unrecorded.
    pub fn lose(&mut self, losses: impl IntoIterator<Item = (u32, Loss)>) {
        for (name, loss) in losses {
            match self.processes.named(name) {
                Some(process) => {
                    let pid = self.processes.pid(process);
                    self.process_ends(pid, EndReason::Lost { loss });
                }
                None => self.account.leave_alone(&loss.to_string(), "a process"),
            }
        }
    }

    /// Looks for processes that died without a word. Asks the host about each.
    pub fn look_for_dead(&mut self, host: &dyn Host) {
        for pid in self.processes.take_dead(host) {
            if pid == self.processes.pid(0) && self.first_end.is_none() {
                continue; // How it ended is about to be known.
            }
            self.process_ends(pid, self.end_of(pid));
            self.free_ended(pid);
            if self.processes.running(pid).is_none() {
                self.free_all(pid);
            }
        }
    }

    /// Ends the recording if its user wants that, or nobody is left to record.
    pub fn look_for_end(&mut self) {
        if self.group.stop_requested() {
            return self.finish(EndReason::Stopped);
        }
        if let Some(reason) = self.first_end
            && !self.processes.any_is_left()
        {
            self.finish(reason);
        }
    }

    /// Ends the recording of a process that says what cannot be.
    pub(super) fn refuse(&mut self, incoming: &Incoming) {
        self.bad_messages += 1;
        let loss = Loss::BadMessage;
        self.process_ends(self.pid_of(incoming), EndReason::Lost { loss });
        self.answer(incoming.channel, &[u64::MAX]);
    }

    /// The thread is gone, and its channel free.
    pub(super) fn thread_ends(&mut self, slot: Slot) {
        let thread = &mut self.threads[slot.0];
        if !std::mem::replace(&mut thread.has_ended, true) {
            self.group.remove(slot);
            let channel = thread.channel;
            self.slots.remove(&channel);
            self.actions.push(Action::Free { channel });
        }
    }

    /// The end of a process that is gone: its last thread's, or none that it told.
    pub(super) fn end_of(&self, pid: u32) -> EndReason {
        let Some(process) = self.processes.running(pid) else {
            return EndReason::Killed;
        };
        if self.processes.is_left_alone(process) {
            return EndReason::Exec;
        }
        let mut threads = self
            .threads
            .iter()
            .filter(|thread| thread.process == process);
        let last = threads.clone().rfind(|thread| !thread.has_ended);
        let is_at_its_end = threads.all(|thread| thread.has_ended || thread.ending.is_some());
        let status = last.and_then(|thread| thread.ending);
        match (status.filter(|_| is_at_its_end), self.first_end) {
            (Some(status), _) => EndReason::Exited { status },
            (None, Some(reason @ EndReason::Signalled { .. })) if pid == self.processes.pid(0) => {
                reason
            }
            _ => EndReason::Killed,
        }
    }

    /// The process `pid` runs no more, or runs something else.
    pub(super) fn process_ends(&mut self, pid: u32, reason: EndReason) {
        let Some(process) = self.processes.running(pid) else {
            return;
        };
        self.dismiss(process);
        self.note_end(pid, reason);
        self.forget_timers(process);
        if reason == EndReason::Exec {
            // The new program's first request waits in a channel of its own.
            self.free_ended(pid);
            self.free_all(pid);
        }
        self.tell_running();
        self.go_on();
    }

    /// Lets all threads of a process go, and those that are about to begin.
    fn dismiss(&mut self, process: u32) {
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if thread.process == process && !std::mem::replace(&mut thread.has_ended, true) {
                self.group.remove(Slot(index));
                // QEMU's exit waits for threads that wait here, those that timed out among them.
                let channel = thread.channel;
                self.actions.push(Action::Dismiss { channel });
            }
        }
        let early = std::mem::take(&mut self.early);
        for incoming in early {
            match self.processes.named(incoming.process) == Some(process) {
                true => self.answer(incoming.channel, &[u64::MAX]),
                false => self.early.push(incoming),
            }
        }
    }

    /// Writes that a process has ended, and counts what it ran unrecorded.
    fn note_end(&mut self, pid: u32, reason: EndReason) {
        let now = self.group.now();
        let running = self.processes.running(pid);
        let ended = running.and_then(|process| self.processes.end(process, reason, now));
        if let Some((exit, left_alone)) = ended {
            self.group.record(&Record::ProcessExit(exit));
            self.note_reason(exit);
            if let Some(text) = left_alone {
                let (why, program) = text.split_once(':').unwrap_or((&text, ""));
                self.account.leave_alone(why, program);
            }
        }
    }

    /// Keeps a reason that the account tells.
    fn note_reason(&mut self, exit: ProcessExit) {
        if self.processes.pid(exit.process) == self.processes.pid(0) {
            self.account.end = Some(exit.reason);
        }
        if let EndReason::Lost { loss } = exit.reason {
            let program = self.processes.program(exit.process);
            self.account.losses.push((program.to_owned(), loss));
        }
    }

    /// Frees the channels of threads that have ended with their process.
    fn free_ended(&mut self, pid: u32) {
        let (threads, processes) = (&self.threads, &self.processes);
        let has_ended = |slot: Slot| {
            let thread = &threads[slot.0];
            thread.has_ended && processes.pid(thread.process) == pid
        };
        let ended = self.slots.iter().filter(|(_, slot)| has_ended(**slot));
        let channels = ended.map(|(channel, _)| *channel);
        for channel in channels.collect::<Vec<u32>>() {
            self.slots.remove(&channel);
            self.actions.push(Action::Free { channel });
        }
    }

    /// Frees whatever channels the last program of the process has.
    fn free_all(&mut self, pid: u32) {
        if let Some(process) = self.processes.last_name(pid) {
            self.actions.push(Action::FreeAll { process });
        }
    }

    /// Ends the recording, and with it that of every process.
    pub fn finish(&mut self, reason: EndReason) {
        if self.is_over() {
            return;
        }
        for pid in self.processes.running_pids() {
            let reason = match reason {
                EndReason::Exited { .. } | EndReason::Signalled { .. } => self.end_of(pid),
                reason => reason,
            };
            self.note_end(pid, reason);
        }
        let counters = self.counters();
        self.group.add_counters(counters);
        self.group.finish(reason);
    }

    fn counters(&self) -> Vec<Counter> {
        let left_alone = self.account.left_alone.iter();
        let left_alone =
            left_alone.map(|(text, count)| Counter::new(format!("not_followed:{text}"), *count));
        let named = [
            Counter::new("refused_messages", self.bad_messages),
            Counter::new("program_cpus", self.group.seen_cpu_count()),
        ];
        let caveats = &self.account.caveats;
        let caveats = Caveat::ALL.map(|one| Counter::new(one.counter(), caveats.count(one)));
        left_alone.chain(named).chain(caveats).collect()
    }
}
