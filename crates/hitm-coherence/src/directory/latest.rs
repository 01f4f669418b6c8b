//! The latest use of each CPU that it may repeat, for hits that need no more than one look.

use hitm_base::{CpuId, Topology};

use super::LineId;

/// A CPU's use of a line. The line's number from bit 17 on, the CPU in bits 1 to 16, and in bit 0
/// whether it writes: all in one word, to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use(u64);

impl Use {
    /// No CPU's use of any line.
    pub(crate) const NONE: Use = Use(u64::MAX);

    #[inline]
    pub(crate) fn new(cpu: CpuId, line: LineId, writes: bool) -> Use {
        Use(u64::from(line.0) << 17 | u64::from(cpu.0) << 1 | u64::from(writes))
    }

    #[inline]
    pub(crate) fn line(self) -> LineId {
        LineId((self.0 >> 17) as u32)
    }

    /// Returns true if `other` is the same CPU's use of the same line, and does not write unless
    /// this one does.
    #[inline]
    pub(crate) fn covers(self, other: Use) -> bool {
        self.0 | (!other.0 & 1) == other.0 | 1
    }
}

/// The latest use of each CPU, as long as it may do the same again.
///
/// **Invariant:** the CPU owns the line alone, and the line is the most recently used one of its
/// set in the core's L1. If the use writes, the line is modified.
#[derive(Debug, Clone, Default)]
pub(super) struct LatestUses {
    /// Empty where nobody asks.
    by_cpu: Vec<Use>,
    /// By CPU: another thread of its core, all of them in a ring.
    siblings: Vec<CpuId>,
}

impl LatestUses {
    pub(super) fn new(topology: &Topology) -> LatestUses {
        // Each in a ring of its own, then into that of its core's first thread.
        let mut siblings: Vec<CpuId> = topology.cpus().collect();
        let mut first_threads = vec![None; topology.core_count()];
        for cpu in topology.cpus() {
            let core = usize::from(topology.core_of(cpu));
            let first = *first_threads[core].get_or_insert(cpu);
            siblings.swap(cpu.index(), first.index());
        }
        LatestUses {
            by_cpu: vec![Use::NONE; topology.cpu_count()],
            siblings,
        }
    }

    /// Returns true if the CPU did this last, and may do it again.
    #[inline]
    pub(super) fn cover(&self, cpu: CpuId, wanted: Use) -> bool {
        let latest = self.by_cpu.get(cpu.index());
        latest.is_some_and(|latest| latest.covers(wanted))
    }

    #[inline]
    pub(super) fn note(&mut self, cpu: CpuId, latest: Use) {
        if let Some(noted) = self.by_cpu.get_mut(cpu.index()) {
            *noted = latest;
        }
    }

    /// The CPU has the line no longer, or not alone.
    #[inline]
    pub(super) fn forget(&mut self, cpu: CpuId, line: LineId) {
        let latest = self.by_cpu.get_mut(cpu.index());
        if let Some(latest) = latest.filter(|latest| latest.line() == line) {
            *latest = Use::NONE;
        }
    }

    /// The order of a set in the L1 of this CPU's core changes.
    #[inline]
    pub(super) fn forget_core(&mut self, cpu: CpuId) {
        if self.by_cpu.is_empty() {
            return;
        }
        let mut thread = cpu;
        loop {
            self.by_cpu[thread.index()] = Use::NONE;
            thread = self.siblings[thread.index()];
            if thread == cpu {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::Machine;
    use hitm_base::machine::preset;

    use super::*;

    const A: CpuId = CpuId(0);
    const LINE: LineId = LineId::FIRST;

    #[test]
    fn a_writer_may_read_but_a_reader_may_not_write() {
        let reads = Use::new(A, LINE, false);
        let writes = Use::new(A, LINE, true);
        assert!(writes.covers(reads) && writes.covers(writes));
        assert!(reads.covers(reads) && !reads.covers(writes));
        let of_other = Use::new(CpuId(1), LINE, false);
        let to_other = Use::new(A, LineId::from_index(1), false);
        assert!(!writes.covers(of_other) && !writes.covers(to_other));
        assert!(!Use::NONE.covers(reads) && !Use::NONE.covers(writes));
        assert_eq!(to_other.line(), LineId::from_index(1));
    }

    #[test]
    fn threads_of_a_core_end_each_others_uses() {
        let text = preset("xeon-480").unwrap();
        let machine = Machine::from_toml(text, "xeon-480").unwrap();
        let topology = &machine.topology;
        let core = topology.core_of(A);
        let sibling = topology
            .cpus()
            .find(|cpu| *cpu != A && topology.core_of(*cpu) == core);
        let sibling = sibling.expect("xeon-480 has two threads a core");
        let stranger = topology
            .cpus()
            .find(|cpu| topology.core_of(*cpu) != core)
            .unwrap();
        let mut uses = LatestUses::new(topology);
        for cpu in [A, sibling, stranger] {
            uses.note(cpu, Use::new(cpu, LINE, true));
        }
        let goes_on = |uses: &LatestUses, cpu| uses.cover(cpu, Use::new(cpu, LINE, true));
        uses.forget(stranger, LineId::from_index(1));
        assert!(
            [A, sibling, stranger]
                .iter()
                .all(|cpu| goes_on(&uses, *cpu))
        );
        uses.forget_core(sibling);
        assert_eq!(
            [A, sibling, stranger].map(|cpu| goes_on(&uses, cpu)),
            [false, false, true]
        );
        uses.forget(stranger, LINE);
        assert!(!goes_on(&uses, stranger));
    }
}
