//! Lines of source text by what they lose, over all cache lines, and who calls their functions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::CodeAddr;
use hitm_coherence::stats::{CallCounts, Statistics};
use hitm_fields::fields;

use super::RUN_SHARE_MIN;
use super::functions::Functions;
use crate::by::Selection;
use crate::model::share;
use crate::{Names, Report};

/// Callers that are named.
const CALLERS_MAX: usize = 5;

fields! {
    /// A line of the program's source, and what all its accesses lost.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SourceLine in source_line {
        /// Function: the program's own where one is known, else that of the access.
        pub function: String => known label "function";
        /// Source file and line.
        pub source: String => label "source";
        /// Cycles lost to other CPUs' use of lines.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of those of all lines.
        pub lost_share: f64 => share "of lines";
        /// lost_cycles as a part of all threads' time.
        pub run_share: f64 => recorded share "lost";
        /// Functions that call it, those of most lost cycles first, at most five; where accesses have call chains.
        pub callers: Vec<String> => words "called by";
    }
}

#[derive(Default)]
struct Sum {
    lost: u64,
    callers: BTreeMap<String, u64>,
}

/// Sums by function and source.
struct Sums<'a> {
    functions: Functions<'a>,
    sums: BTreeMap<(String, String), Sum>,
}

impl Sums<'_> {
    fn add(&mut self, code: CodeAddr, chain: &[CodeAddr], counts: &CallCounts) {
        let lost = counts.contention_stall.0;
        let Some(place) = self.functions.place(code, chain).filter(|_| lost > 0) else {
            return;
        };
        let caller = match chain {
            [] => None,
            _ => self.functions.caller(code, chain),
        };
        let caller = caller.filter(|caller| *caller != place.function);
        let key = (place.function.clone(), place.source());
        let sum = self.sums.entry(key).or_default();
        sum.lost = sum.lost.saturating_add(lost);
        if let Some(caller) = caller {
            let of_caller = sum.callers.entry(caller).or_default();
            *of_caller = of_caller.saturating_add(lost);
        }
    }
}

impl Report {
    /// The source lines that lose most, at most `max`. With filters, those of the report's lines.
    pub fn source_lines(
        &self,
        statistics: &Statistics,
        names: &dyn Names,
        selection: &Selection,
        max: usize,
    ) -> Vec<SourceLine> {
        let mut sums = Sums {
            functions: Functions::new(names, &selection.skip, self.is_sampled()),
            sums: BTreeMap::new(),
        };
        let shown = self.ranks();
        let lines = statistics.lines.iter();
        let lines = lines.filter(|(line, _)| self.filtered.is_none() || shown.contains_key(line));
        for (line, stats) in lines {
            for (key, row) in &stats.rows {
                for (chain, counts) in statistics.calls.parts_of_row(*line, key, row) {
                    sums.add(key.code, chain.unwrap_or_default(), &counts);
                }
            }
        }
        self.dearest(sums.sums, max)
    }

    fn dearest(&self, sums: BTreeMap<(String, String), Sum>, max: usize) -> Vec<SourceLine> {
        let whole = match self.is_sampled() {
            true => self.totals.lost_cycles,
            false => self.totals.thread_cycles,
        };
        let is_large = |sum: &Sum| share(sum.lost, whole) >= RUN_SHARE_MIN;
        let known = sums.into_iter();
        let known = known.filter(|((_, source), sum)| !source.is_empty() && is_large(sum));
        let mut known: Vec<((String, String), Sum)> = known.collect();
        // Stable: what costs the same stays in the order of names.
        known.sort_by_key(|(_, sum)| Reverse(sum.lost));
        known.truncate(max);
        let lines = known
            .into_iter()
            .map(|((function, source), sum)| SourceLine {
                function,
                source,
                lost_cycles: sum.lost,
                lost_share: share(sum.lost, self.totals.lost_cycles),
                run_share: share(sum.lost, self.totals.thread_cycles),
                callers: dearest_callers(sum.callers),
            });
        lines.collect()
    }
}

fn dearest_callers(callers: BTreeMap<String, u64>) -> Vec<String> {
    let mut callers: Vec<(String, u64)> = callers.into_iter().collect();
    callers.sort_by_key(|(_, lost)| Reverse(*lost));
    let names = callers.into_iter().take(CALLERS_MAX);
    names.map(|(name, _)| name).collect()
}
