//! All rows of a recording, some lines at a time.
//!
//! The recording is read twice at most. When rows become many, the second pass writes its accesses
//! to temporary files, partitioned by line. These are then counted one after the other.

use std::path::Path;

use hitm_coherence::stats::Collector;
use rayon::prelude::*;

use super::part::Part;
use super::rows::PartRows;
use super::source::{Others, Passed, RecordingAt, Source as _};
use super::spill::{PARTS, Spill};
use crate::recording::statistics::joined;
use crate::recording::{Recording, RecordingError};

/// Rows of one shard that are kept at a time; a line counts as much as sixteen.
pub(super) const ROWS_AT_A_TIME: usize = 80_000;

/// Reads a recording, and gives `each` all its rows: of very many those of some lines at a time, with
/// everything else that the recording says. A line is in one part.
pub(super) fn load(
    path: &Path,
    rows_max: usize,
    progress: &mut dyn FnMut(u64, u64),
    each: &mut dyn FnMut(&Recording),
) -> Result<(), RecordingError> {
    let mut source = RecordingAt(path.into());
    let make = || PartRows::new(Part::WHOLE, rows_max);
    let found = source.read(Others::Kept, &make, progress)?;
    if !found.is_stopped {
        let mut recording = found.recording;
        let rows = found.shards.into_iter().map(|shard| shard.rows);
        recording.statistics = joined(rows.collect(), found.calls.finish());
        each(&recording);
        return Ok(());
    }
    drop(found);
    let mut all = 0;
    let found = source.read(Others::Kept, &Spill::new, &mut |read, len| {
        all = len;
        progress(read, 2 * len);
    })?;
    load_spilled(found, rows_max, each, &mut |part| {
        progress(all + all * part / PARTS as u64, 2 * all);
    })
}

fn load_spilled(
    found: Passed<Spill>,
    rows_max: usize,
    each: &mut dyn FnMut(&Recording),
    progress: &mut dyn FnMut(u64),
) -> Result<(), RecordingError> {
    let failed = |source| RecordingError::Temporary { source };
    let mut spills = found.shards;
    for spill in &mut spills {
        spill.finish().map_err(failed)?;
    }
    let mut ready = Ready {
        recording: found.recording,
        rows: Vec::new(),
        size: 0,
    };
    ready.recording.statistics.calls = found.calls.finish();
    // A part that comes and those that are ready are together at most as much as fits.
    let part_max = rows_max / 4;
    for (number, whole) in Part::all(PARTS as u64).enumerate() {
        let mut parts = vec![whole];
        while let Some(part) = parts.pop() {
            let mut max = part_max;
            if part.is_last_split() {
                // It cannot be smaller: it gets all the room.
                ready.give(each);
                max = rows_max;
            }
            let rows = spills.par_iter();
            let rows = rows.map(|spill| spill.rows(number, part, max));
            let rows: Vec<PartRows> = rows.collect::<Result<_, _>>().map_err(failed)?;
            if rows.iter().any(PartRows::is_enough) {
                parts.extend(part.split().rev());
                continue;
            }
            ready.add(rows, rows_max - part_max, each);
        }
        progress(number as u64 + 1);
    }
    ready.give(each);
    Ok(())
}

/// Rows that nobody has got yet, with everything else that the recording says.
struct Ready {
    recording: Recording,
    rows: Vec<Collector>,
    /// Rows of the largest shards.
    size: usize,
}

impl Ready {
    fn add(&mut self, rows: Vec<PartRows>, size_max: usize, each: &mut dyn FnMut(&Recording)) {
        let size = rows.iter().map(|shard| shard.rows.size_in_rows());
        let size = size.max().unwrap_or(0);
        if self.size + size > size_max {
            self.give(each);
        }
        self.size += size;
        for shard in rows {
            self.recording.accesses_without_row += shard.left_out;
            self.rows.push(shard.rows);
        }
    }

    fn give(&mut self, each: &mut dyn FnMut(&Recording)) {
        if self.rows.is_empty() {
            return;
        }
        let statistics = &mut self.recording.statistics;
        let calls = std::mem::take(&mut statistics.calls);
        *statistics = joined(std::mem::take(&mut self.rows), calls);
        each(&self.recording);
        self.recording.statistics.lines.clear();
        self.size = 0;
    }
}
