//! The first pass: rows while they are few, then what each line lost.

use hitm_base::{Access, LineAddr, Outcome};
use hitm_coherence::stats::{Collector, LineTally};

use super::Limits;
use super::part::Part;
use crate::recording::statistics::Shard;

/// Counts of a shard's lines, of all or those of a part.
pub(super) struct Counted {
    part: Part,
    counts: Counts,
    rows_max: usize,
    /// Lines of all shards.
    lines_max: usize,
}

enum Counts {
    Rows(Box<Collector>),
    Lines(Box<LineTally>),
}

impl Counted {
    /// Begins with rows of all lines.
    pub(super) fn rows(limits: &Limits) -> Counted {
        Counted {
            part: Part::WHOLE,
            counts: Counts::Rows(Box::default()),
            rows_max: limits.rows,
            lines_max: limits.lines,
        }
    }

    /// Tallies the lines of a part.
    pub(super) fn lines(part: Part, limits: &Limits) -> Counted {
        Counted {
            part,
            counts: Counts::Lines(Box::default()),
            ..Counted::rows(limits)
        }
    }

    /// Returns true if all rows are there.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self.counts, Counts::Rows(_))
    }

    /// The rows; none when they were too many.
    pub(super) fn into_rows(self) -> Option<Collector> {
        match self.counts {
            Counts::Rows(rows) => Some(*rows),
            Counts::Lines(_) => None,
        }
    }

    /// Sums of each line.
    pub(super) fn into_tally(self) -> LineTally {
        match self.counts {
            Counts::Rows(rows) => tally_of(*rows),
            Counts::Lines(tally) => *tally,
        }
    }

    fn line_count(&self) -> usize {
        match &self.counts {
            // Rows have a bound of their own.
            Counts::Rows(_) => 0,
            Counts::Lines(tally) => tally.lines().len(),
        }
    }
}

fn tally_of(rows: Collector) -> LineTally {
    let mut tally = LineTally::default();
    for (line, stats) in rows.finish().lines {
        tally.add_line(line, &stats);
    }
    tally
}

impl Shard for Counted {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        if !self.part.has(access.line()) {
            return;
        }
        match &mut self.counts {
            Counts::Lines(tally) => tally.add(access, outcome),
            Counts::Rows(rows) => {
                rows.add(access, outcome);
                if rows.size_in_rows() > self.rows_max {
                    self.counts = Counts::Lines(Box::new(tally_of(std::mem::take(&mut **rows))));
                }
            }
        }
    }

    fn has_calls(&self, _: LineAddr) -> bool {
        self.has_rows()
    }

    fn have_calls(shards: &[Counted]) -> bool {
        shards.iter().all(Counted::has_rows)
    }

    fn are_full(shards: &[Counted]) -> bool {
        let lines = shards.iter().map(Counted::line_count);
        let max = shards.first().map_or(0, |shard| shard.lines_max);
        lines.sum::<usize>() > max
    }
}
