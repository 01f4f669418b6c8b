//! Timers of recorded processes, and the thread in each that lets them ring ([`Request::NextTimer`]).

use std::collections::{BTreeMap, VecDeque};

use hitm_base::Cycles;
use hitm_trace::COUNT_MAX;
use hitm_weave::board::{BadMessage, Incoming};
use hitm_weave::{Slot, TimerTimes};

use super::Engine;

/// Threads that let timers ring, by process.
#[derive(Debug, Default)]
pub(super) struct Ringers {
    /// Channels of those that wait.
    waiting: BTreeMap<u32, u32>,
    /// Timers that ring and that nobody has fetched.
    due: BTreeMap<u32, VecDeque<u64>>,
}

impl Engine {
    /// A thread sets a timer of its process, or turns it off.
    pub(super) fn set_timer(&mut self, slot: Slot, args: &[u64; 8]) -> Result<(), BadMessage> {
        let [timer, is_set, next, interval, ..] = *args;
        let times = TimerTimes {
            next: Cycles(next.min(COUNT_MAX)),
            interval: Cycles(interval.min(COUNT_MAX)),
        };
        let process = self.threads[slot.0].process;
        let times = (is_set == 1).then_some(times);
        match self.group.set_timer((process, timer), times) {
            true => Ok(()),
            false => Err(BadMessage),
        }
    }

    /// The ringer of a process has seen to its last timer and waits for the next.
    pub(super) fn next_timer(&mut self, incoming: &Incoming) {
        let Some(process) = self.processes.named(incoming.process) else {
            self.board.answer(incoming.channel, &[u64::MAX]);
            return;
        };
        let due = self.ringers.due.get_mut(&process);
        match due.and_then(VecDeque::pop_front) {
            Some(timer) => self.board.answer(incoming.channel, &[timer]),
            None => {
                self.board.take(incoming.channel);
                self.ringers.waiting.insert(process, incoming.channel);
                self.group.has_rung(process);
                self.rounds();
            }
        }
    }

    /// Lets timers ring that are due; true if there are any.
    pub(super) fn ring_timers(&mut self) -> bool {
        let due = self.group.ring_timers(self.window);
        for (process, timer) in &due {
            match self.ringers.waiting.remove(process) {
                Some(channel) => self.board.answer(channel, &[*timer]),
                None => self
                    .ringers
                    .due
                    .entry(*process)
                    .or_default()
                    .push_back(*timer),
            }
        }
        !due.is_empty()
    }

    /// The process is gone, or unrecorded from here on: its timers are the host's.
    pub(super) fn forget_timers(&mut self, process: u32) {
        self.group.forget_timers(process);
        self.ringers.due.remove(&process);
        if let Some(channel) = self.ringers.waiting.remove(&process) {
            self.board.answer(channel, &[u64::MAX]);
        }
    }
}
