//! Reasons for not placing.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::journal::JournalError;

/// Threads cannot be placed, or not be put back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The kernel refuses a question or a change.
    #[error("cannot {what}")]
    System {
        /// Names the question or the change.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This process lacks a right.
    #[error("cannot {what}: that needs {needed}")]
    Missing {
        /// Names the change.
        what: String,
        /// A capability, or a folder that can be written.
        needed: String,
    },
    /// The request itself is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The request cannot be undone, or clashes with the present state.
    #[error("refused: {0}")]
    Refused(String),
    /// A file that has a journal's name and cannot be one.
    #[error("{}: {source}", path.display())]
    NoJournal {
        /// The file.
        path: PathBuf,
        /// Its kind, or the kernel's answer.
        source: io::Error,
    },
    /// A journal with a line that cannot be parsed.
    #[error("{}: {source}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Its first mistake.
        source: JournalError,
    },
}

impl PlaceError {
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> PlaceError {
        let what = what.into();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => PlaceError::Missing {
                what,
                needed: String::from(
                    "CAP_SYS_NICE for other users' threads, and root for cgroups that are not delegated",
                ),
            },
            io::ErrorKind::ReadOnlyFilesystem => PlaceError::Missing {
                what,
                needed: String::from("a file system that is not mounted read-only"),
            },
            _ => PlaceError::System { what, source },
        }
    }

    /// Returns true if the host lacks something that could be installed or granted.
    pub fn is_missing(&self) -> bool {
        matches!(self, PlaceError::Missing { .. })
    }
}
