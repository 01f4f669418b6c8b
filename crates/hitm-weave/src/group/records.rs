//! Records of a group: threads, their turns, and the end.

use hitm_base::{AddrRange, ThreadId};
use hitm_trace::{
    Counter, EndReason, PARKED_CYCLES, Record, Region, RegionKind, ThreadExit, ThreadStart, Turn,
    Waits,
};

use super::Group;
use crate::Slot;

impl Group {
    pub(super) fn record_start(&mut self, slot: Slot, name: String) {
        let start = ThreadStart {
            thread: ThreadId(slot.0 as u32),
            tid: self.members[slot.0].tid,
            cpu: self.weave.cpu(slot),
            time: self.weave.now(),
            name,
            seat: self.members[slot.0].seat,
            process: self.members[slot.0].process,
        };
        self.output.record(&Record::ThreadStart(start));
    }

    pub(super) fn record_turn(&mut self, turn: Turn) {
        if !self.finished {
            self.output.record(&Record::Turn(turn));
        }
    }

    pub(super) fn record_stack(&mut self, thread: ThreadId, range: AddrRange) {
        let kind = RegionKind::Stack { thread };
        self.output.record(&Record::Region(Region { range, kind }));
    }

    /// Tells how far the threads are, for the case that the recorder is killed.
    pub(super) fn record_totals(&mut self) {
        for slot in 0..self.members.len() {
            let exit = self.exit(slot);
            self.output.record(&Record::ThreadExit(exit));
        }
        self.record_waits();
        self.output.commit();
    }

    fn record_waits(&mut self) {
        let output = &mut self.output;
        self.waited.take_news(self.weave.machine(), &mut |waits| {
            let word = output.written_addr(waits.word);
            output.record(&Record::Waits(Waits { word, ..waits }));
        });
    }

    pub(super) fn write_end(&mut self, reason: EndReason) {
        self.finished = true;
        let output = &mut self.output;
        self.weave
            .finish(&mut |access, outcome| output.access(access, outcome));
        self.record_waits();
        let exits: Vec<ThreadExit> = (0..self.members.len())
            .map(|slot| self.exit(slot))
            .collect();
        let ends = self.members.iter().filter_map(|member| member.ends_at);
        let parked_cycles = self.waited.parked_cycles(&ends.collect());
        let counters = &self.counters;
        let named = [
            ("forked_children_not_recorded", counters.forked_children),
            ("exec_calls", counters.exec_calls),
            ("barrier_timeouts", counters.timed_out_parks),
            ("threads_waited_for_in_vain", counters.given_up),
            (PARKED_CYCLES, parked_cycles),
            ("accesses_outside_user_space", counters.out_of_range),
        ];
        let counters = named
            .into_iter()
            .map(|(name, value)| Counter::new(name, value))
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
