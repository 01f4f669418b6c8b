//! Recordings with more rows than there is memory for: lines first, rows only for those that matter.
//!
//! Buffers that threads hand to one another have a row for each place, thread and instruction, and cost
//! their users next to nothing. When rows become many, the recording is read again: once to learn what
//! each line lost, once for the rows of the lines that a report shows. Sums stay those of all lines.
//!
//! ```text
//! all rows -> too many? -> tally of lines -> too many? -> tally of a quarter of the lines, four times ...
//!                               |
//!                               v
//!               lines that are wanted -> their rows; sums - rows = the rest
//! ```

mod part;
mod parts;
mod rows;
mod tallied;
#[cfg(test)]
mod tests;

use std::path::Path;

use hitm_base::{LineAddr, Machine};
use hitm_coherence::stats::Collector;
use hitm_trace::Record;

use super::statistics::{Found, Shard, joined, pass, shards};
use super::{Recording, RecordingError, RecordingFile};
use part::Part;
pub(super) use rows::Nameless;
use rows::{Chosen, ChosenRows, Keep, PartRows, add_nameless};
use tallied::Tallied;

/// The most that is kept. A line counts as much as sixteen rows.
struct Limits {
    /// Rows of one shard up to which all are kept.
    rows: usize,
    /// Lines that are tallied at a time.
    lines: usize,
    /// Rows of one shard's lines that are wanted. What has no row is among the sums of the rest.
    rows_of_shard: usize,
}

/// A row takes some 250 bytes at the end, a line of a tally 50; there are 16 shards.
const LIMITS: Limits = Limits {
    rows: 20_000,
    lines: 500_000,
    rows_of_shard: 20_000,
};

/// Reports show lines that lost one cycle in a thousand.
const OF_REPORT: Wanted<'static> = Wanted::CyclesPerLost(1 << 10);

/// A line that a replay makes 64 times dearer may have to be shown.
const OF_REPLAY: Wanted<'static> = Wanted::CyclesPerLost(1 << 16);

/// The lines that have rows however many there are.
#[derive(Debug, Clone, Copy)]
enum Wanted<'a> {
    /// Those that lost one cycle in at most so many of all threads' cycles.
    CyclesPerLost(u64),
    /// Those with a byte of an object of this type.
    Type(&'a str),
}

impl Recording {
    /// Reads a recording for its report. Of very many rows those of lines that lost next to nothing are
    /// only summed up ([`hitm_coherence::stats::Statistics::rest`]).
    pub fn load_contended(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        Recording::load_within(path, OF_REPORT, &LIMITS, progress)
    }

    /// Reads a recording for a report of one type. Of very many rows those of lines without an object of
    /// `type_name` are only summed up.
    pub fn load_type(
        path: &Path,
        type_name: &str,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        Recording::load_within(path, Wanted::Type(type_name), &LIMITS, progress)
    }

    /// Reads a recording for a replay: like [`Recording::load_contended`], with more lines.
    pub(crate) fn load_for_replay(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        Recording::load_within(path, OF_REPLAY, &LIMITS, progress)
    }

    /// Reads a recording, and gives `each` all its rows: of very many those of some lines at a time, with
    /// everything else that the recording says. A line is in one part.
    pub fn load_in_parts(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
        each: &mut dyn FnMut(&Recording),
    ) -> Result<(), RecordingError> {
        parts::load(path, parts::ROWS_AT_A_TIME, progress, each)
    }

    /// Returns true if some lines have no rows.
    pub(crate) fn is_cut(&self) -> bool {
        self.statistics.rest.line_count > 0
    }

    /// Adds the rows of `lines`, from the file that the recording was read from.
    pub(crate) fn add_rows(
        &mut self,
        path: &Path,
        lines: impl Iterator<Item = LineAddr>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RecordingError> {
        let has_rows = |line: &LineAddr| self.statistics.lines.contains_key(line);
        let lines = lines.filter(|line| !has_rows(line));
        let chosen: Chosen = lines.map(|line| (line, Keep::Rows)).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let (rows, found) = rows_of(path, (&chosen, LIMITS.rows_of_shard), self, progress)?;
        let more = joined(rows, found.calls);
        for (line, stats) in &more.lines {
            self.statistics.rest.take_out(*line, stats);
        }
        self.statistics.merge_disjoint(more);
        Ok(())
    }

    fn load_within(
        path: &Path,
        wanted: Wanted<'_>,
        limits: &Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        let mut file = RecordingFile::open(path)?;
        let machine = file.machine()?;
        let mut recording = Recording::of_header(file.header().clone(), machine.clone());
        let mut all_rows = shards(|| PartRows::new(Part::WHOLE, limits.rows));
        let are_many = |shards: &[PartRows]| shards.iter().any(PartRows::is_full);
        let mut take = |record| recording.take(record);
        let found = read_all(&mut file, &mut all_rows, are_many, &mut take, progress)?;
        if found.is_stopped {
            drop((all_rows, recording));
            return load_lines_first(path, (machine, wanted), limits, progress);
        }
        recording.has_work = found.has_work;
        let rows = all_rows.into_iter().map(|shard| shard.rows).collect();
        recording.statistics = joined(rows, found.calls);
        recording.recovery = file.reader.recovery();
        Ok(recording)
    }
}

fn load_lines_first(
    path: &Path,
    (machine, wanted): (Machine, Wanted<'_>),
    limits: &Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, RecordingError> {
    let mut parts = 1;
    let (mut recording, tallied) = loop {
        match Tallied::of_file(path, &machine, wanted, (parts, limits.lines), progress)? {
            Some(tallied) => break tallied,
            None => parts *= 4,
        }
    };
    let chosen = tallied.chosen(&recording, wanted);
    let limits = (&chosen, limits.rows_of_shard);
    let (rows, found) = rows_of(path, limits, &mut recording, progress)?;
    recording.statistics = joined(rows, found.calls);
    let mut rest = tallied.sums;
    for (line, stats) in &recording.statistics.lines {
        rest.take_out(*line, stats);
    }
    recording.statistics.rest = rest;
    Ok(recording)
}

/// The rows of chosen lines, at most so many in a shard. Counts in `recording` what has none.
fn rows_of(
    path: &Path,
    (chosen, rows_max): (&Chosen, usize),
    recording: &mut Recording,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Collector>, Found), RecordingError> {
    let mut shards = shards(|| ChosenRows {
        chosen,
        rows: Collector::default(),
        rows_max,
        left_out: 0,
        nameless: Nameless::default(),
    });
    let mut file = RecordingFile::open(path)?;
    let found = read_all(&mut file, &mut shards, |_| false, &mut |_| {}, progress)?;
    let mut rows = Vec::new();
    for shard in shards {
        recording.accesses_without_row += shard.left_out;
        for (code, found) in shard.nameless {
            add_nameless(&mut recording.nameless, code, found);
        }
        rows.push(shard.rows);
    }
    Ok((rows, found))
}

/// One pass over a file that has just been opened.
fn read_all<S: Shard>(
    file: &mut RecordingFile,
    shards: &mut [S],
    is_enough: impl Fn(&[S]) -> bool,
    take: &mut dyn FnMut(Record),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Found, RecordingError> {
    let all = file.len();
    let found = pass(&mut file.reader, shards, is_enough, take, &mut |read| {
        progress(read, all);
    });
    found.map_err(|error| file.failed(error))
}
