//! The visits that are served before one that waits in its line's queue.
//!
//! A line serves one CPU after the other. What a visit waited for is what was served before it, and that might have
//! been elsewhere: on another layout visits that met nobody would not have been, and those to other bytes would have
//! been at another line, at the same time. So the wait is that of the visits ahead, in proportion to the time for
//! which each of them had the line, and not of the one that waits.

use std::collections::VecDeque;

use hitm_base::{Cycles, ThreadId};

/// Visits of which a queue is known to consist, at most: the last ones. Longer waits are divided among these.
const LENGTH_MAX: usize = 64;

/// Bytes for which the visits ahead were told apart, for one kind of visit.
const AHEAD_MAX: usize = 4;

/// A visit that was served.
#[derive(Debug, Clone, Copy)]
struct Served {
    thread: ThreadId,
    /// Cycles for which it had the line's queue to itself.
    service: u64,
    ahead: Ahead,
}

/// Bytes that a visit ahead was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ahead {
    /// The bytes on which it met others; 0 if it would not have been needed on another layout.
    pub met: u64,
    /// The bytes that it used.
    pub used: u64,
}

/// Cycles that visits waited, by what was served before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behind {
    waits: [(Ahead, Cycles); AHEAD_MAX],
}

impl Behind {
    /// Waits by the bytes of those ahead; there may be some without cycles.
    pub fn iter(&self) -> impl Iterator<Item = (Ahead, Cycles)> + '_ {
        self.waits.iter().copied()
    }

    /// Adds a wait. Of more kinds of visits ahead than are told apart it is not known who they were.
    pub(super) fn add(&mut self, ahead: Ahead, cycles: Cycles) {
        let is_one = |one: &&mut (Ahead, Cycles)| one.1 == Cycles::ZERO || one.0 == ahead;
        if let Some(one) = self.waits.iter_mut().find(is_one) {
            one.0 = ahead;
            one.1 = super::saturating_sum(one.1, cycles);
        }
    }

    pub(super) fn merge(&mut self, other: &Behind) {
        for (ahead, cycles) in other.iter().filter(|(_, cycles)| *cycles > Cycles::ZERO) {
            self.add(ahead, cycles);
        }
    }
}

/// The visits that a line served last.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    served: VecDeque<Served>,
    /// Number of the first of them.
    first: u64,
}

impl Queue {
    /// A thread was served. Returns the number of its visit.
    pub(super) fn serve(&mut self, thread: ThreadId, service: u64) -> u64 {
        if self.served.len() == LENGTH_MAX {
            self.served.pop_front();
            self.first += 1;
        }
        self.served.push_back(Served {
            thread,
            service,
            ahead: Ahead::default(),
        });
        self.first + self.served.len() as u64 - 1
    }

    /// Tells what a visit has done since it was served.
    pub(super) fn tell(&mut self, visit: u64, done: Ahead) {
        let index = visit.checked_sub(self.first);
        let served = index.and_then(|index| self.served.get_mut(index as usize));
        if let Some(served) = served {
            served.ahead = done;
        }
    }

    /// Divides `lost` cycles of a wait that took `queued` cycles among the visits ahead.
    pub(super) fn divide(&self, thread: ThreadId, queued: u64, lost: u64) -> Behind {
        let mut behind = Behind::default();
        let others = || self.served.iter().rev().filter(|one| one.thread != thread);
        let mut length = 0;
        let ahead_count = others()
            .take_while(|one| {
                let is_ahead = length < queued;
                length += one.service;
                is_ahead
            })
            .count();
        let whole: u64 = others().take(ahead_count).map(|one| one.service).sum();
        let (mut upto, mut given) = (0, 0);
        for one in others().take(ahead_count) {
            upto += one.service;
            let part = (u128::from(lost) * u128::from(upto)).checked_div(whole.into());
            let part = part.unwrap_or(0) as u64;
            behind.add(one.ahead, Cycles(part - given));
            given = part;
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ahead = Ahead {
        met: 0xff,
        used: 0xff,
    };
    const B: Ahead = Ahead {
        met: 0xff00,
        used: 0xff00,
    };

    fn waits(behind: &Behind) -> Vec<(Ahead, u64)> {
        let waits = behind.iter().filter(|(_, cycles)| *cycles > Cycles::ZERO);
        waits.map(|(ahead, cycles)| (ahead, cycles.0)).collect()
    }

    #[test]
    fn a_wait_is_of_those_who_were_served_meanwhile() {
        let mut queue = Queue::default();
        for (thread, service, done) in [(1, 500, A), (2, 300, A), (3, 100, B), (0, 100, B)] {
            let visit = queue.serve(ThreadId(thread), service);
            queue.tell(visit, done);
        }
        // The visit of the thread itself was before its wait, and the first one was over by then.
        let behind = queue.divide(ThreadId(0), 400, 200);
        assert_eq!(waits(&behind), [(B, 50), (A, 150)]);
        let behind = queue.divide(ThreadId(0), 0, 0);
        assert_eq!(waits(&behind), []);
    }

    #[test]
    fn a_wait_for_nobody_known_is_of_nobody() {
        let queue = Queue::default();
        assert_eq!(waits(&queue.divide(ThreadId(0), 400, 400)), []);
    }

    #[test]
    fn few_kinds_of_visits_ahead_are_told_apart() {
        let mut behind = Behind::default();
        for used in 1..=6 {
            behind.add(Ahead { met: 0, used }, Cycles(10));
        }
        let told: u64 = behind.iter().map(|(_, cycles)| cycles.0).sum();
        assert_eq!(told, 10 * AHEAD_MAX as u64);
    }
}
