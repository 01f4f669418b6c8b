//! The first pass over a large recording: what each line lost, and which lines to keep.

use std::collections::BTreeSet;
use std::path::Path;

use hitm_base::{Access, LINE_SIZE, LineAddr, Machine, Outcome};
use hitm_coherence::stats::{LineTally, RestOfLines};

use super::part::Part;
use super::rows::{Chosen, Keep};
use super::{Wanted, read_all};
use crate::recording::statistics::{Shard, shards};
use crate::recording::{Recording, RecordingError, RecordingFile};

/// Lines that may matter: more only where a recording does not say how long its threads ran.
const LINES_THAT_MATTER_MAX: usize = 1 << 14;

/// Lines of a heap block up to which all of them have rows when one has: an array with an element for each
/// thread is smaller.
const BLOCK_LINES_MAX: u64 = 1024;

/// Bytes between the places of a line at which a type is looked for. Structures begin and end at multiples
/// of four, or are larger.
const TYPE_STEP_BYTES: usize = 4;

/// Facts about all lines.
pub(super) struct Tallied {
    pub(super) sums: RestOfLines,
    lines: BTreeSet<LineAddr>,
}

impl Tallied {
    /// Tallies the lines of a file, in `parts` passes of at most `lines_max` lines, and reads everything
    /// else; none when a part has more lines.
    pub(super) fn of_file(
        path: &Path,
        machine: &Machine,
        wanted: Wanted<'_>,
        (parts, lines_max): (u64, usize),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<(Recording, Tallied)>, RecordingError> {
        let header = RecordingFile::open(path)?.header().clone();
        let mut recording = Recording::of_header(header, machine.clone());
        let mut tallied = Tallied {
            sums: RestOfLines::default(),
            lines: BTreeSet::new(),
        };
        let are_many = |tallies: &[PartTally]| {
            let lines = tallies.iter().map(|part| part.tally.lines().len());
            lines.sum::<usize>() > lines_max
        };
        for part in Part::all(parts) {
            let mut tallies = shards(|| PartTally {
                part,
                tally: LineTally::default(),
            });
            let mut take = |record| {
                if part.is_first() {
                    recording.take(record);
                }
            };
            let mut file = RecordingFile::open(path)?;
            let found = read_all(&mut file, &mut tallies, are_many, &mut take, progress)?;
            if found.is_stopped {
                return Ok(None);
            }
            recording.has_work = found.has_work;
            recording.recovery = file.reader.recovery();
            tallied.choose(&recording, &tallies, wanted);
            for part in tallies {
                tallied.sums.merge(part.tally.sums());
            }
        }
        Ok(Some((recording, tallied)))
    }

    fn choose(&mut self, recording: &Recording, tallies: &[PartTally], wanted: Wanted<'_>) {
        match wanted {
            Wanted::CyclesPerLost(most) => self.choose_costly(recording, tallies, most),
            Wanted::Type(name) => {
                let names = recording.names();
                let has_type = |line: &LineAddr| {
                    let bytes = (0..LINE_SIZE).step_by(TYPE_STEP_BYTES);
                    let mut places = bytes.map(|byte| line.first_byte() + byte);
                    places.any(|place| names.place_in_type(place, 1, name).is_some())
                };
                let lines = tallies.iter().flat_map(|part| part.tally.lines());
                self.lines.extend(lines.filter(has_type));
            }
        }
    }

    fn choose_costly(&mut self, recording: &Recording, tallies: &[PartTally], most: u64) {
        let thread_cycles = recording.thread_cycles().0;
        let handed = tallies.iter().flat_map(|part| part.tally.handed());
        let enough = handed.filter(|(_, handed)| {
            // A recording that was cut short may not know how long its threads ran.
            handed.lost.0.saturating_mul(most) >= thread_cycles
        });
        let mut enough: Vec<(LineAddr, u64)> =
            enough.map(|(line, handed)| (line, handed.lost.0)).collect();
        enough.sort_unstable_by_key(|(line, lost)| (std::cmp::Reverse(*lost), *line));
        let room = LINES_THAT_MATTER_MAX.saturating_sub(self.lines.len());
        let lines = enough.into_iter().take(room).map(|(line, _)| line);
        self.lines.extend(lines);
    }

    /// The chosen lines, all others of the heap blocks that they belong to, and for a report of a kernel
    /// those that have no name.
    pub(super) fn chosen(&self, recording: &Recording, wanted: Wanted<'_>) -> Chosen {
        let mut chosen = match wanted {
            Wanted::CyclesPerLost(_) => self.nameless(recording),
            Wanted::Type(_) => Chosen::default(),
        };
        let lines = with_blocks(recording, self.lines.clone());
        chosen.extend(lines.into_iter().map(|line| (line, Keep::Rows)));
        chosen
    }

    fn nameless(&self, recording: &Recording) -> Chosen {
        let names = recording.names();
        if !names.is_machine() {
            return Chosen::default();
        }
        let found = self
            .sums
            .handed
            .iter()
            .filter(|(_, one)| one.hitm_count > 0);
        let lines = found.map(|(line, _)| *line);
        let nameless = lines.filter(|line| names.known_as(line.first_byte()).is_none());
        nameless.map(|line| (line, Keep::Takers)).collect()
    }
}

/// These lines, and all others of the heap blocks that they belong to: what an element of a block is, its
/// other lines say.
fn with_blocks(recording: &Recording, mut lines: BTreeSet<LineAddr>) -> BTreeSet<LineAddr> {
    let blocks = lines
        .iter()
        .flat_map(|line| recording.objects.heap_on(*line));
    let ends = blocks.map(|block| block.range.lines());
    let small = ends.filter(|(first, last)| last.0 - first.0 < BLOCK_LINES_MAX);
    let others: Vec<LineAddr> = small
        .flat_map(|(first, last)| (first.0..=last.0).map(LineAddr))
        .collect();
    lines.extend(others);
    lines
}

/// A tally of those lines that belong to a part.
struct PartTally {
    part: Part,
    tally: LineTally,
}

impl Shard for PartTally {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        if self.part.has(access.line()) {
            self.tally.add(access, outcome);
        }
    }
}
