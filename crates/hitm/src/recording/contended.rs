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
//!               lines that lost enough -> their rows; sums - rows = the rest
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use hitm_base::{Access, LineAddr, Machine, Outcome};
use hitm_coherence::stats::{Collector, LineTally, RestOfLines};
use hitm_trace::Record;

use super::statistics::{Found, Shard, joined, line_hash, pass, shards};
use super::{Recording, RecordingError, RecordingFile};
use crate::kernel::KERNEL_PATH;

/// The most that is kept.
struct Limits {
    /// Rows of one shard up to which all are kept.
    rows: usize,
    /// Lines that are tallied at a time.
    lines: usize,
    /// Rows of one shard's lines that matter. What has no row is among the sums of the rest.
    rows_of_shard: usize,
}

/// A row takes some 300 bytes at the end, a line of a tally 50; there are 16 shards.
const LIMITS: Limits = Limits {
    rows: 20_000,
    lines: 500_000,
    rows_of_shard: 20_000,
};

/// A line has rows when it lost one cycle in so many of all threads' cycles. Reports show lines that lost
/// one in a thousand.
const CYCLES_PER_LOST_MAX: u64 = 1024;

/// Lines that may matter: more only where a recording does not say how long its threads ran.
const LINES_THAT_MATTER_MAX: usize = 1 << 14;

/// Lines of a heap block up to which all of them have rows when one has: an array with an element for each
/// thread is smaller.
const BLOCK_LINES_MAX: u64 = 1024;

impl Recording {
    /// Reads a recording for its report. Of a program with very many rows those of lines that lost next to
    /// nothing are only summed up ([`hitm_coherence::stats::Statistics::rest`]); a kernel's and those of
    /// samples are all kept.
    pub fn load_contended(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        Recording::load_within(path, &LIMITS, progress)
    }

    fn load_within(
        path: &Path,
        limits: &Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recording, RecordingError> {
        let mut file = RecordingFile::open(path)?;
        let machine = file.machine()?;
        if file.header().sampled.is_some() {
            return Recording::load(path, progress);
        }
        let mut recording = Recording::of_header(file.header().clone(), machine.clone());
        let mut all_rows = shards(|| AllRows {
            rows: Collector::default(),
            rows_max: limits.rows,
        });
        let are_many = |shards: &[AllRows]| shards.iter().any(AllRows::is_full);
        let mut take = |record| recording.take(record);
        let found = read_all(&mut file, &mut all_rows, are_many, &mut take, progress)?;
        if found.is_stopped {
            drop((all_rows, recording));
            return load_lines_first(path, machine, limits, progress);
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
    machine: Machine,
    limits: &Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recording, RecordingError> {
    let mut parts = 1;
    let (mut recording, tallied) = loop {
        match Tallied::of_file(path, &machine, (parts, limits.lines), progress)? {
            Some(tallied) => break tallied,
            None => parts *= 4,
        }
    };
    let mut mappings = recording.mappings().iter();
    if mappings.any(|mapping| mapping.path == KERNEL_PATH) {
        return Recording::load(path, progress);
    }
    let chosen = with_blocks(&recording, tallied.lines);
    let mut rows = shards(|| ChosenRows {
        chosen: &chosen,
        rows: Collector::default(),
        rows_max: limits.rows_of_shard,
        left_out: 0,
    });
    let mut file = RecordingFile::open(path)?;
    let found = read_all(&mut file, &mut rows, |_| false, &mut |_| {}, progress)?;
    let left_out = rows.iter().map(|shard| shard.left_out).sum();
    let rows = rows.into_iter().map(|shard| shard.rows).collect();
    recording.statistics = joined(rows, found.calls);
    let mut rest = tallied.sums;
    let listed = recording.statistics.lines.values();
    listed.for_each(|line| rest.take_out(line));
    recording.statistics.rest = rest;
    recording.accesses_without_row = left_out;
    Ok(recording)
}

/// Rows of all lines, until there are too many.
struct AllRows {
    rows: Collector,
    rows_max: usize,
}

impl AllRows {
    fn is_full(&self) -> bool {
        self.rows.row_count() > self.rows_max
    }
}

impl Shard for AllRows {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        // What is full is thrown away after the batch.
        if !self.is_full() {
            self.rows.add(access, outcome);
        }
    }
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

/// Facts about all lines.
struct Tallied {
    sums: RestOfLines,
    /// The lines that lost enough.
    lines: BTreeSet<LineAddr>,
}

impl Tallied {
    /// Tallies the lines of a file, in so many parts one after the other, and reads everything else; none
    /// when a part has more lines than there may be.
    fn of_file(
        path: &Path,
        machine: &Machine,
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
            let lines = tallies.iter().map(|part| part.tally.line_count());
            lines.sum::<usize>() > lines_max
        };
        for part in 0..parts {
            let mut tallies = shards(|| PartTally {
                part: (part, parts),
                tally: LineTally::default(),
            });
            let mut take = |record| {
                if part == 0 {
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
            tallied.add(&recording, tallies);
        }
        Ok(Some((recording, tallied)))
    }

    fn add(&mut self, recording: &Recording, tallies: Vec<PartTally>) {
        let thread_cycles = recording.thread_cycles().0;
        let contended = tallies.iter().flat_map(|part| part.tally.contended());
        let enough = contended.filter(|(_, lost)| {
            // A recording that was cut short may not know how long its threads ran.
            lost.0.saturating_mul(CYCLES_PER_LOST_MAX) >= thread_cycles
        });
        let mut enough: Vec<(LineAddr, u64)> = enough.map(|(line, lost)| (line, lost.0)).collect();
        enough.sort_unstable_by_key(|(line, lost)| (std::cmp::Reverse(*lost), *line));
        let room = LINES_THAT_MATTER_MAX.saturating_sub(self.lines.len());
        let lines = enough.into_iter().take(room).map(|(line, _)| line);
        self.lines.extend(lines);
        for part in tallies {
            self.sums.merge(part.tally.sums());
        }
    }
}

/// A tally of those lines that belong to a part.
struct PartTally {
    /// Number of the part, and of all parts.
    part: (u64, u64),
    tally: LineTally,
}

impl Shard for PartTally {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        // The bits beside those that choose a shard.
        if (line_hash(access.line()) >> 40) % self.part.1 == self.part.0 {
            self.tally.add(access, outcome);
        }
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

/// Rows of the chosen lines only.
struct ChosenRows<'c> {
    chosen: &'c BTreeSet<LineAddr>,
    rows: Collector,
    rows_max: usize,
    /// Accesses to chosen lines for which there was no room any more.
    left_out: u64,
}

impl Shard for ChosenRows<'_> {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        if !self.chosen.contains(&access.line()) {
            return;
        }
        match self.rows.row_count() < self.rows_max {
            true => self.rows.add(access, outcome),
            false => self.left_out += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, ThreadId};
    use hitm_coherence::stats::{LineStats, SourceCounts};
    use hitm_trace::{
        BlockEncoder, EncodeError, Header, HeapObject, ThreadExit, ThreadStart, TraceWriter,
    };

    use super::*;

    fn header() -> Header {
        Header {
            machine_toml: hitm_base::machine::preset("broadwell-4s").unwrap().into(),
            ..hitm_test::recording::header()
        }
    }

    fn access(number: u64, addr: u64, stall: u64) -> Record {
        let thread = (number % 3) as u32;
        Record::Access {
            access: Access {
                thread: ThreadId(thread),
                cpu: CpuId(thread as u16),
                time: Cycles(number),
                addr,
                size: 4,
                op: [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw][number as usize % 3],
                code: CodeAddr(0x40_1000 + number % 7),
            },
            outcome: Outcome {
                source: DataSource::ALL[number as usize % DataSource::ALL.len()],
                latency: Cycles(stall),
                queued: Cycles(0),
                stall: Cycles(stall),
            },
        }
    }

    /// Three threads: two lines that cost most of their time, one of them in a heap block, and a thousand
    /// that cost next to nothing.
    fn records() -> Vec<Record> {
        let mut records = vec![Record::HeapObject(HeapObject {
            range: AddrRange::with_len(0x9000, 256).unwrap(),
            time: Cycles(0),
            thread: ThreadId(0),
            stack: vec![CodeAddr(0x40_2000)],
        })];
        for thread in 0..3 {
            let thread = ThreadId(thread);
            records.push(Record::ThreadStart(ThreadStart {
                thread,
                tid: 100 + thread.0,
                cpu: CpuId(thread.0 as u16),
                time: Cycles(0),
                name: "worker".into(),
                seat: thread.0,
            }));
            records.push(Record::ThreadExit(ThreadExit {
                thread,
                time: Cycles(1_000_000),
                insns: 500_000,
                accesses: 5000,
                stall: Cycles(400_000),
                contention_stall: Cycles(390_000),
            }));
        }
        for number in 0..6000 {
            records.push(match number % 3 {
                0 => access(number, 0x8000 + number % 8 * 4, 400),
                1 => access(number, 0x9040 + number % 8 * 4, 300),
                _ => access(number, 0x10_0000 + number % 4000 * 64, 1),
            });
        }
        records
    }

    fn written() -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = TraceWriter::new(file.reopen().unwrap(), &header()).unwrap();
        let mut encoder = BlockEncoder::new(vec![0; 4096]);
        for record in records() {
            if encoder.push(&record) == Err(EncodeError::Full) {
                writer.write_block(encoder.meta(), encoder.bytes()).unwrap();
                encoder.clear();
                encoder.push(&record).unwrap();
            }
        }
        writer.write_block(encoder.meta(), encoder.bytes()).unwrap();
        writer.finish().unwrap();
        file
    }

    /// Sums over lines and the rest.
    fn sums(recording: &Recording) -> (u64, SourceCounts, u64, u64) {
        let statistics = &recording.statistics;
        let mut loads = statistics.rest.loads;
        let lines = statistics.lines.values();
        lines.for_each(|line| loads.merge(&line.loads));
        let sum = |of: fn(&LineStats) -> u64| statistics.lines.values().map(of).sum::<u64>();
        (
            sum(LineStats::access_count) + statistics.rest.access_count(),
            loads,
            sum(|line| line.stall.0) + statistics.rest.stall.0,
            statistics.lines.len() as u64 + statistics.rest.line_count,
        )
    }

    /// However little is kept, the lines that matter have all their rows, and the sums are those of all.
    #[test]
    fn lines_that_matter_have_their_rows_and_nothing_is_lost() {
        let file = written();
        let all = Recording::load(file.path(), &mut |_, _| {}).unwrap();
        assert_eq!(all.statistics.lines.len(), 2002);
        for lines in [100_000, 500, 20] {
            let limits = Limits {
                rows: 10,
                lines,
                rows_of_shard: 1000,
            };
            let some = Recording::load_within(file.path(), &limits, &mut |_, _| {}).unwrap();
            let kept: Vec<u64> = some.statistics.lines.keys().map(|line| line.0).collect();
            assert_eq!(kept, [0x8000 / 64, 0x9040 / 64], "{lines} lines at a time");
            for (line, stats) in &some.statistics.lines {
                assert_eq!(stats, &all.statistics.lines[line]);
            }
            assert_eq!(sums(&some), sums(&all));
            assert_eq!(some.threads, all.threads);
            assert_eq!(some.accesses_without_row, 0);
        }
    }

    #[test]
    fn rows_for_which_there_is_no_room_are_counted() {
        let file = written();
        let limits = Limits {
            rows: 10,
            lines: 100_000,
            rows_of_shard: 5,
        };
        let all = Recording::load(file.path(), &mut |_, _| {}).unwrap();
        let some = Recording::load_within(file.path(), &limits, &mut |_, _| {}).unwrap();
        assert!(some.accesses_without_row > 0);
        assert_eq!(sums(&some), sums(&all));
        let said = some.diagnostics().join("\n");
        assert!(said.contains("are in the totals only"), "{said}");
    }
}
