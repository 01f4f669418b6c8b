//! `hitm import`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hitm_files::output_file;
use hitm_recording::perf_data;

use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// perf.data with samples of memory accesses or of a clock with registers, or what perf script -F
    /// pid,tid,cpu,time,event,addr,weight,data_src,ip,sym printed
    #[arg(value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// The recording to write
    #[arg(short, long, value_name = "FILE", default_value = crate::commands::input::DEFAULT)]
    output: PathBuf,
}

pub(super) fn run(args: ImportArgs, terminal: &mut Terminal) -> Result<Exit> {
    if hitm::live::has_clock_samples(&args.input) {
        return import_clocks(&args, terminal);
    }
    let bar = Bar::start("importing");
    let summary = perf_data::import(&args.input, &args.output, &mut |read, all| {
        bar.set(read, all);
    })?;
    bar.finish();
    for (name, samples) in &summary.events {
        terminal.note(&format!("{samples} samples of {name}"));
    }
    for note in &summary.notes {
        terminal.note(note);
    }
    terminal.note(&format!(
        "{} accesses of {} threads are in {}; {} threads ended while perf recorded",
        summary.accesses,
        summary.threads,
        args.output.display(),
        summary.ended_threads
    ));
    Ok(Exit::Done)
}

/// Keeps the lines that samples of a clock stand at.
fn import_clocks(args: &ImportArgs, terminal: &mut Terminal) -> Result<Exit> {
    let bar = Bar::start("importing");
    let lines = hitm::live::lines_of_samples(&args.input, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    output_file::write(&args.output, &lines)?;
    terminal.note(&format!(
        "candidate lines by samples of a clock are in {}",
        args.output.display()
    ));
    Ok(Exit::Done)
}
