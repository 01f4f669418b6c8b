//! The file that a recording is written to.

use std::path::{Path, PathBuf};

use hitm_base::Cycles;
use hitm_files::output_file::{self, GrowingFile};
use hitm_trace::ring::Consumer;
use hitm_trace::{
    BLOCK_LEN_MAX, BlockEncoder, BlockMeta, End, EndReason, Header, Record, Totals, TraceWriter,
    WriteError,
};

use super::RecordError;

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
    writer: Option<TraceWriter<GrowingFile>>,
    failure: Option<RecordError>,
    progress: Progress,
    path: PathBuf,
    has_name: bool,
}

impl Sink {
    /// Makes the file. An existing one stays until [`Sink::take_name`].
    pub(crate) fn create(path: &Path, header: &Header) -> Result<Sink, RecordError> {
        let path = path.to_path_buf();
        let file = GrowingFile::create(&path)?;
        let writer = TraceWriter::new(file, header).map_err(|source| failed(&path, source))?;
        Ok(Sink {
            writer: Some(writer),
            failure: None,
            progress: Progress::default(),
            path,
            has_name: false,
        })
    }

    /// Puts the recording in the place of an existing file, which is FILE.old from then on: a killed recorder
    /// leaves the recording under its name.
    pub(crate) fn take_name(&mut self) {
        if !std::mem::replace(&mut self.has_name, true) {
            output_file::keep_former(&self.path);
        }
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.get_mut().take_name()
        {
            self.fail(error.into());
        }
    }

    fn fail(&mut self, failure: RecordError) {
        self.failure = Some(failure);
        self.writer = None;
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
        // The recorded program may delete the file of its own recording.
        if let Err(source) = writer.get_mut().check() {
            return self.fail(lost(&self.path, source));
        }
        if let Err(source) = writer.write_block(meta, bytes) {
            return self.fail(failed(&self.path, source));
        }
        self.progress.time = self.progress.time.max(meta.last_time);
        self.progress.record_count += u64::from(meta.record_count);
        self.progress.file_bytes = writer.len();
    }

    /// Completes the file.
    ///
    /// # Errors
    /// A file that could not be written, or that another process deleted, replaced or changed.
    pub(crate) fn finish(mut self) -> Result<Progress, RecordError> {
        self.take_name();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if let Some(writer) = self.writer {
            let file = writer.finish();
            let file = file.map_err(|source| failed(&self.path, source))?;
            file.check().map_err(|source| lost(&self.path, source))?;
        }
        Ok(self.progress)
    }
}

fn lost(path: &Path, source: std::io::Error) -> RecordError {
    RecordError::Lost {
        path: path.into(),
        source,
    }
}

fn failed(path: &Path, source: WriteError) -> RecordError {
    RecordError::Write {
        path: path.into(),
        source,
    }
}
