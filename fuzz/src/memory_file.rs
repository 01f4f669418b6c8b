//! A file in memory that has a path, for functions that open what they read.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::{Path, PathBuf};

/// An unnamed file, freed at the end of the process.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    path: PathBuf,
}

impl MemoryFile {
    /// A file with these bytes. One for each input: a reader may keep it mapped.
    pub fn new(bytes: &[u8]) -> MemoryFile {
        // SAFETY: the name is a string that ends with a zero, and the flag is one that Linux knows.
        let descriptor = unsafe { libc::memfd_create(c"fuzz".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(descriptor >= 0, "the kernel has files in memory");
        // SAFETY: the descriptor is open and has no other owner.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(bytes).expect("memory takes it");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        MemoryFile { file, path }
    }

    /// A path by which it can be opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
