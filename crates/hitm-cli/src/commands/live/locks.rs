//! `hitm live locks`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm::live::{LiveProgress, LiveTarget, LocksConfig, record_locks, write_recording};
use hitm_live::recording::LiveRecording;
use hitm_report::live::{self, LiveLocks};
use hitm_report::text::PercentLimit;

use crate::commands::duration::duration;
use crate::commands::select::percent;
use crate::commands::{Format, text_options};
use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm live locks`.
#[derive(Debug, Args)]
pub(crate) struct LocksArgs {
    /// Look at this process and what it starts, instead of at everything
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["cgroup", "command"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Look at the processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    cgroup: Option<String>,
    /// For how long, as 10s, 500ms or 2m; until the program ends when one is started [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Samples of each CPU in a second
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 999,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    frequency: u32,
    /// Keep the samples in a file, which `hitm report -i FILE` shows
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Fold locks whose waiters take less than this share of the sampled time into one row of text
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    percent_limit: PercentLimit,
    /// Form of the result; docs/formats/live.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// A program to start and to look at, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

impl LocksArgs {
    fn config(&self) -> LocksConfig {
        const DURATION_DEFAULT: Duration = Duration::from_secs(10);
        let target = match (self.pid, &self.cgroup, &self.command[..]) {
            (Some(pid), _, _) => LiveTarget::Process(pid),
            (None, Some(path), _) => LiveTarget::Cgroup(path.clone()),
            (None, None, []) => LiveTarget::System,
            (None, None, command) => LiveTarget::Program(command.to_vec()),
        };
        let is_program = matches!(target, LiveTarget::Program(_));
        LocksConfig {
            target,
            duration: self.duration.or((!is_program).then_some(DURATION_DEFAULT)),
            frequency: self.frequency,
        }
    }
}

pub(super) fn run(args: LocksArgs, terminal: &mut Terminal) -> Result<Exit> {
    let config = args.config();
    let spinner = Spinner::start("sampling");
    let ended = record_locks(&config, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    if let Some(path) = &args.record {
        write_recording(path, &ended.recording)?;
    }
    show(&ended.recording, args.format, args.percent_limit, terminal)?;
    Ok(ended.exit_code.map_or(Exit::Done, Exit::OfProgram))
}

/// Shows the locks of a recording.
pub(in crate::commands) fn show(
    recording: &LiveRecording,
    format: Format,
    percent_limit: PercentLimit,
    terminal: &mut Terminal,
) -> Result<()> {
    let locks = LiveLocks::of(recording);
    let mut options = text_options(terminal);
    options.percent_limit = percent_limit;
    match format {
        Format::Text => terminal.out(&live::text(&locks, &options)),
        Format::Json => terminal.json(&live::json(&locks)),
    }
}

fn text(progress: LiveProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    format!("{seconds:.1} s, {} samples", progress.sample_count)
}
