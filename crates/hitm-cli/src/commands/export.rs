//! `hitm export`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hitm::perf_data;

use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The recording to read
    #[arg(value_name = "RECORDING", default_value = "hitm.data")]
    input: PathBuf,
    /// Write perf.data, which perf c2c report, perf mem report and perf script open
    #[arg(long, value_name = "FILE")]
    perf_data: PathBuf,
    /// Make a sample of every Nth load and of every Nth store
    #[arg(long, value_name = "N", default_value = "1")]
    period: NonZeroU64,
}

pub(super) fn run(args: ExportArgs, terminal: &mut Terminal) -> Result<Exit> {
    let bar = Bar::start("exporting");
    let summary = perf_data::export(
        &args.input,
        &args.perf_data,
        args.period.get(),
        &mut |read, all| bar.set(read, all),
    )?;
    bar.finish();
    terminal.err(&format!(
        "hitm: {} samples of loads and {} of stores, from {} accesses, are in {}\n",
        summary.load_samples,
        summary.store_samples,
        summary.accesses,
        args.perf_data.display()
    ));
    if summary.fences > 0 {
        terminal.err(&format!(
            "hitm: {} fences touch no line and are not in it\n",
            summary.fences
        ));
    }
    if summary.missing_bytes > 0 {
        terminal.err(&format!(
            "hitm: the recording is damaged: what {} bytes of it held is not in it\n",
            summary.missing_bytes
        ));
    }
    Ok(Exit::Done)
}
