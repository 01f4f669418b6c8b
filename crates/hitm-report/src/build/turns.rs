//! Arrays whose elements threads take in turn, as `for (i = thread; i < n; i += threads)` does. Padding each element would
//! make such an array many times as large; elements that lie together for each thread cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::ThreadId;
use hitm_coherence::sharing::Verdict;

use super::Judged;
use super::lines::LineBuilder;
use super::objects::main_threads;
use crate::names::brief;
use crate::sentences::line as say;

/// Lines that each thread writes a part of, on average, from which on it takes elements in turn: of a block of its own
/// it shares the first line and the last one.
const LINES_OF_THREAD_MIN: usize = 4;

impl LineBuilder<'_> {
    /// Advice on the lines of one array whose elements threads take in turn; none on others.
    pub(super) fn advice_on_turns(&self, lines: &[&Judged<'_>]) -> Option<String> {
        let is_false_sharing = |one: &&Judged<'_>| one.sharing.verdict == Verdict::FalseSharing;
        let shared: Vec<&Judged<'_>> = lines.iter().copied().filter(is_false_sharing).collect();
        if shared.len() * 2 < lines.len() || !are_in_turns(&shared) {
            return None;
        }
        let places = shared.iter().map(|one| {
            let (offset, size) = one.dearest_place();
            self.names
                .data(one.line.first_byte() + u64::from(offset), size)
        });
        let places: Option<BTreeSet<(u64, String)>> = places
            .map(|place| place.map(|one| (one.object_addr, one.object)))
            .collect();
        let places = places?;
        let is_one = places.len() == 1;
        let (_, object) = places.into_iter().next().filter(|_| is_one)?;
        Some(say::in_turns(brief(&object)))
    }
}

/// Returns true if each thread writes a part of many of these lines.
fn are_in_turns(lines: &[&Judged<'_>]) -> bool {
    let mut lines_of: BTreeMap<ThreadId, usize> = BTreeMap::new();
    for one in lines {
        let mut writes: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for (key, row) in &one.stats.rows {
            if key.op.is_write() {
                *writes.entry(key.thread).or_default() += row.sources.total();
            }
        }
        for thread in main_threads(&writes) {
            *lines_of.entry(thread).or_default() += 1;
        }
    }
    let all: usize = lines_of.values().sum();
    lines_of.len() > 1 && all >= lines_of.len() * LINES_OF_THREAD_MIN
}
