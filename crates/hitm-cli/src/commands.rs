//! One file for each subcommand: arguments to configuration, one call of the facade, answer to text.

mod duration;
mod input;
mod page;
mod select;
mod walks;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use hitm_recording::perf_data::KernelSource;
use hitm_report::text::{PercentLimit, TextOptions};

use crate::{Exit, Terminal};
pub use completions::complete_for_shell;
pub(crate) use input::InputArg;
pub(crate) use sweep::EngineMissing;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// The form of a result that pictures show too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A page with pictures, one file for any browser
    Html,
}

impl From<PageFormat> for Option<Format> {
    /// The form other than a page.
    fn from(format: PageFormat) -> Option<Format> {
        match format {
            PageFormat::Text => Some(Format::Text),
            PageFormat::Json => Some(Format::Json),
            PageFormat::Html => None,
        }
    }
}

/// Returns the options for text on standard output.
fn text_options(terminal: &Terminal) -> TextOptions {
    TextOptions {
        width: terminal.width(),
        color: terminal.color(),
        has_events: false,
        percent_limit: PercentLimit::DEFAULT,
    }
}

/// Origin of the names of a sampled kernel.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// Names of the kernel, for samples: a copy of /proc/kallsyms of the machine that was sampled
    #[arg(long, value_name = "FILE", conflicts_with = "vmlinux")]
    kallsyms: Option<PathBuf>,
    /// Names, source lines and types of the kernel, for samples: the ELF file of the sampled kernel
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
}

impl KernelArgs {
    fn source(&self) -> Option<KernelSource> {
        let kallsyms = self.kallsyms.clone().map(KernelSource::Kallsyms);
        kallsyms.or(self.vmlinux.clone().map(KernelSource::Vmlinux))
    }
}

/// Declares the subcommands: the file of each, its line in `--help`, its name, and its arguments. Each file has a
/// function `run` that takes the arguments and the terminal.
macro_rules! commands {
    ($($(#[$meta:meta])+ $module:ident: $name:ident($args:ident);)+) => {
        $(mod $module;)+

        /// A subcommand.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$meta])+ $name($module::$args),)+
        }

        pub(crate) fn run(command: Command, terminal: &mut Terminal) -> Result<Exit> {
            match command {
                $(Command::$name(args) => $module::run(args, terminal),)+
            }
        }
    };
}

commands! {
    /// Run a program and record what its threads do to shared cache lines
    record: Record(RecordArgs);
    /// Show which lines the threads of a recording fight over, and what to do about it
    report: Report(ReportArgs);
    /// Explain a word of a report or a verdict: the rule, what met it, what would change it
    explain: Explain(ExplainArgs);
    /// Look at a recording in the terminal: lines, objects, types, functions, source
    view: View(ViewArgs);
    /// Show recordings of one load side by side: where each waits, and who
    diff: Diff(DiffArgs);
    /// Record two programs, or two revisions of one, in turn, and say what the second one gains
    compare: Compare(CompareArgs);
    /// Run a recording again with members moved or on another machine, and compare
    whatif: Whatif(WhatifArgs);
    /// Change the source of a program so that its threads share less, built, checked and measured
    fix: Fix(FixArgs);
    /// Compare two builds of structures: memory, and what each line costs on four machines
    review: Review(ReviewArgs);
    /// Make a recording of another tool's samples
    import: Import(ImportArgs);
    /// Write a recording in another tool's format
    export: Export(ExportArgs);
    /// Look at this host while it runs: locks, throttling, late wake-ups
    live: Live(LiveArgs);
    /// Record a whole kernel on a machine that you do not have
    vm: Vm(VmArgs);
    /// Simulate a scheduler on a machine that you do not have: what a load costs, and why
    sim: Sim(SimArgs);
    /// Simulate published cases again, and show published and simulated figures side by side
    reproduce: Reproduce(ReproduceArgs);
    /// Make thousands of runs from one plan: simulations or recordings over machines, layouts and keys
    sweep: Sweep(SweepArgs);
    /// Show, import and measure machine models
    machine: Machine(MachineArgs);
    /// Show, list, compare and check how structures lie in cache lines; propose better layouts
    layout: Layout(LayoutArgs);
    /// Put the threads that fight for a lock on the CPUs that it can keep busy, and back
    place: Place(PlaceArgs);
    /// Describe what commands write as JSON, by JSON Schema
    schema: Schema(SchemaArgs);
    /// Serve recordings, reports and advice to an agent over standard input and output (Model Context Protocol)
    mcp: Mcp(McpArgs);
    /// Check this host: what works, what to install
    doctor: Doctor(DoctorArgs);
    /// Write what a shell needs to complete hitm's commands and options
    completions: Completions(CompletionsArgs);
    /// Write the manual pages
    #[command(hide = true)]
    man: Man(ManArgs);
}
