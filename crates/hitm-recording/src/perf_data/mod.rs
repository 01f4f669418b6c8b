//! perf.data: a recording as stock perf reads it, and the tables of `perf c2c report`.
//!
//! `hitm-perf` has the formats; this module opens files and turns recordings into samples.

mod export;
mod import;
mod kernel;
mod own;
mod pass;
mod sampled_tables;
mod samples;
mod tables;
mod weights;

use std::path::{Path, PathBuf};

use hitm_perf::read::ReadError;
use thiserror::Error;

use crate::recording::RecordingError;
pub use export::{ExportSummary, export};
use hitm_files::output_file::OutputError;
pub use import::load_weighed;
pub use import::{ImportSummary, import, load, load_type, name_kernel};
pub use kernel::ExtraNames;
pub use kernel::KernelSource;
pub use pass::{SampleFormat, sample_format};
pub use sampled_tables::tables_of_samples;
#[cfg(test)]
pub(crate) use samples::SamplesAt;
pub use tables::{C2cReport, RowPlace, tables_of_recording};
pub use weights::Weights;

/// Errors of reading and making perf.data.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The samples cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error, with its place.
        source: Box<ReadError>,
    },
    /// The list of the kernel's symbols cannot be read.
    #[error("cannot read the kernel's symbols in {}", path.display())]
    Symbols {
        /// The file.
        path: PathBuf,
        /// The error, with its place.
        source: std::io::Error,
    },
    /// The sampled machine cannot be modelled.
    #[error("the sampled machine cannot be modelled")]
    Machine(#[from] hitm_base::machine::MachineError),
    /// The recording cannot be written.
    #[error("cannot write {}", path.display())]
    WriteTrace {
        /// The file.
        path: PathBuf,
        /// Error of the writer.
        source: Box<hitm_trace::WriteError>,
    },
    /// The output would replace the input.
    #[error("{} is to be read and to be written: name another file to write", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened for writing, or another process writes it.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing the file failed.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl PerfDataError {
    /// Makes errors of reading the samples at `path`.
    fn reading(path: &Path) -> impl Fn(ReadError) -> PerfDataError + Copy {
        move |source| PerfDataError::Read {
            path: path.into(),
            source: Box::new(source),
        }
    }
}

/// Refuses to write over the input.
fn check_apart(from: &Path, to: &Path) -> Result<(), PerfDataError> {
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(from), Ok(to)) if from == to => Err(PerfDataError::SameFile { path: to }),
        _ => Ok(()),
    }
}
