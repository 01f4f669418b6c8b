//! `hitm live`.

mod fleet;
mod lines;
mod lock_change;
mod locks;
mod neighbours;
mod rt;
mod target;
mod throttle;
mod view;
mod wakeups;
mod what_if;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::place;
use crate::{Exit, Terminal};
pub(super) use locks::show;

/// Options of `hitm live`. Without a verb it shows a view in the terminal.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    #[command(subcommand)]
    verb: Option<LiveVerb>,
    #[command(flatten)]
    view: view::ViewArgs,
    /// The folder of the journals of `hitm place`: placements whose processes were killed are undone at the start
    #[arg(long, value_name = "FOLDER", global = true)]
    journals: Option<PathBuf>,
}

/// One verb each.
#[derive(Debug, Subcommand)]
enum LiveVerb {
    /// Show which cache lines the threads of running programs fight over, at native speed; `hitm record` prices
    /// each access of a program that it starts
    Lines(lines::LinesArgs),
    /// Show which locks threads fight for, for which share they hold them, and how many CPUs are of use
    Locks(locks::LocksArgs),
    /// Show who has the CPUs while tasks of a group are ready to run: others, its own tasks, its quota
    Neighbours(neighbours::NeighboursArgs),
    /// Run rt-migrate-test: do real-time threads of higher priority wait for lower ones, and where could they have run
    Rt(rt::RtArgs),
    /// Show how long tasks of groups with a quota stand still, and for what
    Throttle(throttle::ThrottleArgs),
    /// Show how long woken tasks wait for a CPU, by task and by CPU
    Wakeups(wakeups::WakeupsArgs),
}

pub(super) fn run(args: LiveArgs, terminal: &mut Terminal) -> Result<Exit> {
    // Errors of usage come first: nothing is begun for them.
    if args.verb.is_none() {
        view::check(terminal)?;
    }
    place::recover_at_start(args.journals.as_ref(), terminal);
    let Some(verb) = args.verb else {
        return view::run(&args.view, args.journals, terminal);
    };
    if !args.view.is_empty() {
        bail!("options of the view do not go with a verb: write the verb first, then its options");
    }
    match verb {
        LiveVerb::Lines(args) => lines::run(&args, terminal),
        LiveVerb::Locks(args) => locks::run(args, terminal),
        LiveVerb::Neighbours(args) => neighbours::run(&args, terminal),
        LiveVerb::Rt(args) => rt::run(&args, terminal),
        LiveVerb::Throttle(args) => throttle::run(&args, terminal),
        LiveVerb::Wakeups(args) => wakeups::run(&args, terminal),
    }
}
