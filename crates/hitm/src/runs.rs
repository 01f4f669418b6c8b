//! Folders of several recordings of one program, `1.hitm`, `2.hitm` and so on.
//!
//! A run has its file once its program has started, whole or cut short, as a single recording has. So a folder
//! that was not filled to its end holds the runs that there were.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The least number of runs whose median says more than one run.
pub const RUNS_MIN: u8 = 2;

/// The largest number of runs.
pub const RUNS_MAX: u8 = 99;

/// Ending of a recording's file.
const ENDING: &str = ".hitm";

/// Errors of a folder of runs.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The name of a new folder is taken by a file.
    #[error("cannot record several runs into {}: found a file, expected a new or an empty folder", path.display())]
    IsFile {
        /// The file.
        path: PathBuf,
    },
    /// The folder is not empty.
    #[error("cannot record several runs into {}: found {found} in it, expected a new or an empty folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// Something in it.
        found: String,
    },
    /// The folder has no recordings.
    #[error(
        "{}: found a folder without 1.hitm, expected one that hitm record --runs wrote",
        path.display()
    )]
    NoRuns {
        /// The folder.
        path: PathBuf,
    },
    /// A run is missing.
    #[error("{}: found {largest}.hitm without {missing}.hitm, expected all runs from 1 on", path.display())]
    Gap {
        /// The folder.
        path: PathBuf,
        /// The largest number of a run.
        largest: u32,
        /// The number that no run has.
        missing: u32,
    },
    /// The operating system refuses.
    #[error("cannot use the folder {}", path.display())]
    System {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Path of a run in its folder; numbers begin with 1.
pub fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number}{ENDING}"))
}

/// Makes a folder for runs; false when it was there, and empty.
///
/// # Errors
/// A file has the name, or the folder is not empty, or those of the system.
pub fn create(folder: &Path) -> Result<bool, RunsError> {
    let path = || folder.to_owned();
    let system = |source| RunsError::System {
        path: path(),
        source,
    };
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map(|()| true).map_err(system),
    }
    if !fs::metadata(folder).map_err(system)?.is_dir() {
        return Err(RunsError::IsFile { path: path() });
    }
    match fs::read_dir(folder).map_err(system)?.next() {
        None => Ok(false),
        Some(entry) => Err(RunsError::NotEmpty {
            path: path(),
            found: entry
                .map_err(system)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        }),
    }
}

/// Removes the folder again if no run was written.
pub fn remove_if_empty(folder: &Path) {
    // A folder with files in it stays: the system refuses.
    let _ = fs::remove_dir(folder);
}

/// The runs in a folder, in the order of their numbers; none when `input` is no folder. Other files in it
/// do not matter.
///
/// # Errors
/// The folder has no runs, or not all from 1 on, or those of the system.
pub fn files_of(input: &Path) -> Result<Option<Vec<PathBuf>>, RunsError> {
    if !input.is_dir() {
        return Ok(None);
    }
    let path = || input.to_owned();
    let system = |source| RunsError::System {
        path: path(),
        source,
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(input).map_err(system)? {
        let name = entry.map_err(system)?.file_name();
        numbers.extend(name.to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    let Some(largest) = numbers.last().copied() else {
        return Err(RunsError::NoRuns { path: path() });
    };
    let mut wanted = 1..=largest;
    let missing = wanted.find(|number| numbers.binary_search(number).is_err());
    match missing {
        Some(1) => Err(RunsError::NoRuns { path: path() }),
        Some(missing) => Err(RunsError::Gap {
            path: path(),
            largest,
            missing,
        }),
        None => {
            let files = numbers.into_iter().map(|number| path_of(input, number));
            Ok(Some(files.collect()))
        }
    }
}

/// The number of a run by its file's name.
fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(ENDING)?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    number.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_runs_from_1_on() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        let error = || files_of(folder.path()).unwrap_err().to_string();
        assert!(error().contains("found a folder without 1.hitm"));
        for name in ["10.hitm", "readme", "01.hitm", "+1.hitm", "x.hitm"] {
            add(name);
        }
        assert!(error().contains("found a folder without 1.hitm"));
        (1..9).for_each(|number| add(&format!("{number}.hitm")));
        assert!(error().ends_with("found 10.hitm without 9.hitm, expected all runs from 1 on"));
        add("9.hitm");
        let files = files_of(folder.path()).unwrap().unwrap();
        let wanted: Vec<PathBuf> = (1..=10).map(|n| path_of(folder.path(), n)).collect();
        assert_eq!(files, wanted);
        assert!(files_of(&files[0]).unwrap().is_none());
    }

    #[test]
    fn runs_go_into_a_new_or_an_empty_folder() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        assert!(create(&new).unwrap());
        assert!(!create(&new).unwrap());
        fs::write(new.join("1.hitm"), "").unwrap();
        let error = create(&new).unwrap_err().to_string();
        assert!(error.ends_with("found 1.hitm in it, expected a new or an empty folder"));
        let error = create(&new.join("1.hitm")).unwrap_err().to_string();
        assert!(error.ends_with("found a file, expected a new or an empty folder"));
        remove_if_empty(&new);
        assert!(new.join("1.hitm").exists());
        let error = create(&folder.path().join("a/b")).unwrap_err();
        assert!(matches!(error, RunsError::System { .. }));
    }
}
