//! `hitm record`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use hitm::record::{Ended, Progress, RecordConfig, record};
use hitm_base::Cycles;
use hitm_weave::Placement;

use super::duration::duration;
use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The machine to price accesses on: a preset (see `hitm machine list`), a file, or `host`
    #[arg(short, long, value_name = "NAME|FILE", default_value = "broadwell-4s")]
    machine: String,
    /// Where threads run on the modelled machine: as far apart as possible (spread), as close
    /// together (compact), or on the CPUs of a list like 0,2,8-11
    #[arg(long, value_name = "spread|compact|LIST", default_value = "spread")]
    threads_to: Placement,
    /// How many cycles a thread's clock may run ahead of the slowest one
    #[arg(long, value_name = "CYCLES", default_value_t = hitm::record::DEFAULT_WINDOW.0,
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    window: u64,
    /// Cycles per instruction of the program's code apart from what it waits for shared lines, if you
    /// have measured it; instead of the machine's
    #[arg(long, value_name = "CYCLES")]
    cpi: Option<f64>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "hitm.data")]
    output: PathBuf,
    /// The user-mode QEMU to use, instead of the one in PATH
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Let the program go on, unrecorded, when hitm is killed; otherwise it is killed as well
    #[arg(long)]
    keep_running: bool,
    /// End the recording after this time, as 10s, 500ms or 2m, and the program with SIGTERM
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// The program to record and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<String>,
}

pub(super) fn run(args: RecordArgs, terminal: &mut Terminal) -> Result<Exit> {
    let machine = match args.cpi {
        Some(cpi) => hitm::machine::resolve_with_cpi(&args.machine, cpi),
        None => hitm::machine::resolve(&args.machine),
    };
    let machine = machine.with_context(|| format!("cannot use the machine '{}'", args.machine))?;
    let config = RecordConfig {
        command: args.command,
        machine,
        placement: args.threads_to,
        window: Cycles(args.window),
        output: args.output,
        qemu: args.qemu,
        keeps_running: args.keep_running,
        duration: args.duration,
    };
    let spinner = Spinner::start("recording");
    let ended = record(&config, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    terminal.note(&summary(&config, &ended));
    Ok(Exit::OfProgram(ended.exit_code))
}

fn text(progress: &Progress) -> String {
    format!(
        "{:.1} M cycles, {:.1} M records, {:.1} MB",
        progress.time.0 as f64 / 1e6,
        progress.record_count as f64 / 1e6,
        progress.file_bytes as f64 / 1e6
    )
}

fn summary(config: &RecordConfig, ended: &Ended) -> String {
    let Ended {
        progress,
        is_complete,
        exit_code,
    } = ended;
    let file = config.output.display();
    let note = match (is_complete, exit_code) {
        (true, _) => "",
        (false, 129..) => ", cut short by a signal",
        (false, _) => ", up to where the program replaced itself (exec): record what it starts",
    };
    format!(
        "{file}: {} records, {:.1} MB{note}; read it with `hitm report -i {file}`",
        progress.record_count,
        progress.file_bytes as f64 / 1e6,
    )
}
