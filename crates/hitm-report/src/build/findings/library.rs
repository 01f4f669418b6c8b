//! Advice on what a library keeps for itself: its functions are what a program can call less often.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::LineAddr;

use super::FindingBuilder;
use super::groups::Group;
use crate::allocators::is_of_allocator;
use crate::names::brief;
use crate::sentences::line as say;
use crate::waiting::WaitRow;

/// Functions that are named.
const NAMED_MAX: usize = 3;

impl FindingBuilder<'_> {
    /// Advice on a group that only a library uses; none for the program's own, and for allocators, which have their own
    /// remedies.
    pub(super) fn library_advice(
        &self,
        name: &str,
        group: &Group<'_>,
        wait: Option<&WaitRow>,
    ) -> Option<String> {
        let is_of_lines = group.lines.first().is_some_and(|one| one.is_of_runtime);
        if !is_of_lines && !wait.is_some_and(|wait| wait.is_of_runtime) {
            return None;
        }
        let called = self.called(group);
        let is_known = !called.is_empty() && !called.iter().any(|name| is_of_allocator(name));
        is_known.then(|| say::wait_of_runtime(brief(name), called.join(", ")))
    }

    /// The library's functions that the program called for the accesses to a group's lines and words, those of most
    /// accesses first; none where most accesses are made otherwise, as by code that a runtime generates.
    fn called(&self, group: &Group<'_>) -> Vec<String> {
        let words = group.words().into_iter().map(LineAddr::of);
        let lines: BTreeSet<LineAddr> = group
            .lines
            .iter()
            .map(|one| one.line)
            .chain(words)
            .collect();
        let mut counts: BTreeMap<Option<String>, u64> = BTreeMap::new();
        let lines = lines.iter();
        let known = lines.filter_map(|line| Some((*line, self.statistics.lines.get(line)?)));
        for (line, stats) in known {
            for (key, row) in &stats.rows {
                for (chain, part) in self.statistics.calls.parts_of_row(line, key, row) {
                    let chain = chain.unwrap_or_default();
                    let name = self.functions.called_by_program(key.code, chain);
                    let count = counts.entry(name).or_default();
                    *count = count.saturating_add(part.access_count);
                }
            }
        }
        let others = counts.remove(&None).unwrap_or(0);
        let mut counts: Vec<(String, u64)> = counts
            .into_iter()
            .filter_map(|(name, count)| Some((name?, count)))
            .collect();
        if counts.iter().map(|(_, count)| *count).sum::<u64>() < others {
            return Vec::new();
        }
        // Stable: functions of equal counts stay in the order of their names.
        counts.sort_by_key(|(_, count)| Reverse(*count));
        // A place in a library without symbols says less than what it was called for.
        if counts.iter().any(|(name, _)| !is_unnamed(name)) {
            counts.retain(|(name, _)| !is_unnamed(name));
        }
        let names = counts.into_iter().map(|(name, _)| name);
        names.take(NAMED_MAX).collect()
    }
}

/// Returns true for a function without a name.
fn is_unnamed(name: &str) -> bool {
    name.contains("func@0x")
}
