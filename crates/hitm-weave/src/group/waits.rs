//! Waits in system calls, and what ends them.

use hitm_base::{CodeAddr, Cycles, LineAddr, ThreadId};
use hitm_trace::{Turn, Waker};

use super::parked::{Found, Parked};
use super::waited::Slept;
use super::{Group, LAST_USED, State};
use crate::wakes::Wake;
use crate::{Slot, ThreadEvent};

/// A thread or futex about which the host knows more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// A thread that was created and has not come, by the operating system's number.
    Newcomer(u32),
    /// A futex where a wait was ended, and nobody has come back.
    Futex(u64),
    /// A thread whose time-out is over, and that has not come back.
    Alarm(Slot),
}

/// A sleep at a futex.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sleep {
    futex: u64,
    /// The instruction that used the futex last before.
    code: CodeAddr,
    /// Time that the thread had been away by then.
    away_before: Cycles,
    /// A wake ended it, and not its own time.
    is_woken: bool,
}

impl Group {
    /// The thread goes into a wait at `futex`.
    pub fn leave_for(&mut self, slot: Slot, futex: u64) {
        self.leave(slot);
        let member = &mut self.members[slot.0];
        member.wakes_before = self.wakes.count();
        let used = member.last_used.iter().rev();
        let at_futex = used.clone().find(|used| used.0 == LineAddr::of(futex));
        let code = at_futex.unwrap_or(&member.last_used[LAST_USED - 1]).1;
        member.sleep = Some(Sleep {
            futex,
            code,
            away_before: self.weave.away(slot),
            is_woken: false,
        });
        self.expected.begin_wait(slot, futex);
    }

    /// Counts the sleep from which the thread has come back, whose length is known by now.
    pub(super) fn note_sleep(&mut self, slot: Slot) {
        let member = &mut self.members[slot.0];
        if let Some(sleep) = member.sleep.take() {
            let slept = Slept {
                futex: sleep.futex,
                code: sleep.code,
                time: self.weave.away(slot).saturating_sub(sleep.away_before),
                is_woken: sleep.is_woken,
            };
            if slept.is_woken {
                let last = &member.last_locked;
                member.parked = Parked::new(slept.futex, slept.code, slept.time, last);
            }
            self.waited.slept(slot, &slept);
        }
    }

    /// Looks if the thread tries a lock for which it may have slept.
    pub(super) fn look_for_lock(&mut self, slot: Slot, events: &[ThreadEvent]) {
        let member = &mut self.members[slot.0];
        let Some(parked) = &mut member.parked else {
            return;
        };
        match parked.look(events) {
            Found::Later => return,
            Found::None => {}
            Found::Lock(lock) => {
                let parked = *parked;
                self.waited.slept_for(slot, &parked, lock);
            }
        }
        self.members[slot.0].parked = None;
    }

    /// The thread is back from a system call; returns its budget.
    pub fn rejoin(&mut self, slot: Slot, window: Cycles) -> u64 {
        self.expected.end_wait(slot, false);
        self.alarms.forget(slot);
        self.weave.join(slot);
        self.record_return(slot, None);
        self.members[slot.0].state = State::Running;
        self.present_count += 1;
        self.weave.budget(slot, window)
    }

    /// The thread is back from a wait at `futex`, which a wake ended. It waits until its waker's time
    /// is known, and begins then, later by what a wake costs. Returns its budget if nobody knows who
    /// woke it: it runs at once.
    pub fn rejoin_woken(&mut self, slot: Slot, futex: u64, window: Cycles) -> Option<u64> {
        self.alarms.forget(slot);
        if let Some(sleep) = &mut self.members[slot.0].sleep {
            sleep.is_woken = true;
        }
        let waker = self.wakes.of(futex).filter(|wake| wake.slot != slot);
        let Some(wake) = waker else {
            self.expected.end_wait(slot, true);
            return Some(self.rejoin(slot, window));
        };
        self.expected.end_wait(slot, true);
        self.return_after(slot, wake);
        self.present_count += 1;
        self.park(slot);
        None
    }

    /// The thread is back from `futex`, which had another value when it was to sleep there. If somebody
    /// changed it while the thread was on its way, and wakes, the thread would have slept: that is known
    /// when all have come to the next round.
    pub fn rejoin_unsure(&mut self, slot: Slot, futex: u64) {
        self.alarms.forget(slot);
        self.expected.end_wait(slot, false);
        self.members[slot.0].unsure = Some(futex);
        self.present_count += 1;
        self.park(slot);
    }

    /// Brings back those of which it was not known if they would have slept.
    pub(super) fn return_unsure(&mut self) {
        for index in 0..self.parked.len() {
            let slot = self.parked[index];
            let member = &mut self.members[slot];
            let Some(futex) = member.unsure.take() else {
                continue;
            };
            let waker = self.wakes.after(futex, member.wakes_before);
            match waker.filter(|wake| wake.slot != Slot(slot)) {
                Some(wake) => self.return_after(Slot(slot), wake),
                None => {
                    self.weave.join(Slot(slot));
                    self.record_return(Slot(slot), None);
                }
            }
        }
    }

    /// The thread comes back when its waker's time is known, later by what a wake costs.
    fn return_after(&mut self, slot: Slot, wake: Wake) {
        let delay = self.wake_cost.0 as i64;
        self.record_return(
            slot,
            Some(Waker {
                thread: ThreadId(wake.slot.0 as u32),
                insn: wake.insn,
                delay,
            }),
        );
        self.weave.wake(slot, wake, delay);
    }

    /// Returns true if a woken thread waits until its waker's time is known.
    pub fn is_returning(&self, slot: Slot) -> bool {
        self.weave.is_returning(slot)
    }

    /// A thread is about to wake those that wait at `futex`.
    pub fn begin_wake(&mut self, futex: u64, wake: Wake) {
        self.wakes.asked(futex, wake);
        self.waited.wakes(wake.slot, futex);
        self.expected.begin_wake(futex);
    }

    /// A wake at `futex` made `count` threads runnable.
    pub fn end_wake(&mut self, futex: u64, count: u32) {
        self.expected.end_wake(futex, count);
    }

    /// The thread `tid` of a process, or a process, was created. At its end it wakes those that wait at
    /// `futex`.
    pub fn expect_thread(&mut self, tid: u32, process: Option<u32>, futex: Option<u64>) {
        let known = self
            .slot_of(tid)
            .filter(|slot| !self.members[*slot].is_gone);
        self.expected.expect_thread(tid, process, futex);
        match known {
            Some(slot) => {
                self.members[slot].ends_at = futex;
                self.expected.arrive(tid);
            }
            None => {
                futex.and_then(|futex| self.ends_of_newcomers.insert(tid, futex));
            }
        }
    }

    /// Returns true if other threads of the process were created before the thread `tid` and have not come:
    /// threads get their places in the order of their creation, not in that in which the host runs them.
    pub fn has_earlier(&self, tid: u32, process: u32) -> bool {
        self.expected.has_earlier(tid, process)
    }

    /// A thread is at its end.
    pub fn end_thread(&mut self, wake: Wake) {
        self.wakes.ended(wake);
        if let Some(futex) = self.members[wake.slot.0].ends_at {
            self.wakes.asked(futex, wake);
            self.expected.end_at(futex);
        }
    }

    /// The thread was about to end, and goes on: nobody is woken by its end.
    pub fn cancel_end(&mut self, slot: Slot) {
        if let Some(futex) = self.members[slot.0].ends_at {
            self.expected.cancel_end(futex);
        }
    }

    /// Returns true if the others wait for threads that the host knows more about.
    pub fn has_doubts(&self) -> bool {
        !self.expected.is_empty() || self.alarms.is_any_rung()
    }

    /// Threads that may sleep or be on their way back: the driver tells of those that it finds asleep
    /// ([`Group::settle`]).
    pub fn unsettled(&self) -> Vec<Slot> {
        self.expected.unsettled().collect()
    }

    /// The thread has been seen asleep after its last system call began.
    pub fn settle(&mut self, slot: Slot) {
        self.expected.settle(slot);
    }

    /// Returns the threads and futexes that are waited for, each with the operating system's numbers of the
    /// threads that would come. If all of those sleep for long, the wait was in vain ([`Group::give_up`]).
    pub fn doubts(&self) -> Vec<(Doubt, Vec<u32>)> {
        let newcomers = self.expected.newcomers();
        let newcomers = newcomers.map(|tid| (Doubt::Newcomer(tid), vec![tid]));
        let woken = self.expected.woken().into_iter().map(|(futex, slots)| {
            let tids = slots.iter().map(|slot| self.tid(*slot));
            (Doubt::Futex(futex), tids.collect())
        });
        let rung = self.alarms.rung();
        let rung = rung.map(|slot| (Doubt::Alarm(slot), vec![self.tid(slot)]));
        newcomers.chain(woken).chain(rung).collect()
    }

    /// Nobody comes.
    pub fn give_up(&mut self, doubt: &Doubt) {
        match doubt {
            Doubt::Newcomer(tid) => self.expected.arrive(*tid),
            Doubt::Futex(futex) => self.expected.give_up(*futex),
            Doubt::Alarm(slot) => self.alarms.give_up(*slot),
        }
        self.counters.given_up += 1;
    }

    /// The operating system's number of a thread.
    pub fn tid(&self, slot: Slot) -> u32 {
        self.members[slot.0].tid
    }

    /// Tells that a thread is back, and who woke it.
    pub(super) fn record_return(&mut self, slot: Slot, waker: Option<Waker>) {
        let thread = ThreadId(slot.0 as u32);
        self.record_turn(Turn::Returned { thread, waker });
    }
}
