//! One chunk of a file: a block, compressed, checked and numbered.
//!
//! ```text
//!  0  marker               8 bytes
//!  8  kind                 u8: 0 records, 1 index
//!  9  codec                u8: 0 stored, 1 zstd
//! 10  reserved             u16: 0
//! 12  record count         u32
//! 16  sequence number      u64: 0 for the first chunk of records, then 1, 2, ...
//! 24  first time           u64: cycles
//! 32  last time            u64: cycles
//! 40  uncompressed length  u32
//! 44  payload length       u32
//! 48  payload CRC-32C      u32
//! 52  header CRC-32C       u32: of bytes 0 to 51, so of the payload's too
//! 56  payload
//! ```
//!
//! CRC-32C, because the polynomial finds every burst error of up to 32 bits. Processors have an
//! instruction for it, so that checking is far cheaper than decompressing. A reader in any language
//! finds a library for it. Two of them, so that lengths are known to be right before they are used.

use hitm_base::Cycles;

use crate::block::{BLOCK_LEN_MAX, BlockDecoder, BlockMeta, BlockSummary, Visitor};
use crate::wire::{u32_at, u64_at};
use crate::{DecodeError, DecodeFault, ReadError, decode_block};

/// Bytes before a chunk's payload.
pub const CHUNK_HEADER_LEN: usize = 56;

/// First bytes of a chunk.
pub(crate) const CHUNK_MARKER: [u8; 8] = *b"\xa7hitmCHK";

/// Level of compression: the fastest of zstd's ordinary levels. The recorder compresses while the
/// program runs, and the encoding has already removed most of what repeats.
const ZSTD_LEVEL: i32 = 1;

/// Content of a chunk: records, or a part of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkKind(pub(crate) u8);

impl ChunkKind {
    pub(crate) const RECORDS: ChunkKind = ChunkKind(0);
    pub(crate) const INDEX: ChunkKind = ChunkKind(1);
}

const CODEC_STORED: u8 = 0;
const CODEC_ZSTD: u8 = 1;

/// The fixed part of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) kind: ChunkKind,
    pub(crate) codec: u8,
    pub(crate) sequence: u64,
    pub(crate) meta: BlockMeta,
    pub(crate) uncompressed_len: u32,
    pub(crate) payload_len: u32,
    pub(crate) payload_crc: u32,
}

/// Reason for which bytes are no chunk header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Marker,
    Checksum { found: u32, expected: u32 },
    Length { field: &'static str, found: u32 },
    Codec(u8),
}

impl ChunkHeader {
    pub(crate) fn encode(&self) -> [u8; CHUNK_HEADER_LEN] {
        let mut out = [0; CHUNK_HEADER_LEN];
        out[0..8].copy_from_slice(&CHUNK_MARKER);
        out[8] = self.kind.0;
        out[9] = self.codec;
        out[12..16].copy_from_slice(&self.meta.record_count.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.meta.first_time.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.meta.last_time.0.to_le_bytes());
        out[40..44].copy_from_slice(&self.uncompressed_len.to_le_bytes());
        out[44..48].copy_from_slice(&self.payload_len.to_le_bytes());
        out[48..52].copy_from_slice(&self.payload_crc.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..52]);
        out[52..56].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads and checks [`CHUNK_HEADER_LEN`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ChunkHeader, HeaderFault> {
        if bytes[0..8] != CHUNK_MARKER {
            return Err(HeaderFault::Marker);
        }
        let found = crc32c::crc32c(&bytes[..52]);
        let expected = u32_at(bytes, 52);
        if found != expected {
            return Err(HeaderFault::Checksum { found, expected });
        }
        let header = ChunkHeader {
            kind: ChunkKind(bytes[8]),
            codec: bytes[9],
            sequence: u64_at(bytes, 16),
            meta: BlockMeta {
                record_count: u32_at(bytes, 12),
                first_time: Cycles(u64_at(bytes, 24)),
                last_time: Cycles(u64_at(bytes, 32)),
            },
            uncompressed_len: u32_at(bytes, 40),
            payload_len: u32_at(bytes, 44),
            payload_crc: u32_at(bytes, 48),
        };
        header.check_lengths()?;
        Ok(header)
    }

    fn check_lengths(&self) -> Result<(), HeaderFault> {
        let field = if self.uncompressed_len as usize > BLOCK_LEN_MAX {
            ("uncompressed length", self.uncompressed_len)
        } else if self.payload_len > self.uncompressed_len {
            ("payload length", self.payload_len)
        } else if self.codec == CODEC_STORED && self.payload_len != self.uncompressed_len {
            ("length of a stored payload", self.payload_len)
        } else if self.codec > CODEC_ZSTD {
            return Err(HeaderFault::Codec(self.codec));
        } else {
            return Ok(());
        };
        Err(HeaderFault::Length {
            field: field.0,
            found: field.1,
        })
    }

    pub(crate) fn chunk_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.payload_len as usize
    }
}

/// Compresses blocks into chunks; keeps its buffers from one to the next.
pub(crate) struct ChunkEncoder {
    compressor: zstd::bulk::Compressor<'static>,
    out: Vec<u8>,
}

impl ChunkEncoder {
    pub(crate) fn new() -> std::io::Result<ChunkEncoder> {
        Ok(ChunkEncoder {
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            out: Vec::new(),
        })
    }

    /// The chunk's bytes. `block` is not longer than [`BLOCK_LEN_MAX`].
    pub(crate) fn encode(
        &mut self,
        kind: ChunkKind,
        sequence: u64,
        meta: BlockMeta,
        block: &[u8],
    ) -> &[u8] {
        assert!(block.len() <= BLOCK_LEN_MAX, "the caller checks the length");
        self.out.clear();
        self.out.resize(CHUNK_HEADER_LEN + block.len(), 0);
        // Room for the uncompressed length only: a block that does not shrink is stored.
        let codec = match self
            .compressor
            .compress_to_buffer(block, &mut self.out[CHUNK_HEADER_LEN..])
        {
            Ok(len) if len < block.len() => {
                self.out.truncate(CHUNK_HEADER_LEN + len);
                CODEC_ZSTD
            }
            _ => {
                self.out[CHUNK_HEADER_LEN..].copy_from_slice(block);
                CODEC_STORED
            }
        };
        let payload = &self.out[CHUNK_HEADER_LEN..];
        let header = ChunkHeader {
            kind,
            codec,
            sequence,
            meta,
            uncompressed_len: block.len() as u32,
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(payload),
        };
        self.out[..CHUNK_HEADER_LEN].copy_from_slice(&header.encode());
        &self.out
    }
}

/// A chunk of records whose checksums are right, not yet decompressed: cheap to read one after the
/// other, and each can be decoded by another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawChunk {
    pub(crate) header: ChunkHeader,
    pub(crate) payload: Vec<u8>,
    pub(crate) offset: u64,
}

impl RawChunk {
    /// The chunk's number, 0 for the first of a file.
    pub fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// Count and times of its records.
    pub fn meta(&self) -> BlockMeta {
        self.header.meta
    }

    /// Byte of its file at which the chunk begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of its block, uncompressed.
    pub fn uncompressed_len(&self) -> usize {
        self.header.uncompressed_len as usize
    }

    /// Bytes that the chunk takes in its file.
    pub fn stored_len(&self) -> usize {
        self.header.chunk_len()
    }
}

/// A decompressed block of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedBlock {
    sequence: u64,
    offset: u64,
    meta: BlockMeta,
    bytes: Vec<u8>,
}

impl DecodedBlock {
    /// The number of the chunk that it came from.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Count and times of its records.
    pub fn meta(&self) -> BlockMeta {
        self.meta
    }

    /// The encoded records.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records, one by one. Does not check their number.
    pub fn records(&self) -> BlockDecoder<'_> {
        BlockDecoder::new(&self.bytes)
    }

    /// Decodes all records into `visitor`, and checks that they are as many as the chunk says.
    pub fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<BlockSummary, ReadError> {
        let found = decode_block(&self.bytes, visitor).and_then(|summary| {
            let expected = u64::from(self.meta.record_count);
            if summary.record_count == expected {
                return Ok(summary);
            }
            Err(DecodeError {
                record: summary.record_count,
                offset: self.bytes.len(),
                fault: DecodeFault::RecordCount {
                    found: summary.record_count,
                    expected,
                },
            })
        });
        found.map_err(|source| ReadError::Decode {
            chunk: self.sequence,
            offset: self.offset,
            source,
        })
    }
}

/// Decompresses chunks; keeps its state from one to the next. One for each thread.
pub struct ChunkDecoder {
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl std::fmt::Debug for ChunkDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkDecoder").finish_non_exhaustive()
    }
}

impl ChunkDecoder {
    /// A decoder; fails only when zstd cannot allocate its state.
    pub fn new() -> std::io::Result<ChunkDecoder> {
        Ok(ChunkDecoder {
            decompressor: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Decompresses one chunk. At most [`BLOCK_LEN_MAX`] bytes are allocated.
    pub fn decode(&mut self, chunk: &RawChunk) -> Result<DecodedBlock, ReadError> {
        let bytes = self
            .decompress(&chunk.header, &chunk.payload)
            .map_err(|message| ReadError::Decompress {
                chunk: chunk.header.sequence,
                offset: chunk.offset,
                message,
            })?;
        Ok(DecodedBlock {
            sequence: chunk.header.sequence,
            offset: chunk.offset,
            meta: chunk.header.meta,
            bytes,
        })
    }

    pub(crate) fn decompress(
        &mut self,
        header: &ChunkHeader,
        payload: &[u8],
    ) -> Result<Vec<u8>, String> {
        if header.codec == CODEC_STORED {
            return Ok(payload.to_vec());
        }
        let expected = header.uncompressed_len as usize;
        let mut bytes = vec![0; expected];
        match self
            .decompressor
            .decompress_to_buffer(payload, bytes.as_mut_slice())
        {
            Ok(len) if len == expected => Ok(bytes),
            Ok(len) => Err(format!("it has {len} bytes, its chunk says {expected}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Decompresses one chunk. For many, [`ChunkDecoder`] saves the set-up of each.
pub fn decode_chunk(chunk: &RawChunk) -> Result<DecodedBlock, ReadError> {
    let mut decoder = ChunkDecoder::new().map_err(ReadError::Io)?;
    decoder.decode(chunk)
}
