//! The accesses of one thread, handed on in program order.
//!
//! Accesses finish out of order: a hit passes an older miss, a load an older store. What leaves the
//! weave keeps the order of each thread's program, so that a recording can be run again.

use std::collections::VecDeque;

use hitm_base::{Access, Outcome};

/// Holds back what finished before something older.
#[derive(Debug, Default)]
pub(crate) struct ProgramOrder {
    /// The number of the oldest access that has not finished.
    next: u64,
    /// Finished accesses, by number from that one on; `None` for one that has not finished.
    held: VecDeque<Option<(Access, Outcome)>>,
}

impl ProgramOrder {
    /// The access with this number has finished.
    #[inline]
    pub(crate) fn finished(
        &mut self,
        ordinal: u64,
        access: &Access,
        outcome: &Outcome,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        if ordinal > self.next {
            let index = (ordinal - self.next) as usize;
            if self.held.len() <= index {
                self.held.resize(index + 1, None);
            }
            self.held[index] = Some((*access, *outcome));
            return;
        }
        assert!(ordinal == self.next, "an access finishes once");
        sink(access, outcome);
        self.next += 1;
        self.held.pop_front();
        while let Some(Some((access, outcome))) = self.held.front() {
            sink(access, outcome);
            self.next += 1;
            self.held.pop_front();
        }
    }

    /// The number of the oldest access that has not been handed on.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, CodeAddr, CpuId, Cycles, DataSource, ThreadId};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_finishes_first(numbers in Just((0u64..40).collect::<Vec<_>>()).prop_shuffle()) {
            let mut order = ProgramOrder::default();
            let mut out = Vec::new();
            for number in &numbers {
                let access = Access {
                    thread: ThreadId(0),
                    cpu: CpuId(0),
                    time: Cycles(*number),
                    addr: 64,
                    size: 8,
                    op: AccessOp::Load,
                    code: CodeAddr(0),
                };
                let outcome = Outcome::by_source(DataSource::L1, Cycles(1), Cycles(0), Cycles(0));
                order.finished(*number, &access, &outcome, &mut |access, _| out.push(access.time.0));
            }
            prop_assert_eq!(out, (0..40).collect::<Vec<_>>());
            prop_assert_eq!(order.next(), 40);
        }
    }
}
