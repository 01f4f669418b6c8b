//! The temporary folder of a run: removed when it is dropped, and by the next run after a kill.
//!
//! Its process holds a lock on it (flock(2)), which ends with the process, however that ends. So a folder of this user
//! whose lock can be had is one that a dead process left behind.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hitm_files::{ours, temporary};
use tempfile::TempDir;

use super::FixError;

/// Beginning of the name of such a folder.
const PREFIX: &str = "hitm-fix-";

/// Times that a folder is made anew when another process takes the new one for one that was left behind.
const TRIALS_MAX: usize = 8;

/// A folder with a lock.
#[derive(Debug)]
pub(super) struct Folder {
    folder: TempDir,
    /// Open for as long as the folder is in use.
    _lock: File,
}

impl Folder {
    /// Makes a folder for temporary files, and removes those that dead processes left behind.
    pub(super) fn create() -> Result<Folder, FixError> {
        let parent = std::env::temp_dir();
        let failed = |source| FixError::System {
            what: "make a folder in",
            path: parent.clone(),
            source,
        };
        clean(&parent);
        for _ in 0..TRIALS_MAX {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
            let folder = folder.map_err(|error| failed(temporary::explain(error)))?;
            if let Some(lock) = lock(folder.path()) {
                return Ok(Folder {
                    folder,
                    _lock: lock,
                });
            }
        }
        Err(failed(io::ErrorKind::WouldBlock.into()))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Takes the lock of a folder that is there; none when another process has it, or has removed the folder.
fn lock(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true);
    let options = options.custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    let folder = options.open(path).ok()?;
    // SAFETY: a plain system call.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return None;
    }
    let (own, named) = (folder.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    (own.ino() == named.ino() && own.dev() == named.dev()).then_some(folder)
}

/// Removes folders that dead processes of this user left behind. One that cannot be removed stays: it is no reason to
/// do nothing else.
fn clean(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let names = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(PREFIX))
    });
    let paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    for path in paths {
        let is_own = fs::symlink_metadata(&path).is_ok_and(|found| found.uid() == ours::user());
        if is_own && lock(&path).is_some_and(|_lock| fs::remove_dir_all(&path).is_err()) {
            let _ = fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_dead_are_removed_and_those_of_the_living_stay() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("tree/src")).unwrap();
            fs::write(path.join("tree/src/a.c"), "int a;\n").unwrap();
            path
        };
        let dead = make("hitm-fix-dead");
        let alive = make("hitm-fix-alive");
        let other = make("other");
        let held = lock(&alive).unwrap();
        assert!(lock(&alive).is_none());
        clean(parent.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
        drop(held);
        // What another test forks has the lock until its exec.
        hitm_test::process::wait_for("the lock", || {
            clean(parent.path());
            !alive.exists()
        });
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let folder = Folder::create().unwrap();
        let path = folder.path().to_owned();
        assert!(path.is_dir() && lock(&path).is_none());
        drop(folder);
        assert!(!path.exists());
    }
}
