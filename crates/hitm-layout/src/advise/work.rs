//! The work of a search, counted in steps, so that its end does not depend on the host's clock.

use std::cell::Cell;
use std::fmt;

/// Steps between two calls of the progress callback.
const REPORT_STEPS: u64 = 1 << 21;

/// Steps taken, and the limit on them. Prices of sets are computed to their end: a search looks
/// between them.
pub(super) struct Work<'p> {
    spent: Cell<u64>,
    reported: Cell<u64>,
    is_cut: Cell<bool>,
    limit: u64,
    progress: &'p dyn Fn(u64, u64),
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("spent", &self.spent)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<'p> Work<'p> {
    /// No steps taken yet; `progress` gets the steps taken and the limit.
    pub(super) fn new(limit: u64, progress: &'p dyn Fn(u64, u64)) -> Work<'p> {
        Work {
            spent: Cell::new(0),
            reported: Cell::new(0),
            is_cut: Cell::new(false),
            limit,
            progress,
        }
    }

    pub(super) fn spend(&self, steps: u64) {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent - self.reported.get() >= REPORT_STEPS {
            self.reported.set(spent);
            (self.progress)(spent.min(self.limit), self.limit);
        }
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Steps that may still be taken.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent())
    }

    /// Steps that have been taken when one of `parts` equal parts of those up to `until` is used
    /// up.
    pub(super) fn part_until(&self, until: u64, parts: usize) -> u64 {
        self.spent() + until.saturating_sub(self.spent()) / parts.max(1) as u64
    }

    /// Returns true if `until` steps are taken. A search that asks has more to do: a yes is remembered.
    pub(super) fn is_over(&self, until: u64) -> bool {
        let is_over = self.spent() >= until;
        if is_over {
            self.is_cut.set(true);
        }
        is_over
    }

    /// Returns true if anything was left out for the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }
}
