//! Writes a recording number by number, from docs/formats/trace.md and not with our own encoder: it
//! can write what an encoder refuses, and does not repeat a mistake there.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::unsigned;

/// Bytes of a header before its JSON.
const PREFIX_LEN: usize = 20;
/// Bytes of a chunk before its payload.
const CHUNK_HEADER_LEN: usize = 56;
/// First bytes of a file.
const MAGIC: &[u8; 8] = b"\x89HITM\r\n\x1a";
/// First bytes of a chunk.
const CHUNK_MARKER: &[u8; 8] = b"\xa7hitmCHK";
/// First bytes of the trailer.
const TRAILER_MARKER: &[u8; 8] = b"\xa7hitmEND";

/// A signed difference as a number that is small when the difference is.
fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// An access in the numbers of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireAccess {
    /// 0 load, 1 store, 2 locked read-modify-write, 3 fence.
    pub op: u8,
    /// Bytes.
    pub size: u8,
    /// Cycles.
    pub time: u64,
    /// The thread.
    pub thread: u64,
    /// Its CPU.
    pub cpu: u64,
    /// The instruction.
    pub code: u64,
    /// The address divided by 64.
    pub line: u64,
    /// Offset in the line, 0 to 63.
    pub offset: u8,
    /// 0 to 12.
    pub source: u8,
    /// Latency without the queue.
    pub base: u64,
    /// Cycles in the queue.
    pub queued: u64,
    /// Cycles of stall; none when they are the latency.
    pub stall: Option<u64>,
}

/// The payload of a record, and the blocks that records stand in.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    /// Records so far.
    pub record_count: u32,
    /// Call chains that the block has introduced by kind of record, which the caller counts.
    pub chain_counts: BTreeMap<u8, usize>,
    last_time: u64,
    last_code: u64,
    last_line: u64,
    times: Option<(u64, u64)>,
}

impl Block {
    /// Adds a record of this kind: `write` makes its payload.
    pub fn record(&mut self, kind: u8, write: impl FnOnce(&mut Payload)) {
        let mut payload = Payload::default();
        write(&mut payload);
        self.bytes.push(kind);
        unsigned(&mut self.bytes, payload.0.len() as u64);
        self.bytes.extend(payload.0);
        self.record_count += 1;
    }

    /// Adds an access that refers to nothing before it.
    pub fn access(&mut self, access: &WireAccess) {
        let size_code = match access.size {
            size if size.is_power_of_two() => size.trailing_zeros() as u8,
            _ => 7,
        };
        let stall = match access.stall {
            None => 1,
            Some(0) => 0,
            Some(_) => 2,
        };
        let out = &mut self.bytes;
        out.push(0x80 | access.op & 3 | size_code << 2);
        out.push(access.source & 15 | stall << 4 | 0xc0);
        if size_code == 7 {
            out.push(access.size);
        }
        unsigned(out, zigzag(access.time.wrapping_sub(self.last_time) as i64));
        out.push(0);
        unsigned(out, access.thread);
        unsigned(out, access.cpu);
        out.push(0);
        unsigned(out, zigzag(access.code.wrapping_sub(self.last_code) as i64));
        out.push(access.offset & 63 | 2 << 6);
        unsigned(out, zigzag(access.line.wrapping_sub(self.last_line) as i64));
        unsigned(out, access.base);
        unsigned(out, access.queued);
        if stall == 2 {
            unsigned(out, access.stall.unwrap_or(0));
        }
        self.last_time = access.time;
        self.last_code = access.code;
        self.last_line = access.line;
        self.record_count += 1;
        self.note_time(access.time);
    }

    /// Notes the time of a record: chunks state the earliest and the latest.
    pub fn note_time(&mut self, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}

/// Payload of a record.
#[derive(Debug, Clone, Default)]
pub struct Payload(pub Vec<u8>);

impl Payload {
    /// Adds numbers.
    pub fn numbers(&mut self, values: &[u64]) -> &mut Payload {
        values
            .iter()
            .for_each(|value| unsigned(&mut self.0, *value));
        self
    }

    /// Adds a signed number.
    pub fn signed(&mut self, value: i64) -> &mut Payload {
        self.numbers(&[zigzag(value)])
    }

    /// Adds one byte.
    pub fn byte(&mut self, value: u8) -> &mut Payload {
        self.0.push(value);
        self
    }

    /// Adds a length and these bytes.
    pub fn counted(&mut self, bytes: &[u8]) -> &mut Payload {
        unsigned(&mut self.0, bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Adds a stack.
    pub fn stack(&mut self, addresses: &[u64]) -> &mut Payload {
        self.numbers(&[addresses.len() as u64]).numbers(addresses)
    }

    /// Adds callers in the form of their record, each the difference to the one before.
    pub fn callers(&mut self, addresses: &[u64]) -> &mut Payload {
        self.numbers(&[0, addresses.len() as u64]);
        let mut last = 0u64;
        for address in addresses {
            self.signed(address.wrapping_sub(last) as i64);
            last = *address;
        }
        self
    }
}

/// A file under construction.
#[derive(Debug, Clone)]
pub struct FileWriter {
    bytes: Vec<u8>,
    /// Of each chunk of records: offset, records, first time, last time.
    chunks: Vec<[u64; 4]>,
}

impl FileWriter {
    /// A file that begins with this header.
    pub fn new(json: &Value) -> FileWriter {
        let json = json.to_string();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0, 3, 0]);
        bytes.extend((json.len() as u32).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), json.as_bytes());
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(json.as_bytes());
        FileWriter {
            bytes,
            chunks: Vec::new(),
        }
    }

    /// Adds a chunk of records, compressed if requested and shorter.
    pub fn block(&mut self, block: &Block, is_compressed: bool) {
        let (first, last) = block.times.unwrap_or((0, 0));
        let record_count = u64::from(block.record_count);
        let at = self.bytes.len() as u64;
        let sequence = self.chunks.len() as u64;
        self.chunks.push([at, record_count, first, last]);
        let numbers = [record_count, sequence, first, last];
        self.chunk(0, numbers, &block.bytes, is_compressed);
    }

    /// A chunk of a kind: records, sequence number, first and last time, and its bytes.
    fn chunk(&mut self, kind: u8, numbers: [u64; 4], bytes: &[u8], is_compressed: bool) {
        let compressed = match is_compressed {
            true => zstd::bulk::compress(bytes, 1).ok(),
            false => None,
        };
        let compressed = compressed.filter(|short| short.len() < bytes.len());
        let payload = compressed.as_deref().unwrap_or(bytes);
        let mut head = CHUNK_MARKER.to_vec();
        head.extend([kind, u8::from(compressed.is_some()), 0, 0]);
        head.extend((numbers[0] as u32).to_le_bytes());
        numbers[1..]
            .iter()
            .for_each(|number| head.extend(number.to_le_bytes()));
        head.extend((bytes.len() as u32).to_le_bytes());
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend(crc32c::crc32c(payload).to_le_bytes());
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        self.bytes.extend(head);
        self.bytes.extend(payload);
    }

    /// The file without its end, as a killed recorder leaves it.
    pub fn cut(self) -> Vec<u8> {
        self.bytes
    }

    /// The file with index and trailer.
    pub fn finish(mut self) -> Vec<u8> {
        let mut index = Vec::new();
        let (mut last_at, mut last_first) = (0, 0);
        for [at, record_count, first, last] in &self.chunks {
            unsigned(&mut index, at.wrapping_sub(last_at));
            unsigned(&mut index, *record_count);
            unsigned(&mut index, zigzag(first.wrapping_sub(last_first) as i64));
            unsigned(&mut index, last.wrapping_sub(*first));
            (last_at, last_first) = (*at, *first);
        }
        let index_at = self.bytes.len() as u64;
        let count = self.chunks.len() as u64;
        if count > 0 {
            self.chunk(1, [count, 0, 0, 0], &index, false);
        }
        let mut trailer = TRAILER_MARKER.to_vec();
        trailer.extend(index_at.to_le_bytes());
        trailer.extend(count.to_le_bytes());
        trailer.extend(crc32c::crc32c(&trailer).to_le_bytes());
        self.bytes.extend(trailer);
        self.bytes
    }
}

/// Corrects every checksum of a damaged file, so that the parts behind them are reached.
pub fn repair_checksums(bytes: &mut [u8]) {
    if bytes.len() >= PREFIX_LEN && bytes.starts_with(MAGIC) {
        let end = PREFIX_LEN.saturating_add(word(bytes, 12)).min(bytes.len());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[PREFIX_LEN..end]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    }
    for at in 0..bytes.len() {
        let rest = &mut bytes[at..];
        if rest.starts_with(CHUNK_MARKER) && rest.len() >= CHUNK_HEADER_LEN {
            let end = CHUNK_HEADER_LEN.saturating_add(word(rest, 44));
            let payload = &rest[CHUNK_HEADER_LEN..end.min(rest.len())];
            let checksum = crc32c::crc32c(payload);
            rest[48..52].copy_from_slice(&checksum.to_le_bytes());
            let checksum = crc32c::crc32c(&rest[..52]);
            rest[52..56].copy_from_slice(&checksum.to_le_bytes());
        } else if rest.starts_with(TRAILER_MARKER) && rest.len() >= 28 {
            let checksum = crc32c::crc32c(&rest[..24]);
            rest[24..28].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}
