//! Blocks of a recording that this process writes, not the recorder.

use std::io::Write;

use hitm_base::{Access, CodeAddr, Outcome};
use hitm_trace::{BlockEncoder, EncodeError, Header, Record, TraceWriter};

/// Puts records into blocks. The first failure is kept and ends the writing.
#[derive(Debug)]
pub struct BlockWriter<W> {
    writer: TraceWriter<W>,
    encoder: BlockEncoder<Vec<u8>>,
    failure: Option<hitm_trace::WriteError>,
}

impl<W: Write> BlockWriter<W> {
    const BLOCK_LEN: usize = 256 << 10;

    /// Writes the header.
    ///
    /// # Errors
    /// The file takes nothing, or the header is too long.
    pub fn new(file: W, header: &Header) -> Result<BlockWriter<W>, hitm_trace::WriteError> {
        Ok(BlockWriter {
            writer: TraceWriter::new(file, header)?,
            encoder: BlockEncoder::new(vec![0; Self::BLOCK_LEN]),
            failure: None,
        })
    }

    /// Writes a record.
    pub fn push(&mut self, record: &Record) {
        // A longer record is a path or a name, which a reader can miss.
        self.encode(|encoder| encoder.push(record));
    }

    /// Writes an access with its callers, innermost first.
    pub fn push_access(&mut self, access: &Access, outcome: &Outcome, callers: &[CodeAddr]) {
        self.encode(|encoder| match callers {
            [] => encoder.push_access(access, outcome),
            _ => encoder.push_access_of(callers, access, outcome),
        });
    }

    /// Encodes into this block, or else into the next one.
    fn encode(&mut self, encode: impl Fn(&mut BlockEncoder<Vec<u8>>) -> Result<(), EncodeError>) {
        if self.failure.is_none() && encode(&mut self.encoder).is_err() {
            self.flush();
            let _ = encode(&mut self.encoder);
        }
    }

    fn flush(&mut self) {
        let result = self
            .writer
            .write_block(self.encoder.meta(), self.encoder.bytes());
        self.failure = result.err();
        self.encoder.clear();
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first failure of all writes.
    pub fn finish(mut self) -> Result<(), hitm_trace::WriteError> {
        self.flush();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.writer
            .finish()?
            .flush()
            .map_err(|source| hitm_trace::WriteError::Io { offset: 0, source })
    }
}
