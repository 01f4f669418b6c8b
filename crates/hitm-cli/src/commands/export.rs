//! `hitm export`.

mod perfetto;
mod views;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hitm_files::output_file;
use hitm_recording::Recording;
use hitm_recording::perf_data;
use hitm_report::calls::CallTable;

pub(super) use perfetto::note_trace;

use crate::commands::InputArg;
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    input: InputArg,
    #[command(flatten)]
    output: OutputArgs,
    /// Write only these tables of --csv and --parquet; several with commas between
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    table: Vec<String>,
    /// Make a sample of one of each N loads and of one of each N stores, by chance
    #[arg(long, value_name = "N", default_value = "1", requires = "perf_data")]
    period: NonZeroU64,
}

/// Files to write: at least one.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct OutputArgs {
    /// Write perf.data, which perf c2c report, perf mem report and perf script open
    #[arg(long, value_name = "FILE")]
    perf_data: Option<PathBuf>,
    /// Write what a recorded kernel's scheduler does to each member at each call, as CSV
    /// (docs/formats/calls.md)
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
    /// Write lost cycles by thread, callers, function and member, a stack a line, for flame graphs
    /// (docs/formats/views.md)
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write the same as a profile that profiler.firefox.com opens
    #[arg(long, value_name = "FILE")]
    firefox: Option<PathBuf>,
    /// Write who ran, waited and handed lines over when, as a trace that ui.perfetto.dev opens
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write every table of the report as CSV, each to a file of its name in this directory
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write every table of the report as Parquet, each to a file of its name in this directory
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

pub(super) fn run(args: ExportArgs, terminal: &mut Terminal) -> Result<Exit> {
    args.input.check()?;
    if let Some(path) = &args.output.calls {
        write_calls(args.input.path(), path)?;
    }
    if let Some(path) = &args.output.perfetto {
        perfetto::write(args.input.path(), path, terminal)?;
    }
    views::write(&args, terminal)?;
    match &args.output.perf_data {
        Some(path) => write_perf_data(&args, path, terminal),
        None => Ok(Exit::Done),
    }
}

fn write_calls(input: &Path, output: &Path) -> Result<()> {
    let bar = Bar::start("reading");
    let mut table = CallTable::default();
    Recording::load_in_parts(
        input,
        &mut |read, all| bar.set(read, all),
        &mut |recording| table.add_recording(recording),
    )?;
    bar.finish();
    if table.calls.is_empty() {
        bail!(
            "{}: found no counts of calls, expected those of a recording of `hitm vm run`",
            input.display()
        );
    }
    Ok(output_file::write(output, table.csv().as_bytes())?)
}

fn write_perf_data(args: &ExportArgs, output: &Path, terminal: &mut Terminal) -> Result<Exit> {
    let bar = Bar::start("exporting");
    let summary = perf_data::export(args.input.path(), output, args.period.get(), &mut |read, all| {
        bar.set(read, all)
    })?;
    bar.finish();
    terminal.note(&format!(
        "{} samples of loads and {} of stores, from {} accesses, are in {}",
        summary.load_samples,
        summary.store_samples,
        summary.accesses,
        output.display()
    ));
    if summary.fences > 0 {
        terminal.note(&format!(
            "{} fences touch no line and are not in it",
            summary.fences
        ));
    }
    if summary.cut_chains > 0 {
        terminal.note(&format!(
            "{} call chains are too long for perf.data: their outermost callers are not in it",
            summary.cut_chains
        ));
    }
    for note in &summary.left_out {
        terminal.note(note);
    }
    if summary.missing_bytes > 0 {
        terminal.note(&format!(
            "the recording is damaged: what {} bytes of it held is not in it",
            summary.missing_bytes
        ));
    }
    Ok(Exit::Done)
}
