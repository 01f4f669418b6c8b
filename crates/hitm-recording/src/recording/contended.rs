//! Files with more rows than there is memory for: lines first, rows only for those that matter.
//!
//! Buffers that threads hand to one another have a row for each place, thread and instruction, and cost
//! their users next to nothing. When rows become many, they are summed up by line, and the rest of the file
//! is counted so: the first pass says what each line lost. A second one reads the rows of the lines that a
//! report shows. Sums stay those of all lines.
//!
//! ```text
//! all rows -> too many? -> tally of lines -> too many? -> tally of a quarter of the lines, four times ...
//!                               |
//!                               v
//!               lines that are wanted -> their rows; sums - rows = the rest
//! ```

mod counted;
mod part;
mod parts;
mod rows;
mod source;
mod spill;
mod tallied;
#[cfg(test)]
mod tests;

use std::path::Path;

use counted::Counted;
use hitm_base::LineAddr;
use hitm_coherence::stats::{CallStats, Collector};

use super::statistics::joined;
use super::{Recording, RecordingError};
pub(super) use rows::Nameless;
use rows::{Chosen, ChosenRows, Keep, Tier, add_nameless};
use source::RecordingAt;
pub(crate) use source::{Others, Passed, Source};
use tallied::Tallied;

/// The most that is kept. A line counts as much as sixteen rows.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Rows up to which all are kept.
    rows: usize,
    /// Lines that are tallied at a time.
    lines: usize,
    /// Rows of the lines that are wanted. What has no row is among the sums of the rest.
    wanted_rows: usize,
}

/// A row takes some 250 bytes at the end, a line of a tally 70.
const LIMITS: Limits = Limits {
    rows: 320_000,
    lines: 500_000,
    wanted_rows: 320_000,
};

impl Limits {
    /// The part of one of so many shards, which have the lines of a pass together.
    fn of_shard(&self, shards: usize) -> Limits {
        Limits {
            rows: self.rows / shards,
            lines: self.lines,
            wanted_rows: self.wanted_rows / shards,
        }
    }
}

/// Reports show lines that lost one cycle in a thousand.
pub(crate) const OF_REPORT: Wanted<'static> = Wanted::CyclesPerLost(1 << 10);

/// A line that a replay makes 64 times dearer may have to be shown.
const OF_REPLAY: u64 = 1 << 16;

/// The lines that have rows however many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// Those that lost one cycle in at most so many of all threads' cycles; of samples, which do not say how
    /// long threads ran, those that lost most.
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
        load(&mut RecordingAt(path.into()), OF_REPORT, progress)
    }

    /// Reads a recording for a report of one type. Of very many rows those of lines without an object of
    /// `type_name` are only summed up.
    pub fn load_type(
        path: &Path,
        type_name: &str,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        load(
            &mut RecordingAt(path.into()),
            Wanted::Type(type_name),
            progress,
        )
    }

    /// Reads a recording for a replay: like [`Recording::load_contended`], with more lines.
    pub fn load_for_replay(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        load(
            &mut RecordingAt(path.into()),
            Wanted::CyclesPerLost(OF_REPLAY),
            progress,
        )
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
    pub fn is_cut(&self) -> bool {
        self.statistics.rest.line_count > 0
    }

    /// Adds the rows of `lines`, from the file that the recording was read from.
    pub fn add_rows(
        &mut self,
        path: &Path,
        lines: impl Iterator<Item = LineAddr>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RecordingError> {
        let chosen = lines.map(|line| (line, Keep::Rows(Tier::FIRST)));
        self.add_chosen(path, chosen.collect(), progress)
    }

    /// Adds the rows that [`Recording::load_for_replay`] reads, to a recording that was read from `path` for
    /// its report.
    pub fn add_rows_for_replay(
        &mut self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RecordingError> {
        let chosen = Tallied::chosen_of_rest(self, OF_REPLAY);
        self.add_chosen(path, chosen, progress)
    }

    fn add_chosen(
        &mut self,
        path: &Path,
        mut chosen: Chosen,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RecordingError> {
        chosen.retain(|line, _| !self.statistics.lines.contains_key(line));
        if chosen.is_empty() {
            return Ok(());
        }
        let source = &mut RecordingAt(path.into());
        let (rows, calls) = rows_of(source, &chosen, &LIMITS, self, progress)?;
        let more = joined(rows, calls);
        for (line, stats) in &more.lines {
            self.statistics.rest.take_out(*line, stats);
        }
        self.statistics.merge_disjoint(more);
        Ok(())
    }
}

/// Reads a file of which all rows are kept while they are few, and of many those of the wanted lines.
pub(crate) fn load<S: Source>(
    source: &mut S,
    wanted: Wanted<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, S::Error> {
    load_within(source, wanted, &LIMITS, progress)
}

fn load_within<S: Source>(
    source: &mut S,
    wanted: Wanted<'_>,
    limits: &Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, S::Error> {
    let of_shard = limits.of_shard(S::SHARDS);
    let first = source.read(Others::Kept, &|| Counted::rows(&of_shard), progress)?;
    let (mut recording, tallied) = if first.is_stopped {
        drop(first);
        tallied_in_parts(source, wanted, limits, progress)?
    } else if first.shards.iter().all(Counted::has_rows) {
        let mut recording = first.recording;
        let rows = first.shards.into_iter().filter_map(Counted::into_rows);
        recording.statistics = joined(rows.collect(), first.calls.finish());
        return Ok(recording);
    } else {
        let tallies = first.shards.into_iter().map(Counted::into_tally);
        let mut tallied = Tallied::default();
        tallied.add(&first.recording, tallies.collect(), wanted);
        (first.recording, tallied)
    };
    let chosen = tallied.chosen(&recording, wanted);
    let (rows, calls) = rows_of(source, &chosen, limits, &mut recording, progress)?;
    recording.statistics = joined(rows, calls);
    let mut rest = tallied.sums;
    for (line, stats) in &recording.statistics.lines {
        rest.take_out(*line, stats);
    }
    recording.statistics.rest = rest;
    Ok(recording)
}

/// Tallies lines of which there are too many for one pass.
fn tallied_in_parts<S: Source>(
    source: &mut S,
    wanted: Wanted<'_>,
    limits: &Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Recording, Tallied), S::Error> {
    let mut parts = 4;
    loop {
        match Tallied::of_parts(source, wanted, parts, limits, progress)? {
            Some(tallied) => return Ok(tallied),
            None => parts *= 4,
        }
    }
}

/// The rows of chosen lines, as many as the limits admit. Counts in `recording` what has none.
fn rows_of<S: Source>(
    source: &mut S,
    chosen: &Chosen,
    limits: &Limits,
    recording: &mut Recording,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Collector>, CallStats), S::Error> {
    let rows_max = limits.of_shard(S::SHARDS).wanted_rows;
    let make = || ChosenRows::new(chosen, rows_max);
    let found = source.read(Others::PassedOver, &make, progress)?;
    let mut rows = Vec::new();
    for shard in found.shards {
        recording.accesses_without_row += shard.left_out;
        for (code, found) in shard.nameless {
            add_nameless(&mut recording.nameless, code, found);
        }
        rows.extend(shard.tiers);
    }
    Ok((rows, found.calls.finish()))
}
