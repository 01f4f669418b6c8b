//! What the barrier tells the recording: threads, their turns, and the end.

use hitm_base::ThreadId;
use hitm_trace::{
    Counter, EndReason, Record, Region, RegionKind, ThreadExit, ThreadStart, Turn, Waker,
};
use hitm_weave::Slot;

use super::Inner;
use crate::mappings;

/// Bytes of a stack's mapping that may lie above the stack's top.
const STACK_TAIL_MAX: u64 = 64 << 10;

impl Inner {
    pub(super) fn record_start(&mut self, slot: Slot, name: String) {
        let start = ThreadStart {
            thread: ThreadId(slot.0 as u32),
            tid: self.members[slot.0].tid,
            cpu: self.weave.cpu(slot),
            time: self.weave.now(),
            name,
            seat: self.members[slot.0].seat,
        };
        self.output.record(&Record::ThreadStart(start));
    }

    pub(super) fn record_turn(&mut self, turn: Turn) {
        if !self.finished {
            self.output.record(&Record::Turn(turn));
        }
    }

    /// Tells that a thread is back, and who woke it.
    pub(super) fn record_return(&mut self, slot: Slot, woken_at: Option<u64>) {
        let wake = woken_at.and_then(|futex| self.wakes.of(futex));
        let waker = wake.map(|wake| {
            let woke_at = self.weave.time_of(wake.slot, wake.insn);
            Waker {
                thread: ThreadId(wake.slot.0 as u32),
                insn: wake.insn,
                delay: self.weave.clock(slot).0.wrapping_sub(woke_at.0) as i64,
            }
        });
        let thread = ThreadId(slot.0 as u32);
        self.record_turn(Turn::Returned { thread, waker });
    }

    pub(super) fn record_stack(&mut self, thread: ThreadId, top: u64) {
        // A stack of the C library ends a mapping of its own, below the thread's control block; one
        // that a language cuts out of its heap has no bounds that could be told.
        if let Some(range) = mappings::range_at(top.wrapping_sub(1))
            && range.end().saturating_sub(top) < STACK_TAIL_MAX
        {
            let kind = RegionKind::Stack { thread };
            self.output.record(&Record::Region(Region { range, kind }));
        }
    }

    /// Tells how far the threads are, for the case that the program is killed.
    pub(super) fn record_totals(&mut self) {
        for slot in 0..self.members.len() {
            let exit = self.exit(slot);
            self.output.record(&Record::ThreadExit(exit));
        }
        self.output.commit();
    }

    pub(super) fn finish(&mut self, reason: EndReason) {
        self.finished = true;
        let output = &mut self.output;
        self.weave
            .finish(&mut |access, outcome| output.access(access, outcome));
        let exits: Vec<ThreadExit> = (0..self.members.len())
            .map(|slot| self.exit(slot))
            .collect();
        let counters = &self.counters;
        let named = [
            ("forked_children_not_recorded", counters.forked_children),
            ("exec_calls", counters.exec_calls),
            ("barrier_timeouts", counters.timed_out_parks),
            ("accesses_outside_user_space", counters.out_of_range),
        ];
        let counters = named
            .into_iter()
            .map(|(name, value)| Counter {
                name: name.into(),
                value,
            })
            .chain(self.further_counters.drain(..))
            .collect();
        self.output.finish(&exits, reason, counters);
    }

    fn exit(&self, slot: usize) -> ThreadExit {
        let totals = self.weave.totals(Slot(slot));
        ThreadExit {
            thread: ThreadId(slot as u32),
            time: totals.clock,
            insns: totals.insns,
            accesses: self.members[slot].accesses,
            stall: totals.stall,
            contention_stall: totals.contention_stall,
        }
    }
}
