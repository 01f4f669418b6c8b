//! Virtual time as the recorded machine reads it, and as it passes while no thread is present.

use std::sync::atomic::Ordering;

use hitm_base::{Cycles, Nanos};
use hitm_weave::Group;

use super::Barrier;
use crate::parker::host_nanos;

impl Barrier {
    /// Virtual time since the start of the recording, in nanoseconds. Waits for nothing.
    pub(crate) fn virtual_nanos(&self) -> u64 {
        let since_over = match self.over_since_nanos.load(Ordering::Relaxed) {
            0 => 0,
            since => host_nanos().saturating_sub(since),
        };
        self.nanos.load(Ordering::Relaxed) + since_over
    }

    /// Returns true if all threads are away and virtual time is stopped: only an event at a later
    /// time can bring one of them back.
    pub(crate) fn awaits_event(&self) -> bool {
        self.all_away.load(Ordering::Acquire) && !self.is_over()
    }

    /// Advances virtual time to `nanos`, if all threads are away and it is earlier than that.
    pub(crate) fn pass_idle_time(&self, nanos: u64) {
        let _inner = self.inner.lock();
        if self.awaits_event() {
            self.nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// A thread is present again: the time for which none was has passed for all.
    pub(super) fn end_idle_time(&self, group: &mut Group) {
        if !self.all_away.swap(false, Ordering::Relaxed) {
            return;
        }
        let passed = Nanos(self.nanos.load(Ordering::Relaxed) as f64);
        // Not a cycle too few, or a timer that has expired would lie in the future again.
        let until = self.clock.cycles(passed) + Cycles(1);
        let idle = until.saturating_sub(group.now());
        if idle > Cycles(1) {
            group.pass(idle);
            self.publish_time(group);
        }
    }

    /// Lets the machine see how late it is.
    pub(super) fn publish_time(&self, group: &Group) {
        let nanos = self.clock.nanos(group.now()).0 as u64;
        self.nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}
