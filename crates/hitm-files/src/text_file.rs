//! Text files that a user names.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::input_file::{self, NamedBy};

/// Errors of reading a text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TextFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is longer than any of its kind needs to be.
    #[error("{}: found more than {max} bytes, expected {what}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        max: u64,
        /// Description of the expected text.
        what: &'static str,
    },
    /// The file is no text.
    #[error("{}: found a byte that is no UTF-8 at offset {offset}, expected {what}", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// Offset of the first bad byte.
        offset: usize,
        /// Description of the expected text.
        what: &'static str,
    },
}

/// Reads the text of a file of at most `max` bytes. Bytes that are not UTF-8 become U+FFFD, which
/// no format allows, so that the parser names their place.
pub fn read(path: &Path, max: u64, what: &'static str) -> Result<String, TextFileError> {
    read_named(path, NamedBy::User, max, what)
}

/// Like [`read`], for a path that `named_by` chose.
pub fn read_named(
    path: &Path,
    named_by: NamedBy,
    max: u64,
    what: &'static str,
) -> Result<String, TextFileError> {
    Ok(String::from_utf8_lossy(&bytes(path, named_by, max, what)?).into_owned())
}

/// Longest source file that is shown. A generated one of a kernel has 8 MB.
const SOURCE_BYTES_MAX: u64 = 1 << 24;

/// Reads a source file that debug information names.
///
/// # Errors
/// The file cannot be read, is no regular file, or is longer than 16 MiB.
pub fn source_text(path: &Path) -> Result<String, TextFileError> {
    read_named(path, NamedBy::Input, SOURCE_BYTES_MAX, "a source file")
}

/// Like [`read`], for a text whose every byte counts: one that is not UTF-8 is refused.
pub fn read_utf8(path: &Path, max: u64, what: &'static str) -> Result<String, TextFileError> {
    text_of(path, bytes(path, NamedBy::User, max, what)?, max, what)
}

/// Reads the text of a file of at most `max` bytes that begins a JSON object; none when the file
/// begins with another byte than `{`.
///
/// # Errors
/// The file cannot be read, is longer, or is no UTF-8.
pub fn json_object(
    path: &Path,
    max: u64,
    what: &'static str,
) -> Result<Option<String>, TextFileError> {
    let failed = |source| TextFileError::Read {
        path: path.into(),
        source,
    };
    let file = input_file::open(path, NamedBy::User).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut file = file.take(max + 1);
    file.by_ref()
        .take(1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes != b"{" {
        return Ok(None);
    }
    file.read_to_end(&mut bytes).map_err(failed)?;
    text_of(path, bytes, max, what).map(Some)
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
    check_length(path, &bytes, max, what)?;
    Ok(bytes)
}

fn check_length(
    path: &Path,
    bytes: &[u8],
    max: u64,
    what: &'static str,
) -> Result<(), TextFileError> {
    match bytes.len() as u64 > max {
        false => Ok(()),
        true => Err(TextFileError::TooLong {
            path: path.into(),
            max,
            what,
        }),
    }
}

/// The bytes as text.
fn text_of(
    path: &Path,
    bytes: Vec<u8>,
    max: u64,
    what: &'static str,
) -> Result<String, TextFileError> {
    check_length(path, &bytes, max, what)?;
    String::from_utf8(bytes).map_err(|error| TextFileError::NoText {
        path: path.into(),
        offset: error.utf8_error().valid_up_to(),
        what,
    })
}
