//! Time that a lock is held, by the accesses to its word in their order.
//!
//! A recording has no values, so attempts that failed look like the one that took the lock. But a thread that gives
//! a lock back has taken it, and its last write to the word before that was the one that did.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{Access, CodeAddr, Cycles, LineAddr, Outcome, ThreadId};

use super::{byte_mask, saturating_sum};

/// A lock whose holds are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldPlan {
    /// The lock's line.
    pub line: LineAddr,
    /// The lock's bytes in it.
    pub mask: u64,
    /// Writes that give it back.
    pub releases: BTreeSet<CodeAddr>,
}

/// Time for which a lock was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holds {
    /// Times that a thread was seen to hold it: of a loop of attempts that was recorded as one wait, the last write is
    /// not known.
    pub count: u64,
    /// Their cycles: from the end of the write that took it to the one that gave it back.
    pub cycles: Cycles,
    /// Cycles from the first time that it was taken to the last time that it was given back.
    pub span: Cycles,
}

impl Holds {
    /// Part of the span in which somebody held it. None where nobody did, and where threads seem to have held it
    /// together: then writes were taken for what they are not, as in a lock by tickets.
    pub fn share(&self) -> Option<f64> {
        let is_one_at_a_time = self.count > 0 && self.cycles <= self.span;
        is_one_at_a_time.then(|| self.cycles.0 as f64 / self.span.0.max(1) as f64)
    }
}

/// Counts holds. It takes the accesses of a recording in its order.
#[derive(Debug)]
pub struct HoldCollector<'a> {
    plan: &'a HoldPlan,
    /// End of each thread's last write that was no release.
    taken: BTreeMap<ThreadId, Cycles>,
    first: Option<Cycles>,
    holds: Holds,
}

impl<'a> HoldCollector<'a> {
    /// A collector by a plan.
    pub fn new(plan: &'a HoldPlan) -> HoldCollector<'a> {
        HoldCollector {
            plan,
            taken: BTreeMap::new(),
            first: None,
            holds: Holds::default(),
        }
    }

    /// Takes an access.
    pub fn add(&mut self, access: &Access, outcome: &Outcome) {
        let is_of_lock = access.op.is_write()
            && access.line() == self.plan.line
            && byte_mask(access.offset(), access.size) & self.plan.mask != 0;
        if !is_of_lock {
            return;
        }
        if !self.plan.releases.contains(&access.code) {
            let end = saturating_sum(access.time, outcome.latency);
            self.taken.insert(access.thread, end);
            return;
        }
        let Some(start) = self.taken.remove(&access.thread) else {
            return;
        };
        let first = *self.first.get_or_insert(start);
        let since = |start: Cycles| Cycles(access.time.0.saturating_sub(start.0));
        let holds = &mut self.holds;
        holds.count += 1;
        holds.cycles = saturating_sum(holds.cycles, since(start));
        holds.span = holds.span.max(since(first));
    }

    /// The sum of collectors over disjoint lines.
    pub fn finish(collectors: Vec<HoldCollector<'_>>) -> Holds {
        let holds = collectors.into_iter().map(|one| one.holds);
        holds.max_by_key(|holds| holds.count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, CpuId, DataSource};

    use super::*;

    const TAKES: CodeAddr = CodeAddr(0x100);
    const GIVES: CodeAddr = CodeAddr(0x200);

    fn holds(accesses: &[(u32, u64, CodeAddr)]) -> Holds {
        let plan = HoldPlan {
            line: LineAddr::of(0x1000),
            mask: 0xf0,
            releases: BTreeSet::from([GIVES]),
        };
        let mut collector = HoldCollector::new(&plan);
        for (thread, time, code) in accesses {
            let access = Access {
                thread: ThreadId(*thread),
                cpu: CpuId(*thread as u16),
                time: Cycles(*time),
                addr: 0x1004,
                size: 4,
                op: AccessOp::LockedRmw,
                code: *code,
            };
            let outcome = Outcome::by_source(DataSource::L1, Cycles(10), Cycles::ZERO, Cycles(10));
            collector.add(&access, &outcome);
        }
        HoldCollector::finish(vec![HoldCollector::new(&plan), collector])
    }

    #[test]
    fn attempts_that_failed_are_no_holds() {
        let held = holds(&[
            (1, 100, TAKES),
            (2, 120, TAKES),
            (2, 150, TAKES),
            (1, 200, GIVES),
            (2, 210, TAKES),
            (2, 300, GIVES),
        ]);
        let expected = Holds {
            count: 2,
            cycles: Cycles(90 + 80),
            span: Cycles(190),
        };
        assert_eq!(held, expected);
        assert_eq!(held.share(), Some(170.0 / 190.0));
    }

    #[test]
    fn tickets_are_no_holds() {
        let held = holds(&[
            (1, 100, TAKES),
            (2, 100, TAKES),
            (1, 200, GIVES),
            (2, 300, GIVES),
        ]);
        assert_eq!((held.count, held.share()), (2, None));
        assert_eq!(holds(&[(1, 1, GIVES)]).share(), None);
    }
}
