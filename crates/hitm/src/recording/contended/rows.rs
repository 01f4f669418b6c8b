//! Rows of all lines, of a part of them, or of chosen ones.

use std::collections::BTreeMap;

use hitm_base::{Access, CodeAddr, DataSource, LineAddr, Outcome};
use hitm_coherence::stats::Collector;
use rustc_hash::FxHashMap;

use super::part::Part;
use crate::recording::statistics::Shard;

/// Lines that stay together, as a power of two: those of a heap block say together what an element of it
/// is.
const TOGETHER_SHIFT: u32 = 10;

/// Rows of a part's lines, until there are too many.
pub(super) struct PartRows {
    part: Part,
    pub(super) rows: Collector,
    rows_max: usize,
    /// Accesses for which there was no room any more.
    pub(super) left_out: u64,
}

impl PartRows {
    pub(super) fn new(part: Part, rows_max: usize) -> PartRows {
        PartRows {
            part,
            rows: Collector::default(),
            rows_max,
            left_out: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.size_in_rows() > self.rows_max
    }
}

impl Shard for PartRows {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        let group = LineAddr(access.line().0 >> TOGETHER_SHIFT);
        match (self.part.has(group), self.is_full()) {
            (false, _) => {}
            (true, true) => self.left_out += 1,
            (true, false) => self.rows.add(access, outcome),
        }
    }
}

/// The part of a line's accesses that a second pass keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// A row for each place, thread and instruction.
    Rows,
    /// The instructions that found the line modified: nothing else names it.
    Takers,
}

/// The lines that a second pass keeps something of.
pub(super) type Chosen = FxHashMap<LineAddr, Keep>;

/// HITMs at places without a name by instruction, each with the lowest of the places.
pub(in crate::recording) type Nameless = BTreeMap<CodeAddr, (u64, u64)>;

/// Adds HITMs of an instruction. Of their places the lowest is kept.
pub(super) fn add_nameless(sums: &mut Nameless, code: CodeAddr, (hitm_count, addr): (u64, u64)) {
    let sum = sums.entry(code).or_insert((0, addr));
    *sum = (sum.0 + hitm_count, sum.1.min(addr));
}

/// Rows and counts of the chosen lines.
pub(super) struct ChosenRows<'c> {
    pub(super) chosen: &'c Chosen,
    pub(super) rows: Collector,
    pub(super) rows_max: usize,
    /// Accesses to chosen lines for which there was no room any more.
    pub(super) left_out: u64,
    pub(super) nameless: Nameless,
}

impl ChosenRows<'_> {
    fn add_nameless(&mut self, access: &Access, source: DataSource) {
        if source.is_hitm() {
            add_nameless(&mut self.nameless, access.code, (1, access.addr));
        }
    }
}

impl Shard for ChosenRows<'_> {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        match self.chosen.get(&access.line()) {
            None => {}
            Some(Keep::Takers) => self.add_nameless(access, outcome.source),
            Some(Keep::Rows) if self.rows.size_in_rows() < self.rows_max => {
                self.rows.add(access, outcome);
            }
            Some(Keep::Rows) => self.left_out += 1,
        }
    }
}
