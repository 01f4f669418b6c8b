//! CPUs on which the program lets its threads run (sched_setaffinity(2)).

use hitm_base::{CpuId, ThreadId};
use hitm_trace::{Record, ThreadPlaced};

use super::Group;
use crate::Slot;

/// Outcome of a program's wish for CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// The thread runs on one of them.
    Done,
    /// The program has none of them.
    NoCpu,
    /// Nobody knows the thread.
    UnknownThread,
}

impl Group {
    /// Lets the thread `tid` (0: `slot` itself) run on the CPUs of a mask only, from where it is now. It moves
    /// when it is on none of them: to one of the mask, by the number of its seat.
    pub fn pin(&mut self, slot: Slot, tid: u32, mask: &[CpuId]) -> Pinned {
        let mask = self.cpus.usable(mask);
        if mask.is_empty() {
            return Pinned::NoCpu;
        }
        match self.present_thread(slot, tid) {
            Some(slot) => self.restrict(slot, mask),
            None if self.expected.expects(tid) => {
                self.masks_of_newcomers.insert(tid, mask);
            }
            None => return Pinned::UnknownThread,
        }
        Pinned::Done
    }

    /// The CPUs on which the thread `tid` (0: `slot` itself) may run: all that the program sees, unless it was
    /// pinned. None when nobody knows the thread.
    pub fn affinity(&self, slot: Slot, tid: u32) -> Option<&[CpuId]> {
        let mask = match self.present_thread(slot, tid) {
            Some(slot) => self.members[slot.0].mask.as_deref(),
            None if self.expected.expects(tid) => {
                self.masks_of_newcomers.get(&tid).map(Vec::as_slice)
            }
            None => return None,
        };
        Some(mask.unwrap_or(self.cpus.online()))
    }

    /// CPUs that the program sees.
    pub fn seen_cpu_count(&self) -> u64 {
        self.cpus.online().len() as u64
    }

    /// The CPU that a thread is on, or moves to next.
    pub fn cpu(&self, slot: Slot) -> CpuId {
        self.weave.cpu(slot)
    }

    /// The thread or process `tid`, which `slot` has created, may run where `slot` may.
    pub fn inherit(&mut self, slot: Slot, tid: u32) {
        let heir = self.present_thread(slot, tid);
        match (heir, self.members[slot.0].mask.clone()) {
            (Some(heir), Some(mask)) if self.members[heir.0].mask.is_none() => {
                self.restrict(heir, mask);
            }
            (Some(_), _) => {}
            (None, _) => self.bequeath(slot, tid),
        }
    }

    /// The thread `tid` that comes next may run where `slot` may: its program ends and another one takes its
    /// place.
    pub fn bequeath(&mut self, slot: Slot, tid: u32) {
        match self.members[slot.0].mask.clone() {
            Some(mask) => drop(self.masks_of_newcomers.insert(tid, mask)),
            None => drop(self.masks_of_newcomers.remove(&tid)),
        }
    }

    fn present_thread(&self, slot: Slot, tid: u32) -> Option<Slot> {
        let found = match tid {
            0 => Some(slot.0),
            _ => self.slot_of(tid),
        };
        let found = found.filter(|found| !self.members[*found].is_gone);
        found.map(Slot)
    }

    fn restrict(&mut self, slot: Slot, mask: Vec<CpuId>) {
        let member = &mut self.members[slot.0];
        let seat = member.seat;
        let is_outside = !mask.contains(&self.weave.cpu(slot));
        let cpu = self.cpus.of_seat(seat, Some(&mask));
        member.mask = Some(mask);
        if is_outside && !self.finished {
            self.weave.place(slot, cpu);
            let placed = ThreadPlaced {
                thread: ThreadId(slot.0 as u32),
                cpu,
                time: self.weave.now(),
            };
            self.output.record(&Record::ThreadPlaced(placed));
        }
    }
}
