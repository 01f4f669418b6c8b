//! Text files that a user names.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::input_file::{self, NamedBy};

/// Why there is no text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The file is longer than any of its kind needs to be.
    #[error("{}: found more than {max} bytes, expected {what}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest that is read.
        max: u64,
        /// What it should be.
        what: &'static str,
    },
    /// The file is no text.
    #[error("{}: found a byte that is no UTF-8 at offset {offset}, expected {what}", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// Bytes before it.
        offset: usize,
        /// What it should be.
        what: &'static str,
    },
}

/// The text of a file of at most `max` bytes. Bytes that are no UTF-8 become U+FFFD, which no
/// format takes for anything else, so that its parser can say where they stand.
pub(crate) fn read(path: &Path, max: u64, what: &'static str) -> Result<String, TextFileError> {
    read_named(path, NamedBy::User, max, what)
}

/// The same for a path that `named_by` chose.
pub(crate) fn read_named(
    path: &Path,
    named_by: NamedBy,
    max: u64,
    what: &'static str,
) -> Result<String, TextFileError> {
    Ok(String::from_utf8_lossy(&bytes(path, named_by, max, what)?).into_owned())
}

/// The same for a text whose every byte counts: one that is no UTF-8 is refused.
pub(crate) fn read_utf8(
    path: &Path,
    max: u64,
    what: &'static str,
) -> Result<String, TextFileError> {
    String::from_utf8(bytes(path, NamedBy::User, max, what)?).map_err(|error| {
        TextFileError::NoText {
            path: path.into(),
            offset: error.utf8_error().valid_up_to(),
            what,
        }
    })
}

fn bytes(
    path: &Path,
    named_by: NamedBy,
    max: u64,
    what: &'static str,
) -> Result<Vec<u8>, TextFileError> {
    let failed = |source| TextFileError::Read {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let file = input_file::open(path, named_by).map_err(failed)?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(TextFileError::TooLong {
            path: path.into(),
            max,
            what,
        });
    }
    Ok(bytes)
}
