//! Revisions of a project, each checked out by git into a folder of its own, and built there.
//!
//! The folders are worktrees of the user's repository: a build sees its whole history. They are removed when
//! [`Checkouts`] is dropped.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use thiserror::Error;

use crate::record::{Signals, end_with_this_thread};

/// Time between two looks at a build.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Reason for which a revision is not built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RevisionsError {
    /// git does not start.
    #[error("cannot run git: install it, or record the two builds with `hitm compare A -- B`")]
    NoGit(#[source] io::Error),
    /// git refuses.
    #[error("git {action}: {answer}")]
    Git {
        /// The command of git.
        action: String,
        /// Its words.
        answer: String,
    },
    /// A revision lacks the folder that the user is in.
    #[error("{revision} has no folder {folder}, in which the program is to be built")]
    NoFolder {
        /// The revision.
        revision: String,
        /// The folder, from the top of the repository.
        folder: String,
    },
    /// The build fails.
    #[error("the build of {revision} ended with {status}: {command}")]
    Build {
        /// The revision.
        revision: String,
        /// The command.
        command: String,
        /// Its end.
        status: ExitStatus,
    },
    /// A signal has ended the build.
    #[error("a signal ended the build of {revision}")]
    Interrupted {
        /// The revision.
        revision: String,
    },
    /// The operating system refuses.
    #[error("cannot check out {revision}")]
    System {
        /// The revision.
        revision: String,
        /// Its answer.
        source: io::Error,
    },
}

/// Revisions that are checked out.
#[derive(Debug)]
pub struct Checkouts {
    checkouts: Vec<Checkout>,
    /// Holds the worktrees.
    folder: TempDir,
}

/// A revision that is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The revision as the user named it.
    pub revision: String,
    /// The folder in it that the user is in, in his own.
    pub directory: PathBuf,
    worktree: PathBuf,
}

impl Checkouts {
    /// Checks revisions out of the repository that this process is in.
    ///
    /// # Errors
    /// No git, no repository, a revision that it does not have, or no room for the files.
    pub fn of(revisions: &[String]) -> Result<Checkouts, RevisionsError> {
        let system = |source| RevisionsError::System {
            revision: revisions.join(" and "),
            source,
        };
        let prefix = git(["rev-parse", "--show-prefix"].map(OsStr::new))?;
        let folder = tempfile::tempdir().map_err(system)?;
        let mut all = Checkouts {
            checkouts: Vec::new(),
            folder,
        };
        for (revision, number) in revisions.iter().zip(1..) {
            // A name that begins with a dash is no option.
            let commit = format!("{revision}^{{commit}}");
            let verify = ["rev-parse", "--verify", "--end-of-options", &commit];
            let commit = git(verify.map(OsStr::new))?;
            let worktree = all.folder.path().join(number.to_string());
            let add = ["worktree", "add", "--quiet", "--detach"].map(OsStr::new);
            let add = add
                .into_iter()
                .chain([worktree.as_os_str(), OsStr::new(&commit)]);
            // What git has begun is removed as well.
            all.checkouts.push(Checkout {
                revision: revision.clone(),
                directory: worktree.join(&prefix),
                worktree: worktree.clone(),
            });
            git(add)?;
            if !worktree.join(&prefix).is_dir() {
                return Err(RevisionsError::NoFolder {
                    revision: revision.clone(),
                    folder: prefix,
                });
            }
        }
        Ok(all)
    }

    /// The revisions in their order.
    pub fn all(&self) -> &[Checkout] {
        &self.checkouts
    }
}

impl Drop for Checkouts {
    fn drop(&mut self) {
        for checkout in &self.checkouts {
            let worktree = checkout.worktree.as_os_str();
            let remove = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
            // One that was never made is not there to be removed.
            let _ = git(remove.into_iter().chain([worktree]));
        }
    }
}

impl Checkout {
    /// Builds the revision by a command of the shell. What it says goes to standard error.
    ///
    /// # Errors
    /// The command fails, or one of the signals comes.
    pub fn build(&self, command: &str, signals: &Signals) -> Result<(), RevisionsError> {
        let system = |source| RevisionsError::System {
            revision: self.revision.clone(),
            source,
        };
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(io::stderr())
            // A signal is for all that it starts.
            .process_group(0);
        end_with_this_thread(&mut shell);
        let status = wait(shell.spawn().map_err(system)?, signals).map_err(system)?;
        match status {
            None => Err(RevisionsError::Interrupted {
                revision: self.revision.clone(),
            }),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(RevisionsError::Build {
                revision: self.revision.clone(),
                command: command.to_owned(),
                status,
            }),
        }
    }
}

/// Waits for a build; none when a signal comes, after which all of it is ended.
fn wait(mut build: Child, signals: &Signals) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = build.try_wait()? {
            return Ok(Some(status).filter(|_| !signals.has_come()));
        }
        if signals.has_come() {
            let group = build.id() as libc::pid_t;
            // SAFETY: a plain system call; the group is that of our child, which has not been waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
            build.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

/// Answer of git, without the line feed at its end.
fn git<'a>(args: impl IntoIterator<Item = &'a OsStr>) -> Result<String, RevisionsError> {
    let args: Vec<&OsStr> = args.into_iter().collect();
    let mut git = Command::new("git");
    // A signal from the terminal is ours: what git has begun is finished, and then removed.
    git.args(&args).stdin(Stdio::null()).process_group(0);
    let Output {
        status,
        stdout,
        stderr,
    } = git.output().map_err(RevisionsError::NoGit)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match status.success() {
        true => Ok(text(&stdout)),
        false => Err(RevisionsError::Git {
            action: args
                .iter()
                .map(|arg| arg.to_string_lossy())
                .collect::<Vec<_>>()
                .join(" "),
            answer: text(&stderr),
        }),
    }
}
