//! Lines that samples may stand at, and what watches saw of them.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, LINE_SIZE};
use indexmap::IndexMap;

use super::memory::Line;
use super::watching::Changes;

/// Lines that are kept: those of a large heap's hot part.
const LINES_MAX: usize = 1 << 16;
/// Weight of a sample behind a locked operation: it seldom stands for another instruction.
const LOCKED_WEIGHT: u64 = 4;
/// Weight of a line at which several threads were sampled.
const TOGETHER: f64 = 8.0;

/// An access of one thread, by instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Touch {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// The instruction, as its process sees it.
    pub(super) code: u64,
    /// Offset in the line.
    pub(super) offset: u8,
    pub(super) size: u8,
    pub(super) op: AccessOp,
}

/// Accesses in a second that watches saw, in the sum of several turns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Touches {
    /// Of each half of the line: turns for all accesses, and for writes.
    pub(super) turns: [Turns; 2],
    /// Sums of rates: where all accesses were watched, and where writes were.
    rates: BTreeMap<Touch, [f64; 2]>,
    /// Callers of a touch, as they were first seen.
    callers: BTreeMap<Touch, Vec<u64>>,
}

/// Number of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Turns {
    pub(super) any: u32,
    pub(super) write: u32,
}

/// Rate of a touch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TouchRate {
    pub(super) touch: Touch,
    pub(super) per_s: f64,
    pub(super) callers: Vec<u64>,
}

impl Touches {
    /// Adds a rate of one turn.
    pub(super) fn add(&mut self, touch: Touch, is_of_writes: bool, per_s: f64, callers: &[u64]) {
        let rates = self.rates.entry(touch).or_default();
        rates[usize::from(is_of_writes)] += per_s;
        self.callers
            .entry(touch)
            .or_insert_with(|| callers.to_vec());
    }

    /// Mean rates. Those of writes come from the turns for writes where there were some: reads do not end them.
    pub(super) fn rates(&self) -> impl Iterator<Item = TouchRate> + '_ {
        self.rates.iter().filter_map(|(touch, [any, write])| {
            let turns = self.turns[usize::from(u64::from(touch.offset) >= LINE_SIZE / 2)];
            let (sum, count) = match (touch.op, turns.write) {
                (AccessOp::Load, _) | (_, 0) => (any, turns.any),
                _ => (write, turns.write),
            };
            let per_s = sum / f64::from(count.max(1));
            (per_s > 0.0).then(|| TouchRate {
                touch: *touch,
                per_s,
                callers: self.callers.get(touch).cloned().unwrap_or_default(),
            })
        })
    }

    /// Returns true if somebody touches this half of the line.
    pub(super) fn has_half(&self, half: u64) -> bool {
        let mut offsets = self.rates.keys().map(|touch| u64::from(touch.offset));
        offsets.any(|offset| offset / (LINE_SIZE / 2) == half)
    }

    /// Returns true if several threads touch the line and one of them writes.
    pub(super) fn is_shared(&self) -> bool {
        let mut threads = self.rates().map(|rate| rate.touch.tid);
        let first = threads.next();
        let has_others = threads.any(|tid| Some(tid) != first);
        has_others && self.rates().any(|rate| rate.touch.op.is_write())
    }
}

/// Samples and watches of a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    /// Samples that may stand at its accesses.
    pub(super) samples: u64,
    /// The same, those behind locked operations with their weight.
    score: u64,
    /// Samples by thread.
    pub(super) threads: BTreeMap<u32, u64>,
    pub(super) touches: Touches,
    /// Rounds of watches.
    pub(super) rounds: u32,
    /// Rounds in a row that saw one thread or none.
    alone_rounds: u32,
    pub(super) hit_count: u64,
    pub(super) changes: Changes,
}

impl Candidate {
    /// Counts a round.
    pub(super) fn watched(&mut self, is_alone: bool) {
        self.rounds += 1;
        self.alone_rounds = match is_alone {
            true => self.alone_rounds + 1,
            false => 0,
        };
    }

    /// Its claim to be watched next: in proportion to its samples, and little where nobody else came. That says
    /// nothing where several were sampled: on CPUs that others use too, a round may see the one that runs.
    fn claim(&self) -> f64 {
        let (together, alone) = match self.threads.len() {
            0 | 1 => (1.0, 16f64.powi(self.alone_rounds.min(8) as i32)),
            _ => (TOGETHER, 1.0),
        };
        self.score as f64 * together / f64::from(1 + self.rounds) / alone
    }
}

/// All candidates.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) lines: IndexMap<Line, Candidate>,
    /// Samples of lines that found no room.
    pub(super) left_out_count: u64,
    /// Threads that could not be watched, turn by turn.
    pub(super) refused_count: u64,
}

impl Candidates {
    /// Counts a sample that may stand at an access to the line.
    pub(super) fn sampled(&mut self, line: Line, tid: u32, is_locked: bool) {
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&line) {
            self.left_out_count += 1;
            return;
        }
        let candidate = self.lines.entry(line).or_default();
        candidate.samples += 1;
        candidate.score += if is_locked { LOCKED_WEIGHT } else { 1 };
        *candidate.threads.entry(tid).or_default() += 1;
    }

    /// The lines with the best claims.
    pub(super) fn next(&self, count: usize) -> Vec<Line> {
        let mut all: Vec<(f64, Line)> = self
            .lines
            .iter()
            .map(|(line, one)| (one.claim(), *line))
            .collect();
        all.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        all.into_iter().take(count).map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Line = Line {
        pid: 1,
        address: 0x40,
    };
    const B: Line = Line {
        pid: 1,
        address: 0x80,
    };

    fn touch(tid: u32, op: AccessOp) -> Touch {
        Touch {
            pid: 1,
            tid,
            code: 0x10,
            offset: 0,
            size: 8,
            op,
        }
    }

    #[test]
    fn what_nobody_else_touches_gives_way() {
        let mut candidates = Candidates::default();
        (0..100).for_each(|_| candidates.sampled(A, 1, false));
        (0..20).for_each(|_| candidates.sampled(B, 1, true));
        assert_eq!(candidates.next(2), [A, B]);
        candidates.lines[&A].watched(true);
        assert_eq!(candidates.next(1), [B]);
    }

    #[test]
    fn a_line_of_several_threads_is_watched_again() {
        let mut candidates = Candidates::default();
        (0..20).for_each(|sample| candidates.sampled(A, 1 + sample % 2, false));
        (0..20).for_each(|_| candidates.sampled(B, 1, false));
        (0..4).for_each(|_| candidates.lines[&A].watched(true));
        assert_eq!(candidates.next(1), [A]);
    }

    #[test]
    fn a_line_is_shared_when_one_of_several_writes() {
        let mut touches = Touches::default();
        touches.turns[0].any = 1;
        touches.add(touch(1, AccessOp::Load), false, 5.0, &[]);
        touches.add(touch(2, AccessOp::Load), false, 5.0, &[]);
        assert!(!touches.is_shared());
        touches.add(touch(2, AccessOp::Store), false, 0.5, &[]);
        assert!(touches.is_shared());
    }

    #[test]
    fn rates_of_writes_are_those_of_the_turns_for_writes() {
        let mut touches = Touches::default();
        touches.turns[0] = Turns { any: 2, write: 4 };
        let store = touch(1, AccessOp::Store);
        touches.add(store, false, 100.0, &[]);
        touches.add(store, true, 40.0, &[]);
        let rates: Vec<f64> = touches.rates().map(|rate| rate.per_s).collect();
        assert_eq!(rates, [10.0]);
    }
}
