//! All rows of a recording, some lines at a time.

use std::path::Path;

use hitm_base::{Access, LineAddr, Outcome};
use hitm_coherence::stats::Collector;

use super::read_all;
use crate::recording::statistics::{Shard, joined, line_hash, shards};
use crate::recording::{Recording, RecordingError, RecordingFile};

/// Rows of one shard that are kept at a time; a line counts as much as sixteen.
pub(super) const ROWS_AT_A_TIME: usize = 80_000;

/// Parts of a recording, at most. More lines than that have no room only where single lines have very
/// many rows.
const PARTS_MAX: u64 = 1 << 12;

/// Lines that stay together, as a power of two: those of a heap block say together what an element of it
/// is.
const TOGETHER_SHIFT: u32 = 10;

/// The lines whose group's hash leaves `number` when it is divided by `count`.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    count: u64,
}

impl Part {
    /// A quarter of the lines each.
    fn split(self) -> impl DoubleEndedIterator<Item = Part> {
        (0..4).map(move |quarter| Part {
            number: self.number + quarter * self.count,
            count: 4 * self.count,
        })
    }

    fn is_last_split(self) -> bool {
        self.count >= PARTS_MAX
    }
}

/// Rows of a part's lines.
struct PartRows {
    part: Part,
    rows: Collector,
    rows_max: usize,
    left_out: u64,
}

impl PartRows {
    fn is_full(&self) -> bool {
        self.rows.size_in_rows() > self.rows_max
    }
}

impl Shard for PartRows {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        let group = LineAddr(access.line().0 >> TOGETHER_SHIFT);
        if (line_hash(group) >> 40) % self.part.count != self.part.number {
            return;
        }
        match self.is_full() {
            true => self.left_out += 1,
            false => self.rows.add(access, outcome),
        }
    }
}

/// Reads a recording, and gives `each` all its rows: of very many those of some lines at a time, with
/// everything else that the recording says. A line is in one part.
pub(super) fn load(
    path: &Path,
    rows_max: usize,
    progress: &mut dyn FnMut(u64, u64),
    each: &mut dyn FnMut(&Recording),
) -> Result<(), RecordingError> {
    let mut parts = vec![Part {
        number: 0,
        count: 1,
    }];
    let mut left_out = 0;
    while let Some(part) = parts.pop() {
        let mut file = RecordingFile::open(path)?;
        let mut recording = Recording::of_header(file.header().clone(), file.machine()?);
        let mut shards = shards(|| PartRows {
            part,
            rows: Collector::default(),
            rows_max,
            left_out: 0,
        });
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
