//! The file that a recording is written to.

use std::path::{Path, PathBuf};

use hitm_base::Cycles;
use hitm_trace::ring::Consumer;
use hitm_trace::{
    BLOCK_LEN_MAX, BlockEncoder, BlockMeta, End, EndReason, Header, Record, Totals, TraceWriter,
    WriteError,
};

use super::RecordError;
use crate::output_file::OutputFile;

/// Virtual time, records and bytes that a recording has so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The latest virtual time that is in the file.
    pub time: Cycles,
    /// Records in the file.
    pub record_count: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// The file, and what is in it.
#[derive(Debug)]
pub(crate) struct Sink {
    /// Gone after the first error: the program runs on, the recording does not.
    writer: Option<TraceWriter<OutputFile>>,
    failure: Option<WriteError>,
    progress: Progress,
    path: PathBuf,
}

impl Sink {
    /// Makes the file; an existing one is replaced.
    pub(crate) fn create(path: &Path, header: &Header) -> Result<Sink, RecordError> {
        let path = path.to_path_buf();
        let file = OutputFile::create(&path)?;
        let writer = TraceWriter::new(file, header).map_err(|source| RecordError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(Sink {
            writer: Some(writer),
            failure: None,
            progress: Progress::default(),
            path,
        })
    }

    /// Writes every full block of the ring; says whether there was one.
    pub(crate) fn drain(&mut self, consumer: &mut Consumer) -> bool {
        let mut drained = false;
        while let Some(block) = consumer.try_take() {
            drained = true;
            self.write(block.meta, block.bytes);
        }
        drained
    }

    /// Writes what the ring holds of a block that is not full.
    pub(crate) fn take_partial(&mut self, consumer: &mut Consumer) {
        if let Some(block) = consumer.take_partial() {
            self.write(block.meta, block.bytes);
        }
    }

    /// Returns the virtual time, records and bytes in the file.
    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    /// True if the file could not be written.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The last record, when the recorder could not write it.
    pub(crate) fn write_end(&mut self, reason: EndReason) {
        let end = End {
            time: self.progress.time,
            reason,
            totals: Totals::default(),
        };
        let mut encoder = BlockEncoder::new([0u8; 256]);
        encoder
            .push(&Record::End(end))
            .expect("an end record is smaller than the buffer");
        self.write(encoder.meta(), encoder.bytes());
    }

    /// Writes records of this process's own.
    pub(crate) fn write_records(&mut self, records: &[Record]) {
        let mut encoder = BlockEncoder::new(vec![0u8; BLOCK_LEN_MAX]);
        for record in records {
            if encoder.push(record).is_err() {
                self.write(encoder.meta(), encoder.bytes());
                encoder = BlockEncoder::new(vec![0u8; BLOCK_LEN_MAX]);
                encoder
                    .push(record)
                    .expect("a record is smaller than a block");
            }
        }
        self.write(encoder.meta(), encoder.bytes());
    }

    fn write(&mut self, meta: BlockMeta, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = writer.write_block(meta, bytes) {
            self.failure = Some(error);
            self.writer = None;
            return;
        }
        self.progress.time = self.progress.time.max(meta.last_time);
        self.progress.record_count += u64::from(meta.record_count);
        self.progress.file_bytes = writer.len();
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<Progress, RecordError> {
        let failed = |source| RecordError::Write {
            path: self.path.clone(),
            source,
        };
        if let Some(failure) = self.failure {
            return Err(failed(failure));
        }
        if let Some(writer) = self.writer {
            writer.finish().map_err(failed)?;
        }
        Ok(self.progress)
    }
}
