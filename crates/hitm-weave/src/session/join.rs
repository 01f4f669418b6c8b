//! Processes that attach, and threads that begin.

use hitm_trace::Caveat;
use hitm_trace::{EndReason, Record};

use super::processes::Begin;
use super::threads::Thread;
use super::{Action, Host, Session};
use crate::board::{BadMessage, INTERVAL_TIMER, Incoming, Message, Request};
use crate::{Doubt, Newcomer, TimerTimes};

/// Higher than any pid: of a thread that is gone, or of another process.
const UNKNOWN: u32 = 1 << 30;

impl Session {
    /// Replaces the numbers of threads and children in a message by those that they have here.
    pub(super) fn use_own_numbers(
        &self,
        incoming: &Incoming,
        message: &mut Message<'_>,
        host: &mut dyn Host,
    ) {
        let Some(process) = self.processes.named(incoming.process) else {
            return;
        };
        let pid = self.processes.pid(process);
        let number = message.args[0] as u32;
        let own = match message.request {
            _ if number == 0 => 0,
            Request::Enter
            | Request::Created
            | Request::Stack
            | Request::Pin
            | Request::Affinity => host.thread(pid, number).unwrap_or(number | UNKNOWN),
            Request::Forked => {
                let forker = self.slots.get(&incoming.channel);
                let forker = forker.map_or(0, |slot| self.group.tid(*slot));
                host.child(pid, forker, number).unwrap_or(0)
            }
            _ => return,
        };
        message.args[0] = own.into();
    }

    /// A process begins, or another program in one that runs.
    pub(super) fn attach(
        &mut self,
        incoming: &Incoming,
        message: &Message<'_>,
        host: &mut dyn Host,
    ) {
        let [own_pid, is_fork, parent, sees_cpus, sees_clock, ..] = message.args;
        let Some(pid) = host.find(incoming.process, own_pid as u32) else {
            return self.leave_alone(incoming, message, "not to be seen in /proc");
        };
        let parent = (is_fork == 1).then_some(parent as u32);
        let kept = match (self.processes.running(pid), parent) {
            (Some(before), None) => self.is_taken_over(pid, before),
            _ => None,
        };
        let begin = Begin {
            name: incoming.process,
            pid,
            began: host.status(pid).map_or(0, |status| status.began),
            parent,
            program: message.text(),
        };
        let Some(start) = self.processes.begin(begin, self.group.now()) else {
            self.group.give_up(&Doubt::Newcomer(pid));
            return self.leave_alone(incoming, message, "too many processes");
        };
        let caveats = &mut self.account.caveats;
        caveats.note_if(Caveat::HostCpus, sees_cpus == 1);
        caveats.note_if(Caveat::HostClock, sees_clock == 1);
        let number = start.process;
        if parent.is_none() {
            self.account.programs.insert(own_pid as u32, number);
        }
        self.group.record(&Record::ProcessStart(start));
        self.tell_running();
        self.welcome(incoming.channel, number, kept);
    }

    /// Answers a process that has begun. It keeps the timer of the program before it.
    fn welcome(&mut self, channel: u32, process: u32, kept: Option<TimerTimes>) {
        let mailbox = self.processes.mailbox(process).unwrap_or(u32::MAX);
        self.actions.push(Action::EmptyMailbox { mailbox });
        let mut times = [0; 2];
        if let Some(kept) = kept {
            self.group.set_timer((process, INTERVAL_TIMER), Some(kept));
            times = [kept.next.0, kept.interval.0];
        }
        let [next, interval] = times;
        let answer = [process.into(), mailbox.into(), 1, next, interval];
        self.answer(channel, &answer);
    }

    /// Another program runs in the process from here on; its timer, which the new program keeps.
    fn is_taken_over(&mut self, pid: u32, before: u32) -> Option<TimerTimes> {
        let kept = self.group.take_timer((before, INTERVAL_TIMER));
        self.process_ends(pid, EndReason::Exec);
        self.group.counters().exec_calls += 1;
        kept
    }

    /// Lets a process that attaches run unrecorded.
    fn leave_alone(&mut self, incoming: &Incoming, message: &Message<'_>, why: &str) {
        self.account.leave_alone(why, &message.text());
        self.answer(incoming.channel, &[]);
    }

    /// Returns true for a new thread that comes before others that were created earlier.
    pub(super) fn comes_early(&self, name: u32, message: &Message<'_>) -> bool {
        let tid = message.args[0] as u32;
        let process = self.processes.named(name);
        message.request == Request::Enter
            && process.is_some_and(|process| self.group.has_earlier(tid, process))
    }

    /// Serves threads that came before others which have come meanwhile, or will not come.
    pub(super) fn serve_early(&mut self, host: &mut dyn Host) {
        for incoming in std::mem::take(&mut self.early) {
            self.serve(&incoming, host);
        }
    }

    /// A thread begins.
    pub(super) fn enter(
        &mut self,
        channel: u32,
        message: &Message<'_>,
        host: &mut dyn Host,
    ) -> Result<(), BadMessage> {
        let [tid, seat, process, ..] = message.args;
        let process = process as u32;
        if !self.processes.is_running(process) {
            return Err(BadMessage);
        }
        let newcomer = Newcomer {
            tid: tid as u32,
            seat: self.processes.seat(process, seat as u32),
            process,
        };
        let slot = self.group.enter(newcomer, message.text());
        self.threads.push(Thread::new(channel, process));
        self.slots.insert(channel, slot);
        let now = self.group.now();
        let cpu = self.group.cpu(slot);
        self.answer(channel, &[slot.0 as u64, now.0, cpu.0.into()]);
        self.serve_early(host);
        Ok(())
    }

    /// Tells which processes run.
    pub(super) fn tell_running(&mut self) {
        let pids = self.processes.all_pids();
        self.actions.push(Action::Running { pids });
    }
}
