//! Lines that samples may stand at, and what watches saw of them.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::super::programs::SeenAccess;
use super::host::Host;
use super::memory::Line;
use super::pace::Pace;
use super::touches::Touches;

/// Lines that are kept: those of a large heap's hot part.
const LINES_MAX: usize = 1 << 16;
/// Weight of a sample behind a locked operation: it seldom stands for another instruction.
const LOCKED_WEIGHT: u64 = 4;
/// Weight of a counted access whose line another cache had modified: it is contended.
const HITM_WEIGHT: u64 = 16;
/// Weight of a line at which several threads were sampled.
const TOGETHER: f64 = 8.0;

/// Samples and watches of a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    /// Samples that may stand at its accesses.
    pub(super) samples: u64,
    /// Those that stand where samples of this host do, if they are of its accesses.
    pub(super) standing: u64,
    /// All of them, those behind locked operations with their weight.
    score: u64,
    /// Samples by thread.
    pub(super) threads: BTreeMap<u32, u64>,
    /// Samples by the instruction that they stand for.
    pub(super) codes: BTreeMap<u64, u64>,
    pub(super) touches: Touches,
    /// Rounds of watches.
    pub(super) rounds: u32,
    /// Rounds in a row that saw one thread or none.
    alone_rounds: u32,
    pub(super) hit_count: u64,
    pub(super) pace: Pace,
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

/// Accesses to a line that a sample may stand at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SampledAt {
    /// True if samples of one of them are found at this place.
    stands: bool,
    /// True if one of those is a locked operation.
    is_locked: bool,
    /// Instructions of those that retire when they have their line. Stores do not: samples at them may be of what they
    /// store.
    codes: Vec<u64>,
}

impl SampledAt {
    pub(super) fn add(&mut self, access: &SeenAccess, host: &Host) {
        if !host.may_stand(access) {
            return;
        }
        self.stands = true;
        self.is_locked |= access.operand.is_locked;
        if access.operand.reads || access.operand.is_locked {
            self.codes.push(access.code);
        }
    }

    /// A sample where those of its accesses are.
    #[cfg(test)]
    pub(super) const fn standing() -> SampledAt {
        SampledAt {
            stands: true,
            is_locked: false,
            codes: Vec::new(),
        }
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
    /// Counts a sample of a thread that may stand at accesses to the line.
    pub(super) fn sampled(&mut self, line: Line, tid: u32, at: &SampledAt) {
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&line) {
            self.left_out_count += 1;
            return;
        }
        let candidate = self.lines.entry(line).or_default();
        candidate.samples += 1;
        candidate.standing += u64::from(at.stands);
        candidate.score += if at.is_locked { LOCKED_WEIGHT } else { 1 };
        *candidate.threads.entry(tid).or_default() += 1;
        for code in &at.codes {
            *candidate.codes.entry(*code).or_default() += 1;
        }
    }

    /// Counts an access of a thread that a counter saw. It costs nobody anything that is known.
    pub(super) fn counted(&mut self, line: Line, tid: u32, is_hitm: bool) {
        if self.lines.len() >= LINES_MAX && !self.lines.contains_key(&line) {
            self.left_out_count += 1;
            return;
        }
        let candidate = self.lines.entry(line).or_default();
        candidate.score += if is_hitm { HITM_WEIGHT } else { 1 };
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
    use hitm_layout::Operand;

    use super::super::memory::Space;
    use super::*;

    const A: Line = line(0x40);
    const B: Line = line(0x80);

    const fn line(at: u64) -> Line {
        let space = Space::Process(1);
        Line { space, at }
    }

    fn access(code: u64, reads: bool, is_before: bool) -> SeenAccess {
        let operand = Operand {
            base: None,
            index: None,
            offset: 0,
            bytes: 8,
            reads,
            writes: !reads,
            is_locked: false,
        };
        SeenAccess {
            code,
            address: Some(0),
            operand,
            is_before,
        }
    }

    #[test]
    fn a_load_that_waits_is_seen_behind() {
        let host = Host::assumed("a test");
        let [load, store] = [true, false];
        let of = |access: SeenAccess| {
            let mut at = SampledAt::default();
            at.add(&access, &host);
            (at.stands, at.codes)
        };
        assert_eq!(of(access(1, load, true)), (true, vec![1]));
        assert_eq!(of(access(2, store, true)), (false, vec![]));
        assert_eq!(of(access(3, load, false)), (false, vec![]));
        assert_eq!(of(access(4, store, false)), (true, vec![]));
    }

    #[test]
    fn what_nobody_else_touches_gives_way() {
        let locked = SampledAt {
            is_locked: true,
            ..SampledAt::default()
        };
        let mut candidates = Candidates::default();
        (0..100).for_each(|_| candidates.sampled(A, 1, &SampledAt::default()));
        (0..20).for_each(|_| candidates.sampled(B, 1, &locked));
        assert_eq!(candidates.next(2), [A, B]);
        candidates.lines[&A].watched(true);
        assert_eq!(candidates.next(1), [B]);
    }

    #[test]
    fn what_was_modified_elsewhere_comes_first() {
        let mut candidates = Candidates::default();
        (0..10).for_each(|_| candidates.sampled(A, 1, &SampledAt::default()));
        candidates.counted(B, 1, true);
        candidates.counted(A, 1, false);
        assert_eq!(candidates.next(2), [B, A]);
        assert_eq!(candidates.lines[&B].standing, 0);
    }

    #[test]
    fn a_line_of_several_threads_is_watched_again() {
        let mut candidates = Candidates::default();
        (0..20).for_each(|sample| candidates.sampled(A, 1 + sample % 2, &SampledAt::default()));
        (0..20).for_each(|_| candidates.sampled(B, 1, &SampledAt::default()));
        (0..4).for_each(|_| candidates.lines[&A].watched(true));
        assert_eq!(candidates.next(1), [A]);
    }
}
