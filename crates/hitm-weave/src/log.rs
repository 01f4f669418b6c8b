//! Calls of the weave, as records: with them and the accesses a recording can be run again
//! ([`crate::replay`]).

use hitm_base::{AccessOp, ThreadId};
use hitm_coherence::core::Position;
use hitm_trace::{Adoption, Step, Steps, Stretch, Work};

use crate::ThreadEvent;

/// The most steps, and the most adoptions, of one record: at most 40 KB.
const PART_MAX: usize = 1024;

/// The place that the log of one thread has reached.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkLog {
    last: Position,
}

impl WorkLog {
    /// Makes records of what is about to be pushed for `thread`: `events` up to `frontier`, after
    /// `adoptions` were made known.
    pub fn note(
        &mut self,
        thread: ThreadId,
        adoptions: &[Adoption],
        (events, frontier): (&[ThreadEvent], Position),
        out: &mut impl FnMut(Work),
    ) {
        let part_count = adoptions.len().max(events.len()).div_ceil(PART_MAX).max(1);
        let mut adoptions = adoptions.chunks(PART_MAX);
        let mut events = events.chunks(PART_MAX);
        for _ in 0..part_count {
            let adoptions = adoptions.next().unwrap_or_default().to_vec();
            let steps = self.steps(events.next().unwrap_or_default());
            let ahead = stretch(self.last, frontier);
            out(Work {
                thread,
                adoptions,
                steps,
                ahead,
            });
        }
    }

    fn steps(&mut self, events: &[ThreadEvent]) -> Steps {
        let step = |event: &ThreadEvent| {
            let since = stretch(self.last, event.position());
            self.last = event.position();
            Step {
                since,
                is_fence: event.op == AccessOp::Fence,
            }
        };
        events.iter().map(step).collect()
    }
}

fn stretch(from: Position, to: Position) -> Stretch {
    Stretch {
        insns: to.insn.saturating_sub(from.insn),
        stores: to.stores.saturating_sub(from.stores),
    }
}
