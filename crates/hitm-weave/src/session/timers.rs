//! Timers of recorded processes, and the thread in each that lets them ring ([`Request::NextTimer`](crate::board::Request::NextTimer)).

use std::collections::{BTreeMap, VecDeque};

use hitm_base::Cycles;
use hitm_trace::COUNT_MAX;

use super::{Action, Session};
use crate::TimerTimes;
use crate::board::{BadMessage, Incoming};

/// Threads that let timers ring, by process.
#[derive(Debug, Default)]
pub(super) struct Ringers {
    /// Channels of those that wait.
    waiting: BTreeMap<u32, u32>,
    /// Timers that ring and that nobody has fetched.
    due: BTreeMap<u32, VecDeque<u64>>,
}

impl Session {
    /// A thread sets a timer of its process, or turns it off.
    pub(super) fn set_timer(&mut self, process: u32, args: &[u64; 8]) -> Result<(), BadMessage> {
        let [timer, is_set, next, interval, ..] = *args;
        let times = TimerTimes {
            next: Cycles(next.min(COUNT_MAX)),
            interval: Cycles(interval.min(COUNT_MAX)),
        };
        let times = (is_set == 1).then_some(times);
        match self.group.set_timer((process, timer), times) {
            true => Ok(()),
            false => Err(BadMessage),
        }
    }

    /// The ringer of a process has seen to its last timer and waits for the next.
    pub(super) fn next_timer(&mut self, incoming: &Incoming) {
        let channel = incoming.channel;
        let Some(process) = self.processes.named(incoming.process) else {
            return self.answer(channel, &[u64::MAX]);
        };
        let due = self.ringers.due.get_mut(&process);
        match due.and_then(VecDeque::pop_front) {
            Some(timer) => self.answer(channel, &[timer]),
            None => {
                self.actions.push(Action::Take { channel });
                self.ringers.waiting.insert(process, channel);
                self.group.has_rung(process);
            }
        }
    }

    /// Lets timers ring that are due; true if there are any.
    pub(super) fn ring_timers(&mut self) -> bool {
        let due = self.group.ring_timers(self.config.window);
        for (process, timer) in &due {
            match self.ringers.waiting.remove(process) {
                Some(channel) => self.answer(channel, &[*timer]),
                None => {
                    let due = self.ringers.due.entry(*process);
                    due.or_default().push_back(*timer);
                }
            }
        }
        !due.is_empty()
    }

    /// The process is gone, or unrecorded from here on: its timers are the host's.
    pub(super) fn forget_timers(&mut self, process: u32) {
        self.group.forget_timers(process);
        self.ringers.due.remove(&process);
        if let Some(channel) = self.ringers.waiting.remove(&process) {
            self.answer(channel, &[u64::MAX]);
        }
    }
}
