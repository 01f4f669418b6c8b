//! Files that hitm writes: one writer each, and errors that name the file.
//!
//! A file is opened, locked, and only then emptied, so that a second writer changes nothing. The
//! lock is flock(2)'s: it ends with the process, however that ends, and is not inherited by the
//! programs that hitm starts. Small texts are written this way as well, in place: a file beside them
//! that is renamed would replace a symbolic link, and `/dev/stdout` can be no file beside.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::limits;

/// The reason for which a file is not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// Another hitm writes it.
    #[error("cannot write {}: it is being written by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot write {}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A file that this process alone writes.
#[derive(Debug)]
pub(crate) struct OutputFile(File);

impl OutputFile {
    /// Opens the file for writing and empties it; an existing one is replaced.
    ///
    /// # Errors
    /// [`OutputError::Busy`] when another process writes it: its content stays. Devices and pipes may
    /// have several writers.
    pub(crate) fn create(path: &Path) -> Result<OutputFile, OutputError> {
        let failed = |source| OutputError::System {
            path: path.into(),
            source: limits::explain(source),
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            match lock(&file) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(OutputError::Busy { path: path.into() });
                }
                Err(error) => return Err(failed(error)),
            }
            file.set_len(0).map_err(failed)?;
        }
        Ok(OutputFile(file))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(limits::explain)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Writes a whole file; an existing one is replaced.
///
/// # Errors
/// As for a recording: a file that another process is writing, or that the operating system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes).map_err(|source| OutputError::System {
        path: path.into(),
        source,
    })
}

/// Locks without waiting; a file system that knows no locks does without.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: a plain system call on an open descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_second_writer_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, "what was there before").unwrap();
        let mut first = OutputFile::create(&path).unwrap();
        first.write_all(b"the first").unwrap();
        let second = OutputFile::create(&path).unwrap_err().to_string();
        assert_eq!(
            second,
            format!(
                "cannot write {}: it is being written by another process",
                path.display()
            )
        );
        assert_eq!(fs::read(&path).unwrap(), b"the first");
        drop(first);
        write(&path, b"later").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"later");
    }

    #[test]
    fn devices_have_several_writers() {
        let _first = OutputFile::create(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), b"x").unwrap();
        let full = write(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(full.to_string(), "cannot write /dev/full");
    }
}
