//! `hitm machine`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use hitm_base::machine::MachineFile;
use hitm_files::output_file;
use hitm_machine::{self as machine, ProbeOptions};
use hitm_report::machine_file;

use crate::commands::Format;
use crate::progress::Steps;
use crate::{Exit, Terminal};

/// Options of `hitm machine`.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the machine models that come with hitm
    List {
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Draw a machine's tree and its latencies, with their sources
    Show {
        /// A preset, a file, or `host` for this machine
        #[arg(value_name = "NAME|FILE")]
        machine: String,
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Make a machine file from the XML of `lstopo --of xml`
    Import {
        /// The XML file
        #[arg(value_name = "FILE")]
        xml: PathBuf,
        /// The machine to take latencies from: they are not in the XML
        #[arg(long, value_name = "NAME|FILE")]
        like: Option<String>,
        /// The file to write, instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Measure this machine's latencies, core to core, and make a machine file
    Probe {
        /// Samples of each figure
        #[arg(long, value_name = "N", default_value_t = ProbeOptions::default().sample_count,
              value_parser = sample_count)]
        samples: usize,
        /// The machine to take from what cannot be measured
        #[arg(long, value_name = "NAME|FILE")]
        like: Option<String>,
        /// The file to write, instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// The most samples that make sense: beyond, the median does not move.
const SAMPLES_MAX: usize = 10_000;

fn sample_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=SAMPLES_MAX).contains(&count) => Ok(count),
        _ => Err(format!("expected a number from 1 to {SAMPLES_MAX}")),
    }
}

pub(super) fn run(args: MachineArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.command {
        Command::List { format } => list(format, terminal)?,
        Command::Show { machine, format } => show(&machine, format, terminal)?,
        Command::Import { xml, like, output } => {
            let imported = machine::import(&xml, like.as_deref())?;
            write(&imported.file, output.as_deref(), terminal)?;
            for note in &imported.notes {
                terminal.note(note);
            }
        }
        Command::Probe {
            samples,
            like,
            output,
        } => {
            let file = probe(samples, like.as_deref())?;
            write(&file, output.as_deref(), terminal)?;
        }
    }
    Ok(Exit::Done)
}

fn list(format: Format, terminal: &mut Terminal) -> Result<()> {
    let machines = machine::list()?;
    match format {
        Format::Text => terminal.out(&machine_file::list_text(&machines)),
        Format::Json => terminal.json(&machine_file::list_json(&machines)),
    }
}

fn show(name: &str, format: Format, terminal: &mut Terminal) -> Result<()> {
    let file = machine::load(name)?;
    match format {
        Format::Text => terminal.out(&machine_file::show_text(&file)?),
        Format::Json => terminal.json(&machine_file::show_json(&file)?),
    }
}

fn probe(sample_count: usize, like: Option<&str>) -> Result<MachineFile> {
    let like = like.map(machine::load).transpose()?;
    let options = ProbeOptions {
        sample_count,
        like,
        ..ProbeOptions::default()
    };
    let steps = Steps::start("probing");
    let file = machine::probe(&options, &mut |progress| {
        steps.set(&progress.step, progress.done, progress.total);
    })?;
    steps.finish();
    Ok(file)
}

fn write(file: &MachineFile, output: Option<&Path>, terminal: &mut Terminal) -> Result<()> {
    let text = file.to_toml();
    match output {
        None => terminal.source(&text),
        Some(path) => Ok(output_file::write(path, text.as_bytes())?),
    }
}
