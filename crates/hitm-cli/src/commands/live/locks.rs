//! `hitm live locks`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm::live::{LiveProgress, LiveTarget, LocksConfig, record_locks, write_recording};
use hitm_live::recording::LiveRecording;
use hitm_report::live::{self, LiveLocks};
use hitm_report::text::PercentLimit;

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
    /// What to write; docs/formats/live.md has the JSON
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

/// A time with its unit: s, ms or m; s without one.
fn duration(text: &str) -> Result<Duration, String> {
    let number_end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(number_end.unwrap_or(text.len()));
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        _ => return Err(format!("found the unit '{unit}', expected s, ms or m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("found '{number}', expected a number"))?;
    // A month is longer than anybody waits, and far from what a clock counts.
    const SECONDS_MAX: f64 = 30.0 * 86_400.0;
    let seconds = number * scale;
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err("expected more than 0 and at most 30 days".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "0s", "1h", "nan", "inf", "1e99s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
