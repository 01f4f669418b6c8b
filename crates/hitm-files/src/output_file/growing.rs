//! A recording's file: it has its name while it grows, so that what a killed recorder wrote is found.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{Durability, OutputError, OutputFile, leads_to};

/// A file that takes its name early and grows on. Until it has its name, the former file stays.
#[derive(Debug)]
pub struct GrowingFile {
    output: OutputFile,
    /// Bytes written.
    len: u64,
    /// The first write's bytes.
    head: Vec<u8>,
}

impl GrowingFile {
    /// Begins a file as [`OutputFile::create`] does.
    ///
    /// # Errors
    /// The same.
    pub fn create(path: &Path) -> Result<GrowingFile, OutputError> {
        Ok(GrowingFile {
            output: OutputFile::create(path)?,
            len: 0,
            head: Vec::new(),
        })
    }

    /// Gives the file its name, unless it has it already.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take_name(&mut self) -> Result<(), OutputError> {
        self.output.take_name(Durability::OnDisk)
    }

    /// Checks that nobody else has deleted, replaced or changed the file: its name, its length and its
    /// first bytes. Between these, the checksums of a recording tell its readers.
    ///
    /// # Errors
    /// If another process has changed it.
    pub fn check(&self) -> io::Result<()> {
        let OutputFile { beside, file, path } = &self.output;
        let found = file.metadata()?;
        if beside.is_some() || !found.is_file() {
            return Ok(());
        }
        if !leads_to(path, file)? {
            return Err(io::Error::other(match fs::symlink_metadata(path) {
                Ok(_) => "another process put another file in its place",
                Err(_) => "another process deleted or moved it",
            }));
        }
        let mut head = vec![0; self.head.len()];
        // A file that is written in place may not be readable.
        let is_other = file.read_exact_at(&mut head, 0).is_ok() && head != self.head;
        match found.len() != self.len || is_other {
            true => Err(io::Error::other("another process changed it")),
            false => Ok(()),
        }
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        if self.len == 0 {
            self.head = bytes[..written].to_vec();
        }
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
