//! A look at a running program, as rows that many looks of many hosts are joined by.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, ThreadId};
use hitm_coherence::stats::{LineStats, RowKey, RowStats};
use hitm_fields::fields;
use hitm_recording::{AddressNames, Recording};
use hitm_trace::{PROCESS_SHIFT, WatchedLine, WatchedRun};

use super::Table;
use crate::model::share;
use crate::{LineReport, Names, Report, ReportOptions};

/// Host and time of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetLook<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Time at which it began, as ISO 8601 in UTC.
    pub time: &'a str,
}

fields! {
    /// A part of a contended line in one look at a running program: a member, and a function whose threads of one name
    /// access it.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct FleetRow in fleet_row {
        /// Name of the host.
        pub host: String => name "host";
        /// Time at which the look began, as ISO 8601 in UTC.
        pub time: String => label "time";
        /// Target of the look.
        pub target: String => words "target";
        /// Length of the look.
        pub duration_ns: u64 => nanos "look";
        /// CPU time of all threads in their program while they were sampled; the same in all rows of a look.
        pub cpu_ns: u64 => nanos "CPU time";
        /// Samples of all threads' clocks; the same in all rows of a look.
        pub sample_count: u64 => count "samples";
        /// Address of the line's first byte in its process; null, as all that follows, in the only row of a look that
        /// found no contended line.
        pub line: Option<u64> => address "line";
        /// Kind of contention of the line, one of docs/guide/verdicts.md.
        pub verdict: Option<String> => label "verdict";
        /// Object, all elements of an array together; null when unknown.
        pub object: Option<String> => name "object";
        /// Object and member, all elements of an array together; null when unknown.
        pub member: Option<String> => name "member";
        /// Function of the instructions, null when unknown.
        pub function: Option<String> => name "function";
        /// Source file and line of the instructions, null when unknown.
        pub source: Option<String> => name "source";
        /// Id of the process.
        pub pid: Option<u64> => number "pid";
        /// Name of the process.
        pub process: Option<String> => name "process";
        /// Name of the threads.
        pub thread: Option<String> => name "thread";
        /// Threads of that name.
        pub thread_count: Option<u64> => count "threads";
        /// CPU time that stands at these accesses: what they cost at most. Rows of a line share its time by the cycles
        /// that the model prices them at.
        pub most_ns: Option<u64> => nanos "at most";
        /// CPU time of the hand-overs that are certain by watches: what they cost at least, shared in the same way.
        pub least_ns: Option<u64> => nanos "at least";
        /// most_ns as a part of cpu_ns.
        most_share => share "at most", |row| row.most_ns.map(|ns| share(ns, row.cpu_ns));
        /// least_ns as a part of cpu_ns.
        least_share => share "at least", |row| row.least_ns.map(|ns| share(ns, row.cpu_ns));
        /// Hand-overs of the line in a second, at least, shared in the same way.
        pub change_rate_per_s: Option<f64> => decimal "hand-overs/s";
    }
}

impl FleetRow {
    /// A row with a value in each column, which has the type of all its values.
    fn full() -> FleetRow {
        let text = || Some(String::new());
        FleetRow {
            line: Some(0),
            verdict: text(),
            object: text(),
            member: text(),
            function: text(),
            source: text(),
            pid: Some(0),
            process: text(),
            thread: text(),
            thread_count: Some(0),
            most_ns: Some(0),
            least_ns: Some(0),
            change_rate_per_s: Some(0.0),
            ..FleetRow::default()
        }
    }
}

/// The contended lines of a look at a running program, by member, function and threads. A look without any has one row:
/// that somebody looked. Columns have the same types in all looks.
pub fn fleet(recording: &Recording, look: &FleetLook<'_>) -> Table {
    let mut table = empty();
    table.add(&[], fleet_row::ALL, &rows(recording, look));
    table
}

fn empty() -> Table {
    let full = FleetRow::full();
    Table {
        full: fleet_row::ALL
            .iter()
            .map(|field| (field.value)(&full))
            .collect(),
        ..Table::new("fleet", true, &[], fleet_row::ALL)
    }
}

fn rows(recording: &Recording, look: &FleetLook<'_>) -> Vec<FleetRow> {
    let sampled = recording.header.sampled.as_ref();
    let run = sampled.and_then(|sampled| sampled.watched.clone());
    let run = run.unwrap_or_default();
    let parts = Parts {
        recording,
        names: recording.names(),
        of_look: FleetRow {
            host: look.host.to_owned(),
            time: look.time.to_owned(),
            target: recording.header.args.join(" "),
            duration_ns: run.duration_ns,
            cpu_ns: run.cpu_ns,
            sample_count: run.sample_count,
            ..FleetRow::default()
        },
        run: &run,
    };
    let all = ReportOptions {
        lines_max: usize::MAX,
        rows_max: 0,
        call_paths_max: 0,
    };
    let report = Report::of_recording(recording, &all);
    let lines = report.lines.iter();
    let rows: Vec<FleetRow> = lines.flat_map(|line| parts.of_line(line)).collect();
    match rows.is_empty() {
        true => vec![parts.of_look],
        false => rows,
    }
}

/// Makes the rows of lines.
struct Parts<'a> {
    recording: &'a Recording,
    names: AddressNames<'a>,
    /// A row of the look, without a line.
    of_look: FleetRow,
    run: &'a WatchedRun,
}

/// Names that accesses of one row have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    object: Option<String>,
    member: Option<String>,
    function: Option<String>,
    source: Option<String>,
    process: usize,
    thread: String,
}

/// Accesses of a row.
#[derive(Debug, Default)]
struct Sum {
    lost_cycles: u64,
    access_count: u64,
    threads: BTreeSet<ThreadId>,
}

impl Sum {
    fn add(&mut self, thread: ThreadId, row: &RowStats) {
        self.lost_cycles = self.lost_cycles.saturating_add(row.contention_stall.0);
        self.access_count += row.sources.total();
        self.threads.insert(thread);
    }
}

impl Parts<'_> {
    /// The rows of a line, those that cost most first.
    fn of_line(&self, line: &LineReport) -> Vec<FleetRow> {
        let Some(stats) = self.recording.statistics.lines.get(&line.line) else {
            return Vec::new();
        };
        let mut sums = self.sums(line, stats);
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.lost_cycles, sum.access_count)));
        let lost: u64 = sums.iter().map(|(_, sum)| sum.lost_cycles).sum();
        let accesses: u64 = sums.iter().map(|(_, sum)| sum.access_count).sum();
        let mut watched = self.run.lines.iter();
        let watched = watched.find(|one| one.address == line.line.first_byte());
        let watched = watched.cloned().unwrap_or_default();
        let rows = sums.into_iter().map(|(part, sum)| {
            // What changed hands too rarely to be priced is shared by its accesses.
            let own = match lost {
                0 => share(sum.access_count, accesses),
                _ => share(sum.lost_cycles, lost),
            };
            self.row(line, part, &sum, &parted(&watched, own))
        });
        rows.collect()
    }

    fn sums(&self, line: &LineReport, stats: &LineStats) -> Vec<(Part, Sum)> {
        let mut sums: BTreeMap<Part, Sum> = BTreeMap::new();
        for (key, row) in &stats.rows {
            let part = self.part(line, key);
            sums.entry(part).or_default().add(key.thread, row);
        }
        sums.into_iter().collect()
    }

    fn part(&self, line: &LineReport, key: &RowKey) -> Part {
        let known = |name: String| (!name.is_empty()).then_some(name);
        let addr = line.line.first_byte() + u64::from(key.offset);
        let data = Names::data(&self.names, addr, key.size);
        let data = data.filter(|label| !label.object.is_empty());
        let code = Names::code(&self.names, key.code);
        let mut threads = self.recording.threads.iter();
        let thread = threads.find(|thread| thread.start.thread == key.thread);
        Part {
            object: data.as_ref().map(|label| label.kind()),
            member: data.map(|label| label.without_numbers()),
            source: known(code.source()),
            function: known(code.function),
            process: process_number(key.code),
            thread: thread.map_or_else(String::new, |thread| thread.start.name.clone()),
        }
    }

    fn row(&self, line: &LineReport, part: Part, sum: &Sum, cost: &Cost) -> FleetRow {
        let sampled = self.recording.header.sampled.as_ref();
        let process = sampled.and_then(|sampled| sampled.processes.get(part.process));
        FleetRow {
            line: Some(line.address),
            verdict: Some(line.verdict.id().to_owned()),
            object: part.object,
            member: part.member,
            function: part.function,
            source: part.source,
            pid: process.map(|process| process.pid.into()),
            process: process.map(|process| process.name.clone()),
            thread: Some(part.thread),
            thread_count: Some(sum.threads.len() as u64),
            most_ns: Some(cost.most_ns),
            least_ns: Some(cost.least_ns),
            change_rate_per_s: Some(cost.change_rate_per_s),
            ..self.of_look.clone()
        }
    }
}

/// Number of the process whose instruction it is.
fn process_number(code: CodeAddr) -> usize {
    (code.0 >> PROCESS_SHIFT) as usize
}

/// Cost of a row.
struct Cost {
    most_ns: u64,
    least_ns: u64,
    change_rate_per_s: f64,
}

/// A part of what a line costs.
fn parted(line: &WatchedLine, part: f64) -> Cost {
    let of = |whole: u64| whole as f64 * part;
    Cost {
        most_ns: of(line.most_ns).round() as u64,
        least_ns: of(line.least_ns).round() as u64,
        change_rate_per_s: of(line.change_rate_per_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_types_without_a_line() {
        let of = |rows: &[FleetRow]| {
            let mut table = empty();
            table.add(&[], fleet_row::ALL, rows);
            table.kinds()
        };
        let full = of(&[FleetRow::full()]);
        assert_eq!(of(&[]), full);
        assert_eq!(of(&[FleetRow::default()]), full);
    }
}
