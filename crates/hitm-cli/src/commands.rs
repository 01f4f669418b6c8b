//! One file for each subcommand: arguments to configuration, one call of the facade, answer to text.

mod completions;
mod diff;
mod doctor;
mod duration;
mod export;
mod import;
mod layout;
mod live;
mod machine;
mod page;
mod place;
mod record;
mod report;
mod reproduce;
mod review;
mod select;
mod sim;
mod sweep;
mod view;
mod vm;
mod whatif;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hitm::perf_data::KernelSource;
use hitm_report::text::{PercentLimit, TextOptions};

use crate::args::Command;
use crate::{Exit, Terminal};
pub use completions::complete_for_shell;
pub(crate) use completions::{CompletionsArgs, ManArgs};
pub(crate) use diff::DiffArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use export::ExportArgs;
pub(crate) use import::ImportArgs;
pub(crate) use layout::LayoutArgs;
pub(crate) use live::LiveArgs;
pub(crate) use machine::MachineArgs;
pub(crate) use place::PlaceArgs;
pub(crate) use record::RecordArgs;
pub(crate) use report::ReportArgs;
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use review::ReviewArgs;
pub(crate) use sim::SimArgs;
pub(crate) use sweep::{EngineMissing, SweepArgs};
pub(crate) use view::ViewArgs;
pub(crate) use vm::VmArgs;
pub(crate) use whatif::WhatifArgs;

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
        percent_limit: PercentLimit::DEFAULT,
    }
}

/// Where the names of a sampled kernel come from.
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

pub(crate) fn run(command: Command, terminal: &mut Terminal) -> Result<Exit> {
    match command {
        Command::Record(args) => record::run(args, terminal),
        Command::Report(args) => report::run(args, terminal),
        Command::View(args) => view::run(&args, terminal),
        Command::Diff(args) => diff::run(args, terminal),
        Command::Import(args) => import::run(args, terminal),
        Command::Export(args) => export::run(args, terminal),
        Command::Live(args) => live::run(args, terminal),
        Command::Vm(args) => vm::run(args, terminal),
        Command::Whatif(args) => whatif::run(args, terminal),
        Command::Review(args) => review::run(args, terminal),
        Command::Sim(args) => sim::run(args, terminal),
        Command::Reproduce(args) => reproduce::run(&args, terminal),
        Command::Sweep(args) => sweep::run(&args, terminal),
        Command::Machine(args) => machine::run(args, terminal),
        Command::Layout(args) => layout::run(args, terminal),
        Command::Place(args) => place::run(args, terminal),
        Command::Doctor(args) => doctor::run(&args, terminal),
        Command::Completions(args) => completions::completions(&args, terminal),
        Command::Man(args) => completions::man(&args),
    }
}
