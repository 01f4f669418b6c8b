//! Two or more recordings of one workload side by side: what they lose, by place and by function.
//!
//! Places are told apart by object and member without numbers, so that objects of one kind are taken
//! together and those of another kernel are found again.

use hitm_fields::fields;
use std::collections::BTreeMap;
use std::slice::from_ref;

use hitm_recording::Recording;

use crate::Names;
use crate::compare::{RunCost, Runs, sentence};

/// Version of the JSON form.
pub const SIDE_BY_SIDE_SCHEMA: u32 = 2;

/// Row limit and filter of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideOptions {
    /// The most rows of each table.
    pub rows_max: usize,
    /// Only what functions do whose names contain one of these; all when there is none.
    pub functions: Vec<String>,
}

impl SideOptions {
    fn shows(&self, function: &str) -> bool {
        let mut parts = self.functions.iter();
        self.functions.is_empty() || parts.any(|part| function.contains(part.as_str()))
    }
}

fields! {
    /// A quantity of each recording, under one name.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct SideRow in side {
        /// Object and member without numbers, or a function.
        pub name: String => label "name";
        /// Cycles that threads lost there to other CPUs' use of the line, by recording.
        pub lost_cycles: Vec<u64> => cycles "lost";
        /// Accesses that found their line modified in another cache, by recording.
        pub hitm_count: Vec<u64> => count "HITM";
    }
}

/// The recordings, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideBySide {
    /// Label of each recording.
    pub labels: Vec<String>,
    /// Time of each recording, and what of it is lost.
    pub runs: Vec<RunCost>,
    /// Sums over everything that is shown.
    pub all: SideRow,
    /// By object and member, costliest first.
    pub places: Vec<SideRow>,
    /// By function, costliest first.
    pub functions: Vec<SideRow>,
    /// By function and what it touches, costliest first.
    pub uses: Vec<SideRow>,
}

/// Lost cycles and HITMs by name.
type Sums = BTreeMap<String, (u64, u64)>;

/// The sums of one recording.
#[derive(Debug, Default)]
pub struct SideSums {
    run: RunCost,
    places: Sums,
    functions: Sums,
    uses: Sums,
}

impl SideBySide {
    /// Puts recordings side by side, each with what to call it.
    pub fn of_sums(recordings: Vec<(String, SideSums)>, options: &SideOptions) -> SideBySide {
        let (labels, sums): (Vec<String>, Vec<SideSums>) = recordings.into_iter().unzip();
        let totals = sums.iter().map(|recorded| {
            let add = |sum: (u64, u64), one: &(u64, u64)| (sum.0 + one.0, sum.1 + one.1);
            recorded.places.values().fold((0, 0), add)
        });
        let (lost_cycles, hitm_count) = totals.unzip();
        let all = SideRow {
            name: "all".into(),
            lost_cycles,
            hitm_count,
        };
        let table = |of: fn(&SideSums) -> &Sums| {
            rows(&sums.iter().map(of).collect::<Vec<_>>(), options.rows_max)
        };
        SideBySide {
            labels,
            runs: sums.iter().map(|recorded| recorded.run).collect(),
            all,
            places: table(|sums| &sums.places),
            functions: table(|sums| &sums.functions),
            uses: table(|sums| &sums.uses),
        }
    }

    /// Time and losses of each recording, measured by the first one.
    pub fn sentences(&self) -> Vec<String> {
        let mut runs = self.labels.iter().zip(&self.runs);
        let mut runs = runs
            .by_ref()
            .map(|(label, run)| Runs::of(label, from_ref(run)));
        let Some(first) = runs.next() else {
            return Vec::new();
        };
        runs.map(|other| sentence(first, other)).collect()
    }
}

impl SideSums {
    /// Adds the rows of a recording, or of a part of its lines.
    pub fn add(&mut self, recording: &Recording, options: &SideOptions) {
        let lost_cycles = self.run.lost_cycles;
        self.run = RunCost::of(recording);
        self.run.lost_cycles = self.run.lost_cycles.saturating_add(lost_cycles);
        let names: &dyn Names = &recording.names();
        for (line, stats) in &recording.statistics.lines {
            for (key, row) in &stats.rows {
                let (lost, hitm) = (row.contention_stall.0, row.sources.hitm());
                if lost == 0 && hitm == 0 {
                    continue;
                }
                let function = names.code(key.code).function;
                if !options.shows(&function) {
                    continue;
                }
                let addr = line.first_byte() + u64::from(key.offset);
                let place = names.data(addr, key.size).map_or_else(
                    || "without a name".to_owned(),
                    |name| name.without_numbers(),
                );
                let both = format!("{function} {place}");
                for (sums, name) in [
                    (&mut self.places, place),
                    (&mut self.functions, function),
                    (&mut self.uses, both),
                ] {
                    let sum = sums.entry(name).or_default();
                    sum.0 += lost;
                    sum.1 += hitm;
                }
            }
        }
    }
}

fn rows(sums: &[&Sums], rows_max: usize) -> Vec<SideRow> {
    let mut by_name: BTreeMap<&str, SideRow> = BTreeMap::new();
    for (index, sums) in sums.iter().enumerate() {
        for (name, (lost, hitm)) in *sums {
            let row = by_name.entry(name).or_default();
            row.lost_cycles.resize(index, 0);
            row.hitm_count.resize(index, 0);
            row.lost_cycles.push(*lost);
            row.hitm_count.push(*hitm);
        }
    }
    let mut rows: Vec<SideRow> = by_name
        .into_iter()
        .map(|(name, mut row)| {
            row.name = name.to_owned();
            row.lost_cycles.resize(sums.len(), 0);
            row.hitm_count.resize(sums.len(), 0);
            row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.lost_cycles.iter().max().copied()));
    rows.truncate(rows_max);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_one_recording_lacks_counts_nothing_there() {
        let sums = |list: &[(&str, u64)]| -> Sums {
            list.iter()
                .map(|(name, lost)| ((*name).to_owned(), (*lost, 1)))
                .collect()
        };
        let (a, b) = (sums(&[("x", 10), ("y", 5)]), sums(&[("y", 20)]));
        let found = rows(&[&a, &b], 5);
        let row = |name: &str, lost_cycles: [u64; 2], hitm_count: [u64; 2]| SideRow {
            name: name.into(),
            lost_cycles: lost_cycles.into(),
            hitm_count: hitm_count.into(),
        };
        assert_eq!(
            found,
            [row("y", [5, 20], [1, 1]), row("x", [10, 0], [1, 0])]
        );
        assert_eq!(rows(&[&a, &b], 1).len(), 1);
    }
}
