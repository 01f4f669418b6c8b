//! Temporary files: an error names their folder and how to choose another.

use std::fs::File;
use std::io;

use tempfile::{NamedTempFile, TempDir};

use crate::limits;

/// Makes a file without a name, which the kernel frees with its last descriptor, after a kill too.
pub fn unnamed_file() -> io::Result<File> {
    tempfile::tempfile().map_err(explain)
}

/// Makes an empty file that is removed when it is dropped.
pub fn file() -> io::Result<NamedTempFile> {
    NamedTempFile::new().map_err(explain)
}

/// Makes a folder that is removed when it is dropped.
pub fn directory() -> io::Result<TempDir> {
    tempfile::tempdir().map_err(explain)
}

/// Adds the folder of temporary files to the error of making or writing one.
pub fn explain(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    // tempfile adds the path of a file that was not made.
    let cause = error.get_ref().and_then(|inner| inner.source());
    let code = cause.and_then(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    let error = limits::explain(code.map_or(error, io::Error::from_raw_os_error));
    let text = format!(
        "temporary files go to {} (TMPDIR chooses another folder): {error}",
        folder.display()
    );
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_folder_is_named() {
        let text = explain(io::Error::from_raw_os_error(libc::ENOSPC)).to_string();
        let folder = std::env::temp_dir().display().to_string();
        assert!(text.contains(&folder) && text.contains("TMPDIR"), "{text}");
        assert!(text.contains("No space left on device"), "{text}");
    }
}
