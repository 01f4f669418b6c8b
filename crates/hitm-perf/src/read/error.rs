//! Why a perf.data file cannot be read.

use std::io;

use thiserror::Error;

/// An error, and where in the file it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file does not begin as perf.data does.
    #[error("not a perf.data file: it begins with {found:02x?}, expected \"PERFILE2\"")]
    Foreign {
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// Something in the file is impossible.
    #[error("byte {offset}: {what}: found {found}, expected {expected}")]
    Malformed {
        /// Where it stands in the file; for compressed records, where the compressed one begins.
        offset: u64,
        /// Which part of the file.
        what: &'static str,
        /// What is there.
        found: String,
        /// What could be there.
        expected: String,
    },
    /// The file ends too early.
    #[error(
        "the file ends at byte {len}, within {what} at byte {offset}: expected {expected} bytes of it"
    )]
    Truncated {
        /// Where the part begins.
        offset: u64,
        /// Which part of the file.
        what: &'static str,
        /// Bytes that the part claims.
        expected: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// A compressed record does not decompress.
    #[error("byte {offset}: a compressed record does not decompress: {message}")]
    Decompress {
        /// Where the record begins.
        offset: u64,
        /// What zstd says.
        message: String,
    },
    /// Reading failed.
    #[error("reading failed")]
    Io(#[from] io::Error),
}

impl ReadError {
    pub(crate) fn malformed(
        offset: u64,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> ReadError {
        ReadError::Malformed {
            offset,
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}
