//! Two or more recordings of one workload side by side: what they wait for, by place and by function.
//!
//! Places are told apart by object and member without numbers, so that objects of one kind are taken
//! together and those of another kernel are found again.

use std::collections::BTreeMap;

use hitm::recording::Recording;
use hitm_coherence::stats::Statistics;

use crate::Names;

/// Version of the JSON form.
pub const SIDE_BY_SIDE_SCHEMA: u32 = 1;

/// A quantity of each recording, under one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideRow {
    /// The place or function.
    pub name: String,
    /// Cycles that CPUs waited, by recording.
    pub stall_cycles: Vec<u64>,
    /// Accesses that found their line modified in another cache, by recording.
    pub hitm_count: Vec<u64>,
}

/// The recordings, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideBySide {
    /// What to call each recording.
    pub labels: Vec<String>,
    /// Sums over everything.
    pub all: SideRow,
    /// By object and member, costliest first.
    pub places: Vec<SideRow>,
    /// By function, costliest first.
    pub functions: Vec<SideRow>,
}

/// Sums of one name in one recording: stall cycles and HITMs.
type Sums = BTreeMap<String, (u64, u64)>;

impl SideBySide {
    /// Puts recordings side by side, with at most `rows_max` rows in each table.
    pub fn of_recordings(recordings: &[(String, Recording)], rows_max: usize) -> SideBySide {
        let sums: Vec<(Sums, Sums)> = recordings
            .iter()
            .map(|(_, recording)| sums(&recording.statistics, &recording.names()))
            .collect();
        let labels = recordings.iter().map(|(label, _)| label.clone()).collect();
        SideBySide::of_sums(labels, &sums, rows_max)
    }

    /// The same from statistics and names.
    pub fn build(runs: &[(&str, &Statistics, &dyn Names)], rows_max: usize) -> SideBySide {
        let all: Vec<(Sums, Sums)> = runs
            .iter()
            .map(|(_, statistics, names)| sums(statistics, *names))
            .collect();
        let labels = runs.iter().map(|(label, _, _)| (*label).to_owned());
        SideBySide::of_sums(labels.collect(), &all, rows_max)
    }

    fn of_sums(labels: Vec<String>, sums: &[(Sums, Sums)], rows_max: usize) -> SideBySide {
        let totals = sums.iter().map(|(places, _)| {
            let add = |sum: (u64, u64), one: &(u64, u64)| (sum.0 + one.0, sum.1 + one.1);
            places.values().fold((0, 0), add)
        });
        let (stall_cycles, hitm_count) = totals.unzip();
        let all = SideRow {
            name: "all".into(),
            stall_cycles,
            hitm_count,
        };
        SideBySide {
            labels,
            all,
            places: rows(
                &sums.iter().map(|(places, _)| places).collect::<Vec<_>>(),
                rows_max,
            ),
            functions: rows(
                &sums.iter().map(|(_, own)| own).collect::<Vec<_>>(),
                rows_max,
            ),
        }
    }
}

fn sums(statistics: &Statistics, names: &dyn Names) -> (Sums, Sums) {
    let (mut places, mut functions) = (Sums::new(), Sums::new());
    for (line, stats) in &statistics.lines {
        for (key, row) in &stats.rows {
            let (stall, hitm) = (row.stall.0, row.sources.hitm());
            if stall == 0 && hitm == 0 {
                continue;
            }
            let addr = line.first_byte() + u64::from(key.offset);
            let place = names.data(addr, key.size).map_or_else(
                || "without a name".to_owned(),
                |name| without_numbers(&(name.object + &name.member)),
            );
            let function = names.code(key.code).function;
            for (sums, name) in [(&mut places, place), (&mut functions, function)] {
                let sum = sums.entry(name).or_default();
                sum.0 += stall;
                sum.1 += hitm;
            }
        }
    }
    (places, functions)
}

/// `runqueues[3].lock` as `runqueues[].lock`.
fn without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_inside = false;
    for c in name.chars() {
        is_inside &= c != ']';
        if !is_inside {
            text.push(c);
        }
        is_inside |= c == '[';
    }
    text
}

fn rows(sums: &[&Sums], rows_max: usize) -> Vec<SideRow> {
    let mut by_name: BTreeMap<&str, SideRow> = BTreeMap::new();
    for (index, sums) in sums.iter().enumerate() {
        for (name, (stall, hitm)) in *sums {
            let row = by_name.entry(name).or_default();
            row.stall_cycles.resize(index, 0);
            row.hitm_count.resize(index, 0);
            row.stall_cycles.push(*stall);
            row.hitm_count.push(*hitm);
        }
    }
    let mut rows: Vec<SideRow> = by_name
        .into_iter()
        .map(|(name, mut row)| {
            row.name = name.to_owned();
            row.stall_cycles.resize(sums.len(), 0);
            row.hitm_count.resize(sums.len(), 0);
            row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.stall_cycles.iter().max().copied()));
    rows.truncate(rows_max);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_numbers() {
        assert_eq!(
            without_numbers("runqueues[3].cfs[0].x"),
            "runqueues[].cfs[].x"
        );
        assert_eq!(without_numbers("jiffies"), "jiffies");
    }

    #[test]
    fn a_name_that_one_recording_lacks_counts_nothing_there() {
        let sums = |list: &[(&str, u64)]| -> Sums {
            list.iter()
                .map(|(name, stall)| ((*name).to_owned(), (*stall, 1)))
                .collect()
        };
        let (a, b) = (sums(&[("x", 10), ("y", 5)]), sums(&[("y", 20)]));
        let found = rows(&[&a, &b], 5);
        let row = |name: &str, stall_cycles: [u64; 2], hitm_count: [u64; 2]| SideRow {
            name: name.into(),
            stall_cycles: stall_cycles.into(),
            hitm_count: hitm_count.into(),
        };
        assert_eq!(
            found,
            [row("y", [5, 20], [1, 1]), row("x", [10, 0], [1, 0])]
        );
        assert_eq!(rows(&[&a, &b], 1).len(), 1);
    }
}
