//! The protocol between recorded processes and their recorder, as a state machine.
//!
//! A driver passes on what processes say ([`Session::serve`]), lets those continue that may
//! ([`Session::go_on`]), looks around now and then ([`Session::look`]), and does after each call what the
//! session asks for ([`Session::take_actions`]). Nothing here waits, reads a clock or touches the board. What
//! only the host's kernel knows is asked of a [`Host`]. Nothing that processes say is trusted, and one that
//! dies at any moment only leaves.

mod account;
mod action;
mod affinity;
mod caveats;
mod doubts;
mod ends;
mod host;
mod join;
mod processes;
mod rounds;
#[cfg(test)]
mod tests;
mod threads;
mod timers;

pub use account::Account;
pub use action::Action;
pub use caveats::Caveats;
pub use host::{Host, Status};

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{Cycles, LineAddr};
use hitm_trace::EndReason;

use self::doubts::Doubts;
use self::processes::Processes;
use self::threads::Thread;
use self::timers::Ringers;
use crate::board::{Answer, BadMessage, Incoming, Message, Request};
use crate::{Group, Slot};

/// Settings of a session.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Cycles that a thread's clock may run ahead of the slowest.
    pub window: Cycles,
    /// Set if threads tell who called the functions that access memory.
    pub has_callers: bool,
}

/// All processes of one recording, as they talk to the recorder.
#[derive(Debug)]
pub struct Session {
    group: Group,
    config: Config,
    /// By slot.
    threads: Vec<Thread>,
    /// Slots of the threads that have channels.
    slots: BTreeMap<u32, Slot>,
    processes: Processes,
    ringers: Ringers,
    /// Numbers of objects that processes share, by device, inode and kind.
    objects: BTreeMap<[u64; 3], u32>,
    /// Requests of new threads that came before others.
    early: Vec<Incoming>,
    /// Threads that have waited for too long.
    late: Vec<Slot>,
    doubts: Doubts,
    /// End of the first process, once it has ended.
    first_end: Option<EndReason>,
    account: Account,
    bad_messages: u64,
    released: Vec<Slot>,
    actions: Vec<Action>,
}

/// The thread that says something, and the channel for its answer.
#[derive(Debug, Clone, Copy)]
struct Speaker {
    slot: Slot,
    channel: u32,
}

impl Session {
    /// A session in which nobody runs yet.
    pub fn new(group: Group, config: Config) -> Session {
        Session {
            group,
            config,
            threads: Vec::new(),
            slots: BTreeMap::new(),
            processes: Processes::default(),
            ringers: Ringers::default(),
            objects: BTreeMap::new(),
            early: Vec::new(),
            late: Vec::new(),
            doubts: Doubts::default(),
            first_end: None,
            account: Account::default(),
            bad_messages: 0,
            released: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Number and pid of the running process that says something; none if there is none.
    pub fn process_of(&self, incoming: &Incoming) -> Option<(u32, u32)> {
        let process = self.processes.named(incoming.process)?;
        Some((process, self.processes.pid(process)))
    }

    /// Lines that were handed over ([`Group::handed_over`]).
    pub fn handed_over(&mut self) -> &mut BTreeSet<LineAddr> {
        self.group.handed_over()
    }

    /// The threads and their clocks.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns true once the recording has ended.
    pub fn is_over(&self) -> bool {
        self.group.is_finished()
    }

    /// The findings about processes, once the recording has ended.
    pub fn into_account(self) -> Account {
        self.account
    }

    /// Actions for the driver, in this order, since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Takes in what a process says. Threads that wait for it continue by [`Session::go_on`].
    pub fn serve(&mut self, incoming: &Incoming, host: &mut dyn Host) {
        let Some(mut message) = incoming.message() else {
            return self.refuse(incoming);
        };
        self.use_own_numbers(incoming, &mut message, host);
        if self.comes_early(incoming.process, &message) {
            return self.early.push(incoming.clone());
        }
        let slot = self.slots.get(&incoming.channel).copied();
        let result = match slot.filter(|_| message.request != Request::Attach) {
            Some(slot) => {
                let channel = incoming.channel;
                self.serve_thread(Speaker { slot, channel }, &message, host)
            }
            None => self.serve_process(incoming, &message, host),
        };
        if result.is_err() {
            self.refuse(incoming);
        }
    }

    /// Serves a channel that no thread has.
    fn serve_process(
        &mut self,
        incoming: &Incoming,
        message: &Message<'_>,
        host: &mut dyn Host,
    ) -> Result<(), BadMessage> {
        match message.request {
            Request::Attach => self.attach(incoming, message, host),
            Request::Enter => self.enter(incoming.channel, message, host)?,
            Request::Close => self.actions.push(Action::Free {
                channel: incoming.channel,
            }),
            Request::ProcessGone => {
                let pid = self.pid_of(incoming);
                self.process_ends(pid, self.end_of(pid));
                self.answer(incoming.channel, &[]);
            }
            Request::NextTimer => self.next_timer(incoming),
            _ => return Err(BadMessage),
        }
        Ok(())
    }

    /// The pid of the running process that says something; 0 if there is none.
    fn pid_of(&self, incoming: &Incoming) -> u32 {
        self.process_of(incoming).map_or(0, |(_, pid)| pid)
    }

    /// Answers a request: its thread continues. Words of the answer that are not given are 0.
    fn answer(&mut self, channel: u32, words: &[u64]) {
        let mut answer = Answer::default();
        answer[..words.len()].copy_from_slice(words);
        self.actions.push(Action::Answer { channel, answer });
    }
}
