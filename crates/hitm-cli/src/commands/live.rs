//! `hitm live`.

mod duration;
mod throttle;
mod wakeups;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{Exit, Terminal};

/// Options of `hitm live`.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    #[command(subcommand)]
    verb: LiveVerb,
}

/// One verb each.
#[derive(Debug, Subcommand)]
enum LiveVerb {
    /// Show how long tasks of groups with a quota stand still, and for what
    Throttle(throttle::ThrottleArgs),
    /// Show how long woken tasks wait for a CPU, by task and by CPU
    Wakeups(wakeups::WakeupsArgs),
}

pub(super) fn run(args: LiveArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.verb {
        LiveVerb::Throttle(args) => throttle::run(&args, terminal),
        LiveVerb::Wakeups(args) => wakeups::run(&args, terminal),
    }
}
