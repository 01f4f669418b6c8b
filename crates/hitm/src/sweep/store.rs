//! Results on disk: a file for each run, named by the run.
//!
//! `runs/3f/3f09…` holds a result; the folder of its first two digits keeps folders small.
//! `runs/started` has a line for each run that began, in the order of time. More lines than names
//! mean that runs were made twice.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use hitm_files::input_file::NamedBy;
use hitm_files::limits;
use hitm_files::ours;
use hitm_files::output_file::{self, Durability};
use hitm_files::text_file::{self, TextFileError};
use hitm_sweep::name::RunName;
use hitm_sweep::result::RunResult;

use super::Error;

/// Longest result: a run has some dozens of figures.
const RESULT_BYTES_MAX: u64 = 1 << 20;

/// The folder of a sweep.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder, and makes it when there is none.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn open(folder: &Path) -> Result<Store, Error> {
        let runs = folder.join("runs");
        fs::create_dir_all(&runs).map_err(|source| failed(&runs, source))?;
        Ok(Store {
            folder: folder.to_owned(),
        })
    }

    /// Opens a store for reading: makes no folder.
    pub fn read_only(folder: &Path) -> Store {
        Store {
            folder: folder.to_owned(),
        }
    }

    /// Folder of the sweep.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: RunName) -> PathBuf {
        let name = name.to_string();
        self.folder.join("runs").join(&name[..2]).join(name)
    }

    /// Returns the result of a run; none when it has none, or a damaged one.
    ///
    /// # Errors
    /// A file that is there but cannot be read.
    pub fn get(&self, name: RunName) -> Result<Option<RunResult>, Error> {
        let path = self.path(name);
        // Whatever else has its name is an error, and nobody is waited for.
        match text_file::read_named(&path, NamedBy::Input, RESULT_BYTES_MAX, "a result") {
            Ok(text) => Ok(RunResult::decode(&text, name)),
            Err(TextFileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(TextFileError::TooLong { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores a result.
    ///
    /// # Errors
    /// A full disk, a folder that cannot be written.
    pub(super) fn put(&self, name: RunName, result: &RunResult) -> Result<(), Error> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let text = result.encode(name);
        // A result that a power failure cut is made again.
        output_file::write_shared(&path, text.as_bytes(), Durability::Checked)?;
        Ok(())
    }

    /// Notes that a run begins.
    pub(super) fn note_start(&self, name: RunName) -> Result<(), Error> {
        let path = self.folder.join("runs").join("started");
        let mut options = OpenOptions::new();
        let file = ours::open_regular(&path, options.append(true).create(true));
        // One write of a short line: lines of several processes cannot mix.
        let written = file.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
        written.map_err(|source| failed(&path, source))
    }
}

pub(super) fn failed(path: &Path, source: io::Error) -> Error {
    Error::Write {
        path: path.to_owned(),
        source: limits::explain(source),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

    use hitm_sweep::name::Naming;

    use super::*;

    #[test]
    fn a_result_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let name = Naming::new(1).name();
        let result = RunResult::Failed("no such CPU".to_owned());
        assert_eq!(store.get(name).unwrap(), None);
        store.put(name, &result).unwrap();
        assert_eq!(store.get(name).unwrap(), Some(result.clone()));
        let path = store.path(name);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(store.get(name).unwrap(), None);
        let changed = String::from_utf8(text).unwrap().replace("such", "good");
        fs::write(&path, changed).unwrap();
        assert_eq!(store.get(name).unwrap(), None);
        store.put(name, &result).unwrap();
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!((store.get(name).unwrap(), files), (Some(result), 1));
    }

    #[test]
    fn a_fifo_in_the_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let name = Naming::new(1).name();
        for path in [store.path(name), folder.path().join("runs/started")] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let path = CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: a system call with a string that lives.
            assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        }
        let read = store.get(name).unwrap_err();
        let noted = store.note_start(name).unwrap_err();
        for error in [read, noted] {
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!(cause, "found a FIFO, expected a regular file");
        }
    }
}
