//! Input files: the one place that opens files named by a user or an input.
//!
//! A recording, debug information or a scenario comes from somebody else, and names files of this
//! host. Opening a FIFO would wait for ever, opening a device may do anything: such names must lead
//! to regular files. A path that a user types may also lead to a pipe or to /dev/null.
//!
//! Invariant: nothing here waits for another process unless the user named the pipe.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use hitm_base::{Buffer, Bytes, Unread};
use memmap2::{Mmap, UncheckedAdvice};

use crate::ours;

/// Limit on a mapped file. Debug information of browsers and kernels has 1 to 10 GB.
const MAPPED_BYTES_MAX: u64 = 64 << 30;

/// Limit on bytes read from files that cannot be mapped: pipes, and files of `/sys` and `/proc`.
const READ_BYTES_MAX: u64 = 1 << 30;

/// The source of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The user, on the command line, who may mean a pipe.
    User,
    /// The contents of some input.
    Input,
}

/// A mapped file.
struct Mapped(Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Buffer for Mapped {
    fn release(&self) {
        // SAFETY: the mapping is shared and only read, so that its pages come back from the file.
        // A kernel that refuses keeps them.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// Opens a file for reading.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for anything but a regular file or,
/// where the user named it, a pipe.
pub fn open(path: &Path, named_by: NamedBy) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    if named_by == NamedBy::Input {
        return ours::open_regular(path, &mut options);
    }
    check(&std::fs::metadata(path)?)?;
    let file = options.open(path)?;
    // Another file may have taken the name meanwhile.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Returns the bytes of a file: mapped, or read where it cannot be mapped.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::FileTooLarge`].
pub fn bytes(path: &Path, named_by: NamedBy) -> io::Result<Bytes> {
    let file = open(path, named_by)?;
    let len = file.metadata()?.len();
    if len > MAPPED_BYTES_MAX {
        return Err(too_large(MAPPED_BYTES_MAX));
    }
    // SAFETY: the file may change under the mapping, as under any reader, and the parser takes any
    // bytes. A file that shrinks ends this process as it would end a linker or a debugger.
    if len > 0
        && !path.starts_with("/sys")
        && let Ok(map) = unsafe { Mmap::map(&file) }
    {
        return Ok(Bytes::new(Mapped(map)));
    }
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > READ_BYTES_MAX {
        true => Err(too_large(READ_BYTES_MAX)),
        false => Ok(Bytes::from(bytes)),
    }
}

/// Returns the bytes of a file that some input names, or the reason why not.
pub fn load(path: &str) -> Result<Bytes, Unread> {
    bytes(Path::new(path), NamedBy::Input).map_err(|error| match error.kind() {
        // A directory in a recording's path may be a file on this host.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unread::Missing,
        _ => Unread::Refused(error.to_string()),
    })
}

/// Refuses what not even a user may name.
fn check(metadata: &Metadata) -> io::Result<()> {
    match metadata.file_type().is_fifo() || is_null(metadata) {
        true => Ok(()),
        false => ours::check_regular(metadata),
    }
}

/// Returns true if it is /dev/null, which stands for an empty file.
fn is_null(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 3)
}

fn too_large(max: u64) -> io::Error {
    let message = format!("found more than {} MiB, the most that is read", max >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn fifo(path: &Path) {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a system call with a string that lives.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }

    #[test]
    fn an_input_names_regular_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        fifo(&pipe);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let refused = |path: &Path| bytes(path, NamedBy::Input).unwrap_err().to_string();
        assert_eq!(refused(&link), "found a FIFO, expected a regular file");
        assert_eq!(
            refused(Path::new("/dev/zero")),
            "found a device, expected a regular file"
        );
        assert_eq!(refused(directory.path()), "is a directory");
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        assert_eq!(&*bytes(&plain, NamedBy::Input).unwrap(), b"text");
        assert!(matches!(load("/proc/self/comm/x"), Err(Unread::Missing)));
        assert!(matches!(
            load(link.to_str().unwrap()),
            Err(Unread::Refused(_))
        ));
    }

    #[test]
    fn a_user_may_name_a_pipe_but_no_device() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        fifo(&pipe);
        let name = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(name, "text"));
        assert_eq!(&*bytes(&pipe, NamedBy::User).unwrap(), b"text");
        writer.join().unwrap().unwrap();
        let error = bytes(Path::new("/dev/zero"), NamedBy::User).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let null = Path::new("/dev/null");
        assert_eq!(&*bytes(null, NamedBy::User).unwrap(), b"");
        assert!(bytes(null, NamedBy::Input).is_err());
    }

    #[test]
    fn memory_that_was_given_back_has_the_same_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long");
        let contents: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        std::fs::write(&path, &contents).unwrap();
        let read = bytes(&path, NamedBy::Input).unwrap();
        assert!(*read == *contents);
        read.release();
        assert!(*read == *contents);
    }

    #[test]
    fn files_of_the_kernel_have_no_length() {
        let text = bytes(Path::new("/proc/self/status"), NamedBy::User).unwrap();
        assert!(text.starts_with(b"Name:"));
    }
}
