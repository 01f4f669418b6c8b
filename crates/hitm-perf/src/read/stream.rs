//! The records of a file, one after the other, through a window.

use std::io::{Read, Seek, SeekFrom};

use super::ReadError;
use super::bytes::{ByteOrder, Bytes};
use super::header::Layout;
use crate::format::RECORD_HEADER_LEN;

/// Bytes read at a time.
const WINDOW_LEN: usize = 1 << 20;

/// A record, whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawRecord<'a> {
    /// Place in the file.
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// Bytes behind the header.
    pub(super) body: &'a [u8],
}

/// Type, `misc` and length of the record that begins here.
#[inline]
pub(super) fn record_header(bytes: &[u8], order: ByteOrder) -> Option<(u32, u16, usize)> {
    let mut fields = Bytes::new(bytes, order);
    Some((fields.u32()?, fields.u16()?, usize::from(fields.u16()?)))
}

/// Reads the records of a file. Holds one window.
pub(super) struct RecordStream<'r, R> {
    source: &'r mut R,
    order: ByteOrder,
    window: Vec<u8>,
    /// Place of the next record in the window.
    at: usize,
    /// Bytes of the window that are filled.
    filled: usize,
    /// Place of the window's first byte in the file.
    window_offset: u64,
    /// End of the records in the file.
    end: u64,
    /// Length of the file.
    file_len: u64,
}

impl<'r, R: Read + Seek> RecordStream<'r, R> {
    pub(super) fn new(
        source: &'r mut R,
        layout: &Layout,
    ) -> Result<RecordStream<'r, R>, ReadError> {
        source.seek(SeekFrom::Start(layout.data.offset))?;
        let window_len = WINDOW_LEN.min(usize::try_from(layout.data.len).unwrap_or(WINDOW_LEN));
        Ok(RecordStream {
            source,
            order: layout.order,
            window: vec![0; window_len],
            at: 0,
            filled: 0,
            window_offset: layout.data.offset,
            end: layout.data.offset + layout.data.len,
            file_len: layout.len,
        })
    }

    /// The next record, if there is one.
    #[inline]
    pub(super) fn next_record(&mut self) -> Result<Option<RawRecord<'_>>, ReadError> {
        if self.filled - self.at < usize::from(u16::MAX) {
            self.fill()?;
        }
        let offset = self.window_offset + self.at as u64;
        let rest = &self.window[self.at..self.filled];
        if rest.is_empty() {
            return Ok(None);
        }
        let cut = |expected: usize| ReadError::Truncated {
            offset,
            what: "a record",
            expected: expected as u64,
            len: self.file_len.min(self.end),
        };
        let Some((kind, misc, len)) = record_header(rest, self.order) else {
            return Err(cut(RECORD_HEADER_LEN));
        };
        if len < RECORD_HEADER_LEN {
            let expected = format!("at least {RECORD_HEADER_LEN}");
            return Err(ReadError::malformed(
                offset,
                "the length of a record",
                len,
                expected,
            ));
        }
        let Some(body) = rest.get(RECORD_HEADER_LEN..len) else {
            return Err(cut(len));
        };
        self.at += len;
        Ok(Some(RawRecord {
            offset,
            kind,
            misc,
            body,
        }))
    }

    /// Moves the unread bytes to the front and fills the rest of the window.
    fn fill(&mut self) -> Result<(), ReadError> {
        let next = self.window_offset + self.filled as u64;
        if next >= self.end {
            return Ok(());
        }
        self.window.copy_within(self.at..self.filled, 0);
        self.window_offset += self.at as u64;
        self.filled -= self.at;
        self.at = 0;
        while self.filled < self.window.len() {
            let left = self.end - (self.window_offset + self.filled as u64);
            let room = self.window.len() - self.filled;
            let wanted = room.min(usize::try_from(left).unwrap_or(room));
            let read = self
                .source
                .read(&mut self.window[self.filled..self.filled + wanted])?;
            if read == 0 {
                break;
            }
            self.filled += read;
        }
        Ok(())
    }

    /// Skips bytes that follow the record at `offset`.
    pub(super) fn skip(
        &mut self,
        offset: u64,
        what: &'static str,
        len: u64,
    ) -> Result<(), ReadError> {
        let here = self.window_offset + self.at as u64;
        let target = here.checked_add(len).filter(|target| *target <= self.end);
        let Some(target) = target else {
            return Err(ReadError::Truncated {
                offset,
                what,
                expected: len,
                len: self.end,
            });
        };
        let in_window = target - self.window_offset;
        if in_window <= self.filled as u64 {
            self.at = in_window as usize;
        } else {
            self.source.seek(SeekFrom::Start(target))?;
            self.window_offset = target;
            self.at = 0;
            self.filled = 0;
        }
        Ok(())
    }
}
