//! Text files that a user names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why there is no text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextFileError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
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
}

/// The text of a file of at most `max` bytes. Bytes that are no UTF-8 become U+FFFD, which no
/// format takes for anything else, so that its parser can say where they stand.
pub(crate) fn read(path: &Path, max: u64, what: &'static str) -> Result<String, TextFileError> {
    let failed = |source| TextFileError::Read {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(TextFileError::TooLong {
            path: path.into(),
            max,
            what,
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
