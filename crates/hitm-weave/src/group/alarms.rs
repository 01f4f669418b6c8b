//! Waits that end at a time: sleeps, and system calls with a time-out, in virtual time.
//!
//! A thread that goes into such a wait is away. Its alarm goes off when the others are so far, or at once when
//! nobody runs: then time passes for all. The others wait until a thread whose alarm went off is back, so the
//! end of its wait does not depend on the host.

use std::collections::BTreeMap;

use hitm_base::{Cycles, ThreadId};
use hitm_trace::Waker;

use super::{Group, State};
use crate::{Slot, Wake};

/// End of a thread's wait.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    /// Instruction with which the wait begins.
    insn: u64,
    /// Time from there to its end.
    delay: Cycles,
    has_rung: bool,
}

#[derive(Debug, Default)]
pub(super) struct Alarms {
    of_slots: BTreeMap<Slot, Alarm>,
    /// Alarms that went off and whose threads are not back.
    rung_count: usize,
    /// No alarm goes off before this time.
    earliest: Cycles,
}

impl Alarms {
    /// Returns true if a thread is about to be back.
    pub(super) fn is_any_rung(&self) -> bool {
        self.rung_count > 0
    }

    /// Threads that are about to be back.
    pub(super) fn rung(&self) -> impl Iterator<Item = Slot> {
        let rung = self.of_slots.iter().filter(|(_, alarm)| alarm.has_rung);
        rung.map(|(slot, _)| *slot)
    }

    /// Forgets a thread's alarm: it is back, or gone.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.take(slot);
    }

    fn take(&mut self, slot: Slot) -> Option<Alarm> {
        let alarm = self.of_slots.remove(&slot)?;
        self.rung_count -= usize::from(alarm.has_rung);
        Some(alarm)
    }

    /// Nobody waits for the thread any more.
    pub(super) fn give_up(&mut self, slot: Slot) {
        if let Some(alarm) = self.of_slots.get_mut(&slot)
            && std::mem::replace(&mut alarm.has_rung, false)
        {
            self.rung_count -= 1;
            self.of_slots.remove(&slot);
        }
    }
}

impl Group {
    /// The wait that the thread has just begun ends after `delay`, if nothing ends it before.
    pub fn set_alarm(&mut self, slot: Slot, delay: Cycles) {
        let insn = self.weave.totals(slot).insns;
        let alarm = Alarm {
            insn,
            delay,
            has_rung: false,
        };
        self.alarms.of_slots.insert(slot, alarm);
        self.alarms.earliest = Cycles::ZERO;
    }

    /// Lets the alarms within `window` of the present go off; the threads that are to come. Call it after
    /// [`Group::weave_all`].
    pub fn ring(&mut self, window: Cycles) -> Vec<Slot> {
        let until = self.now() + window;
        if self.alarms.of_slots.is_empty() || self.alarms.earliest > until {
            return Vec::new();
        }
        let mut due = Vec::new();
        self.alarms.earliest = Cycles::MAX;
        for (slot, alarm) in &mut self.alarms.of_slots {
            // What it did before may still move its clock, to a later end.
            let end = end_of(&self.weave, *slot, *alarm);
            if !alarm.has_rung && end <= until && self.weave.is_priced(*slot) {
                alarm.has_rung = true;
                due.push(*slot);
            } else {
                self.alarms.earliest = self.alarms.earliest.min(end);
            }
        }
        self.alarms.rung_count += due.len();
        due
    }

    /// Returns true if nobody runs or is about to, and an alarm or a timer is set.
    pub fn is_idle(&self) -> bool {
        let has_rung = self.alarms.is_any_rung() || self.timers.is_any_ringing();
        let is_set = !self.alarms.of_slots.is_empty() || self.timers.is_any_set();
        self.present_count == 0 && self.expected.is_empty() && !has_rung && is_set
    }

    /// Threads in system calls that may block, by the operating system's numbers. One that does not sleep is on its
    /// way back, whatever it waited for.
    pub fn away(&self) -> impl Iterator<Item = u32> {
        let members = self.members.iter();
        let away = members.filter(|member| member.state == State::Away && !member.is_gone);
        away.map(|member| member.tid)
    }

    /// Nobody runs: time passes to the first alarm or timer.
    pub fn pass_to_alarm(&mut self) {
        self.weave_all();
        let alarms = self.alarms.of_slots.iter();
        let ends = alarms.map(|(slot, alarm)| end_of(&self.weave, *slot, *alarm));
        let Some(first) = ends.chain(self.timers.first()).min() else {
            return;
        };
        let span = first.saturating_sub(self.now());
        if span > Cycles::ZERO {
            self.pass(span);
        }
    }

    /// The thread is back because its alarm went off. It waits until the others know, and begins at the end of
    /// its wait. False if it had no alarm: it is back at the present.
    pub fn rejoin_late(&mut self, slot: Slot) -> bool {
        let Some(alarm) = self.alarms.take(slot) else {
            return false;
        };
        self.expected.end_wait(slot, false);
        let (insn, delay) = (alarm.insn, alarm.delay.0 as i64);
        let thread = ThreadId(slot.0 as u32);
        self.record_return(
            slot,
            Some(Waker {
                thread,
                insn,
                delay,
            }),
        );
        self.weave.wake(slot, Wake { slot, insn }, delay);
        self.present_count += 1;
        self.park(slot);
        true
    }
}

fn end_of(weave: &crate::Weave, slot: Slot, alarm: Alarm) -> Cycles {
    weave.time_of(slot, alarm.insn) + alarm.delay
}
