//! Calls of the weave, as records: with them and the accesses a recording can be run again
//! ([`crate::replay`]).

use hitm_base::{AccessOp, ThreadId};
use hitm_coherence::core::Position;
use hitm_trace::{Adoption, Step, Steps, Stretch, Work};

use crate::ThreadEvent;

/// The most steps, and the most adoptions, of one record: at most 40 KB.
const PART_MAX: usize = 1024;

/// The place that the log of one thread has reached.
#[derive(Debug, Clone, Copy)]
pub struct WorkLog {
    thread: ThreadId,
    last: Position,
}

impl WorkLog {
    /// The log of a thread that has done nothing.
    pub fn of(thread: ThreadId) -> WorkLog {
        WorkLog {
            thread,
            last: Position::default(),
        }
    }

    /// Makes records of what is about to be pushed for the thread: `events` up to `frontier`, after
    /// `adoptions` were made known.
    pub fn note(
        &mut self,
        adoptions: &[Adoption],
        events: &[ThreadEvent],
        frontier: Position,
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
                thread: self.thread,
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
