//! `hitm report`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hitm::perf_data;
use hitm::recording::Recording;
use hitm_perf::c2c::Display;
use hitm_report::gate::{Gate, failures};
use hitm_report::text::TextOptions;
use hitm_report::{By, Report, ReportOptions, TypeReport, json, perf_c2c, text};

use crate::commands::select::SelectArgs;
use crate::commands::{Format, KernelArgs, live, text_options};
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// Options of `hitm report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The recording to read; what `hitm live --record` writes, perf.data and the text of perf script are
    /// read as well
    #[arg(short, long, value_name = "FILE", default_value = "hitm.data")]
    input: PathBuf,
    /// What to write; docs/formats/report.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// How many contended lines to show
    #[arg(long, value_name = "N", default_value_t = ReportOptions::LINES_MAX_DEFAULT)]
    top: usize,
    /// How many call paths to show below each row, hottest first, 0 for none; for samples with call
    /// chains (perf c2c record -- -g PROGRAM) [default: 3]
    #[arg(short = 'g', long, value_name = "N", conflicts_with_all = ["type_name", "perf_c2c"])]
    call_graph: Option<usize>,
    /// End with exit code 1 when a line is falsely shared, or loses more than N cycles; may be
    /// given several times. Looks at the lines that filters leave, small ones included
    #[arg(long, value_name = "false-sharing|cycles=N")]
    fail_on: Vec<Gate>,
    /// Show one type instead, all its objects together: each line, member and instruction
    #[arg(long = "type", value_name = "TYPE", conflicts_with_all = ["top", "fail_on", "perf_c2c", "SelectArgs"])]
    type_name: Option<String>,
    /// Show the tables of perf c2c report instead, with its rows and columns
    #[arg(long, conflicts_with_all = ["top", "fail_on", "SelectArgs"])]
    perf_c2c: bool,
    /// What --perf-c2c sorts lines by; as in perf, peer on Arm and tot elsewhere
    #[arg(long, value_enum, requires = "perf_c2c")]
    display: Option<DisplayArg>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    kernel: KernelArgs,
}

/// perf's words for what lines are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DisplayArg {
    /// Local and remote HITM
    Tot,
    /// Remote HITM
    Rmt,
    /// Local HITM
    Lcl,
    /// Transfers from peers
    Peer,
}

impl From<DisplayArg> for Display {
    fn from(arg: DisplayArg) -> Display {
        match arg {
            DisplayArg::Tot => Display::TotalHitm,
            DisplayArg::Rmt => Display::RemoteHitm,
            DisplayArg::Lcl => Display::LocalHitm,
            DisplayArg::Peer => Display::Peer,
        }
    }
}

fn run_perf_c2c(args: &ReportArgs, terminal: &mut Terminal) -> Result<Exit> {
    let bar = Bar::start("reading");
    let display = args.display.map(Display::from);
    let mut progress = |read, all| bar.set(read, all);
    let kernel = args.kernel.source();
    let tables = match perf_data::sample_format(&args.input) {
        Some(_) => perf_data::tables_of_samples,
        None => perf_data::tables_of_recording,
    };
    let report = tables(&args.input, kernel.as_ref(), display, &mut progress)?;
    bar.finish();
    match args.format {
        Format::Text => terminal.out(&perf_c2c::text(&report))?,
        Format::Json => terminal.json(&perf_c2c::json(&report))?,
    }
    Ok(Exit::Done)
}

fn show_type(
    recording: &Recording,
    type_name: &str,
    args: &ReportArgs,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let Some(report) = TypeReport::of_recording(recording, type_name) else {
        bail!(
            "{} has no access to an object of type {type_name}",
            args.input.display()
        );
    };
    match args.format {
        Format::Text => {
            let text = text::of_type::render(&report, &text_options(terminal));
            terminal.out(&text)?;
        }
        Format::Json => terminal.json(&json::of_type::render(&report))?,
    }
    Ok(Exit::Done)
}

/// Fails when the recording has not what was asked for.
fn check_input(args: &ReportArgs, recording: &Recording) -> Result<()> {
    let needs_sums = args
        .fail_on
        .iter()
        .any(|gate| matches!(gate, Gate::Cycles(_)));
    if needs_sums && recording.header.sampled.is_some() {
        bail!(
            "--fail-on cycles=N needs a recording of every access, and {} has samples",
            args.input.display()
        );
    }
    if args.call_graph.is_some_and(|paths| paths > 0) && recording.statistics.calls.is_empty() {
        bail!(
            "--call-graph needs samples with call chains, and {} has none: perf c2c record -- -g \
             PROGRAM records them",
            args.input.display()
        );
    }
    if args.select.selection().by.contains(&By::Caller) && recording.statistics.calls.is_empty() {
        bail!(
            "--by caller needs accesses with call chains, and {} has none: perf c2c record -- -g \
             PROGRAM records them",
            args.input.display()
        );
    }
    Ok(())
}

pub(super) fn run(args: ReportArgs, terminal: &mut Terminal) -> Result<Exit> {
    if args.perf_c2c {
        return run_perf_c2c(&args, terminal);
    }
    if hitm::live::is_live(&args.input) {
        let recording = hitm::live::read_recording(&args.input)?;
        live::show(
            &recording,
            args.format,
            args.select.percent_limit(),
            terminal,
        )?;
        return Ok(Exit::Done);
    }
    let bar = Bar::start("reading");
    let mut progress = |read, all| bar.set(read, all);
    let is_perf_data = perf_data::sample_format(&args.input).is_some();
    let kernel = args.kernel.source();
    // A structure's accesses are shown whatever they cost.
    let mut recording = match (is_perf_data, &args.type_name) {
        (true, Some(name)) => {
            perf_data::load_type(&args.input, name, kernel.as_ref(), &mut progress)?
        }
        (true, None) => perf_data::load(&args.input, kernel.as_ref(), &mut progress)?,
        (false, Some(name)) => Recording::load_type(&args.input, name, &mut progress)?,
        (false, None) => Recording::load_contended(&args.input, &mut progress)?,
    };
    bar.finish();
    // perf.data's addresses have got their names while it was read.
    if !is_perf_data && recording.header.sampled.is_some() {
        perf_data::name_kernel(&mut recording, kernel.as_ref())?;
    } else if !is_perf_data && kernel.is_some() {
        bail!(
            "--kallsyms and --vmlinux name the kernel of samples, and {} has none",
            args.input.display()
        );
    }
    if let Some(type_name) = &args.type_name {
        return show_type(&recording, type_name, &args, terminal);
    }
    check_input(&args, &recording)?;
    let options = ReportOptions {
        lines_max: args.top,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: args
            .call_graph
            .unwrap_or(ReportOptions::CALL_PATHS_MAX_DEFAULT),
    };
    let selection = args.select.selection();
    let report = Report::of_selection(&recording, &options, &selection);
    match args.format {
        Format::Text => {
            let text_options = TextOptions {
                percent_limit: args.select.percent_limit(),
                ..text_options(terminal)
            };
            terminal.out(&text::render(&report, &text_options))?;
        }
        Format::Json => terminal.json(&json::render(&report))?,
    }
    let failures = failures(&report, &args.fail_on);
    for failure in &failures {
        terminal.note(&failure.to_string());
    }
    Ok(if failures.is_empty() {
        Exit::Done
    } else {
        Exit::GateFailed
    })
}
