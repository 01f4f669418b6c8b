//! The bytes of one BTF: header, where each record begins, strings.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::record::{NoRecord, Record};
use crate::{Bytes, Error};

/// The order of bytes in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endian {
    Little,
    Big,
}

impl Endian {
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = bytes.get(at..)?.first_chunk::<4>()?;
        Some(match self {
            Endian::Little => u32::from_le_bytes(*four),
            Endian::Big => u32::from_be_bytes(*four),
        })
    }
}

/// One BTF, with the base whose numbers it continues.
///
/// Invariant: every offset in `records` is the start of a whole record of a known kind; the ranges
/// lie inside the bytes.
#[derive(Debug)]
pub(super) struct Blob {
    bytes: Bytes,
    endian: Endian,
    types: Range<usize>,
    strings: Range<usize>,
    /// Start of each record in the section of types.
    records: Vec<u32>,
    base: Option<Arc<Blob>>,
    /// The id of the first record.
    first_id: u32,
    /// The offset of the first byte of the strings.
    first_string: u32,
    reads: Reads,
}

/// Count of records that were read, for tests that count look-ups.
#[derive(Debug, Default)]
struct Reads {
    #[cfg(test)]
    count: std::sync::atomic::AtomicU64,
}

impl Reads {
    fn add_one(&self) {
        #[cfg(test)]
        self.count
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Bytes of a header that every version has.
const HEADER: usize = 24;

const MAGIC: u16 = 0xeb9f;

/// Longest name that is read: the kernel's own are a tenth of it.
const MAX_NAME: usize = 4096;

/// Returns true if the bytes begin as BTF does.
pub(super) fn is_btf(bytes: &[u8]) -> bool {
    byte_order(bytes).is_some()
}

fn byte_order(bytes: &[u8]) -> Option<Endian> {
    let magic = *bytes.first_chunk::<2>()?;
    match (u16::from_le_bytes(magic), u16::from_be_bytes(magic)) {
        (MAGIC, _) => Some(Endian::Little),
        (_, MAGIC) => Some(Endian::Big),
        _ => None,
    }
}

impl Blob {
    /// Reads the header, and notes where each record begins.
    pub(super) fn parse(bytes: Bytes, base: Option<Arc<Blob>>, file: &str) -> Result<Blob, Error> {
        let damaged = |part, cause: String| Error::damaged(file, part, cause);
        let Some(endian) = byte_order(&bytes) else {
            return Err(Error::foreign(file, "BTF (magic 0xeb9f)", &bytes));
        };
        let word = |at: usize| {
            let word = endian.u32_at(&bytes, at);
            let cause = || format!("{} bytes, expected at least {HEADER}", bytes.len());
            word.ok_or_else(|| damaged("BTF header", cause()))
        };
        if bytes.len() < HEADER || bytes[2] != 1 {
            let version = bytes.get(2).copied().unwrap_or_default();
            let cause = format!(
                "{} bytes, version {version}, expected version 1",
                bytes.len()
            );
            return Err(damaged("BTF header", cause));
        }
        let header = word(4)? as usize;
        let section = |part: &'static str, at: usize| {
            let (offset, size) = (word(at)? as usize, word(at + 4)? as usize);
            let start = header.checked_add(offset);
            let range = start.and_then(|start| Some(start..start.checked_add(size)?));
            let inside = |range: &Range<usize>| header >= HEADER && range.end <= bytes.len();
            let cause = || {
                format!(
                    "header of {header} bytes, then offset {offset} and size {size}, in {} bytes",
                    bytes.len()
                )
            };
            range.filter(inside).ok_or_else(|| damaged(part, cause()))
        };
        let types = section("BTF types", 8)?;
        let strings = section("BTF strings", 16)?;
        if base.is_none() && bytes.get(strings.start).is_none_or(|first| *first != 0) {
            let cause = "they do not begin with an empty one: split BTF, to be read with its base";
            return Err(damaged("BTF strings", cause.to_owned()));
        }
        if base.as_ref().is_some_and(|base| base.endian != endian) {
            let cause = "the base has another byte order".to_owned();
            return Err(damaged("split BTF", cause));
        }
        let (first_id, first_string) = match &base {
            None => Some((1, 0)),
            Some(base) => base.end_string().map(|end| (base.end_id(), end)),
        }
        .ok_or_else(|| damaged("split BTF", "the base is too large".to_owned()))?;
        let mut blob = Blob {
            bytes: bytes.clone(),
            endian,
            types,
            strings,
            records: Vec::new(),
            base,
            first_id,
            first_string,
            reads: Reads::default(),
        };
        blob.records = blob
            .list_records()
            .map_err(|cause| damaged("BTF types", cause))?;
        Ok(blob)
    }

    fn list_records(&self) -> Result<Vec<u32>, String> {
        let types = &self.bytes[self.types.clone()];
        let mut records = Vec::with_capacity(types.len() / 24);
        let mut at = 0;
        while at < types.len() {
            match Record::parse(&types[at..], self.endian) {
                Ok((_, size)) => {
                    records.push(at as u32);
                    at += size;
                }
                Err(cause) => {
                    let id = u64::from(self.first_id) + records.len() as u64;
                    let place = self.types.start + at;
                    let cause = match cause {
                        NoRecord::BeyondEnd => "goes on behind the end of the types".to_owned(),
                        NoRecord::UnknownKind(number) => {
                            format!("has kind {number}, expected 1 to 19")
                        }
                    };
                    return Err(format!("type {id} at byte {place:#x} {cause}"));
                }
            }
        }
        Ok(records)
    }

    /// The id after the last one.
    pub(super) fn end_id(&self) -> u32 {
        // A record has at least 12 bytes of a section whose size has 32 bits.
        self.first_id.saturating_add(self.records.len() as u32)
    }

    fn end_string(&self) -> Option<u32> {
        self.first_string.checked_add(self.strings.len() as u32)
    }

    /// The ids of the records here, without those of the base.
    pub(super) fn own_ids(&self) -> Range<u32> {
        self.first_id..self.end_id()
    }

    /// The record of an id, here or in the base; none for `void` and for ids that do not exist.
    pub(super) fn record(&self, id: u32) -> Option<Record<'_>> {
        let Some(index) = id.checked_sub(self.first_id) else {
            return self.base.as_ref()?.record(id);
        };
        self.reads.add_one();
        let at = *self.records.get(index as usize)? as usize;
        let types = &self.bytes[self.types.clone()];
        let (record, _) = Record::parse(&types[at..], self.endian).ok()?;
        Some(record)
    }

    /// Records that were read since it was parsed.
    #[cfg(test)]
    pub(super) fn read_count(&self) -> u64 {
        self.reads.count.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Place of the record of an id in its file.
    pub(super) fn place(&self, id: u32) -> Option<usize> {
        let Some(index) = id.checked_sub(self.first_id) else {
            return self.base.as_ref()?.place(id);
        };
        let at = *self.records.get(index as usize)? as usize;
        Some(self.types.start + at)
    }

    /// The string at an offset, here or in the base: the bytes up to its end.
    pub(super) fn name_bytes(&self, offset: u32) -> Option<&[u8]> {
        let Some(offset) = offset.checked_sub(self.first_string) else {
            return self.base.as_ref()?.name_bytes(offset);
        };
        let rest = self.bytes[self.strings.clone()].get(offset as usize..)?;
        let rest = &rest[..rest.len().min(MAX_NAME)];
        let end = rest.iter().position(|byte| *byte == 0);
        Some(&rest[..end.unwrap_or(rest.len())])
    }

    /// The string at an offset; none for the empty one.
    pub(super) fn name(&self, offset: u32) -> Option<Cow<'_, str>> {
        let bytes = self.name_bytes(offset).filter(|bytes| !bytes.is_empty())?;
        Some(String::from_utf8_lossy(bytes))
    }
}
