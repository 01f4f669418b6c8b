//! What may be typed. Only names and texts here: `commands` makes sense of them.

use clap::{Parser, Subcommand};

use crate::commands::{
    DiffArgs, ExportArgs, ImportArgs, LayoutArgs, LiveArgs, MachineArgs, PlaceArgs, RecordArgs,
    ReportArgs, ReproduceArgs, SimArgs, SweepArgs, VmArgs, WhatifArgs,
};

/// Finds out which cache lines the threads of a program fight over, and what it costs.
#[derive(Debug, Parser)]
#[command(
    name = "hitm",
    version,
    after_help = "\
Exit codes:
  0   done (hitm record: the recorded program's own exit code)
  1   a condition of --fail-on or --check holds, or a rule is broken
  2   wrong usage, or something cannot be read or written
  3   something is missing on this host; the message says what to install
  70  an internal error of hitm

Results go to standard output, everything else to standard error.
Colours are used on a terminal only, and not when NO_COLOR is set or TERM is dumb."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One subcommand each; each has a file of its name in `commands`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and record what its threads do to shared cache lines
    Record(RecordArgs),
    /// Show which lines the threads of a recording fight over, and what to do about it
    Report(ReportArgs),
    /// Show recordings of one load side by side: where each waits, and who
    Diff(DiffArgs),
    /// Run a recording again with members moved or on another machine, and compare
    Whatif(WhatifArgs),
    /// Make a recording of another tool's samples
    Import(ImportArgs),
    /// Write a recording in another tool's format
    Export(ExportArgs),
    /// Look at this host while it runs: locks, throttling, late wake-ups
    Live(LiveArgs),
    /// Record a whole kernel on a machine that you do not have
    Vm(VmArgs),
    /// Simulate a scheduler on a machine that you do not have: what a load costs, and why
    Sim(SimArgs),
    /// Simulate published cases again, and show published and simulated figures side by side
    Reproduce(ReproduceArgs),
    /// Make thousands of runs from one plan: simulations or recordings over machines, layouts and keys
    Sweep(SweepArgs),
    /// Show, import and measure machine models
    Machine(MachineArgs),
    /// Show, list, compare and check how structures lie in cache lines; propose better layouts
    Layout(LayoutArgs),
    /// Put the threads that fight for a lock on the CPUs that it can keep busy, and back
    Place(PlaceArgs),
    /// Say what hitm can do on this host, and what to install for the rest
    Doctor,
}
