//! The kernel as far as placing uses it: files of /proc and cgroups, and masks of tasks.
//!
//! Tests replace it by a fake one, which can also die between any two changes.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::PlaceError;
use super::cpus::{self, CpuSet};

/// A kernel.
pub trait System {
    /// Reads a file.
    ///
    /// # Errors
    /// As opening and reading it.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Lists the names in a folder, sorted.
    ///
    /// # Errors
    /// As opening and reading it.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Path of a folder without links and `..`.
    ///
    /// # Errors
    /// As realpath(3).
    fn real_path(&self, folder: &Path) -> io::Result<PathBuf>;

    /// Returns true if this process may write the file or folder.
    fn is_writable(&self, path: &Path) -> bool;

    /// Writes to a control file in one write.
    ///
    /// # Errors
    /// As opening and writing it.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Makes a cgroup.
    ///
    /// # Errors
    /// As mkdir(2).
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a cgroup.
    ///
    /// # Errors
    /// As rmdir(2).
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// CPUs on which a task may run.
    ///
    /// # Errors
    /// As sched_getaffinity(2).
    fn affinity(&self, tid: u32) -> io::Result<CpuSet>;

    /// Sets a task's mask; `None` is that of every CPU.
    ///
    /// # Errors
    /// As sched_setaffinity(2).
    fn set_affinity(&self, tid: u32, cpus: Option<&CpuSet>) -> io::Result<()>;
}

/// Reads a file that a placement needs.
pub(super) fn read(system: &dyn System, path: &Path) -> Result<String, PlaceError> {
    let text = system.read(path);
    text.map_err(PlaceError::system(format!("read {}", path.display())))
}

/// The kernel that this process runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

impl System for Linux {
    fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn real_path(&self, folder: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(folder)
    }

    fn is_writable(&self, path: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
            return false;
        };
        // SAFETY: a path with its NUL byte.
        let answer =
            unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
        answer == 0
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // Neither created nor emptied: control files exist, and take one write each.
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        file.write_all(text.as_bytes())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn affinity(&self, tid: u32) -> io::Result<CpuSet> {
        cpus::affinity(tid)
    }

    fn set_affinity(&self, tid: u32, cpus: Option<&CpuSet>) -> io::Result<()> {
        cpus::set_affinity(tid, cpus)
    }
}
