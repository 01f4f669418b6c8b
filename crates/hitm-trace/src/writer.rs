//! Writes a recording: the header, one chunk for each block, and at a clean end the index.

use std::io::{self, Write};

use thiserror::Error;

use crate::block::{BLOCK_LEN_MAX, BlockMeta};
use crate::chunk::{ChunkEncoder, ChunkKind};
use crate::index::{ENTRIES_PER_CHUNK, IndexEntry, IndexState, Trailer};
use crate::{Header, HeaderError};

/// Reason for which something was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The header cannot be written: it is too large.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The block has more bytes than a chunk may hold.
    #[error("a block of {found} bytes, a chunk holds at most {max}")]
    BlockTooLarge {
        /// Bytes of the block.
        found: usize,
        /// Bytes that a chunk holds.
        max: usize,
    },
    /// Writing failed. What was written before is a readable file, but nothing may follow.
    #[error("writing at byte {offset} of the trace failed")]
    Io {
        /// Byte of the file at which the chunk was to begin.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier write failed, perhaps half-way: a chunk after it would not be found.
    #[error("an earlier write to the trace failed")]
    AfterFailure,
}

/// Writes a recording. Each chunk is one `write_all` and nothing is kept back, so that a file whose
/// writer was killed is readable up to its last whole chunk.
pub struct TraceWriter<W> {
    writer: W,
    encoder: ChunkEncoder,
    offset: u64,
    entries: Vec<IndexEntry>,
    has_failed: bool,
}

impl<W> std::fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("offset", &self.offset)
            .field("chunks", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header.
    pub fn new(writer: W, header: &Header) -> Result<TraceWriter<W>, WriteError> {
        let encoder = ChunkEncoder::new().map_err(|source| WriteError::Io { offset: 0, source })?;
        let mut this = TraceWriter {
            writer,
            encoder,
            offset: 0,
            entries: Vec::new(),
            has_failed: false,
        };
        this.write(&header.encode()?)?;
        Ok(this)
    }

    /// Access to what the recording is written to. Bytes written to it directly damage the recording.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.offset
    }

    /// False: there is at least a header.
    pub fn is_empty(&self) -> bool {
        self.offset == 0
    }

    /// Chunks written so far.
    pub fn chunk_count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Appends one block as one chunk. An empty block is no chunk.
    pub fn write_block(&mut self, meta: BlockMeta, block: &[u8]) -> Result<(), WriteError> {
        if block.is_empty() {
            return Ok(());
        }
        if block.len() > BLOCK_LEN_MAX {
            return Err(WriteError::BlockTooLarge {
                found: block.len(),
                max: BLOCK_LEN_MAX,
            });
        }
        let entry = IndexEntry {
            offset: self.offset,
            meta,
        };
        self.write_chunk(ChunkKind::RECORDS, self.chunk_count(), meta, block)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Writes the index and the trailer that marks the file as complete, and flushes. The last block
    /// should have ended with an [`End`](crate::End) record.
    pub fn finish(mut self) -> Result<W, WriteError> {
        let trailer = Trailer {
            index_offset: self.offset,
            chunk_count: self.chunk_count(),
        };
        let mut state = IndexState::default();
        let entries = std::mem::take(&mut self.entries);
        for (sequence, part) in entries.chunks(ENTRIES_PER_CHUNK).enumerate() {
            let meta = BlockMeta {
                record_count: part.len() as u32,
                ..BlockMeta::default()
            };
            let block = state.encode(part);
            self.write_chunk(ChunkKind::INDEX, sequence as u64, meta, &block)?;
        }
        self.write(&trailer.encode())?;
        let offset = self.offset;
        self.writer
            .flush()
            .map_err(|source| WriteError::Io { offset, source })?;
        Ok(self.writer)
    }

    fn write_chunk(
        &mut self,
        kind: ChunkKind,
        sequence: u64,
        meta: BlockMeta,
        block: &[u8],
    ) -> Result<(), WriteError> {
        let chunk = self.encoder.encode(kind, sequence, meta, block);
        let result = write_whole(&mut self.writer, self.has_failed, self.offset, chunk);
        self.has_failed = result.is_err();
        self.offset += result?;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let result = write_whole(&mut self.writer, self.has_failed, self.offset, bytes);
        self.has_failed = result.is_err();
        self.offset += result?;
        Ok(())
    }
}

/// Writes all of `bytes` at `offset`, unless an earlier write failed; returns their number.
fn write_whole(
    writer: &mut impl Write,
    has_failed: bool,
    offset: u64,
    bytes: &[u8],
) -> Result<u64, WriteError> {
    if has_failed {
        return Err(WriteError::AfterFailure);
    }
    match writer.write_all(bytes) {
        Ok(()) => Ok(bytes.len() as u64),
        Err(source) => Err(WriteError::Io { offset, source }),
    }
}
