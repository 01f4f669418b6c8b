//! Rounds: when all wait, what they did is priced, and some of them continue.

use hitm_trace::{EndReason, PROCESS_SHIFT};

use super::{Action, Host, Session};
use crate::Slot;
use crate::board::{Answer, Mail};

impl Session {
    /// Weaves, and releases threads, if every present thread waits.
    pub fn go_on(&mut self) {
        if !self.group.everybody_is_here() || self.is_over() {
            return;
        }
        self.group.weave_all();
        if self.group.stop_requested() {
            return self.finish(EndReason::Stopped);
        }
        self.give_back();
        self.tell_time();
        if self.ring() {
            return; // The others wait until those are back.
        }
        self.group.release(self.config.window, &mut self.released);
        for slot in std::mem::take(&mut self.released) {
            let answer = match self.group.start(slot) {
                Some(budget) => self.answer_to(slot, budget),
                None => continue,
            };
            let channel = self.threads[slot.0].channel;
            self.actions.push(Action::Release {
                slot,
                channel,
                answer,
            });
        }
    }

    /// A thread was released with this answer and had asked for something else by then: it has waited for too
    /// long, and finds by its question that it may continue.
    pub fn misses(&mut self, slot: Slot, answer: &Answer) {
        self.group.release_later(slot, answer[0]);
    }

    /// Lets time pass to the first end of a wait, when nobody runs and nobody is about to; false while that is
    /// unknown.
    pub fn pass_idle_time(&mut self, host: &dyn Host) -> bool {
        if !self.group.is_idle() {
            return true;
        }
        if !self.group.away().all(|tid| host.is_asleep(tid)) || host.has_requests() {
            return false;
        }
        self.group.pass_to_alarm();
        self.tell_time();
        self.ring();
        true
    }

    fn tell_time(&mut self) {
        let now = self.group.now();
        self.actions.push(Action::TellTime { now });
    }

    /// Wakes threads whose waits end, and lets timers ring; true if there are any.
    fn ring(&mut self) -> bool {
        let due = self.group.ring(self.config.window);
        for slot in &due {
            let channel = self.threads[slot.0].channel;
            self.actions.push(Action::Ring { channel });
        }
        self.ring_timers() || !due.is_empty()
    }

    /// Lets a thread continue that has asked.
    pub(super) fn continues(&mut self, slot: Slot, budget: u64) {
        let answer = self.answer_to(slot, budget);
        self.answer(self.threads[slot.0].channel, &answer);
    }

    /// Answer to a thread that continues: its budget, the time, its clock, its CPU, and instructions until its
    /// turn at locks is over.
    fn answer_to(&self, slot: Slot, budget: u64) -> Answer {
        let clock = self.group.weave().clock(slot);
        let cpu = self.group.cpu(slot).0.into();
        let turn = self.group.turn(slot);
        [budget, self.group.now().0, clock.0, cpu, turn]
    }

    /// Tells processes of lines that only one of their threads uses any more.
    fn give_back(&mut self) {
        const LOWER: u64 = (1 << PROCESS_SHIFT) - 1;
        for lonely in self.group.take_lonely() {
            let addr = lonely.line.first_byte();
            let number = (addr >> PROCESS_SHIFT) as u32;
            let Some(mailbox) = self.processes.mailbox(number) else {
                continue;
            };
            let mail = Mail {
                addr: addr & LOWER,
                thread: lonely.thread.0,
                time: lonely.time.0,
                is_written: lonely.is_written,
            };
            self.actions.push(Action::Post { mailbox, mail });
        }
    }

    /// So many lines were given back: there was room for them in mailboxes.
    pub fn has_given_back(&mut self, count: u64) {
        self.group.count_reprivatised(count);
    }
}
