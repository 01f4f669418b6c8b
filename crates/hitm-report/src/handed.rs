//! Lines that change hands too rarely for a verdict: what passes from CPU to CPU, and who takes it.
//!
//! A buffer that a producer fills and a consumer reads costs each of its lines one transfer. No line of it
//! is contended, but all together they may cost more than the lines that are.

use hitm_fields::fields;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr};
use hitm_coherence::stats::{Handovers, Statistics};

use crate::Names;
use crate::model::{Totals, share};

/// Objects, and functions, that are listed one by one.
pub const HANDED_ROWS_MAX: usize = 10;

/// Bytes between the places of a line that are asked for a name. Allocators align to so many.
pub(crate) const NAME_STEP_BYTES: usize = 16;

fields! {
    /// Lines that change hands, and are not contended.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct HandedOver in handed {
        /// Lines that came from another CPU, and are not contended.
        pub line_count: u64 => count "lines";
        /// All accesses that took one of them from another CPU.
        pub all: Handovers;
        /// Accesses that took one of them, or the right to write it, from another CPU.
        handover_count => count "hand-overs", |handed| handed.all.count;
        /// Those that found the line modified.
        hitm_count => count "HITM", |handed| handed.all.hitm_count;
        /// Cycles that threads lost by them.
        lost_cycles => cycles "lost cycles", |handed| handed.all.lost.0;
        /// lost_cycles as a part of thread_cycles.
        pub run_share: f64 => share "run";
        /// The objects that they belong to, costliest first; at the end the others together.
        pub objects: Vec<HandedRow>;
        /// The functions that took them, costliest first; at the end the others together.
        pub takers: Vec<HandedRow>;
    }
}

fields! {
    /// One object of [`HandedOver`], or one function.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct HandedRow in handed_row {
        /// Kind of object, or function; none for several together.
        pub name: String => known name "name";
        /// Names that the row stands for: 1, or how many others; 0 for what has none.
        pub name_count: u64 => count "names";
        /// Lines of objects of this kind; none for a function.
        pub line_count: Option<u64> => count "lines";
        /// Accesses that took a line from another CPU.
        pub sums: Handovers;
        /// Accesses that took such a line, or by the function, from another CPU.
        handover_count => count "hand-overs", |row| row.sums.count;
        /// Those that found the line modified.
        hitm_count => count "HITM", |row| row.sums.hitm_count;
        /// Cycles that threads lost by them.
        lost_cycles => cycles "lost cycles", |row| row.sums.lost.0;
        /// lost_cycles as a part of those of all lines that are handed over.
        pub lost_share: f64 => share "lost";
    }
}

impl HandedOver {
    /// Sums up the lines of `statistics` that changed hands, except those in `flagged`.
    pub fn build(
        statistics: &Statistics,
        flagged: &BTreeSet<LineAddr>,
        names: &dyn Names,
        totals: &Totals,
    ) -> HandedOver {
        let rest = &statistics.rest;
        let quiet = statistics
            .lines
            .iter()
            .filter(|(line, _)| !flagged.contains(line));
        let mut handed = HandedOver {
            line_count: rest.contended_line_count,
            all: rest.handovers(),
            ..HandedOver::default()
        };
        let mut objects: BTreeMap<String, (u64, Handovers)> = BTreeMap::new();
        let mut takers: BTreeMap<CodeAddr, Handovers> = rest.takers.clone();
        let mut add = |line: LineAddr, handovers: &Handovers| {
            let sum = objects.entry(kind(names, line)).or_default();
            sum.0 += 1;
            sum.1.merge(handovers);
        };
        for (line, stats) in quiet {
            let handovers = Handovers::of_line(stats);
            if handovers.count == 0 {
                continue;
            }
            handed.line_count += 1;
            handed.all.merge(&handovers);
            add(*line, &handovers);
            for (key, row) in &stats.rows {
                takers
                    .entry(key.code)
                    .or_default()
                    .merge(&Handovers::of_row(key, row));
            }
        }
        rest.handed
            .iter()
            .for_each(|(line, handovers)| add(*line, handovers));
        takers.retain(|_, taken| taken.count > 0);
        let mut functions: BTreeMap<String, (u64, Handovers)> = BTreeMap::new();
        for (code, taken) in &takers {
            let sum = functions.entry(names.code(*code).function).or_default();
            sum.1.merge(taken);
        }
        handed.run_share = share(handed.all.lost.0, totals.thread_cycles);
        handed.objects = rows(objects, &handed, true);
        handed.takers = rows(functions, &handed, false);
        handed
    }
}

/// Kind of the object that a line belongs to; empty when no part of it has a name.
fn kind(names: &dyn Names, line: LineAddr) -> String {
    let places = (0..LINE_SIZE).step_by(NAME_STEP_BYTES);
    let mut found = places.filter_map(|byte| names.kind(line.first_byte() + byte));
    found.next().unwrap_or_default()
}

/// The costliest of `sums`, and the others together: their sums are those of all.
fn rows(
    mut sums: BTreeMap<String, (u64, Handovers)>,
    all: &HandedOver,
    has_lines: bool,
) -> Vec<HandedRow> {
    sums.remove("");
    let mut rows: Vec<HandedRow> = sums
        .into_iter()
        .map(|(name, (line_count, sums))| HandedRow {
            name,
            name_count: 1,
            line_count: has_lines.then_some(line_count),
            sums,
            lost_share: share(sums.lost.0, all.all.lost.0),
        })
        .collect();
    // Stable: rows of equal cost stay in the order of their names.
    rows.sort_by_key(|row| std::cmp::Reverse((row.sums.lost, row.sums.count)));
    let others = rows.split_off(rows.len().min(HANDED_ROWS_MAX));
    let listed = |of: fn(&HandedRow) -> u64| rows.iter().map(of).sum::<u64>();
    let mut sums = all.all;
    rows.iter().for_each(|row| sums.take_out(&row.sums));
    let left = HandedRow {
        name: String::new(),
        name_count: others.len() as u64,
        line_count: has_lines.then(|| {
            let lines = listed(|row| row.line_count.unwrap_or(0));
            all.line_count.saturating_sub(lines)
        }),
        sums,
        lost_share: share(sums.lost.0, all.all.lost.0),
    };
    if left.sums.count > 0 {
        rows.push(left);
    }
    rows
}
