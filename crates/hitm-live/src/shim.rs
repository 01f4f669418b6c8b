//! The exact layer for the locks of a program that hitm starts. A preloaded library counts and
//! times them; this module starts it and reads its counts.
//!
//! [`Launch`] makes the region that the library writes and names it in a command's environment.
//! [`Observation`] is read from the region's bytes, at any time. docs/live.md lists the counts.
//!
//! Not observed: programs without glibc's dynamic loader (static ones, musl, Go), and programs of
//! another user. Nor are locks that are not pthread locks: futexes of Rust's standard library,
//! `mtx_lock`, those inside the C library.

mod attached;
mod launch;
#[allow(
    dead_code,
    reason = "the writer's half of the layout is compiled here as well"
)]
pub(crate) mod layout;
mod observation;
mod program;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub use attached::Attached;
pub use launch::{Launch, library_directory};
pub use observation::{
    CallSite, LockKind, LockUse, Losses, Module, Observation, Process, ThreadUse,
};
pub use program::check_program;

/// Errors of observing locks with the preloaded library.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The library is not beside hitm.
    #[error("{name} is not in {}; build it with `cargo build --release --workspace`", directory.display())]
    NoLibrary {
        /// Its name.
        name: &'static str,
        /// The folder that was searched.
        directory: PathBuf,
    },
    /// LD_PRELOAD cannot name the library.
    #[error("{}: LD_PRELOAD takes no path with blanks or colons", .0.display())]
    UnfitPath(PathBuf),
    /// A program without a dynamic loader.
    #[error("{} is linked statically: no library can be preloaded", .0.display())]
    Static(PathBuf),
    /// A program with another C library's loader.
    #[error("{} is loaded by {interpreter}: the preloaded library needs glibc's loader", path.display())]
    OtherLoader {
        /// The program.
        path: PathBuf,
        /// Its loader.
        interpreter: String,
    },
    /// A program that changes its user: the loader ignores LD_PRELOAD.
    #[error("{} changes its user or group: the loader preloads nothing into it", .0.display())]
    Setuid(PathBuf),
    /// The system refused something.
    #[error("{action}: {source}")]
    System {
        /// The attempt.
        action: String,
        /// Its answer.
        source: io::Error,
    },
    /// The region does not hold the library's data.
    #[error("the region of the lock observer is damaged at byte {at}: {problem}")]
    Damaged {
        /// Byte of the fault.
        at: usize,
        /// The fault.
        problem: &'static str,
    },
}

impl ShimError {
    fn system(action: impl Into<String>, source: io::Error) -> ShimError {
        let action = action.into();
        ShimError::System { action, source }
    }

    /// Returns true if the host lacks something that could be installed: exit code 3.
    pub fn is_missing(&self) -> bool {
        matches!(self, ShimError::NoLibrary { .. })
    }
}
