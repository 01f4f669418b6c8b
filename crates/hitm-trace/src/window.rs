//! A sliding window over a byte stream: look ahead by a bounded amount, then consume.

use std::io::{self, Read};

/// The least that is asked of the stream at once.
const READ_LEN: usize = 128 << 10;

/// The window. It holds no more than was looked ahead, plus [`READ_LEN`].
#[derive(Debug)]
pub(crate) struct Window<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    at_end: bool,
}

impl<R: Read> Window<R> {
    /// A window over `reader`, whose next byte is byte `offset` of its file.
    pub(crate) fn new(reader: R, offset: u64) -> Window<R> {
        Window {
            reader,
            buffer: Vec::new(),
            start: 0,
            offset,
            at_end: false,
        }
    }

    /// Byte of the file at which the window begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// At least `wanted` bytes from the window's beginning, or fewer when the stream ends.
    pub(crate) fn look_ahead(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.start < wanted && !self.at_end {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let limit = (wanted - self.buffer.len()).max(READ_LEN);
            let mut part = self.reader.by_ref().take(limit as u64);
            let read = part.read_to_end(&mut self.buffer)?;
            self.at_end = read < limit;
        }
        Ok(&self.buffer[self.start..])
    }

    /// Moves on by `len` bytes, which have been looked at.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
        assert!(
            self.start <= self.buffer.len(),
            "only seen bytes are consumed"
        );
    }

    /// Moves on to the end of the stream and returns how far that was.
    pub(crate) fn consume_rest(&mut self) -> io::Result<u64> {
        let begin = self.offset;
        loop {
            let len = self.look_ahead(1)?.len();
            if len == 0 {
                return Ok(self.offset - begin);
            }
            self.consume(len);
        }
    }
}
