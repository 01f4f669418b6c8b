//! Command-line arguments. Only names and texts here: `commands` interprets them.

use clap::{Parser, Subcommand};

use crate::commands::{
    CompletionsArgs, DiffArgs, DoctorArgs, ExportArgs, ImportArgs, LayoutArgs, LiveArgs,
    MachineArgs, ManArgs, PlaceArgs, RecordArgs, ReportArgs, ReproduceArgs, ReviewArgs, SimArgs,
    SweepArgs, ViewArgs, VmArgs, WhatifArgs,
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
Colours are used on a terminal only, and not when NO_COLOR is set or TERM is dumb. On a terminal a
long report goes through PAGER, or through less; PAGER=cat shows it at once."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Columns of text, 80 to 1000 [default: COLUMNS, else the terminal's, else 120]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(80..=1000))]
    pub(crate) width: Option<u16>,
}

/// One subcommand each; each has a file of its name in `commands`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and record what its threads do to shared cache lines
    Record(RecordArgs),
    /// Show which lines the threads of a recording fight over, and what to do about it
    Report(ReportArgs),
    /// Look at a recording in the terminal: lines, objects, types, functions, source
    View(ViewArgs),
    /// Show recordings of one load side by side: where each waits, and who
    Diff(DiffArgs),
    /// Run a recording again with members moved or on another machine, and compare
    Whatif(WhatifArgs),
    /// Compare two builds of structures: memory, and what each line costs on four machines
    Review(ReviewArgs),
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
    /// Check this host: what works, what to install
    Doctor(DoctorArgs),
    /// Write what a shell needs to complete hitm's commands and options
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
}
