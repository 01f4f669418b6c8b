//! Compressed records: one zstd stream over all of them, in which records may straddle.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::ReadError;
use super::bytes::{ByteOrder, Bytes};
use super::stream::{RawRecord, record_header};
use crate::format::{RECORD_HEADER_LEN, record};

/// Bytes decompressed at a time, more than two records.
const PIECE_LEN: usize = 256 << 10;

/// Decompresses records, a piece at a time.
#[derive(Default)]
pub(super) struct Decompressor {
    decoder: Option<Decoder<'static>>,
    /// Payload of the compressed record at `offset`; from `input_at` on it is still compressed.
    input: Vec<u8>,
    input_at: usize,
    output: Vec<u8>,
    output_at: usize,
    /// Start of the compressed record in the file.
    offset: u64,
    /// Bytes that this record may still decompress to.
    allowance: u64,
}

impl Decompressor {
    /// Limit on a compressed record's contents when the file names none: more than any buffer of
    /// perf.
    pub(super) const LEN_MAX: u64 = 64 << 20;

    /// Takes a compressed record, whose predecessors have been read.
    pub(super) fn push(
        &mut self,
        raw: &RawRecord<'_>,
        order: ByteOrder,
        len_max: u64,
    ) -> Result<(), ReadError> {
        let mut body = Bytes::new(raw.body, order);
        let payload = match raw.kind {
            // The length of the payload stands first, and padding behind it.
            record::COMPRESSED2 => {
                let len = body.u64().unwrap_or(u64::MAX);
                let payload = usize::try_from(len).ok().and_then(|len| body.take(len));
                payload.ok_or_else(|| {
                    ReadError::malformed(
                        raw.offset,
                        "the length of compressed data",
                        len,
                        raw.body.len(),
                    )
                })?
            }
            _ => raw.body,
        };
        self.input.clear();
        self.input.extend_from_slice(payload);
        self.input_at = 0;
        self.offset = raw.offset;
        self.allowance = len_max.min(Decompressor::LEN_MAX) + u64::from(u16::MAX);
        Ok(())
    }

    /// Returns the next record that was pushed, if it is complete.
    pub(super) fn next_record(
        &mut self,
        order: ByteOrder,
    ) -> Result<Option<RawRecord<'_>>, ReadError> {
        loop {
            let rest = &self.output[self.output_at..];
            let header = record_header(rest, order);
            if let Some((_, _, len)) = header {
                if len < RECORD_HEADER_LEN {
                    let what = "the length of a record in a compressed one";
                    return Err(ReadError::malformed(self.offset, what, len, "at least 8"));
                }
                if rest.len() >= len {
                    break;
                }
            }
            if !self.decompress()? {
                return Ok(None);
            }
        }
        let start = self.output_at;
        let (kind, misc, len) = record_header(&self.output[start..], order).unwrap_or_default();
        self.output_at += len;
        Ok(Some(RawRecord {
            offset: self.offset,
            kind,
            misc,
            body: &self.output[start + RECORD_HEADER_LEN..start + len],
        }))
    }

    /// Decompresses a piece; returns false when there was nothing left.
    fn decompress(&mut self) -> Result<bool, ReadError> {
        let failed = |offset: u64, error: std::io::Error| ReadError::Decompress {
            offset,
            message: error.to_string(),
        };
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let new = Decoder::new().map_err(|error| failed(self.offset, error))?;
                self.decoder.insert(new)
            }
        };
        self.output.drain(..self.output_at);
        self.output_at = 0;
        let before = self.output.len();
        self.output.resize(before + PIECE_LEN, 0);
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let mut output = OutBuffer::around(&mut self.output[before..]);
        let result = decoder.run(&mut input, &mut output);
        let (taken, given) = (input.pos(), output.pos());
        self.input_at += taken;
        self.output.truncate(before + given);
        result.map_err(|error| failed(self.offset, error))?;
        self.allowance =
            self.allowance
                .checked_sub(given as u64)
                .ok_or_else(|| ReadError::Decompress {
                    offset: self.offset,
                    message: "it holds more than perf puts into one record".to_owned(),
                })?;
        Ok(taken > 0 || given > 0)
    }

    /// Fails when an incomplete record is left at the end.
    pub(super) fn finish(self) -> Result<(), ReadError> {
        match self.output.len() - self.output_at {
            0 => Ok(()),
            left => Err(ReadError::Decompress {
                offset: self.offset,
                message: format!("the records end within a record, {left} bytes after its start"),
            }),
        }
    }
}
