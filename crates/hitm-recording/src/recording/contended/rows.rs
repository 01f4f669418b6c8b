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

    fn is_full(&self) -> bool {
        self.rows.size_in_rows() > self.rows_max
    }

    /// Returns true if the part is to be split: it has more rows than there is room for.
    pub(super) fn is_enough(&self) -> bool {
        !self.part.is_last_split() && self.is_full()
    }
}

/// The lines that stay together with a line.
pub(super) fn group_of(line: LineAddr) -> LineAddr {
    LineAddr(line.0 >> TOGETHER_SHIFT)
}

impl Shard for PartRows {
    fn are_full(shards: &[PartRows]) -> bool {
        shards.iter().any(PartRows::is_enough)
    }

    fn add(&mut self, access: &Access, outcome: &Outcome) {
        match (self.part.has(group_of(access.line())), self.is_full()) {
            (false, _) => {}
            (true, true) => self.left_out += 1,
            (true, false) => self.rows.add(access, outcome),
        }
    }
}

/// Lines of the first tier, the costliest. With each tier after it there are half as many more.
const FIRST_TIER_LINES: usize = 8;

/// Tiers that wanted lines are in: as many as 16,384 lines need.
const TIERS: usize = 20;

/// Accesses after which the size of the rows is looked at again.
const ACCESSES_A_LOOK: u32 = 32;

/// Lines whose rows are kept or given up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tier(u8);

impl Tier {
    /// Lines whose rows are never given up.
    pub(super) const FIRST: Tier = Tier(0);

    /// The tier of the line that is costlier than all but `rank` others.
    pub(super) fn of_rank(rank: usize) -> Tier {
        let doublings = (rank / FIRST_TIER_LINES)
            .checked_ilog2()
            .map_or(0, |n| n + 1);
        Tier(doublings.min(TIERS as u32 - 1) as u8)
    }
}

/// The part of a line's accesses that a second pass keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// A row for each place, thread and instruction, while there is room for the line's tier.
    Rows(Tier),
    /// The instructions that found the line modified: nothing else names it.
    Takers,
}

/// The lines that a second pass keeps something of.
pub(super) type Chosen = FxHashMap<LineAddr, Keep>;

/// HITMs of an instruction at places without a name.
#[derive(Debug, Clone, Copy)]
pub(in crate::recording) struct NamelessHitms {
    pub(in crate::recording) count: u64,
    /// The lowest of the places.
    pub(in crate::recording) addr: u64,
}

/// HITMs at places without a name, by instruction.
pub(in crate::recording) type Nameless = BTreeMap<CodeAddr, NamelessHitms>;

/// Adds HITMs of an instruction. Of their places the lowest is kept.
pub(super) fn add_nameless(sums: &mut Nameless, code: CodeAddr, more: NamelessHitms) {
    let sum = sums
        .entry(code)
        .or_insert(NamelessHitms { count: 0, ..more });
    sum.count += more.count;
    sum.addr = sum.addr.min(more.addr);
}

/// Rows and counts of the chosen lines.
pub(super) struct ChosenRows<'c> {
    chosen: &'c Chosen,
    /// Rows of the tiers for which there is room, the costliest lines first.
    pub(super) tiers: Vec<Collector>,
    /// Accesses to the lines of each tier.
    counts: [u64; TIERS],
    rows_max: usize,
    is_full: bool,
    until_look: u32,
    /// Accesses to chosen lines for which there was no room.
    pub(super) left_out: u64,
    pub(super) nameless: Nameless,
}

impl ChosenRows<'_> {
    pub(super) fn new(chosen: &Chosen, rows_max: usize) -> ChosenRows<'_> {
        ChosenRows {
            chosen,
            tiers: vec![Collector::default(); TIERS],
            counts: [0; TIERS],
            rows_max,
            is_full: false,
            until_look: ACCESSES_A_LOOK,
            left_out: 0,
            nameless: Nameless::default(),
        }
    }

    fn add_row(&mut self, tier: Tier, access: &Access, outcome: &Outcome) {
        if self.until_look == 0 {
            self.look();
        }
        self.until_look -= 1;
        let index = usize::from(tier.0);
        match self.tiers.get_mut(index) {
            Some(rows) if !self.is_full => {
                rows.add(access, outcome);
                self.counts[index] += 1;
            }
            _ => self.left_out += 1,
        }
    }

    /// Gives up tiers until there is room. All of a tier's rows go: with some of them a line would show
    /// wrong shares.
    fn look(&mut self) {
        self.until_look = ACCESSES_A_LOOK;
        loop {
            let rows = self.tiers.iter().map(Collector::size_in_rows);
            self.is_full = rows.sum::<usize>() >= self.rows_max;
            if !self.is_full || self.tiers.len() == 1 {
                return;
            }
            self.tiers.pop();
            self.left_out += self.counts[self.tiers.len()];
        }
    }

    fn add_nameless(&mut self, access: &Access, source: DataSource) {
        if source.is_hitm() {
            let one = NamelessHitms {
                count: 1,
                addr: access.addr,
            };
            add_nameless(&mut self.nameless, access.code, one);
        }
    }
}

impl Shard for ChosenRows<'_> {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        match self.chosen.get(&access.line()) {
            None => {}
            Some(Keep::Takers) => self.add_nameless(access, outcome.source),
            Some(Keep::Rows(tier)) => self.add_row(*tier, access, outcome),
        }
    }

    fn has_calls(&self, line: LineAddr) -> bool {
        match self.chosen.get(&line) {
            Some(Keep::Rows(tier)) => usize::from(tier.0) < self.tiers.len(),
            _ => false,
        }
    }
}
