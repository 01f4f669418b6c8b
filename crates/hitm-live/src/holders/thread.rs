//! States of a thread in the last moments, and its page faults.

use std::collections::VecDeque;

use super::lock::Key;

/// Stretches and marks that are kept of each thread. A holder's are counted when it leaves a CPU and gets one, so that
/// these are of the time in which the next holder is not known yet.
const KEPT: usize = 64;

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Unknown,
    Running,
    /// Ready, while a process runs: its number in the table of takers.
    Preempted(u32),
    Throttled,
    /// Asleep in a page fault.
    Faulting,
    /// Asleep, for a lock where one is known.
    Asleep(Option<Key>),
    /// Ready after it slept.
    Waking,
}

/// Time in page faults up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Faults {
    pub(super) minor_ns: u64,
    pub(super) major_ns: u64,
}

/// A part of a thread's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) state: State,
}

/// A thread, from its first event on.
#[derive(Debug)]
pub(super) struct Thread {
    /// Begin of each state.
    states: VecDeque<(u64, State)>,
    /// Faults at moments.
    marks: VecDeque<(u64, Faults)>,
    /// Minor faults up to its last write to a watched word; the number wraps.
    pub(super) minor_faults: u32,
    /// The word that it sleeps for.
    pub(super) waits_for: Option<Key>,
    /// Locks of the kernel that it waits for, and true for each that readers share.
    pub(super) contends: Vec<(Key, bool)>,
    /// The lock whose release woke it last.
    pub(super) woken_for: Option<Key>,
    /// Locks that it has, as far as is known.
    pub(super) holds: Vec<Key>,
    /// The word that it spun for when it was sampled last, and until when that tells something.
    pub(super) spins_for: Option<(Key, u64)>,
}

impl Thread {
    pub(super) fn new(state: State) -> Thread {
        Thread {
            states: VecDeque::from([(0, state)]),
            marks: VecDeque::new(),
            minor_faults: 0,
            waits_for: None,
            contends: Vec::new(),
            woken_for: None,
            holds: Vec::new(),
            spins_for: None,
        }
    }

    pub(super) fn state(&self) -> State {
        self.last().1
    }

    /// The present state, and when it began.
    pub(super) fn last(&self) -> (u64, State) {
        self.states.back().copied().unwrap_or((0, State::Unknown))
    }

    pub(super) fn enter(&mut self, state: State, at: u64) {
        if self.states.len() == KEPT {
            self.states.pop_front();
        }
        self.states.push_back((at, state));
    }

    pub(super) fn mark(&mut self, at: u64, faults: Faults) {
        if self.marks.len() == KEPT {
            self.marks.pop_front();
        }
        self.marks.push_back((at, faults));
    }

    /// The states between two moments. What is older than the states that are kept is not known.
    pub(super) fn stretches(&self, from: u64, to: u64) -> impl Iterator<Item = Stretch> + '_ {
        let begin = self.states.front().map_or(to, |(at, _)| *at);
        let before = (from < begin).then_some((from, begin, State::Unknown));
        let ends = self.states.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([u64::MAX]);
        let states = self.states.iter().zip(ends);
        let states = states.map(|(begun, end)| (begun.0, end, begun.1));
        let parts = before.into_iter().chain(states);
        parts.filter_map(move |(begin, end, state)| {
            let (from, to) = (begin.max(from), end.min(to));
            (from < to).then_some(Stretch { from, to, state })
        })
    }

    /// The moment from `from` on at which it ran first.
    pub(super) fn first_run(&self, from: u64, to: u64) -> u64 {
        let mut stretches = self.stretches(from, to);
        let runs = stretches.find(|stretch| stretch.state == State::Running);
        runs.map_or(from, |stretch| stretch.from)
    }

    /// Time in faults between two moments. Between two marks it is taken for evenly spread.
    pub(super) fn faults(&self, from: u64, to: u64) -> Faults {
        let (from, to) = (self.faults_at(from), self.faults_at(to));
        Faults {
            minor_ns: to.minor_ns.saturating_sub(from.minor_ns),
            major_ns: to.major_ns.saturating_sub(from.major_ns),
        }
    }

    fn faults_at(&self, at: u64) -> Faults {
        let next = self.marks.partition_point(|(mark, _)| *mark < at);
        let Some((right, after)) = self.marks.get(next) else {
            return self
                .marks
                .back()
                .map_or_else(Faults::default, |(_, last)| *last);
        };
        let before = next.checked_sub(1).and_then(|last| self.marks.get(last));
        let Some((left, before)) = before else {
            return *after;
        };
        let part = |begin: u64, end: u64| {
            let grown = u128::from(end.saturating_sub(begin)) * u128::from(at - left);
            begin + u64::try_from(grown / u128::from((right - left).max(1))).unwrap_or(0)
        };
        Faults {
            minor_ns: part(before.minor_ns, after.minor_ns),
            major_ns: part(before.major_ns, after.major_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_states() {
        let mut thread = Thread::new(State::Running);
        thread.enter(State::Preempted(3), 100);
        thread.enter(State::Running, 150);
        let stretch = |from, to, state| Stretch { from, to, state };
        let seen: Vec<Stretch> = thread.stretches(50, 200).collect();
        assert_eq!(
            seen,
            [
                stretch(50, 100, State::Running),
                stretch(100, 150, State::Preempted(3)),
                stretch(150, 200, State::Running)
            ]
        );
        assert_eq!(thread.first_run(120, 200), 150);
        assert_eq!(thread.first_run(160, 200), 160);
        // It did not run: nobody knows when it will.
        assert_eq!(thread.first_run(110, 140), 110);
        for at in 0..KEPT as u64 {
            thread.enter(State::Running, 200 + at);
        }
        let first = thread.stretches(50, 201).next();
        assert_eq!(first, Some(stretch(50, 200, State::Unknown)));
    }

    #[test]
    fn faults_are_spread_between_marks() {
        let faults = |minor_ns| Faults {
            minor_ns,
            major_ns: 0,
        };
        let mut thread = Thread::new(State::Running);
        assert_eq!(thread.faults(0, 50), faults(0));
        thread.mark(100, faults(40));
        thread.mark(200, faults(90));
        assert_eq!(thread.faults(100, 200), faults(50));
        assert_eq!(thread.faults(150, 400), faults(25));
        assert_eq!(thread.faults(0, 100), faults(0));
    }
}
