//! Errors of reading perf.data.

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
        /// Place in the file; inside a compressed record, the place of that record.
        offset: u64,
        /// Part of the file that is wrong.
        what: &'static str,
        /// Value found there.
        found: String,
        /// Values that are allowed.
        expected: String,
    },
    /// The file ends too early.
    #[error(
        "the file ends at byte {len}, within {what} at byte {offset}: expected {expected} bytes of it"
    )]
    Truncated {
        /// Start of the part.
        offset: u64,
        /// Part that is cut off.
        what: &'static str,
        /// Bytes that the part claims.
        expected: u64,
        /// Bytes of the file.
        len: u64,
    },
    /// A compressed record does not decompress.
    #[error("byte {offset}: a compressed record does not decompress: {message}")]
    Decompress {
        /// Start of the record.
        offset: u64,
        /// Message of zstd.
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
