//! Loads that lose their line before they retire.
//!
//! Loads run ahead and retire in order. A load that has its data waits for older loads; when another
//! core takes the line meanwhile, the load would have read too early. The core finds that when the
//! load is the oldest one left: it throws away the load and all behind it, and issues them again (a
//! memory-ordering clear). A fill therefore serves the loads that can retire before the line leaves,
//! and at least the one that is oldest when it arrives.
//!
//! ```text
//! issue -> window -> oldest, has data, line still here -> out
//!   ^                                  \ line gone
//!   \------------- again <--------------/  with all younger loads
//! ```
//!
//! Requests that are under way stay: the lines come, and the loads join them when they issue again.
//! Stores behind such a load are in the store buffer already. They wait there until all older loads
//! have retired, so none of them has committed.

use std::collections::VecDeque;

use hitm_base::machine::CoreModel;
use hitm_base::{Access, Cycles, Outcome};
use hitm_coherence::core::PendingLoad;
use hitm_coherence::directory::{Grant, LineId};

use crate::thread::{Blocked, Thread};

/// A fill that is under way for loads that were thrown away.
#[derive(Debug, Clone, Copy)]
struct Fill {
    line: LineId,
    /// Unknown while the request is queued.
    grant: Option<Grant>,
}

/// Retirement in order, on machines whose loads can lose their line.
#[derive(Debug)]
pub(crate) struct Retirement {
    /// From a clear to the second issue of its load.
    cost: Cycles,
    /// Instructions that retire in a cycle.
    width: u64,
    /// The last load that left the window, or the first that entered it, and when.
    last: (u64, Cycles),
    /// Time since when the thread waits for its oldest load, while that blocks it.
    waits_since: Cycles,
    /// Loads that were thrown away and have not issued again, oldest first.
    again: VecDeque<PendingLoad>,
    fills: Vec<Fill>,
}

impl Retirement {
    pub(crate) fn of(core: &CoreModel) -> Option<Retirement> {
        let cost = core.ordering_clear?;
        Some(Retirement {
            cost,
            width: core.retire_width.into(),
            last: (0, Cycles::ZERO),
            waits_since: Cycles::ZERO,
            again: VecDeque::new(),
            fills: Vec::new(),
        })
    }

    /// The first load that has to issue again.
    pub(crate) fn next_again(&self) -> Option<&PendingLoad> {
        self.again.front()
    }

    /// The request of a load that was thrown away has been served.
    pub(crate) fn resolve(&mut self, line: LineId, grant: Grant) {
        let mut fills = self.fills.iter_mut();
        if let Some(fill) = fills.find(|fill| fill.line == line && fill.grant.is_none()) {
            fill.grant = Some(grant);
        }
    }
}

impl Thread {
    /// Time at which the oldest load has its data and everything before it has retired.
    pub(crate) fn next_retirement(&self) -> Cycles {
        let (Some(retirement), Some(oldest)) = (&self.retirement, self.loads.oldest()) else {
            return Cycles::MAX;
        };
        let Some(grant) = oldest.grant else {
            return Cycles::MAX;
        };
        let (insn, at) = retirement.last;
        let insns = oldest.insn.saturating_sub(insn);
        grant.done.max(at + Cycles(insns / retirement.width))
    }

    /// The oldest load that has not retired, one that has to issue again included.
    fn oldest_unretired(&self) -> Option<&PendingLoad> {
        let again = self.retirement.as_ref().and_then(Retirement::next_again);
        self.loads.oldest().or(again)
    }

    /// Returns true if a load before instruction `insn` may still move the thread's clock.
    pub(crate) fn may_issue_again_before(&self, insn: u64) -> bool {
        let oldest = self.oldest_unretired();
        self.retirement.is_some() && oldest.is_some_and(|load| load.insn < insn)
    }

    /// Returns the time at which all loads that are older than a store have their data; `None` while
    /// one of them must still retire or is queued.
    pub(crate) fn older_loads_done(&self, insn: u64, ordinal: u64) -> Option<Cycles> {
        if self.retirement.is_none() {
            return self.loads.done_before(insn);
        }
        let oldest = self.oldest_unretired();
        let is_oldest = oldest.is_none_or(|load| load.ordinal > ordinal);
        is_oldest.then_some(Cycles::ZERO)
    }

    /// Stops the thread, from `since` on, until its oldest load retires.
    pub(crate) fn wait_for_retirement(&mut self, since: Cycles) {
        if let Some(retirement) = &mut self.retirement {
            retirement.waits_since = since;
        }
        self.blocked = Some(Blocked::Load);
    }

    /// Returns true if the time from `since` to `now` is to be charged to something else, and charges a load
    /// that blocks the thread from `now` on only. False when that load has stopped the thread before
    /// `since`: all of it is the load's.
    pub(crate) fn charge_before_retirement(&mut self, since: Cycles, now: Cycles) -> bool {
        let Some(retirement) = &mut self.retirement else {
            return true;
        };
        if self.blocked != Some(Blocked::Load) {
            return true;
        }
        if since > retirement.waits_since {
            return false;
        }
        retirement.waits_since = retirement.waits_since.max(now);
        true
    }

    /// Stops the thread if the window does not let instruction `insn` issue; returns whether it does.
    pub(crate) fn wait_for_window(&mut self, insn: u64) -> bool {
        let limit = self.loads.blocking_limit(insn);
        if let Some(limit) = limit {
            self.wait_for_retirement(self.time_of(limit));
        }
        limit.is_some()
    }

    /// Adds a load that its own core answers with `grant`. It is over `at_once`, or retires in order.
    pub(crate) fn push_hit(
        &mut self,
        load: PendingLoad,
        grant: Grant,
        at_once: bool,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        if at_once {
            let outcome = Outcome {
                source: grant.source,
                latency: grant.done - load.access.time,
                queued: Cycles::ZERO,
                // Others took its line before it could retire.
                stall: load.lost,
                lost: load.lost,
            };
            self.emit(load.ordinal, &load.access, &outcome, sink);
            return;
        }
        self.push_load(PendingLoad {
            grant: Some(grant),
            merged: true,
            ..load
        });
    }

    /// A load enters an empty window: the instructions before it have retired.
    pub(crate) fn note_first_load(&mut self, insn: u64, now: Cycles) {
        if let Some(retirement) = &mut self.retirement {
            retirement.last = (insn, now);
        }
    }

    /// Returns true if one more miss has to wait at `now`. A load that nothing is older than never
    /// does: what takes the fill buffers then was thrown away with it.
    pub(crate) fn has_no_fill_buffer(&self, now: Cycles) -> bool {
        let Some(retirement) = &self.retirement else {
            return self.loads.fill_buffers_full();
        };
        let (count, max) = self.loads.fills_under_way(now);
        let fills = retirement.fills.iter();
        let left = fills.filter(|fill| fill.grant.is_none_or(|grant| grant.done > now));
        count + left.count() >= max && !self.loads.is_empty()
    }

    /// Takes the fill of `line` that was requested before a clear and has not arrived.
    pub(crate) fn take_fill(&mut self, line: LineId, now: Cycles) -> Option<Option<Grant>> {
        let fills = &mut self.retirement.as_mut()?.fills;
        fills.retain(|fill| fill.grant.is_none_or(|grant| grant.done > now));
        let index = fills.iter().position(|fill| fill.line == line)?;
        Some(fills.remove(index).grant)
    }

    /// Takes the first load that has to issue again, at the thread's present time.
    pub(crate) fn take_again(&mut self) -> Option<PendingLoad> {
        let load = self.retirement.as_mut()?.again.pop_front()?;
        let mut access = load.access;
        (access.time, access.cpu) = (self.time_of(load.insn), self.cpu);
        Some(PendingLoad { access, ..load })
    }

    /// Puts back a load that could not issue.
    pub(crate) fn put_again(&mut self, load: PendingLoad) {
        if let Some(retirement) = &mut self.retirement {
            retirement.again.push_front(load);
        }
    }

    /// The oldest load, which has its line, retires.
    pub(crate) fn retire_in_order(
        &mut self,
        now: Cycles,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let Some(load) = self.loads.oldest().copied() else {
            return;
        };
        let (Some(retirement), Some(grant)) = (&mut self.retirement, load.grant) else {
            return;
        };
        retirement.last = (load.insn, now);
        let is_blocked = self.blocked == Some(Blocked::Load);
        let blocked_since = is_blocked.then_some(retirement.waits_since);
        // Without an access at its end, the window may have been full as well.
        let limit = self.loads.blocking_limit(self.next_insn());
        let since = blocked_since.or(limit.map(|insn| self.time_of(insn)));
        let wait = since.map_or(Cycles::ZERO, |since| now.saturating_sub(since));
        if is_blocked {
            self.blocked = None;
        }
        self.retire_oldest_load(wait, grant, sink);
        self.stores.note_retired_load(load.insn, now);
    }

    /// The oldest load has lost its line: it and everything behind it runs again.
    pub(crate) fn clear(&mut self, now: Cycles) {
        let first = self.loads.oldest().copied();
        let (Some(first), Some(retirement)) = (first, &mut self.retirement) else {
            return;
        };
        retirement.last = (first.insn, now);
        while let Some(load) = self.loads.pop_youngest() {
            let is_under_way = load.grant.is_none_or(|grant| grant.done > now);
            if !load.merged && is_under_way {
                let PendingLoad { line, grant, .. } = load;
                retirement.fills.push(Fill { line, grant });
            }
            retirement.again.push_front(PendingLoad {
                grant: None,
                merged: false,
                forwarded: false,
                ..load
            });
        }
        let again_at = now + retirement.cost;
        let shift = again_at.saturating_sub(self.time_of(first.insn));
        if let Some(first) = self.retirement.as_mut().and_then(|r| r.again.front_mut()) {
            first.lost += shift;
        }
        self.add_delay(shift);
        self.run_stores_again(first.ordinal);
        self.totals.clears += 1;
        if self.blocked == Some(Blocked::Load) {
            self.blocked = None;
        }
    }

    /// The next instruction that the thread will issue, as far as is known.
    fn next_insn(&self) -> u64 {
        let again = self.retirement.as_ref().and_then(Retirement::next_again);
        let event = || self.events.front().map(|event| event.insn);
        again
            .map(|load| load.insn)
            .or_else(event)
            .unwrap_or(self.frontier.insn)
    }
}
