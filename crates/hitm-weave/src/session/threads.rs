//! Requests of threads that run recorded.

use hitm_base::{AccessOp, AddrRange, Cycles};
use hitm_trace::{COUNT_MAX, Caveat, EndReason, SHARED_END, SHARED_FIRST};

use super::{Action, Host, Session, Speaker};
use crate::board::{
    BadMessage, Message, Request, unpack_calls, unpack_doings, unpack_paths, unpack_records,
};
use crate::{Position, Slot, State, Wake};

/// A recorded thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) channel: u32,
    pub(super) process: u32,
    /// Position in its latest message.
    position: Position,
    /// Place of its last access.
    last: Position,
    /// Status that it ends with, once it has asked for its end.
    pub(super) ending: Option<i32>,
    pub(super) has_ended: bool,
}

impl Thread {
    /// A thread that has done nothing yet.
    pub(super) fn new(channel: u32, process: u32) -> Thread {
        Thread {
            channel,
            process,
            ..Thread::default()
        }
    }
}

impl Session {
    pub(super) fn serve_thread(
        &mut self,
        speaker: Speaker,
        message: &Message<'_>,
        host: &mut dyn Host,
    ) -> Result<(), BadMessage> {
        let Speaker { slot, channel } = speaker;
        if self.threads[slot.0].has_ended {
            self.answer(channel, &[u64::MAX]);
            return Ok(());
        }
        match message.request {
            Request::Pin | Request::Affinity => self.serve_affinity(speaker, message),
            Request::Memory => self.send_memory(speaker, message),
            Request::Object => {
                let [device, inode, kind, ..] = message.args;
                let number = self.object([device, inode, kind]);
                self.answer(channel, &[number.into()]);
            }
            Request::Wait => self.wait(speaker, message)?,
            Request::TimedOut => self.timed_out(speaker, host),
            Request::Rejoin => self.rejoin(speaker, &message.args)?,
            Request::Close => self.thread_ends(slot),
            _ => {
                self.take_note(slot, message, host)?;
                self.answer(channel, &[]);
            }
        }
        Ok(())
    }

    /// Serves requests that are answered by nothing more than that they were taken in.
    fn take_note(
        &mut self,
        slot: Slot,
        message: &Message<'_>,
        host: &mut dyn Host,
    ) -> Result<(), BadMessage> {
        let args = &message.args;
        match message.request {
            Request::Take
            | Request::Leave
            | Request::Exec
            | Request::ThreadExit
            | Request::ProcessExit => {
                self.take_in(slot, message.bytes)?;
                self.goes(slot, message)?;
            }
            Request::Calls => {
                let calls = unpack_calls(message.bytes)?;
                let taken = self.group.take_calls(slot, &calls);
                taken.map_err(|_| BadMessage)?;
            }
            Request::Records => {
                for record in unpack_records(message.bytes)? {
                    self.group.record(&record);
                }
            }
            Request::Wake => {
                let insn = args[1].min(COUNT_MAX);
                self.group.begin_wake(args[0], Wake { slot, insn });
            }
            Request::Woken => self.group.end_wake(args[1], args[0] as u32),
            Request::Rename => self.group.rename(slot, message.text()),
            Request::SetTimer => self.set_timer(self.threads[slot.0].process, args)?,
            _ => self.note_of_process(slot, message, host)?,
        }
        Ok(())
    }

    /// The thread, whose work is taken in, goes into a system call or ends, if it says so.
    fn goes(&mut self, slot: Slot, message: &Message<'_>) -> Result<(), BadMessage> {
        let args = &message.args;
        let pid = self.processes.pid(self.threads[slot.0].process);
        match message.request {
            Request::Leave => self.leave(slot, args)?,
            Request::Exec => {
                self.leave(slot, args)?;
                self.group.bequeath(slot, pid);
            }
            Request::ThreadExit => {
                let insn = self.threads[slot.0].position.insn.min(args[0]);
                self.group.end_thread(Wake { slot, insn });
                self.threads[slot.0].ending = Some(args[1] as i32);
                self.leave(slot, &[0; 8])?;
            }
            Request::ProcessExit => {
                let status = args[0] as i32;
                self.process_ends(pid, EndReason::Exited { status });
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in what a thread says of its process, or of other threads and processes.
    fn note_of_process(
        &mut self,
        slot: Slot,
        message: &Message<'_>,
        host: &dyn Host,
    ) -> Result<(), BadMessage> {
        let args = &message.args;
        let number = args[0] as u32;
        let process = self.threads[slot.0].process;
        match message.request {
            Request::Created => {
                let futex = (args[1] == 1).then_some(args[2]);
                self.group.expect_thread(number, Some(process), futex);
                self.group.inherit(slot, number);
            }
            Request::Stack => {
                let range = AddrRange::new(args[1], args[2]).ok_or(BadMessage)?;
                self.group.register_stack(number, range);
            }
            Request::Forking => {}
            Request::Forked => {
                self.processes.end_fork(number, host);
                if number != 0 {
                    self.group.expect_thread(number, None, None);
                    self.group.inherit(slot, number);
                }
            }
            Request::Unfollowed => self.processes.set_left_alone(process, Some(message.text())),
            Request::Stays => self.processes.set_left_alone(process, None),
            Request::NoNamespace => self.account.caveats.note_if(Caveat::NoNamespace, true),
            Request::UnfollowedFork => self.group.counters().forked_children += 1,
            _ => return Err(BadMessage),
        }
        Ok(())
    }

    /// The thread waits for the others.
    fn wait(&mut self, speaker: Speaker, message: &Message<'_>) -> Result<(), BadMessage> {
        let Speaker { slot, channel } = speaker;
        self.take_in(slot, message.bytes)?;
        self.late.retain(|late| *late != slot);
        match message.args[0] {
            1 => self.group.park_for_turn(slot),
            _ => self.group.park(slot),
        }
        self.actions.push(Action::Take { channel });
        Ok(())
    }

    /// The thread has waited for too long. It may have missed that it was released.
    fn timed_out(&mut self, speaker: Speaker, host: &dyn Host) {
        let Speaker { slot, channel } = speaker;
        if let Some(budget) = self.group.start(slot) {
            return self.continues(slot, budget);
        }
        self.actions.push(Action::Take { channel });
        self.late.push(slot);
        self.go_on();
        self.let_late_go(host);
    }

    /// A thread is back from a system call. It runs at once, or waits for its waker's time.
    fn rejoin(&mut self, speaker: Speaker, args: &[u64; 8]) -> Result<(), BadMessage> {
        let Speaker { slot, channel } = speaker;
        if self.group.state(slot) != State::Away {
            return Err(BadMessage);
        }
        if self.threads[slot.0].ending.take().is_some() {
            self.group.cancel_end(slot);
        }
        let window = self.config.window;
        let budget = match args[0] {
            1 => self.group.rejoin_woken(slot, args[1], window),
            2 => {
                self.group.rejoin_unsure(slot, args[1]);
                None
            }
            3 if self.group.rejoin_late(slot) => None,
            _ => Some(self.group.rejoin(slot, window)),
        };
        match budget {
            Some(budget) => self.continues(slot, budget),
            None => self.actions.push(Action::Take { channel }),
        }
        Ok(())
    }

    /// The thread goes into a system call that may block, or to its end.
    fn leave(&mut self, slot: Slot, args: &[u64; 8]) -> Result<(), BadMessage> {
        let futex = (args[0] == 1).then_some(args[1]);
        match (self.group.state(slot), futex) {
            (State::Running, Some(futex)) => self.group.leave_for(slot, futex),
            (State::Running, None) => self.group.leave(slot),
            // It runs unrecorded for a while.
            (State::Away, _) => {}
            _ => return Err(BadMessage),
        }
        if args[2] == 1 {
            let delay = args[3].min(COUNT_MAX);
            self.group.set_alarm(slot, Cycles(delay));
        }
        Ok(())
    }

    /// Takes over the accesses of a thread.
    fn take_in(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), BadMessage> {
        let thread = &self.threads[slot.0];
        let doings = unpack_doings(bytes, thread.position, thread.last)?;
        let doings = doings.doings();
        let owners = doings.taken.iter().map(|taken| taken.owner.0 as usize);
        if owners.max() >= Some(self.threads.len()) {
            return Err(BadMessage);
        }
        let thread = &mut self.threads[slot.0];
        thread.position = doings.position;
        if let Some(last) = doings.events.last() {
            thread.last = last.position();
        }
        if self.config.has_callers {
            let paths = unpack_paths(bytes, doings.taken.len()).zip(doings.events);
            let paths = paths.filter(|(_, event)| event.op != AccessOp::Fence);
            let taken = self.group.take_paths(slot, paths.map(|(path, _)| path));
            taken.map_err(|_| BadMessage)?;
        }
        self.group.take_in(slot, doings);
        Ok(())
    }

    fn send_memory(&mut self, speaker: Speaker, message: &Message<'_>) {
        let process = self.threads[speaker.slot.0].process;
        self.actions.push(Action::SendMemory {
            channel: speaker.channel,
            pid: self.processes.pid(process),
            socket: message.args[0] as i32,
        });
    }

    /// Number of an object that processes share; 0 when there are too many.
    fn object(&mut self, key: [u64; 3]) -> u32 {
        let next = SHARED_FIRST + self.objects.len() as u32;
        match self.objects.get(&key) {
            Some(number) => *number,
            None if next < SHARED_END => *self.objects.entry(key).or_insert(next),
            None => 0,
        }
    }
}
