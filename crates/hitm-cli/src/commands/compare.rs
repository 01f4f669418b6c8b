//! `hitm compare`.

mod programs;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hitm::record::{Ended, ProgramOutput, RecordConfig, Signals, StoppedBy};
use hitm::revisions::Checkouts;
use hitm::runs::{self, RUNS_MAX};
use hitm_recording::Recording;
use hitm_report::compare::{Measured, ProgramComparison};
use hitm_report::{json, markdown, text};

use self::programs::{Program, labels};
use crate::commands::record::{self, MachineArgs, RecordArgs, record_one};
use crate::commands::text_options;
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm compare`.
#[derive(Debug, Args)]
#[command(override_usage = "hitm compare [OPTIONS] A [ARGS] -- B [ARGS]\n       \
                            hitm compare [OPTIONS] 'A [ARGS]' 'B [ARGS]'\n       \
                            hitm compare [OPTIONS] --build CMD REVISION REVISION -- PROGRAM [ARGS]")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Recordings of each program, made in turn: one of A, one of B, and again
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u8).range(1..=i64::from(RUNS_MAX)))]
    runs: u8,
    /// Compare two git revisions: each is checked out into a folder of its own, built there by CMD and recorded there
    #[arg(long, value_name = "CMD")]
    build: Option<String>,
    /// Keep the recordings, in a new folder: DIR/before and DIR/after, which hitm report reads
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Show what the programs write to their standard output, on standard error
    #[arg(long)]
    show_output: bool,
    /// Compare programs that end with an exit code other than 0 as well
    #[arg(long)]
    ignore_failure: bool,
    /// Output format; docs/formats/compare.md has the JSON
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    format: CompareFormat,
    /// The two programs with their arguments, a `--` between them; or two of them, each as one word
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "A -- B")]
    words: Vec<String>,
}

/// The form of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompareFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a comment on a change
    Markdown,
}

/// Folders of the recordings, in the one that the user names.
const FOLDERS: [&str; 2] = ["before", "after"];

pub(super) fn run(args: CompareArgs, terminal: &mut Terminal) -> Result<Exit> {
    let format = args.format;
    // What is temporary is removed after a signal as well.
    let signals = Signals::catch();
    let compared = compare(args, &signals, terminal)?;
    drop(signals);
    let compared = match compared {
        Ok(compared) => compared,
        Err(exit) => return Ok(exit),
    };
    match format {
        CompareFormat::Text => {
            terminal.long_out(&text::compare::render(&compared, &text_options(terminal)))?;
        }
        CompareFormat::Json => terminal.json(&json::compare::render(&compared))?,
        CompareFormat::Markdown => terminal.out(&markdown::compare(&compared))?,
    }
    Ok(Exit::Done)
}

/// Builds, records and compares. Returns how this process ends where a program ends what is compared.
fn compare(
    args: CompareArgs,
    signals: &Signals,
    terminal: &mut Terminal,
) -> Result<Result<ProgramComparison, Exit>> {
    let checkouts = match &args.build {
        Some(build) => Some(built(build, &args.words, signals, terminal)?),
        None => None,
    };
    let programs = match &checkouts {
        Some(checkouts) => programs::of_checkouts(checkouts.all(), &args.words)?,
        None => programs::of(&args.words)?,
    };
    let temporary = tempfile::tempdir()?;
    let folder = match &args.output {
        Some(folder) => {
            runs::create(folder)?;
            folder.as_path()
        }
        None => temporary.path(),
    };
    let folders = FOLDERS.map(|name| folder.join(name));
    for folder in &folders {
        runs::create(folder)?;
    }
    let run_count = args.runs;
    let recorded = configs(args, &programs, &folders)?;
    if let Some(exit) = record_all(&recorded, run_count, terminal)? {
        return Ok(Err(exit));
    }
    let [before, after] = &recorded;
    let (machine, _) = &before.config.machine;
    let programs = [measured(before)?, measured(after)?];
    Ok(Ok(ProgramComparison::of(&machine.name, programs)))
}

/// The revisions before the `--`, checked out and built.
fn built(
    build: &str,
    words: &[String],
    signals: &Signals,
    terminal: &mut Terminal,
) -> Result<Checkouts> {
    let (revisions, _) = programs::split(words)?;
    if revisions.len() != 2 {
        bail!(
            "found {} before --, expected two revisions: hitm compare --build CMD A B -- PROGRAM",
            hitm_base::counted(revisions.len() as u64, "word")
        );
    }
    let checkouts = Checkouts::of(revisions)?;
    for checkout in checkouts.all() {
        terminal.note(&format!("building {}: {build}", checkout.revision));
        checkout.build(build, signals)?;
    }
    Ok(checkouts)
}

/// A program and how it is recorded.
struct Recorded {
    label: String,
    config: RecordConfig,
    folder: PathBuf,
    ignores_failure: bool,
}

fn configs(args: CompareArgs, programs: &[Program; 2], folders: &[PathBuf; 2]) -> Result<[Recorded; 2]> {
    let [before, after] = programs;
    let args_of = RecordArgs::of(args.machine, &before.command, PathBuf::new())?;
    let config = RecordConfig {
        program_output: match args.show_output {
            true => ProgramOutput::Error,
            false => ProgramOutput::Discarded,
        },
        directory: before.directory.clone(),
        ..record::config(args_of)?
    };
    let other = RecordConfig {
        command: after.command.clone(),
        directory: after.directory.clone(),
        ..config.clone()
    };
    let [first, second] = labels(programs);
    let ignores_failure = args.ignore_failure;
    let recorded = |label, config, folder: &Path| Recorded {
        label,
        config,
        folder: folder.to_owned(),
        ignores_failure,
    };
    Ok([
        recorded(first, config, &folders[0]),
        recorded(second, other, &folders[1]),
    ])
}

/// Records the programs in turn. Returns how this process ends where one of them ends what is compared.
fn record_all(programs: &[Recorded; 2], run_count: u8, terminal: &mut Terminal) -> Result<Option<Exit>> {
    for number in 1..=run_count {
        for one in programs {
            let config = RecordConfig {
                output: runs::path_of(&one.folder, number.into()),
                ..one.config.clone()
            };
            let ended = record_one(&config, "recording", terminal)?;
            let what = format!("run {number} of {run_count} of {}", one.label);
            if let Some(exit) = ends_all(one, &ended, &what, terminal) {
                return Ok(Some(exit));
            }
            terminal.note(&format!("{what}: {:.1} M cycles", ended.progress.time.0 as f64 / 1e6));
        }
    }
    Ok(None)
}

/// Returns how this process ends after a run that a signal has ended, or that has failed.
fn ends_all(one: &Recorded, ended: &Ended, what: &str, terminal: &mut Terminal) -> Option<Exit> {
    let is_failure = ended.exit_code != 0 && ended.stopped_by.is_none() && !one.ignores_failure;
    let why = match ended.stopped_by {
        Some(StoppedBy::Signal) => "a signal ended it".to_owned(),
        _ if is_failure => format!(
            "it ended with exit code {}; --ignore-failure compares all the same",
            ended.exit_code
        ),
        _ => return None,
    };
    terminal.note(&format!("nothing is compared after {what}: {why}"));
    Some(match is_failure {
        true => Exit::Usage,
        false => Exit::OfProgram(ended.exit_code),
    })
}

/// Reads the recordings of a program, one after the other.
fn measured(program: &Recorded) -> Result<Measured> {
    let mut measured = Measured::new(&program.label, &program.config.command);
    for file in runs::files_of(&program.folder)?.unwrap_or_default() {
        let bar = Bar::start("reading");
        let recording = Recording::load_contended(&file, &mut |done, all| bar.set(done, all))?;
        bar.finish();
        measured.add(&recording);
    }
    Ok(measured)
}
