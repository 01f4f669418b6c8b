//! `hitm live locks`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use hitm::live::{
    LiveProgress, LiveTarget, LockChange, LocksConfig, lock_what_if, record_locks, write_recording,
};
use hitm_live::process_load::{ProcessLoad, ProcessMeter};
use hitm_live::recording::LiveRecording;
use hitm_report::live::{self, LiveLocks, lock_whatif};
use hitm_report::text::PercentLimit;

use super::lock_change::lock_change;
use super::target::TargetArgs;
use crate::commands::select::percent;
use crate::commands::{Format, text_options};
use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm live locks`.
#[derive(Debug, Args)]
pub(crate) struct LocksArgs {
    #[command(flatten)]
    target: TargetArgs,
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
    /// Simulate the process's spin lock with changes, as huge-pages,preempt=none|voluntary|full|lazy,
    /// slice-extension=10us,quota=50ms,period=100ms,place=0-3+8; several options are several answers
    #[arg(long, value_name = "CHANGES", value_parser = lock_change, requires = "pid")]
    what_if: Vec<LockChange>,
    /// Form of the result; docs/formats/live.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: LocksArgs, terminal: &mut Terminal) -> Result<Exit> {
    let config = LocksConfig {
        target: args.target.target(),
        duration: args.target.duration(),
        frequency: args.frequency,
    };
    let mut meter = match (&args.what_if[..], &config.target) {
        ([_, ..], LiveTarget::Process(pid)) => Some(meter_of(*pid)?),
        _ => None,
    };
    let spinner = Spinner::start("sampling");
    let ended = record_locks(&config, &mut |progress| {
        if let Some(meter) = &mut meter {
            meter.look();
        }
        spinner.say(&text(progress));
    })?;
    spinner.finish();
    if let Some(path) = &args.record {
        write_recording(path, &ended.recording)?;
    }
    if let Some(meter) = meter {
        return simulate(&args, &ended.recording, &meter.end(), terminal);
    }
    show(&ended.recording, args.format, args.percent_limit, terminal)?;
    Ok(ended.exit_code.map_or(Exit::Done, Exit::OfProgram))
}

fn meter_of(pid: u32) -> Result<ProcessMeter> {
    let meter = ProcessMeter::begin(pid);
    meter.ok_or_else(|| anyhow!("--what-if: process {pid} has ended, or this host has no cgroup hierarchy with cpu"))
}

/// Shows the locks, and the spin lock in the simulator.
fn simulate(
    args: &LocksArgs,
    recording: &LiveRecording,
    load: &ProcessLoad,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let spinner = Spinner::start("simulating");
    let answer = lock_what_if(recording, load, &args.what_if)?;
    spinner.finish();
    match args.format {
        Format::Text => {
            show(recording, args.format, args.percent_limit, terminal)?;
            let width = text_options(terminal).width;
            terminal.out(&lock_whatif::text(&answer, width))?;
        }
        Format::Json => {
            terminal.json(&live::json(&LiveLocks::of(recording), Some(&answer)))?;
        }
    }
    match answer.has_refused() {
        false => Ok(Exit::Done),
        true => Ok(Exit::GateFailed),
    }
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
        Format::Json => terminal.json(&live::json(&locks, None)),
    }
}

fn text(progress: LiveProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    format!("{seconds:.1} s, {} samples", progress.sample_count)
}
