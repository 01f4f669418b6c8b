//! Threads that are waited for, and that may not come.

use std::time::Duration;

use super::{Host, Session};
use crate::{Doubt, State};

/// Longest wait for a thread that could run and does not come: on the busiest host it would.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Doubts at the last look.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Those whose threads slept, or were gone. The next look gives up those that remain so.
    asleep: Vec<Doubt>,
    /// All of them.
    all: Vec<Doubt>,
    /// The time since which they are the same.
    since: Duration,
}

impl Session {
    /// Finds out which threads have fallen asleep, when nobody can run before that is known; false while
    /// it is unknown.
    pub fn settle(&mut self, host: &dyn Host) -> bool {
        if self.group.running_count() > 0 || !self.group.has_doubts() {
            return true;
        }
        let unsettled = self.group.unsettled();
        for slot in &unsettled {
            if host.is_asleep(self.group.tid(*slot)) && !host.has_requests() {
                self.group.settle(*slot);
            }
        }
        self.go_on();
        self.group.unsettled().is_empty()
    }

    /// Looks for threads that come, or do not. `now` is the host's time since any moment.
    pub fn look(&mut self, now: Duration, host: &mut dyn Host) {
        self.doubt(now, host);
        self.serve_early(host);
        self.let_late_go(host);
    }

    /// Gives up waiting for threads that have slept, or been gone, at this look and the one before, or
    /// that do not come for very long.
    fn doubt(&mut self, now: Duration, host: &dyn Host) {
        let expected = self.group.doubts();
        let all: Vec<Doubt> = expected.iter().map(|(doubt, _)| doubt.clone()).collect();
        if self.doubts.all != all {
            self.doubts.all = all;
            self.doubts.since = now;
        }
        let is_late = now.saturating_sub(self.doubts.since) > WAIT_MAX;
        let mut asleep = Vec::new();
        for (doubt, tids) in expected {
            if tids.iter().any(|tid| !host.is_asleep(*tid)) && !is_late {
                continue;
            }
            match self.doubts.asleep.contains(&doubt) || is_late {
                true => self.group.give_up(&doubt),
                false => asleep.push(doubt),
            }
        }
        self.doubts.asleep = asleep;
        self.go_on();
    }

    /// Lets threads that have waited for too long run a block, if those that they wait for sleep: QEMU may
    /// wait for them. While one of those can run, the host is busy, and the threads go on waiting.
    pub(super) fn let_late_go(&mut self, host: &dyn Host) {
        if self.late.is_empty() || self.somebody_comes(host) {
            return;
        }
        for slot in std::mem::take(&mut self.late) {
            // A woken thread is in a system call, where QEMU does not wait for it.
            if self.group.state(slot) == State::Parked && !self.group.is_returning(slot) {
                self.group.time_out();
                self.group.unpark(slot);
                self.continues(slot, 1);
            }
        }
    }

    /// Returns true if one of the threads that the others wait for can run.
    fn somebody_comes(&self, host: &dyn Host) -> bool {
        let running = self.group.running().map(|slot| self.group.tid(slot));
        let expected = self.group.doubts().into_iter().flat_map(|(_, tids)| tids);
        let mut awaited = running.chain(expected);
        awaited.any(|tid| !host.is_asleep(tid)) || host.has_requests()
    }
}
