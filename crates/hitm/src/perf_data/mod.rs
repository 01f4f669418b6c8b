//! perf.data: a recording as stock perf reads it, and the tables of `perf c2c report`.
//!
//! Formats are the business of `hitm-perf`; here files are opened, and recordings are turned into
//! samples.

mod export;
mod tables;

use std::path::PathBuf;

use thiserror::Error;

use crate::recording::RecordingError;
pub use export::{ExportSummary, export};
pub use tables::{C2cReport, RowPlace, tables_of_recording};

/// Why a perf.data file cannot be made or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfDataError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
