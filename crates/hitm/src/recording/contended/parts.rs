//! All rows of a recording, some lines at a time.

use std::path::Path;

use super::part::Part;
use super::read_all;
use super::rows::PartRows;
use crate::recording::statistics::{joined, shards};
use crate::recording::{Recording, RecordingError, RecordingFile};

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
    let mut parts = vec![Part::WHOLE];
    let mut left_out = 0;
    while let Some(part) = parts.pop() {
        let mut file = RecordingFile::open(path)?;
        let mut recording = Recording::of_header(file.header().clone(), file.machine()?);
        let mut shards = shards(|| PartRows::new(part, rows_max));
        let are_many =
            |shards: &[PartRows]| !part.is_last_split() && shards.iter().any(PartRows::is_full);
        let mut take = |record| recording.take(record);
        let found = read_all(&mut file, &mut shards, are_many, &mut take, progress)?;
        if found.is_stopped {
            parts.extend(part.split().rev());
            continue;
        }
        left_out += shards.iter().map(|shard| shard.left_out).sum::<u64>();
        recording.accesses_without_row = left_out;
        recording.has_work = found.has_work;
        recording.recovery = file.reader.recovery();
        let rows = shards.into_iter().map(|shard| shard.rows).collect();
        recording.statistics = joined(rows, found.calls);
        each(&recording);
    }
    Ok(())
}
