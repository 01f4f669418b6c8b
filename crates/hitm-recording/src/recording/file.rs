//! A recording's file: opened, its machine understood, its blocks read from front to back.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hitm_base::Machine;
use hitm_files::input_file::{self, NamedBy};
use hitm_trace::{ChunkDecoder, DecodedBlock, Header, ReadError, TraceReader, Version, Visitor};

use super::RecordingError;

/// An open recording, at its first chunk.
#[derive(Debug)]
pub struct RecordingFile {
    path: PathBuf,
    /// Bytes of the file.
    len: u64,
    /// Reads the chunks.
    pub(super) reader: TraceReader<BufReader<File>>,
}

impl RecordingFile {
    /// Opens a recording and reads its header.
    pub fn open(path: &Path) -> Result<RecordingFile, RecordingError> {
        let failed = |source| RecordingError::Open {
            path: path.into(),
            source,
        };
        let file = input_file::open(path, NamedBy::User).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let reader = TraceReader::new(BufReader::with_capacity(1 << 20, file))
            .map_err(|source| read_failed(path, source))?;
        Ok(RecordingFile {
            path: path.into(),
            len,
            reader,
        })
    }

    /// Returns everything that the recording was made with.
    pub(crate) fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Format of the file.
    pub fn version(&self) -> Version {
        self.reader.version()
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that were damaged, as far as the file has been read.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.reader.recovery().missing_bytes
    }

    /// The machine that the recording was priced on.
    pub(crate) fn machine(&self) -> Result<Machine, RecordingError> {
        Machine::from_toml(&self.header().machine_toml, "machine model").map_err(|source| {
            RecordingError::Machine {
                path: self.path.clone(),
                source: source.into(),
            }
        })
    }

    /// Names the file in a failure to read it.
    pub fn failed(&self, source: ReadError) -> RecordingError {
        read_failed(&self.path, source)
    }

    /// The next block, and how many bytes of how many have been read with it.
    pub fn next_block(
        &mut self,
        decoder: &mut ChunkDecoder,
    ) -> Result<Option<(DecodedBlock, u64, u64)>, RecordingError> {
        let path = &self.path;
        let failed = |source| read_failed(path, source);
        let Some(chunk) = self.reader.next_chunk().map_err(failed)? else {
            return Ok(None);
        };
        let read = chunk.offset() + chunk.stored_len() as u64;
        let block = decoder.decode(&chunk).map_err(failed)?;
        Ok(Some((block, read, self.len)))
    }

    /// Passes over the blocks before byte `offset`, where a block ends.
    pub fn skip_to(&mut self, offset: u64) -> Result<(), RecordingError> {
        let mut end = 0;
        while end < offset {
            let chunk = self.reader.next_chunk();
            let Some(chunk) = chunk.map_err(|error| self.failed(error))? else {
                return Ok(());
            };
            end = chunk.offset() + chunk.stored_len() as u64;
        }
        Ok(())
    }

    /// Shows all that is left of the file to a visitor.
    pub fn visit<V: Visitor>(
        &mut self,
        visitor: &mut V,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RecordingError> {
        let mut decoder = ChunkDecoder::new().map_err(|error| self.failed(error.into()))?;
        while let Some((block, read, all)) = self.next_block(&mut decoder)? {
            block.visit(visitor).map_err(|error| self.failed(error))?;
            progress(read, all);
        }
        Ok(())
    }
}

fn read_failed(path: &Path, source: ReadError) -> RecordingError {
    RecordingError::Read {
        path: path.into(),
        source: source.into(),
    }
}
