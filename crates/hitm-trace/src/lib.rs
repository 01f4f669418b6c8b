//! The recorded-access format: how a recording is written down, carried and read back.
//!
//! - [`Record`] is what a recording says; [`BlockEncoder`] and [`BlockDecoder`] turn runs of records
//!   into bytes and back.
//! - [`ring`] carries blocks from the recorded process to the recording one through shared memory,
//!   so that a killed program loses nothing that it committed.
//! - [`TraceWriter`] appends each block to a file as one compressed, checksummed chunk. So a killed
//!   recorder leaves a file that is readable up to its last whole chunk. [`TraceReader`] reads it,
//!   in bounded memory, and says what is missing.
//!
//! The bytes are written down in docs/formats/trace.md. Nothing here opens a file, maps memory,
//! sleeps or starts a thread: the caller does.
//!
//! Invariants: Any bytes may be read: an error names the place, and no allocation is larger than a
//! chunk may be. What an encoder accepted, a decoder returns, bit for bit. The same records make
//! the same bytes.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod block;
mod caveat;
mod chunk;
mod declare;
mod end;
mod form;
mod header;
mod index;
mod limits;
mod program;
mod reader;
mod record;
pub mod ring;
pub mod shape;
mod window;
pub mod wire;
mod writer;

pub use block::{
    BLOCK_LEN_MAX, BlockDecoder, BlockEncoder, BlockMeta, BlockSummary, DecodeError, DecodeFault,
    EncodeError, Visitor, decode_block,
};
pub use caveat::Caveat;
pub use chunk::{CHUNK_HEADER_LEN, ChunkDecoder, DecodedBlock, RawChunk, decode_chunk};
pub use end::{EndReason, Loss};
pub use header::{
    Header, HeaderError, MAGIC, Sampled, SampledEvent, SampledProcess, VERSION, Version,
    WatchedLine, WatchedRun,
};
pub use index::{Index, IndexEntry, read_index};
pub use limits::{CALLERS_MAX, COUNT_MAX, LATENCY_MAX, LIMITS, Limit, PATH_CALLERS_MAX};
pub use program::{Adoption, Step, Steps, Stretch, Turn, Waker, Work};
pub use reader::{Damage, DamageKind, ReadError, Recovery, TraceReader};
pub use record::*;
pub use writer::{TraceWriter, WriteError};
