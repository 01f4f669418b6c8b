//! `hitm live wakeups`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm_live::options::Options;
use hitm_live::place::Stop;
use hitm_live::wakeups;
use hitm_report::live::wakeups as shown;

use super::target::TasksArgs;
use crate::commands::Format;
use crate::commands::duration::duration;
use crate::{Exit, Terminal};

/// Options of `hitm live wakeups`.
#[derive(Debug, Args)]
pub(crate) struct WakeupsArgs {
    #[command(flatten)]
    tasks: TasksArgs,
    /// For how long at most, as 10s, 500ms or 2m; Ctrl-C ends it earlier
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Load no BPF program: the kernel's sums alone
    #[arg(long)]
    counters: bool,
    /// Form of the result; docs/formats/live.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &WakeupsArgs, terminal: &mut Terminal) -> Result<Exit> {
    let report = wakeups::measure(&Options {
        target: args.tasks.target(),
        duration: args.duration,
        stop: Stop::catch(),
        counters_only: args.counters,
    })?;
    match args.format {
        Format::Text => terminal.out(&shown::text(&report))?,
        Format::Json => terminal.json(&shown::json(&report))?,
    }
    Ok(Exit::Done)
}
