//! Layout files that a user names: shipped ones by name, others by path.

use std::path::Path;

use hitm_files::text_file::{self, TextFileError};
use hitm_layout::layout_file::{LayoutFile, LayoutFileError, shipped, shipped_names};
use thiserror::Error;

/// Limit on a layout file: its parser's own.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Errors of reading a layout.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayoutReadError {
    /// Neither a shipped layout nor a file.
    #[error("no layout named {name:?}: there is no such file, and the shipped ones are {shipped}")]
    Unknown {
        /// Requested name.
        name: String,
        /// The names of all shipped layouts.
        shipped: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// The file is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutFileError),
}

/// Returns the text of the layout `name`; a path counts from `folder`.
pub fn text(name: &str, folder: &Path) -> Result<String, LayoutReadError> {
    if let Some(text) = shipped(name) {
        return Ok(text.to_owned());
    }
    let path = folder.join(name);
    if !path.exists() {
        return Err(LayoutReadError::Unknown {
            name: name.to_owned(),
            shipped: shipped_names().collect::<Vec<_>>().join(", "),
        });
    }
    Ok(text_file::read(&path, TEXT_BYTES_MAX, "a layout file")?)
}

/// Returns the layout of a name or a path, and its text.
pub fn read(name_or_path: &Path) -> Result<(LayoutFile, String), LayoutReadError> {
    let name = name_or_path.display().to_string();
    let text = text(&name, Path::new(""))?;
    Ok((LayoutFile::parse(&text, &name)?, text))
}
