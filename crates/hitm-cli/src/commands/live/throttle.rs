//! `hitm live throttle`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm_base::Printout;
use hitm_live::place::Stop;
use hitm_live::throttle::{self, Options};

use super::duration::duration;
use crate::commands::Format;
use crate::{Exit, Terminal};

/// Options of `hitm live throttle`.
#[derive(Debug, Args)]
pub(crate) struct ThrottleArgs {
    /// Look at this cgroup and at those below it, instead of at all
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// For how long at most, as 10s, 500ms or 2m; Ctrl-C ends it earlier
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Write a line for the begin and the end of each walk of a timer, as ftrace does, before the report
    #[arg(long, conflicts_with = "format")]
    trace: bool,
    /// Load no BPF program: the kernel's counters alone
    #[arg(long)]
    counters: bool,
    /// What to write; docs/live.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &ThrottleArgs, terminal: &mut Terminal) -> Result<Exit> {
    let options = Options {
        cgroup: args.cgroup.clone(),
        duration: args.duration,
        stop: Stop::catch(),
        counters_only: args.counters,
    };
    let mut written = Ok(());
    let report = throttle::observe(&options, &mut |line| {
        if args.trace && written.is_ok() {
            let mut out = Printout::new();
            out.line(line);
            written = terminal.out(&out);
        }
    })?;
    written?;
    match args.format {
        Format::Text => terminal.out(&throttle::text(&report))?,
        Format::Json => {
            terminal.json(&(serde_json::to_string_pretty(&throttle::json(&report))? + "\n"))?
        }
    }
    Ok(Exit::Done)
}
