//! Waiting for a lock, by what its holder does meanwhile.
//!
//! **What Linux does:** nothing: it does not know the locks of programs. `hitm live locks` finds the
//! same out from samples and tracepoints.
//!
//! **What we do:** every moment of every wait counts for the state that the holder is in at that moment.
//! Counting costs nothing here.
//!
//! **What a test could notice:** CPUs are ahead of each other by less than a transfer of a line, and a
//! state lasts at least from one change to the next by the clocks of those that change it.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::Cycles;

use super::Kernel;
use super::process::Thread;
use super::task::Task;

/// State of a lock, by its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderState {
    /// Nobody has it: those that wait sleep, or have not seen it yet.
    Free,
    /// The holder runs.
    Running,
    /// It runs, in the kernel for a page that it touched.
    Fault,
    /// It could run and has no CPU.
    Preempted,
    /// Likewise, and it was in the kernel for a page.
    PreemptedInFault,
    /// It sleeps, or has been woken and has no CPU yet.
    Asleep,
}

impl HolderState {
    /// Number of states.
    pub const COUNT: usize = 6;
}

/// The course of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Course {
    since: Cycles,
    waiters: u64,
    is_held: bool,
    is_in_fault: bool,
    /// The holder has no CPU; true if it wants one.
    off_cpu: Option<bool>,
    waits: [Cycles; HolderState::COUNT],
}

impl Course {
    fn state(&self) -> HolderState {
        match (self.is_held, self.off_cpu, self.is_in_fault) {
            (false, ..) => HolderState::Free,
            (true, Some(false), _) => HolderState::Asleep,
            (true, Some(true), true) => HolderState::PreemptedInFault,
            (true, Some(true), false) => HolderState::Preempted,
            (true, None, true) => HolderState::Fault,
            (true, None, false) => HolderState::Running,
        }
    }

    fn advance(&mut self, now: Cycles) {
        let span = now.saturating_sub(self.since);
        self.waits[self.state() as usize] += Cycles(span.0 * self.waiters);
        self.since = self.since.max(now);
    }
}

/// Counts the waiting for one lock of a program.
#[derive(Debug, Default)]
pub struct HolderWatch(Cell<Course>);

impl HolderWatch {
    /// Time that threads have waited so far, by [`HolderState`]: the sum over all that waited.
    pub fn waits(&self) -> [Cycles; HolderState::COUNT] {
        self.0.get().waits
    }

    /// A thread begins to wait.
    pub fn wait_begins(&self, now: Cycles) {
        self.change(now, |course| course.waiters += 1);
    }

    /// A thread waits no more.
    pub fn wait_ends(&self, now: Cycles) {
        self.change(now, |course| course.waiters -= 1);
    }

    /// The holder gets into the kernel for a page, or out.
    pub(super) fn fault(&self, now: Cycles, is_in_fault: bool) {
        self.change(now, |course| course.is_in_fault = is_in_fault);
    }

    fn change(&self, now: Cycles, change: impl FnOnce(&mut Course)) {
        let mut course = self.0.get();
        course.advance(now);
        change(&mut course);
        self.0.set(course);
    }
}

impl Thread {
    /// The thread has the lock.
    pub fn holds(&self, watch: &Rc<HolderWatch>) {
        watch.change(self.now(), |course| {
            course.is_held = true;
            course.off_cpu = None;
        });
        *self.task.holds.borrow_mut() = Some(Rc::clone(watch));
    }

    /// It has given it back.
    pub fn holds_no_more(&self, watch: &HolderWatch) {
        watch.change(self.now(), |course| course.is_held = false);
        *self.task.holds.borrow_mut() = None;
    }
}

impl Kernel {
    /// A task loses its CPU, which it wants or not, or has got one (`None`).
    pub(super) fn note_holder(&self, task: &Task, off_cpu: Option<bool>) {
        if let Some(watch) = &*task.holds.borrow() {
            watch.change(self.engine.now(), |course| course.off_cpu = off_cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_of_each_wait_counts_for_the_state_at_that_moment() {
        let watch = HolderWatch::default();
        let at = Cycles;
        watch.wait_begins(at(100));
        watch.change(at(110), |course| course.is_held = true);
        watch.wait_begins(at(130));
        watch.fault(at(140), true);
        watch.change(at(170), |course| course.off_cpu = Some(true));
        watch.change(at(200), |course| course.off_cpu = None);
        watch.fault(at(210), false);
        watch.change(at(215), |course| course.off_cpu = Some(true));
        watch.change(at(240), |course| course.off_cpu = Some(false));
        watch.wait_ends(at(250));
        watch.wait_ends(at(260));
        watch.fault(at(900), true);
        // Free 10; running 20, 10 of two and 5 of two; and so on.
        let expected = [10, 20 + 20 + 10, 60 + 20, 50, 60, 20 + 10];
        assert_eq!(watch.waits(), expected.map(Cycles));
    }

    #[test]
    fn a_clock_that_is_behind_changes_nothing_that_was_counted() {
        let watch = HolderWatch::default();
        watch.wait_begins(Cycles(100));
        watch.wait_begins(Cycles(90));
        watch.wait_ends(Cycles(110));
        watch.wait_ends(Cycles(105));
        assert_eq!(watch.waits()[HolderState::Free as usize], Cycles(20));
    }
}
