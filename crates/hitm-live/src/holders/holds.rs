//! Holds of a lock whose word is watched, one by one.

use super::thread::{State, Thread};
use crate::recording::LiveHolds;

/// Holds in the time in which all writes are seen.
#[derive(Debug, Default)]
pub(super) struct Holds {
    sums: LiveHolds,
    /// Begin of the time that is not counted yet; none while writes are missed.
    watched_from: Option<u64>,
    /// The hold that lasts, if its begin was seen.
    present: Option<Hold>,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    tid: u32,
    begin: u64,
    /// Minor faults of the thread until then.
    minor_faults: u32,
}

impl Holds {
    /// From `at` on no write is missed.
    pub(super) fn watch_from(&mut self, at: u64) {
        self.watched_from = Some(at);
        self.present = None;
    }

    /// Counts the time up to `at`.
    pub(super) fn watch_until(&mut self, at: u64) {
        if let Some(from) = &mut self.watched_from {
            self.sums.watched_ns += at.saturating_sub(*from);
            *from = at.max(*from);
        }
    }

    /// From `at` on writes are missed.
    pub(super) fn end_watch(&mut self, at: u64) {
        self.watch_until(at);
        (self.watched_from, self.present) = (None, None);
    }

    /// A thread takes the lock.
    pub(super) fn begin(&mut self, tid: u32, thread: &Thread, at: u64) {
        self.sums.takes += 1;
        self.present = Some(Hold {
            tid,
            begin: at,
            minor_faults: thread.minor_faults,
        });
    }

    /// A thread releases it.
    pub(super) fn release(&mut self, tid: u32, thread: &Thread, at: u64) {
        let Some(hold) = self.present.take().filter(|hold| hold.tid == tid) else {
            return;
        };
        let sums = &mut self.sums;
        let mut ran_ns = 0;
        for part in thread.stretches(hold.begin, at) {
            let ns = part.to - part.from;
            match part.state {
                State::Running => {
                    let faults = thread.faults(part.from, part.to);
                    let major_ns = faults.major_ns.min(ns);
                    let minor_ns = faults.minor_ns.min(ns - major_ns);
                    sums.major_fault_ns += major_ns;
                    sums.minor_fault_ns += minor_ns;
                    sums.running_ns += ns - major_ns - minor_ns;
                    ran_ns += ns;
                }
                State::Asleep(_) | State::Waking => sums.asleep_ns += ns,
                State::Faulting => sums.major_fault_ns += ns,
                State::Preempted(_) | State::Throttled | State::Unknown => sums.off_ns += ns,
            }
        }
        sums.holds += 1;
        let ran_us: u64 = ran_ns / 1000;
        let squares = sums.ran_us_squares;
        sums.ran_us_squares = squares.saturating_add(ran_us.saturating_mul(ran_us));
        sums.minor_faults += u64::from(thread.minor_faults.wrapping_sub(hold.minor_faults));
    }

    /// Takes the sums, if the word was watched.
    pub(super) fn take(&mut self) -> Option<LiveHolds> {
        let sums = std::mem::take(&mut self.sums);
        (sums.watched_ns > 0).then_some(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::super::thread::Faults;
    use super::*;

    #[test]
    fn a_hold_has_the_states_of_its_thread() {
        let mut thread = Thread::new(State::Running);
        let faults = |minor_ns| Faults {
            minor_ns,
            major_ns: 0,
        };
        let mut holds = Holds::default();
        holds.watch_from(1_000);
        thread.mark(10_000, faults(500));
        thread.minor_faults = u32::MAX;
        holds.begin(7, &thread, 10_000);
        thread.enter(State::Preempted(0), 14_000);
        thread.enter(State::Running, 20_000);
        thread.enter(State::Asleep(None), 21_000);
        thread.enter(State::Waking, 22_000);
        thread.enter(State::Running, 23_000);
        thread.mark(14_000, faults(1_500));
        thread.mark(24_000, faults(1_500));
        thread.minor_faults = 2;
        holds.release(7, &thread, 24_000);
        // Another one's hold whose begin nobody has seen.
        holds.release(8, &thread, 30_000);
        holds.begin(7, &thread, 40_000);
        holds.end_watch(51_000);
        holds.release(7, &thread, 60_000);
        let expected = LiveHolds {
            watched_ns: 50_000,
            takes: 2,
            holds: 1,
            running_ns: 5_000,
            minor_fault_ns: 1_000,
            asleep_ns: 2_000,
            off_ns: 6_000,
            minor_faults: 3,
            ran_us_squares: 36,
            ..LiveHolds::default()
        };
        assert_eq!(holds.take(), Some(expected));
        assert_eq!(holds.take(), None);
    }
}
