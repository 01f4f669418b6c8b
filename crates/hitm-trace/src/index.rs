//! The index at the end of a complete file: where each chunk begins and which times it covers.
//!
//! ```text
//!  index chunks  kind 1, one for every 65536 chunks of records; the block is, for each chunk:
//!                varint distance from the beginning of the chunk before (the first of all: from 0)
//!                varint record count
//!                varint zigzag difference of the first time to that of the chunk before
//!                varint last time minus first time
//!  trailer       8 bytes marker | u64 offset of the first index chunk | u64 number of chunks of
//!                records | u32 CRC-32C of these 24
//! ```
//! All differences continue from one index chunk to the next. A reader that streams needs only the
//! trailer: with the number of chunks it tells whether the file is complete.

use std::io::{Read, Seek, SeekFrom};

use hitm_base::Cycles;

use crate::block::BlockMeta;
use crate::chunk::{CHUNK_HEADER_LEN, ChunkDecoder, ChunkHeader, ChunkKind};
use crate::wire::{Cursor, delta, push_varint, u32_at, u64_at, undelta};
use crate::{DecodeFault, RawChunk, ReadError};

/// First bytes of the trailer.
pub(crate) const TRAILER_MARKER: [u8; 8] = *b"\xa7hitmEND";

/// Bytes of the trailer.
pub(crate) const TRAILER_LEN: usize = 28;

/// Entries in one index chunk: even of the longest varints, fewer bytes than a chunk may have.
pub(crate) const ENTRIES_PER_CHUNK: usize = 1 << 16;

/// One chunk of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Byte of the file at which the chunk begins.
    pub offset: u64,
    /// Count and times of its records.
    pub meta: BlockMeta,
}

/// The chunks of a file, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// One entry for each chunk of records; the position is the chunk's sequence number.
    pub entries: Vec<IndexEntry>,
}

/// Offset and time that the numbers of an entry are relative to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexState {
    offset: u64,
    first_time: u64,
}

impl IndexState {
    pub(crate) fn encode(&mut self, entries: &[IndexEntry]) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in entries {
            push_varint(&mut out, entry.offset - self.offset);
            push_varint(&mut out, u64::from(entry.meta.record_count));
            let first_time = entry.meta.first_time.0;
            push_varint(&mut out, delta(self.first_time, first_time));
            push_varint(&mut out, entry.meta.last_time.0.wrapping_sub(first_time));
            self.offset = entry.offset;
            self.first_time = first_time;
        }
        out
    }

    /// Decodes one index chunk. Offsets must grow by at least a chunk header, so that a file cannot
    /// claim more entries than it has room for.
    fn decode(&mut self, block: &[u8], entries: &mut Vec<IndexEntry>) -> Result<(), DecodeFault> {
        let mut cursor = Cursor::new(block);
        while !cursor.is_at_end() {
            let distance = cursor.varint()?;
            let offset = self.offset.checked_add(distance);
            let offset = offset.filter(|_| distance >= CHUNK_HEADER_LEN as u64);
            let Some(offset) = offset else {
                return Err(DecodeFault::OutOfRange {
                    field: "distance of chunks",
                    found: distance,
                });
            };
            let record_count = cursor.narrow("record count")?;
            let first_time = undelta(self.first_time, cursor.varint()?);
            let meta = BlockMeta {
                record_count,
                first_time: Cycles(first_time),
                last_time: Cycles(first_time.wrapping_add(cursor.varint()?)),
            };
            entries.push(IndexEntry { offset, meta });
            *self = IndexState { offset, first_time };
        }
        Ok(())
    }
}

/// Place of the index and number of chunks, as the trailer gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) index_offset: u64,
    pub(crate) chunk_count: u64,
}

impl Trailer {
    /// The last bytes of a complete file.
    pub(crate) fn encode(self) -> [u8; TRAILER_LEN] {
        let mut out = [0; TRAILER_LEN];
        out[0..8].copy_from_slice(&TRAILER_MARKER);
        out[8..16].copy_from_slice(&self.index_offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.chunk_count.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..24]);
        out[24..28].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The trailer that `bytes` begin with, if it is one and undamaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Trailer> {
        let is_trailer = bytes.len() >= TRAILER_LEN
            && bytes[..8] == TRAILER_MARKER
            && crc32c::crc32c(&bytes[..24]) == u32_at(bytes, 24);
        is_trailer.then(|| Trailer {
            index_offset: u64_at(bytes, 8),
            chunk_count: u64_at(bytes, 16),
        })
    }
}

/// Reads the index of a complete file; `None` when the file has no trailer, because its recording
/// did not end cleanly. Does not look at the file's header. Memory is in proportion to the file.
pub fn read_index<R: Read + Seek>(reader: &mut R) -> Result<Option<Index>, ReadError> {
    let file_len = reader.seek(SeekFrom::End(0))?;
    let Some(trailer_offset) = file_len.checked_sub(TRAILER_LEN as u64) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_LEN];
    reader.seek(SeekFrom::Start(trailer_offset))?;
    reader.read_exact(&mut trailer)?;
    let Some(Trailer { index_offset, .. }) = Trailer::decode(&trailer) else {
        return Ok(None);
    };
    let mut index = Index::default();
    let mut state = IndexState::default();
    let mut decoder = ChunkDecoder::new()?;
    let mut offset = index_offset;
    while offset < trailer_offset {
        let bad = |message: String| ReadError::Index { offset, message };
        let chunk = read_chunk(reader, offset, ChunkKind::INDEX)?;
        let block = decoder.decompress(&chunk.header, &chunk.payload);
        let block = block.map_err(bad)?;
        state
            .decode(&block, &mut index.entries)
            .map_err(|fault| bad(fault.to_string()))?;
        if state.offset >= index_offset {
            return Err(bad(format!(
                "a chunk at {} is after the index",
                state.offset
            )));
        }
        offset += chunk.stored_len() as u64;
    }
    Ok(Some(index))
}

impl IndexEntry {
    /// Reads the chunk from its file.
    pub fn read_chunk<R: Read + Seek>(&self, reader: &mut R) -> Result<RawChunk, ReadError> {
        read_chunk(reader, self.offset, ChunkKind::RECORDS)
    }
}

/// Reads the chunk that begins at `offset`.
fn read_chunk<R: Read + Seek>(
    reader: &mut R,
    offset: u64,
    kind: ChunkKind,
) -> Result<RawChunk, ReadError> {
    let bad = |message: String| ReadError::Index { offset, message };
    reader.seek(SeekFrom::Start(offset))?;
    let mut header = [0; CHUNK_HEADER_LEN];
    reader.read_exact(&mut header)?;
    let header = ChunkHeader::decode(&header)
        .map_err(|fault| bad(format!("no chunk begins here ({fault:?})")))?;
    if header.kind != kind {
        return Err(bad(format!(
            "a chunk of kind {}, expected {}",
            header.kind.0, kind.0
        )));
    }
    let mut payload = vec![0; header.payload_len as usize];
    reader.read_exact(&mut payload)?;
    let found = crc32c::crc32c(&payload);
    if found != header.payload_crc {
        return Err(bad(format!(
            "checksum {found:#010x}, expected {:#010x}",
            header.payload_crc
        )));
    }
    Ok(RawChunk {
        header,
        payload,
        offset,
    })
}
