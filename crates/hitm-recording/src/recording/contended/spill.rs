//! Accesses sorted by parts of lines in temporary files, to be counted part by part.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use hitm_base::{Access, AccessOp, Cycles, LineAddr, Outcome};
use hitm_files::temporary;
use hitm_trace::{BlockEncoder, Record, Visitor, decode_block};

use super::part::Part;
use super::rows::{PartRows, group_of};
use crate::recording::statistics::Shard;

/// Parts that accesses are sorted by. Each takes 1 MiB of memory for all shards together.
pub(super) const PARTS: usize = 32;

/// Accesses of a part that are encoded together. In a block of its own each of them takes some ten bytes.
const BLOCK_ACCESSES: usize = 512;

/// Room for a block: no access takes more than 64 bytes.
const BLOCK_BYTES: usize = 64 * BLOCK_ACCESSES;

/// Bytes that are written together.
const WRITTEN_BYTES: usize = 256 << 10;

/// Accesses to the lines of one shard, by part.
pub(super) struct Spill {
    parts: Vec<Spilled>,
    encoder: BlockEncoder<Vec<u8>>,
    /// Without a name; made when there is something to write.
    file: Option<File>,
    written: u64,
    /// Bytes behind `written`.
    unwritten: Vec<u8>,
    failed: Option<io::Error>,
}

/// Accesses to the lines of one part.
#[derive(Default)]
struct Spilled {
    /// Places and lengths of their blocks in the file.
    blocks: Vec<(u64, usize)>,
    /// Those that came last.
    last: Vec<(Access, Outcome)>,
}

impl Spill {
    pub(super) fn new() -> Spill {
        Spill {
            parts: std::iter::repeat_with(Spilled::default)
                .take(PARTS)
                .collect(),
            encoder: BlockEncoder::new(vec![0; BLOCK_BYTES]),
            file: None,
            written: 0,
            unwritten: Vec::new(),
            failed: None,
        }
    }

    /// Ends writing.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.write(),
        }
    }

    /// The rows of the lines of `part`, which are among those of the part with this number.
    pub(super) fn rows(&self, number: usize, part: Part, rows_max: usize) -> io::Result<PartRows> {
        let mut rows = Counter(PartRows::new(part, rows_max));
        let spilled = &self.parts[number];
        let mut block = Vec::new();
        for (offset, len) in &spilled.blocks {
            if rows.0.is_enough() {
                return Ok(rows.0);
            }
            block.resize(*len, 0);
            if let Some(file) = &self.file {
                file.read_exact_at(&mut block, *offset)?;
            }
            decode_block(&block, &mut rows).map_err(io::Error::other)?;
        }
        for (access, outcome) in &spilled.last {
            rows.0.add(access, outcome);
        }
        Ok(rows.0)
    }

    fn encode(&mut self, part: usize) -> io::Result<()> {
        let spilled = &mut self.parts[part];
        self.encoder.clear();
        for (access, outcome) in spilled.last.drain(..) {
            let pushed = self.encoder.push_access(&access, &outcome);
            pushed.map_err(io::Error::other)?;
        }
        let bytes = self.encoder.bytes();
        let offset = self.written + self.unwritten.len() as u64;
        spilled.blocks.push((offset, bytes.len()));
        self.unwritten.extend_from_slice(bytes);
        match self.unwritten.len() < WRITTEN_BYTES {
            true => Ok(()),
            false => self.write(),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary::unnamed_file()?),
        };
        file.write_all_at(&self.unwritten, self.written)
            .map_err(temporary::explain)?;
        self.written += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }
}

impl Shard for Spill {
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        // Rows know neither times nor queues, and zeros are short.
        if access.op == AccessOp::Fence || self.failed.is_some() {
            return;
        }
        let access = Access {
            time: Cycles::ZERO,
            ..*access
        };
        let outcome = Outcome {
            queued: Cycles::ZERO,
            ..*outcome
        };
        let part = Part::number_of(group_of(access.line()), PARTS as u64) as usize;
        let last = &mut self.parts[part].last;
        last.push((access, outcome));
        if last.len() == BLOCK_ACCESSES {
            self.failed = self.encode(part).err();
        }
    }

    fn has_calls(&self, _: LineAddr) -> bool {
        true
    }

    fn are_full(shards: &[Spill]) -> bool {
        shards.iter().any(|shard| shard.failed.is_some())
    }
}

/// Counts decoded accesses.
struct Counter(PartRows);

impl Visitor for Counter {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.0.add(access, outcome);
    }

    fn record(&mut self, _: Record) {}
}
