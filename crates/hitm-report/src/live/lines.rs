//! Lines of running programs, for a view that shows one row in one line.

use std::collections::BTreeSet;
use std::time::Duration;

use hitm_fields::{Field, fields};
use hitm_recording::Recording;
use hitm_trace::PROCESS_SHIFT;

use super::Window;
use super::screen::{figures, paragraph, rows, wide_or_narrow};
use crate::text::table::{Shows, gives_way, stays};
use crate::{Finding, Printout, Report, ReportOptions};

/// Rows of the table.
const LINES_MAX: usize = 100;
/// Part of the CPU time that a row's lines cost at most, from which on it is shown: as in `hitm live lines`.
const SHARE_MIN: f64 = 0.005;

fields! {
    /// Lines that threads of running programs fight over and that one change cures.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LineView in live_line {
        /// Processes whose threads access it, each with its number.
        pub process: String => name "process";
        /// Object, or object and member; of several objects their kind.
        pub name: String => name "what";
        /// Kind of contention, one of docs/guide/verdicts.md; a plus where threads fight in other ways as well.
        pub kind: String => words "kind";
        /// Part of the CPU time of the processes that are looked at that stands at its accesses: what it costs at most.
        pub most_share: f64 => share "at most";
        /// The standard error of most_share, by the number of samples.
        pub most_error: f64 => share "+-";
        /// Part of it that its hand-overs cost: what it costs at least.
        pub least_share: f64 => share "at least";
        /// Hand-overs of its lines in a second, at least.
        pub change_rate_per_s: u64 => count "hand-overs/s";
        /// Lines that are contended.
        pub line_count: u64 => count "lines";
        /// Threads that access them.
        pub thread_count: u64 => count "threads";
        /// Function that contends most, and the place in its source.
        pub written_in: String => words "written in";
        /// Advice on it.
        pub fix: String;
    }
}

const COLUMNS: &[Shows<LineView>] = &[
    stays(live_line::most_share),
    gives_way(1, live_line::most_error),
    stays(live_line::least_share),
    gives_way(2, live_line::thread_count),
    stays(live_line::process),
    stays(live_line::kind),
    stays(live_line::name),
    gives_way(3, live_line::written_in),
];
const FIGURES: &[Field<LineView>] = &[
    live_line::most_share,
    live_line::most_error,
    live_line::least_share,
    live_line::change_rate_per_s,
    live_line::line_count,
    live_line::thread_count,
];

/// Lines of a window of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveLines {
    /// The dearest first.
    pub lines: Vec<LineView>,
    /// Processes that were looked at.
    pub processes: Vec<String>,
    /// Sentences on what was not seen.
    pub notes: Vec<String>,
}

impl LiveLines {
    /// Judges the recording of a look.
    pub fn of(recording: &Recording) -> LiveLines {
        let options = ReportOptions {
            lines_max: LINES_MAX,
            rows_max: 0,
            call_paths_max: 0,
        };
        let report = Report::of_recording(recording, &options);
        let findings = report.findings.iter();
        let lines = findings.filter_map(|finding| line_view(recording, finding));
        let mut lines: Vec<LineView> = lines.collect();
        lines.sort_by(|one, other| other.most_share.total_cmp(&one.most_share));
        let sampled = recording.header.sampled.iter();
        LiveLines {
            lines,
            processes: (0..sampled.clone().map(|seen| seen.processes.len()).sum())
                .filter_map(|number| process(recording, number))
                .collect(),
            notes: sampled.flat_map(|seen| seen.notes.clone()).collect(),
        }
    }

    /// Says what a look took of a CPU, and for how long nobody looks to make up for it.
    #[must_use]
    pub fn with_rest(mut self, cost: Duration, rest: Duration) -> LiveLines {
        let cost_ms = cost.as_secs_f64() * 1e3;
        let rest = rest.as_secs_f64();
        self.notes.push(format!(
            "This look took {cost_ms:.0} ms of a CPU. hitm takes a hundredth of one: the next look begins in {rest:.1} s."
        ));
        self
    }
}

fn line_view(recording: &Recording, finding: &Finding) -> Option<LineView> {
    let bounds = finding.bounds?;
    let lines = recording.statistics.lines.iter();
    let own = lines.filter(|(line, _)| finding.lines.contains(line));
    let numbers: BTreeSet<usize> = own
        .flat_map(|(_, stats)| stats.rows.keys())
        .map(|row| (row.code.0 >> PROCESS_SHIFT) as usize)
        .collect();
    let processes = numbers.into_iter();
    let processes: Vec<String> = processes
        .filter_map(|number| process(recording, number))
        .collect();
    (bounds.most_share >= SHARE_MIN && !processes.is_empty()).then(|| LineView {
        process: processes.join(", "),
        name: finding.name.clone(),
        kind: finding.kind_brief.clone(),
        most_share: bounds.most_share,
        most_error: bounds.most_error,
        least_share: bounds.least_share,
        change_rate_per_s: bounds.change_rate_per_s,
        line_count: finding.line_count,
        thread_count: finding.thread_count.unwrap_or(0),
        written_in: finding.written_in(),
        fix: finding.fix.clone(),
    })
}

/// Name and number of a process.
fn process(recording: &Recording, number: usize) -> Option<String> {
    let sampled = recording.header.sampled.as_ref()?;
    let process = sampled.processes.get(number)?;
    Some(format!("{} {}", process.name, process.pid))
}

impl Window for LiveLines {
    fn row_count(&self) -> usize {
        self.lines.len()
    }

    fn key(&self, row: usize) -> Option<String> {
        let line = self.lines.get(row)?;
        Some(format!("{} {}", line.process, line.name))
    }

    fn rows(&self, width: usize) -> Printout {
        rows(wide_or_narrow(COLUMNS, width), &self.lines, width)
    }

    fn detail(&self, row: usize, width: usize) -> Printout {
        let Some(line) = self.lines.get(row) else {
            return Printout::new();
        };
        let mut out = paragraph(&format!("{} of {}", line.name, line.process), width);
        let kind = format!("{}, in {}.", line.kind, line.written_in);
        out.append(&paragraph(&kind, width));
        if !line.fix.is_empty() {
            out.blank();
            out.append(&paragraph(&line.fix, width));
        }
        figures(&mut out, FIGURES, line, width);
        out
    }

    fn nothing(&self) -> String {
        match &self.processes[..] {
            [] => "No process used the CPU.".to_owned(),
            processes => format!("No line is contended by {}.", processes.join(", ")),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
