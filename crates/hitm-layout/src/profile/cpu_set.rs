//! A set of CPUs as text and as numbers.

use std::fmt;

use hitm_base::{CpuId, cpu_range};

/// Some CPUs, at least one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet {
    /// First and last of each run; ascending, with gaps between.
    runs: Vec<(u16, u16)>,
}

impl CpuSet {
    /// One CPU.
    pub fn one(cpu: CpuId) -> CpuSet {
        CpuSet {
            runs: vec![(cpu.0, cpu.0)],
        }
    }

    /// `0-3 8-11`, `5`: numbers and ranges with spaces between. None when it is anything else, or a
    /// number beyond what a topology may have.
    pub fn parse(text: &str) -> Option<CpuSet> {
        let ranges = text.split_whitespace().map(cpu_range);
        let runs = ranges.map(|range| range.map(|range| (*range.start(), *range.end())));
        CpuSet::of_runs(runs.collect::<Option<_>>()?)
    }

    /// These CPUs; none when there are none.
    pub fn of(cpus: impl Iterator<Item = CpuId>) -> Option<CpuSet> {
        CpuSet::of_runs(cpus.map(|cpu| (cpu.0, cpu.0)).collect())
    }

    fn of_runs(mut runs: Vec<(u16, u16)>) -> Option<CpuSet> {
        runs.sort_unstable();
        let mut joined: Vec<(u16, u16)> = Vec::new();
        for run in runs {
            match joined.last_mut() {
                Some(last) if run.0 <= last.1.saturating_add(1) => last.1 = last.1.max(run.1),
                _ => joined.push(run),
            }
        }
        (!joined.is_empty()).then_some(CpuSet { runs: joined })
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.runs
            .iter()
            .flat_map(|(first, last)| (*first..=*last).map(CpuId))
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.runs
            .iter()
            .map(|(first, last)| usize::from(last - first) + 1)
            .sum()
    }

    /// Always false: a set has at least one CPU.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The CPU with the highest number.
    pub fn last(&self) -> CpuId {
        CpuId(self.runs.last().map_or(0, |run| run.1))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.runs.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match first == last {
                true => write!(f, "{space}{first}")?,
                false => write!(f, "{space}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
