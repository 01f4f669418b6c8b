//! Reads a recording, whole or damaged.
//!
//! A recorder that was killed damages only the end of its file. So a reader that finds damage
//! searches for another chunk. When nothing readable follows, it ends there and says what is
//! missing ([`Recovery`]). When another chunk follows, the file was damaged afterwards: that is an
//! error unless the caller asked to continue ([`TraceReader::resync`]).

use std::io::{self, Read};

use thiserror::Error;

use crate::chunk::{
    CHUNK_HEADER_LEN, CHUNK_MARKER, ChunkDecoder, ChunkHeader, ChunkKind, HeaderFault,
};
use crate::header::hex;
use crate::index::{TRAILER_LEN, TRAILER_MARKER, Trailer};
use crate::window::Window;
use crate::{DecodeError, DecodedBlock, Header, HeaderError, RawChunk, Version, Visitor};

/// Reason for which a file cannot be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is no recording, or its header is not readable.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Reading failed.
    #[error("reading the trace failed")]
    Io(#[from] io::Error),
    /// The file is damaged, and something readable follows.
    #[error("the trace is damaged, though not only at its end: {0}")]
    Damaged(Damage),
    /// A chunk whose checksums are right does not decompress.
    #[error("chunk {chunk} at byte {offset} does not decompress: {message}")]
    Decompress {
        /// The chunk's sequence number.
        chunk: u64,
        /// Byte of the file at which it begins.
        offset: u64,
        /// zstd's message.
        message: String,
    },
    /// A chunk whose checksums are right holds something that no encoder writes.
    #[error("chunk {chunk} at byte {offset}: {source}")]
    Decode {
        /// The chunk's sequence number.
        chunk: u64,
        /// Byte of the file at which it begins.
        offset: u64,
        /// The fault and its place in the chunk.
        source: DecodeError,
    },
    /// The index at the end of the file is wrong; the file can still be streamed.
    #[error("the index of the trace, at byte {offset}: {message}")]
    Index {
        /// Byte of the file.
        offset: u64,
        /// Description of the fault.
        message: String,
    },
}

/// Damage of a file, with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("byte {offset}, where chunk {chunk} belongs: {kind}")]
pub struct Damage {
    /// Byte of the file at which it begins.
    pub offset: u64,
    /// The sequence number of the chunk that was expected there.
    pub chunk: u64,
    /// Kind of damage, with what was found.
    pub kind: DamageKind,
}

/// Kinds of damage that a file can have between its header and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends after a whole chunk, but has no trailer: its recorder was killed, or still
    /// runs.
    #[error("the file ends without the mark of a clean end")]
    NoTrailer,
    /// The file ends within a chunk.
    #[error("the file ends after {found} of {expected} bytes")]
    Truncated {
        /// Bytes that are there.
        found: u64,
        /// Bytes that the chunk has, or at least has when its header is cut off.
        expected: u64,
    },
    /// Something else than a chunk.
    #[error("found [{}], expected [{}]", hex(.found), hex(&CHUNK_MARKER))]
    NoMarker {
        /// The bytes found.
        found: [u8; 8],
    },
    /// The chunk's header, or the trailer, was changed.
    #[error("header checksum {found:#010x}, expected {expected:#010x}")]
    HeaderChecksum {
        /// The checksum of what is there.
        found: u32,
        /// The checksum that is written there.
        expected: u32,
    },
    /// The chunk's payload was changed.
    #[error("payload checksum {found:#010x}, expected {expected:#010x}")]
    PayloadChecksum {
        /// The checksum of what is there.
        found: u32,
        /// The checksum that is written there.
        expected: u32,
    },
    /// A length that no chunk may have.
    #[error("{field} of {found} bytes")]
    Length {
        /// Name of the length.
        field: &'static str,
        /// Its value.
        found: u32,
    },
    /// A compression that this version does not know.
    #[error("compression {found} is not known")]
    Codec {
        /// Its number.
        found: u8,
    },
    /// Chunks are missing.
    #[error("the chunks before chunk {found} are missing")]
    Gap {
        /// The sequence number that is there; at the end of the file, the number of chunks.
        found: u64,
    },
    /// A chunk that was already there.
    #[error("found chunk {found} again")]
    Repeated {
        /// The sequence number that is there.
        found: u64,
    },
    /// Something follows the trailer.
    #[error("the file goes on after its end")]
    AfterTrailer,
}

/// Counts of what was read of a file, and of what could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Whole chunks of records that were read.
    pub chunks: u64,
    /// Bytes of the file that belong to no readable chunk.
    pub missing_bytes: u64,
    /// Chunks whose absence is known because a later one, or the trailer, was read. How many are
    /// missing at the end of a file without trailer, nobody knows.
    pub missing_chunks: u64,
    /// Chunks of a kind that this version does not know; they were passed over.
    pub unknown_chunks: u64,
    /// Records of a kind that this version does not know; counted by [`TraceReader::visit`].
    pub unknown_records: u64,
    /// The first damage; `None` when the file is complete.
    pub reason: Option<Damage>,
}

impl Recovery {
    /// Returns true if the recording ended cleanly and all of it was read.
    pub fn is_complete(&self) -> bool {
        self.reason.is_none()
    }
}

/// Item that begins at the window.
enum Item {
    Chunk(ChunkHeader),
    Trailer(Trailer),
    /// Damage of which `len` bytes can be passed over at once.
    Damaged {
        kind: DamageKind,
        len: usize,
    },
    /// Damage that reaches to the end of the file.
    Ends(DamageKind),
}

/// Streams the chunks of a recording. Holds one chunk, so never more than about 8 MiB.
#[derive(Debug)]
pub struct TraceReader<R> {
    window: Window<R>,
    version: Version,
    header: Header,
    next_sequence: u64,
    recovery: Recovery,
    does_resync: bool,
    is_done: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header. `reader` needs no buffer of its own.
    pub fn new(mut reader: R) -> Result<TraceReader<R>, ReadError> {
        let (version, header, offset) = Header::read(&mut reader)?;
        Ok(TraceReader {
            window: Window::new(reader, offset),
            version,
            header,
            next_sequence: 0,
            recovery: Recovery::default(),
            does_resync: false,
            is_done: false,
        })
    }

    /// From now on passes over damage and counts what is lost, instead of returning an error.
    pub fn resync(mut self) -> TraceReader<R> {
        self.does_resync = true;
        self
    }

    /// The header: everything that the recording was made with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The version of the format that the file is in.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Counts of what was read and what is missing; final once a chunk or block of `None` was
    /// returned.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// The next chunk of records, its checksums right but not yet decompressed; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<RawChunk>, ReadError> {
        while !self.is_done {
            match self.examine()? {
                Item::Chunk(header) => {
                    if let Some(chunk) = self.take_chunk(header)? {
                        return Ok(Some(chunk));
                    }
                }
                Item::Trailer(trailer) => self.take_trailer(trailer)?,
                Item::Damaged { kind, len } => self.pass_over(kind, len)?,
                Item::Ends(kind) => {
                    self.note(kind);
                    self.recovery.missing_bytes += self.window.consume_rest()?;
                    self.is_done = true;
                }
            }
        }
        Ok(None)
    }

    /// The chunks that are left; ends after an error.
    pub fn chunks(&mut self) -> impl Iterator<Item = Result<RawChunk, ReadError>> {
        std::iter::from_fn(|| self.next_chunk().transpose())
    }

    /// The next block of records, decompressed; `None` at the end.
    pub fn next_block(
        &mut self,
        decoder: &mut ChunkDecoder,
    ) -> Result<Option<DecodedBlock>, ReadError> {
        match self.next_chunk()? {
            Some(chunk) => decoder.decode(&chunk).map(Some),
            None => Ok(None),
        }
    }

    /// Decodes every record that is left into `visitor`. A chunk whose checksums are right but whose
    /// contents are not is an error even with [`resync`](Self::resync): no damage makes one.
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V) -> Result<Recovery, ReadError> {
        let mut decoder = ChunkDecoder::new()?;
        while let Some(block) = self.next_block(&mut decoder)? {
            let summary = block.visit(visitor)?;
            self.recovery.unknown_records += summary.unknown_count;
        }
        Ok(self.recovery)
    }

    fn examine(&mut self) -> io::Result<Item> {
        let head = self.window.look_ahead(CHUNK_HEADER_LEN)?;
        if head.is_empty() {
            return Ok(Item::Ends(DamageKind::NoTrailer));
        }
        if let Some(trailer) = Trailer::decode(head) {
            return Ok(Item::Trailer(trailer));
        }
        if head.len() < CHUNK_HEADER_LEN {
            return Ok(cut_off(head));
        }
        let header = match ChunkHeader::decode(head) {
            Ok(header) => header,
            Err(fault) => {
                let kind = damage_of(fault, head);
                return Ok(Item::Damaged { kind, len: 1 });
            }
        };
        let len = header.chunk_len();
        let chunk = self.window.look_ahead(len)?;
        if chunk.len() < len {
            return Ok(Item::Ends(DamageKind::Truncated {
                found: chunk.len() as u64,
                expected: len as u64,
            }));
        }
        let found = crc32c::crc32c(&chunk[CHUNK_HEADER_LEN..len]);
        if found == header.payload_crc {
            return Ok(Item::Chunk(header));
        }
        let kind = DamageKind::PayloadChecksum {
            found,
            expected: header.payload_crc,
        };
        // The header is right, so its length is: chunks are not looked for inside the payload.
        Ok(Item::Damaged { kind, len })
    }

    fn take_chunk(&mut self, header: ChunkHeader) -> Result<Option<RawChunk>, ReadError> {
        let offset = self.window.offset();
        let len = header.chunk_len();
        if header.kind != ChunkKind::RECORDS {
            self.window.consume(len);
            self.recovery.unknown_chunks += u64::from(header.kind != ChunkKind::INDEX);
            return Ok(None);
        }
        let found = header.sequence;
        if found < self.next_sequence {
            self.fail_unless_resync(DamageKind::Repeated { found })?;
            self.window.consume(len);
            self.recovery.missing_bytes += len as u64;
            return Ok(None);
        }
        if found > self.next_sequence {
            self.fail_unless_resync(DamageKind::Gap { found })?;
            self.recovery.missing_chunks += found - self.next_sequence;
        }
        let payload = self.window.look_ahead(len)?[CHUNK_HEADER_LEN..len].to_vec();
        self.window.consume(len);
        self.next_sequence = found.saturating_add(1);
        self.recovery.chunks += 1;
        Ok(Some(RawChunk {
            header,
            payload,
            offset,
        }))
    }

    fn take_trailer(&mut self, trailer: Trailer) -> Result<(), ReadError> {
        if trailer.chunk_count > self.next_sequence {
            let found = trailer.chunk_count;
            self.fail_unless_resync(DamageKind::Gap { found })?;
            self.recovery.missing_chunks += found - self.next_sequence;
        }
        self.window.consume(TRAILER_LEN);
        self.is_done = true;
        if !self.window.look_ahead(1)?.is_empty() {
            self.note(DamageKind::AfterTrailer);
            self.recovery.missing_bytes += self.window.consume_rest()?;
        }
        Ok(())
    }

    /// Passes over `len` bytes of damage and on to whatever is readable next.
    fn pass_over(&mut self, kind: DamageKind, len: usize) -> Result<(), ReadError> {
        let damage = self.damage(kind);
        self.note(kind);
        let begin = self.window.offset();
        self.window.consume(len);
        let is_readable_on = self.seek_readable()?;
        self.recovery.missing_bytes += self.window.offset() - begin;
        self.is_done = !is_readable_on;
        if is_readable_on && !self.does_resync {
            self.is_done = true;
            return Err(ReadError::Damaged(damage));
        }
        Ok(())
    }

    /// Moves to the next chunk header or trailer whose checksum is right, or to the end.
    fn seek_readable(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.window.look_ahead(CHUNK_HEADER_LEN)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let at = bytes.iter().position(|&byte| byte == CHUNK_MARKER[0]);
            let skipped = at.unwrap_or(bytes.len());
            self.window.consume(skipped);
            let bytes = self.window.look_ahead(CHUNK_HEADER_LEN)?;
            let is_header = bytes.len() >= CHUNK_HEADER_LEN && ChunkHeader::decode(bytes).is_ok();
            if is_header || Trailer::decode(bytes).is_some() {
                return Ok(true);
            }
            let passed = usize::from(!bytes.is_empty());
            self.window.consume(passed);
        }
    }

    fn damage(&self, kind: DamageKind) -> Damage {
        Damage {
            offset: self.window.offset(),
            chunk: self.next_sequence,
            kind,
        }
    }

    /// Remembers damage, if it is the first.
    fn note(&mut self, kind: DamageKind) {
        let damage = self.damage(kind);
        self.recovery.reason.get_or_insert(damage);
    }

    fn fail_unless_resync(&mut self, kind: DamageKind) -> Result<(), ReadError> {
        self.note(kind);
        if self.does_resync {
            return Ok(());
        }
        self.is_done = true;
        Err(ReadError::Damaged(self.damage(kind)))
    }
}

/// The file ends within the first bytes of a chunk or the trailer, or in something foreign.
fn cut_off(head: &[u8]) -> Item {
    let marker_len = head.len().min(CHUNK_MARKER.len());
    let expected = if head[..marker_len] == CHUNK_MARKER[..marker_len] {
        CHUNK_HEADER_LEN
    } else if head[..marker_len] == TRAILER_MARKER[..marker_len] && head.len() < TRAILER_LEN {
        TRAILER_LEN
    } else {
        let kind = DamageKind::NoMarker {
            found: first_eight(head),
        };
        return Item::Damaged { kind, len: 1 };
    };
    Item::Ends(DamageKind::Truncated {
        found: head.len() as u64,
        expected: expected as u64,
    })
}

fn damage_of(fault: HeaderFault, head: &[u8]) -> DamageKind {
    match fault {
        HeaderFault::Marker => DamageKind::NoMarker {
            found: first_eight(head),
        },
        HeaderFault::Checksum { found, expected } => DamageKind::HeaderChecksum { found, expected },
        HeaderFault::Length { field, found } => DamageKind::Length { field, found },
        HeaderFault::Codec(found) => DamageKind::Codec { found },
    }
}

/// The first eight bytes, zeros where there are fewer.
fn first_eight(bytes: &[u8]) -> [u8; 8] {
    let mut found = [0; 8];
    let len = bytes.len().min(8);
    found[..len].copy_from_slice(&bytes[..len]);
    found
}
