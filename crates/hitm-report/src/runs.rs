//! Several recordings of one program: which of them a report shows, and how far their losses lie apart.

use hitm_fields::fields;
use std::collections::BTreeMap;

use thiserror::Error;

use crate::Report;
use crate::baseline::Baseline;

/// Errors of runs that do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunsError {
    /// A run has samples.
    #[error("{file}: found samples, expected a recording of every access")]
    Samples {
        /// The run.
        file: String,
    },
    /// Runs are priced on different machines.
    #[error("{file}: found a recording on {found}, expected one on {expected}, as {first} is")]
    Machine {
        /// The run.
        file: String,
        /// Its machine.
        found: String,
        /// That of the first run.
        expected: String,
        /// The first run.
        first: String,
    },
}

fields! {
    /// One of several runs.
    #[derive(Debug, Clone, PartialEq)]
    pub struct OneRun in one_run {
        /// File of the recording.
        pub file: String => label "file";
        /// Cycles that its threads lost to contention.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// lost_cycles as a part of all threads' time.
        pub run_share: f64 => share "run";
        /// True if the recording was closed properly.
        pub complete: bool => label "complete";
    }
}

fields! {
    /// Cycles that a member lost in each run.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MemberRuns in member_runs {
        /// Object and member, by the name that a baseline has for it.
        pub name: String => label "member";
        /// List of the cycles lost in each run, in the order of the runs.
        pub lost_cycles: Vec<u64> => cycles "lost cycles";
        /// Median of lost_cycles.
        lost_cycles_median => cycles "lost cycles", |member| member.spread().median;
        /// The largest less the least of lost_cycles.
        spread_cycles => cycles "spread", |member| member.spread().cycles();
    }
}

impl MemberRuns {
    /// Median, least and largest.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.lost_cycles)
    }
}

fields! {
    /// Several recordings of one program.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Runs in runs {
        /// The runs, in the order of their files.
        pub runs: Vec<OneRun>;
        /// Runs.
        count => count "runs", |runs| runs.runs.len();
        /// File of the run that the report shows: the one whose lost cycles are the median.
        shown => label "shown", |runs| runs.shown_file();
        /// Median of the cycles that runs lost to contention, of an even number of runs the lower middle.
        lost_cycles_median => cycles "lost cycles", |runs| runs.spread().median;
        /// The largest less the least of the cycles that runs lost.
        spread_cycles => cycles "spread", |runs| runs.spread().cycles();
        /// spread_cycles as a part of lost_cycles_median, null when that is nothing.
        spread_share => share "spread", |runs| runs.spread().share();
        /// Each member's cycles, by name; none without totals by member.
        pub members: Vec<MemberRuns>;
    }
}

impl Runs {
    /// Cycles lost in each run.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.lost_cycles())
    }

    /// Cycles lost in each run, in the order of their files.
    pub fn lost_cycles(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.lost_cycles).collect()
    }

    /// Index of the run that a report shows: the first whose lost cycles are the median.
    pub fn shown(&self) -> usize {
        let median = self.spread().median;
        let is_median = |run: &OneRun| run.lost_cycles == median;
        self.runs.iter().position(is_median).unwrap_or(0)
    }

    /// The run that a report shows.
    pub fn shown_file(&self) -> &str {
        self.runs.get(self.shown()).map_or("", |run| &run.file)
    }

    /// Median, least and largest part of all threads' time that runs lost, 0 to 1.
    pub fn run_shares(&self) -> [f64; 3] {
        let mut shares: Vec<f64> = self.runs.iter().map(|run| run.run_share).collect();
        shares.sort_by(f64::total_cmp);
        let at = |index: usize| shares.get(index).copied().unwrap_or(0.0);
        let last = shares.len().saturating_sub(1);
        [at(last / 2), at(0), at(last)]
    }

    /// One sentence about what the runs lost.
    pub fn text(&self) -> String {
        let [median, least, largest] = self.run_shares().map(|share| share * 100.0);
        if self.runs.len() == 1 {
            return format!("1 run lost {median:.1}% of the threads' time");
        }
        format!(
            "{} runs lost {median:.1}% of the threads' time (median), {least:.1}% to {largest:.1}%",
            self.runs.len()
        )
    }

    /// One sentence about what the runs lost, and which of them is shown.
    pub fn shown_text(&self) -> String {
        format!("{}; shown is {}", self.text(), self.shown_file())
    }

    /// Sentences about runs that are not whole.
    pub fn diagnostics(&self) -> Vec<String> {
        let cut = self.runs.iter().filter(|run| !run.complete);
        cut.map(|run| format!("{}: the recording ends before the run", run.file))
            .collect()
    }
}

/// Reads runs one after the other.
#[derive(Debug, Default)]
pub struct RunsReading {
    runs: Vec<OneRun>,
    machine: String,
    members: BTreeMap<String, Vec<u64>>,
}

impl RunsReading {
    /// Adds the report of a run; `file` names it.
    ///
    /// # Errors
    /// The run has samples, or is of another machine than the first.
    pub fn add(&mut self, file: &str, report: &Report) -> Result<(), RunsError> {
        let file = file.to_owned();
        if report.run.sampled.is_some() {
            return Err(RunsError::Samples { file });
        }
        let machine = &report.run.machine;
        match self.runs.first() {
            None => self.machine.clone_from(machine),
            Some(first) if self.machine != *machine => {
                return Err(RunsError::Machine {
                    file,
                    found: machine.clone(),
                    expected: self.machine.clone(),
                    first: first.file.clone(),
                });
            }
            Some(_) => {}
        }
        let earlier = self.runs.len();
        for (name, cycles) in Baseline::members_of(report) {
            let member = self.members.entry(name).or_default();
            member.resize(earlier, 0);
            member.push(cycles);
        }
        self.runs.push(OneRun {
            file,
            lost_cycles: report.totals.lost_cycles,
            run_share: report.totals.run_share(),
            complete: report.run.complete,
        });
        Ok(())
    }

    /// The runs that were added.
    pub fn finish(self) -> Runs {
        let run_count = self.runs.len();
        let members = self.members.into_iter();
        let members = members.map(|(name, mut lost_cycles)| {
            // In the last runs it lost nothing.
            lost_cycles.resize(run_count, 0);
            MemberRuns { name, lost_cycles }
        });
        Runs {
            runs: self.runs,
            members: members.collect(),
        }
    }
}

/// Median, least and largest of several runs' cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// The middle one; of an even number the lower of the two.
    pub median: u64,
    /// The least.
    pub least: u64,
    /// The largest.
    pub largest: u64,
    /// Runs.
    pub run_count: usize,
}

impl Spread {
    /// The spread of numbers; of none it is all 0.
    pub fn of(cycles: &[u64]) -> Spread {
        let mut sorted = cycles.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0);
        let last = sorted.len().saturating_sub(1);
        Spread {
            median: at(last / 2),
            least: at(0),
            largest: at(last),
            run_count: sorted.len(),
        }
    }

    /// The largest less the least.
    pub fn cycles(self) -> u64 {
        self.largest - self.least
    }

    /// The same as a part of the median; none when that is 0.
    pub fn share(self) -> Option<f64> {
        (self.median > 0).then(|| crate::model::share(self.cycles(), self.median))
    }

    /// The most that another run may lose: beyond the largest by all that the runs differ.
    pub fn ceiling(self) -> u64 {
        self.largest.saturating_add(self.cycles())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle() {
        let of = |cycles: &[u64]| {
            let spread = Spread::of(cycles);
            (spread.median, spread.least, spread.largest)
        };
        assert_eq!(of(&[]), (0, 0, 0));
        assert_eq!(of(&[7]), (7, 7, 7));
        assert_eq!(of(&[9, 1]), (1, 1, 9));
        assert_eq!(of(&[9, 1, 4]), (4, 1, 9));
        assert_eq!(of(&[9, 1, 4, 5]), (4, 1, 9));
    }

    #[test]
    fn a_run_may_lie_beyond_the_largest_by_the_whole_spread() {
        assert_eq!(Spread::of(&[100, 130, 110]).ceiling(), 160);
        assert_eq!(Spread::of(&[100]).ceiling(), 100);
        assert_eq!(Spread::of(&[0, u64::MAX]).ceiling(), u64::MAX);
        assert_eq!(Spread::of(&[0, 0, 5]).share(), None);
    }

    #[test]
    fn the_shown_run_has_the_median() {
        let run = |file: &str, lost_cycles: u64| OneRun {
            file: file.to_owned(),
            lost_cycles,
            run_share: lost_cycles as f64 / 1000.0,
            complete: true,
        };
        let runs = Runs {
            runs: vec![run("1.hitm", 90), run("2.hitm", 310), run("3.hitm", 120)],
            members: Vec::new(),
        };
        assert_eq!((runs.shown(), runs.shown_file()), (2, "3.hitm"));
        assert_eq!(
            runs.text(),
            "3 runs lost 12.0% of the threads' time (median), 9.0% to 31.0%"
        );
        let one = Runs {
            runs: vec![run("1.hitm", 90)],
            members: Vec::new(),
        };
        assert_eq!(one.text(), "1 run lost 9.0% of the threads' time");
    }
}
