//! `hitm diff`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hitm_recording::Recording;
use hitm_report::{SideBySide, SideOptions, SideSums, json, text};

use crate::commands::{PageFormat, page, text_options};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The recordings, at least two
    #[arg(required = true, value_name = "FILE")]
    recordings: Vec<PathBuf>,
    /// Write the page of `--format html` to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Parts that are shown of recordings side by side.
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// Show only what functions do whose names contain TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    function: Vec<String>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Output format; docs/formats/side-by-side.md has the JSON
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
}

pub(super) fn run(args: DiffArgs, terminal: &mut Terminal) -> Result<Exit> {
    if args.recordings.len() < 2 {
        bail!("found one recording, expected at least two to show side by side");
    }
    let recordings = args.recordings.iter().map(|path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        (name.to_string_lossy().into_owned(), path.clone())
    });
    let recordings = recordings.collect();
    show(recordings, &args.view, args.output.as_deref(), terminal)
}

/// Shows recordings, each with what to call it. A page goes to `output`, or to standard output.
pub(super) fn show(
    recordings: Vec<(String, PathBuf)>,
    view: &ViewArgs,
    output: Option<&Path>,
    terminal: &mut Terminal,
) -> Result<Exit> {
    page::check_output(view.format, output, terminal)?;
    let options = SideOptions {
        rows_max: view.top,
        functions: view.function.clone(),
    };
    let mut all = Vec::new();
    for (label, path) in recordings {
        let mut sums = SideSums::default();
        let bar = Bar::start("reading");
        Recording::load_in_parts(
            &path,
            &mut |done, all| bar.set(done, all),
            &mut |recording| sums.add(recording, &options),
        )?;
        bar.finish();
        all.push((label, sums));
    }
    let sides = SideBySide::of_sums(all, &options);
    match view.format {
        PageFormat::Text => {
            let text = text::side_by_side::render(&sides, &text_options(terminal));
            terminal.long_out(&text)?;
        }
        PageFormat::Json => terminal.json(&json::side_by_side::render(&sides))?,
        PageFormat::Html => {
            let html = hitm_report::page::diff(&sides);
            page::write(&html, output, terminal)?;
        }
    }
    Ok(Exit::Done)
}
