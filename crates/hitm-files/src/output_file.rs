//! Files that hitm writes: one writer each, a whole result or the former one, and errors that name
//! the file.
//!
//! A file is written beside its name, as `.NAME.part`, and takes the name when it is whole and on
//! disk. So a kill, a full disk or an error half-way leaves the former file. Links are followed: their
//! target is replaced. Owner and mode of the former file stay.
//!
//! Written in place is what cannot be replaced: FIFOs and devices, files that `/proc` names
//! (`/dev/stdout`), and files in a folder that takes no new ones or whose owner cannot be kept.
//!
//! A second writer changes nothing. Both files are locked, the one beside and the one with the name
//! (`beside`). The lock is flock(2)'s: it ends with the process, however that ends, and is not
//! inherited by the programs that hitm starts.

mod beside;
mod growing;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use self::beside::{Beside, Start};
pub use self::growing::GrowingFile;
use crate::limits;

/// Longest chain of symbolic links, as the kernel's own.
const LINKS_MAX: usize = 40;
/// Longest wait for another writer of the same content.
const TURN_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks at whether the other writer is done.
const TURN_PAUSE: Duration = Duration::from_millis(1);

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

impl From<OutputError> for io::Error {
    fn from(error: OutputError) -> io::Error {
        io::Error::other(error)
    }
}

/// State of a result on disk when it takes its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// All of it is on disk: a power failure leaves the former file or this one.
    OnDisk,
    /// Some of it may be missing after a power failure, which its readers see: they check what they
    /// read.
    Checked,
}

/// A file that this process alone writes. Without [`OutputFile::commit`] the former one stays.
#[derive(Debug)]
#[must_use]
pub struct OutputFile {
    /// Present until the file has its name. Dropped before the file, as it must be.
    beside: Option<Beside>,
    file: File,
    /// The name, as the caller spelled it.
    path: PathBuf,
}

impl OutputFile {
    /// Opens a new file for writing. An existing one is kept until [`OutputFile::commit`], unless it can
    /// only be written in place.
    ///
    /// # Errors
    /// [`OutputError::Busy`] when another process writes it: its content stays. Devices and pipes may
    /// have several writers.
    pub fn create(path: &Path) -> Result<OutputFile, OutputError> {
        let failed = |source| failed(path, source);
        let (file, beside) = match replaceable(path).map_err(failed)? {
            Some(target) => match Beside::start(target).map_err(failed)? {
                Start::Beside(file, beside) => (file, Some(beside)),
                Start::InPlace => (in_place(path)?, None),
                Start::Busy => return Err(busy(path)),
            },
            None => (in_place(path)?, None),
        };
        Ok(OutputFile {
            beside,
            file,
            path: path.into(),
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Those of the system; the former file stays.
    pub fn commit(mut self) -> Result<(), OutputError> {
        self.take_name(Durability::OnDisk)
    }

    /// Like [`OutputFile::commit`]; the file may grow on under its name.
    fn take_name(&mut self, durability: Durability) -> Result<(), OutputError> {
        let Some(beside) = self.beside.take() else {
            return Ok(());
        };
        match beside.take_name(&mut self.file, durability) {
            Ok(true) => Ok(()),
            Ok(false) => Err(busy(&self.path)),
            Err(source) => Err(failed(&self.path, source)),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(limits::explain)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a whole file; an existing one is replaced.
///
/// # Errors
/// As for a recording: a file that another process is writing, or that the operating system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    write_as(path, bytes, Durability::OnDisk)
}

/// Writes a whole file that other processes may be writing with the same content, and waits for them.
///
/// # Errors
/// As for [`write()`], after a minute's wait.
pub fn write_shared(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), OutputError> {
    in_turn(|| write_as(path, bytes, durability))
}

/// Repeats `write` while another process writes the same file, for a minute.
///
/// # Errors
/// Those of `write`.
pub fn in_turn<T>(mut write: impl FnMut() -> Result<T, OutputError>) -> Result<T, OutputError> {
    let started = Instant::now();
    loop {
        match write() {
            Err(OutputError::Busy { .. }) if started.elapsed() < TURN_MAX => {
                std::thread::sleep(TURN_PAUSE);
            }
            done => return done,
        }
    }
}

/// Gives the file at a path, that a new one is about to replace, the name with `.old` behind it as well, as perf
/// does. What cannot have two names keeps the one that it has.
pub fn keep_former(path: &Path) {
    let Ok(Some(target)) = replaceable(path) else {
        return;
    };
    let mut old = target.clone().into_os_string();
    old.push(".old");
    if target.exists() {
        // Neither may be possible, and a recording is not to fail for that.
        let _ = fs::remove_file(&old);
        let _ = fs::hard_link(&target, &old);
    }
}

fn write_as(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), OutputError> {
    let mut file = OutputFile::create(path)?;
    let written = file.write_all(bytes);
    written.map_err(|source| failed(path, source))?;
    file.take_name(durability)
}

fn busy(path: &Path) -> OutputError {
    OutputError::Busy { path: path.into() }
}

fn failed(path: &Path, source: io::Error) -> OutputError {
    OutputError::System {
        path: path.into(),
        source: limits::explain(source),
    }
}

/// Returns the name that a new file takes over: `path` behind all links. None for what is written in
/// place.
fn replaceable(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut target = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let name = target.as_os_str().as_bytes().rsplit(|byte| *byte == b'/');
        if let Some(b"" | b"." | b"..") = name.into_iter().next() {
            return Ok(None);
        }
        // Others have open what /proc names: they would keep the former file.
        let folder = folder_of(&target).canonicalize()?;
        if folder.starts_with("/proc") {
            return Ok(None);
        }
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => target = folder.join(fs::read_link(&target)?),
            Ok(found) => return Ok(found.is_file().then_some(target)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(target)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Opens a file as it is, and empties it: locked first, so that a second writer changes nothing.
fn in_place(path: &Path) -> Result<File, OutputError> {
    let failed = |source| failed(path, source);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        // Another writer may have replaced it before the lock.
        if !lock(&file).map_err(failed)? || !leads_to(path, &file).map_err(failed)? {
            return Err(busy(path));
        }
        file.set_len(0).map_err(failed)?;
    }
    Ok(file)
}

/// Locks without waiting; false when another process has the lock. A file system that knows no locks
/// does without.
fn lock(file: &File) -> io::Result<bool> {
    // SAFETY: a plain system call on an open descriptor.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EWOULDBLOCK) => Ok(false),
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(true),
        _ => Err(error),
    }
}

/// Returns true if the name leads to this file, links followed.
fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Options that open nothing but a file in its own right, and wait for nobody.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}
