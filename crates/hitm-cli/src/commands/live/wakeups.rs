//! `hitm live wakeups`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm_live::options::Options;
use hitm_live::place::Stop;
use hitm_live::wakeups::{self, Target};
use hitm_report::live::wakeups as shown;

use crate::commands::Format;
use crate::commands::duration::duration;
use crate::{Exit, Terminal};

/// Options of `hitm live wakeups`.
#[derive(Debug, Args)]
pub(crate) struct WakeupsArgs {
    /// The threads of this process, instead of all
    #[arg(short, long, value_name = "PID", conflicts_with = "cgroup",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// The tasks of this cgroup and of those below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
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
    let target = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Target::Process(pid),
        (None, Some(path)) => Target::Cgroup(path.clone()),
        (None, None) => Target::All,
    };
    let report = wakeups::measure(&Options {
        target,
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
