//! `hitm fix`: remedies are applied to a copy of the source tree one after the other, built, checked, run and recorded
//! beside the version before, and kept or undone.
//!
//! The user's tree is read and never written, so that nothing that ends this process can leave it changed. Remedies
//! come from an [`Advisor`], which reads the recording of the version that is kept: lines and sizes are those of the
//! present text.

mod apply;
mod bench;
mod elsewhere;
mod environment;
mod folder;
mod judge;
mod kernel;
mod output;
mod process;
mod tree;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hitm_files::text_file::TextFileError;
use hitm_layout::emit::patched;
use thiserror::Error;

use crate::record::Signals;

pub use bench::{Bench, Setup};
pub use elsewhere::Elsewhere;
pub use environment::Environment;
pub use judge::{Judgement, Spread};
pub use kernel::{KernelBench, KernelSetup, KernelTrial};
pub use tree::{Origin, Tree};
pub use words::{Program, WordsError, shell_line};

/// A change of one source file that may save time.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    /// Text by which it is known in later recordings: nothing is tried twice.
    pub key: String,
    /// The change in a few words.
    pub what: String,
    /// Finding that it is for.
    pub finding: String,
    /// The changed file, below the tree's root; none where it is not known.
    pub file: Option<PathBuf>,
    /// Unified diff of the file, or the reason for which there is none.
    pub diff: Result<String, String>,
    /// Share of the run that a replay saved.
    pub replayed_gain: Option<f64>,
    /// Bytes of the structure now.
    pub size_before: Option<u64>,
    /// Bytes of the structure with the change.
    pub size_after: Option<u64>,
    /// Instances of the structure that are accessed in the recording.
    pub instance_count: Option<u64>,
    /// Assertions that keep the layout, as source; empty for none.
    pub assertions: String,
    /// Variables of its trial.
    pub environment: Environment,
    /// Options that builds and runs need from now on, in words; empty for none.
    pub needs: String,
}

/// A finding that no change of the layout ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Incurable {
    /// The finding.
    pub finding: String,
    /// Kind of its contention.
    pub kind: String,
    /// Part of all threads' time that it costs.
    pub share: f64,
    /// Advice to a person.
    pub advice: String,
}

/// Remedies for a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advised {
    /// Remedies, the one to try first at the beginning.
    pub remedies: Vec<Remedy>,
    /// Findings without a remedy.
    pub incurable: Vec<Incurable>,
}

/// Source of remedies.
pub trait Advisor {
    /// Reads a recording of the version that the tree has now.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn advise(&mut self, recording: &Path, tree: &Tree) -> Result<Advised, FixError>;
}

/// Fate of a remedy.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The program is faster with it.
    Kept(Judgement),
    /// The program is no faster, or not by enough.
    Undone(Judgement),
    /// It was measured beside the others on request, and is no remedy.
    Compared(Judgement),
    /// It was not measured: the reason.
    Refused(String),
}

/// A remedy that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The remedy.
    pub remedy: Remedy,
    /// Its fate.
    pub fate: Fate,
}

/// A source file with all that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The file below the tree's root.
    pub file: PathBuf,
    /// Its text in the user's tree.
    pub before: String,
    /// Its text with the remedies.
    pub after: String,
}

/// Result of all trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    /// Remedies in the order in which they were tried.
    pub tried: Vec<Tried>,
    /// Findings that are left and have no remedy.
    pub incurable: Vec<Incurable>,
    /// Files that are changed.
    pub changed: Vec<Changed>,
    /// Recordings of the user's version in the first trial; none where nothing was measured.
    pub first: Option<Spread>,
    /// Recordings of the last version that is kept.
    pub last: Option<Spread>,
    /// Both versions on other machines, where something was kept.
    pub elsewhere: Vec<Elsewhere>,
    /// Words of the program's output that differ from run to run and were not compared.
    pub varying_words: u64,
    /// Exit code of the program.
    pub exit_code: Option<u64>,
    /// True if remedies were left when the limit was reached.
    pub is_cut: bool,
    /// Layout file of what is kept of a kernel's structure; empty for none.
    pub layout: String,
    /// That structure as C, where no tree was given.
    pub declaration: String,
}

impl Fixed {
    /// A result without trials.
    fn empty() -> Fixed {
        Fixed {
            tried: Vec::new(),
            incurable: Vec::new(),
            changed: Vec::new(),
            first: None,
            last: None,
            elsewhere: Vec::new(),
            varying_words: 0,
            exit_code: None,
            is_cut: false,
            layout: String::new(),
            declaration: String::new(),
        }
    }
}

/// Limits of the loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Recordings of each version.
    pub runs: u8,
    /// Share by which the cycles must fall beyond the spread.
    pub min_gain: f64,
    /// Remedies that are built and measured.
    pub remedies: usize,
}

/// Step of the loop, for whoever waits.
#[derive(Debug, Clone, Copy)]
pub enum Step<'s> {
    /// The user's version is built and recorded.
    Base,
    /// A remedy is tried.
    Trial(&'s Remedy),
    /// A remedy has its fate.
    Ended(&'s Tried),
}

/// Reason for which the loop ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FixError {
    /// A file or folder cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    System {
        /// The refused action.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A source file cannot be read.
    #[error(transparent)]
    Text(#[from] TextFileError),
    /// A command cannot be started.
    #[error("cannot run {program}")]
    Start {
        /// The program.
        program: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The user's version does not build, run or pass its check.
    #[error("the program as it is: {why}")]
    Base {
        /// The reason, with the end of what was printed.
        why: String,
    },
    /// A command line cannot be split into words.
    #[error("--{option}: {source}")]
    Words {
        /// The option.
        option: &'static str,
        /// The fault.
        source: WordsError,
    },
    /// A signal came.
    #[error("ended by signal {signal}: the tree is as it was")]
    Signal {
        /// Its number.
        signal: i32,
    },
    /// A kernel's tree cannot be compiled yet.
    #[error(
        "{}: found {found}, expected a tree that is configured as the recorded kernel: copy that one's \
         configuration to {}/.config, then make -C {} olddefconfig prepare",
        root.display(), root.display(), root.display()
    )]
    NotPrepared {
        /// The tree.
        root: PathBuf,
        /// Lack.
        found: String,
    },
    /// The tree is not clean.
    #[error("{}: found {found}, expected a tree without changes for --apply", path.display())]
    NotClean {
        /// The file or tree.
        path: PathBuf,
        /// The difference.
        found: String,
    },
    /// Files of the tree cannot be written, nor those that were written be as before.
    #[error("cannot write {}, and {} has the patch already", path.display(), changed.display())]
    Partly {
        /// The file that could not be written.
        path: PathBuf,
        /// A file that is changed.
        changed: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The advisor failed.
    #[error("{what}")]
    Advice {
        /// The failed action.
        what: String,
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Tries remedies until none is left. `first` is a recording that there is already.
///
/// # Errors
/// The user's version does not build or run, a signal came, or the system refuses something.
pub fn fix(
    bench: &mut Bench<'_>,
    limits: &Limits,
    first: Option<&Path>,
    advisor: &mut dyn Advisor,
    step: &mut dyn FnMut(Step<'_>),
) -> Result<Fixed, FixError> {
    step(Step::Base);
    bench.begin()?;
    let mut of = Loop {
        done: BTreeSet::new(),
        fixed: Fixed::empty(),
        measured: 0,
    };
    let mut advised = advisor.advise(first.unwrap_or(bench.recording()), bench.tree())?;
    while let Some(remedy) = of.next(&mut advised, limits) {
        step(Step::Trial(&remedy));
        let fate = of.fate(bench, &remedy, limits)?;
        let is_kept = matches!(fate, Fate::Kept(_));
        of.fixed.tried.push(Tried { remedy, fate });
        step(Step::Ended(of.fixed.tried.last().expect("one was pushed")));
        if is_kept {
            advised = advisor.advise(bench.recording(), bench.tree())?;
        }
    }
    let mut fixed = of.fixed;
    fixed.incurable = advised.incurable;
    fixed.changed = bench.changed()?;
    if !fixed.changed.is_empty() {
        fixed.elsewhere = bench.elsewhere();
    }
    fixed.varying_words = bench.varying_words();
    fixed.exit_code = bench.exit_code();
    Ok(fixed)
}

/// State of the loop.
struct Loop {
    done: BTreeSet<String>,
    fixed: Fixed,
    /// Remedies that were built.
    measured: usize,
}

impl Loop {
    /// The next remedy that was not tried.
    fn next(&mut self, advised: &mut Advised, limits: &Limits) -> Option<Remedy> {
        advised
            .remedies
            .retain(|remedy| !self.done.contains(&remedy.key));
        if advised.remedies.is_empty() {
            return None;
        }
        if self.measured >= limits.remedies {
            self.fixed.is_cut = true;
            return None;
        }
        let remedy = advised.remedies.remove(0);
        self.done.insert(remedy.key.clone());
        Some(remedy)
    }

    /// Applies a remedy, measures it and undoes it unless it is kept.
    fn fate(
        &mut self,
        bench: &mut Bench<'_>,
        remedy: &Remedy,
        limits: &Limits,
    ) -> Result<Fate, FixError> {
        let (file, diff) = match (&remedy.file, &remedy.diff) {
            (_, Err(why)) => return Ok(Fate::Refused(why.clone())),
            (None, _) => return Ok(Fate::Refused("its source file is not known".to_owned())),
            (Some(file), Ok(diff)) => (file, diff),
        };
        let before = bench.tree().read(file)?;
        let Some(after) = patched(&before, diff) else {
            return Ok(Fate::Refused("its diff does not fit the file".to_owned()));
        };
        self.measured += 1;
        let mut fate = bench.try_text(file, &after, &remedy.environment, limits)?;
        if let Fate::Refused(why) = &mut fate
            && !remedy.needs.is_empty()
        {
            *why = format!("{why}; {}", remedy.needs);
        }
        if let Fate::Kept(judgement) | Fate::Undone(judgement) = &fate {
            self.fixed.first.get_or_insert(judgement.before);
            let last = match fate {
                Fate::Kept(_) => judgement.after,
                _ => judgement.before,
            };
            self.fixed.last = Some(last);
        }
        Ok(fate)
    }
}

/// Signals that end the loop.
fn check_signal(signals: &Signals) -> Result<(), FixError> {
    match signals.pending() {
        Some((signal, _)) => Err(FixError::Signal { signal }),
        None => Ok(()),
    }
}
