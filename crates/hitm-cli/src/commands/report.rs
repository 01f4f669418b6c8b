//! `hitm report`.

mod ci;
mod filters;
mod gain;
mod runs;
mod sweep;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use hitm_perf::c2c::Display;
use hitm_recording::perf_data::{self, KernelSource};
use hitm_recording::{Recording, is_of_c_library, missing_debug_hint, traffic};
use hitm_report::baseline::{Comparison, Tolerance};
use hitm_report::by::Filtered;
use hitm_report::ci::{Checked, Findings};
use hitm_report::gate::{Gate, failures};
use hitm_report::pairs::{self, Pair};
use hitm_report::pictures::Pictures;
use hitm_report::runs::Runs;
use hitm_report::summary::{self, SummaryLine};
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::{
    By, Pattern, Report, ReportOptions, Selection, TypeReport, json, markdown, perf_c2c, text,
};

use crate::commands::select::SelectArgs;
use crate::commands::{Format, InputArg, KernelArgs, PageFormat, live, page, text_options, view};
use crate::progress::Bar;
use crate::{Exit, Terminal};
pub(super) use runs::read_runs;

/// Options of `hitm report`.
#[derive(Debug, Args)]
#[command(mut_arg("input", |input| input.help(
    "The recording to read, with or without -i, or the folder of `hitm record --runs`; what `hitm live --record` \
     writes, perf.data, the text of perf script and the folder or the table of a sweep are read as well [default: \
     hitm.data]"
)))]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    input: InputArg,
    /// Output format; docs/formats/report.md has the JSON
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Write the page of `--format html` to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave the text of source files out of the page of `--format html`, to give it away; names of files, functions
    /// and members stay
    #[arg(long)]
    no_source: bool,
    /// Contended lines, and findings, to show [default: 20; all with --format sarif, junit and github]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Call paths to show below each row, hottest first, 0 for none; for recordings and samples with
    /// call chains (hitm record, perf c2c record -- -g PROGRAM) [default: 3]
    #[arg(short = 'g', long, value_name = "N", conflicts_with_all = ["type_name", "perf_c2c"])]
    call_graph: Option<usize>,
    /// End with exit code 1 when a finding is falsely shared, or loses more than N cycles; may be
    /// given several times. Looks at the findings that filters leave, small ones included
    #[arg(long, value_name = "false-sharing|cycles=N")]
    fail_on: Vec<Gate>,
    /// Findings that no gate of --fail-on counts: a part of their name, or a pattern with * and ?; may be given
    /// several times
    #[arg(long, value_name = "NAME")]
    suppress: Vec<Pattern>,
    /// End with exit code 1 when a member is contended that was not in this recording, or loses more cycles
    /// than --tolerance, or the spread of several runs, allows; also takes the folder of `hitm record --runs`, and
    /// what `hitm report --by member --format json` wrote of either
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Increase over --baseline that a member may have
    #[arg(long, value_name = "PERCENT", default_value_t = Tolerance::DEFAULT, requires = "baseline")]
    tolerance: Tolerance,
    /// Show the totals of all events as well
    #[arg(long, conflicts_with_all = ["type_name", "perf_c2c"])]
    events: bool,
    /// Directory that source files of --format sarif, junit, github and markdown are relative to [default: this one]
    #[arg(long, value_name = "DIR")]
    source_root: Option<PathBuf>,
    /// Show one type instead, all its objects together: each line, member and instruction
    #[arg(long = "type", value_name = "TYPE", conflicts_with_all = ["top", "fail_on", "baseline", "perf_c2c", "SelectArgs"])]
    type_name: Option<String>,
    /// Show the tables of perf c2c report instead, with its rows and columns
    #[arg(long, conflicts_with_all = ["top", "fail_on", "baseline", "SelectArgs"])]
    perf_c2c: bool,
    /// Order of lines in --perf-c2c; as in perf, peer on Arm and tot elsewhere
    #[arg(long, value_enum, requires = "perf_c2c")]
    display: Option<DisplayArg>,
    /// Look at the report in the terminal instead, as hitm view does
    #[arg(long, conflicts_with_all = ["format", "output", "no_source", "call_graph", "fail_on", "baseline", "type_name", "perf_c2c", "SelectArgs"])]
    tui: bool,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    kernel: KernelArgs,
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// SARIF 2.1.0, for code scanning: a result for each finding
    Sarif,
    /// JUnit's XML: a suite for each gate, a case for each finding or member it looks at
    Junit,
    /// Annotations in the log of a GitHub workflow
    Github,
    /// A comment on a change, short enough for GitHub's: what is lost, the findings, what to do about each
    Markdown,
    /// A page with pictures, one file for any browser
    Html,
}

impl ReportFormat {
    /// Returns true if lines are findings, for services.
    const fn is_for_ci(self) -> bool {
        matches!(
            self,
            ReportFormat::Sarif | ReportFormat::Junit | ReportFormat::Github
        )
    }

    /// The form among those that whatif and diff have too.
    const fn page(self) -> PageFormat {
        match self {
            ReportFormat::Html => PageFormat::Html,
            ReportFormat::Json => PageFormat::Json,
            _ => PageFormat::Text,
        }
    }

    /// The form of what is written for people and programs only.
    fn plain(self, what: &str) -> Result<Format> {
        match self {
            ReportFormat::Text => Ok(Format::Text),
            ReportFormat::Json => Ok(Format::Json),
            ReportFormat::Sarif
            | ReportFormat::Junit
            | ReportFormat::Github
            | ReportFormat::Markdown => Err(anyhow!(
                "{what} has no findings for services: expected --format text or json"
            )),
            ReportFormat::Html => Err(anyhow!(
                "found --format html, expected text or json: {what} has no page"
            )),
        }
    }
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
    let tables = match perf_data::sample_format(args.input.path()) {
        Some(_) => perf_data::tables_of_samples,
        None => perf_data::tables_of_recording,
    };
    let report = tables(args.input.path(), kernel.as_ref(), display, &mut progress)?;
    bar.finish();
    match args.format.plain("--perf-c2c")? {
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
            args.input.path().display()
        );
    };
    match args.format.plain("--type")? {
        Format::Text => {
            let text = text::of_type::render(&report, &text_options(terminal));
            terminal.long_out(&text)?;
        }
        Format::Json => terminal.json(&json::of_type::render(&report))?,
    }
    Ok(Exit::Done)
}

/// Ways to get call chains.
const RECORD_CALLS: &str = "`hitm record` without `-g 0` and `perf c2c record -- -g PROGRAM` record them";

/// Fails when the recording has not what was asked for.
fn check_input(args: &ReportArgs, recording: &Recording) -> Result<()> {
    let needs_sums = args
        .fail_on
        .iter()
        .any(|gate| matches!(gate, Gate::Cycles(_)));
    if needs_sums && recording.header.sampled.is_some() {
        bail!(
            "--fail-on cycles=N needs a recording of every access, and {} has samples",
            args.input.path().display()
        );
    }
    if args.select.has_pairs() && recording.header.sampled.is_some() {
        bail!(
            "--by pair needs a recording of every access in its order, and {} has samples",
            args.input.path().display()
        );
    }
    if args.call_graph.is_some_and(|paths| paths > 0) && recording.statistics.calls.is_empty() {
        bail!(
            "--call-graph needs accesses with call chains, and {} has none: {RECORD_CALLS}",
            args.input.path().display()
        );
    }
    let needs_calls = |by: &&By| matches!(by, By::Caller | By::Children);
    if let Some(by) = args.select.selection().by.iter().find(needs_calls)
        && recording.statistics.calls.is_empty()
    {
        bail!(
            "--by {} needs accesses with call chains, and {} has none: {RECORD_CALLS}",
            by.id(),
            args.input.path().display()
        );
    }
    if args.format == ReportFormat::Junit && args.fail_on.is_empty() && args.baseline.is_none() {
        bail!("--format junit has a suite for each gate: expected --fail-on or --baseline");
    }
    Ok(())
}

/// Reads the recording or the samples, and their kernel's names.
pub(super) fn load(
    input: &Path,
    kernel: Option<KernelSource>,
    type_name: Option<&str>,
) -> Result<Recording> {
    if hitm::live::has_clock_samples(input) {
        let bar = Bar::start("reading");
        let lines = hitm::live::lines_of_samples(input, &mut |read, all| bar.set(read, all))?;
        bar.finish();
        return with_file(&lines, |file| load(file, kernel, type_name));
    }
    let bar = Bar::start("reading");
    let mut progress = |read, all| bar.set(read, all);
    let is_perf_data = perf_data::sample_format(input).is_some();
    // A structure's accesses are shown whatever they cost.
    let mut recording = match (is_perf_data, type_name) {
        (true, Some(name)) => perf_data::load_type(input, name, kernel.as_ref(), &mut progress)?,
        (true, None) => perf_data::load(input, kernel.as_ref(), &mut progress)?,
        (false, Some(name)) => Recording::load_type(input, name, &mut progress)?,
        (false, None) => Recording::load_contended(input, &mut progress)?,
    };
    bar.finish();
    // perf.data's addresses have got their names while it was read.
    if !is_perf_data && recording.header.sampled.is_some() {
        perf_data::name_kernel(&mut recording, kernel.as_ref())?;
    } else if !is_perf_data && kernel.is_some() {
        bail!(
            "--kallsyms and --vmlinux name the kernel of samples, and {} has none",
            input.display()
        );
    }
    Ok(recording)
}

/// Has a recording as a file: reports read one. It has no name that could be left behind.
pub(super) fn with_file<T>(recording: &[u8], read: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let mut file = tempfile::tempfile()?;
    file.write_all(recording)?;
    read(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

pub(super) fn run(args: ReportArgs, terminal: &mut Terminal) -> Result<Exit> {
    // A view looks at the terminal first.
    if !args.tui {
        args.input.check()?;
    }
    let table = hitm::sweep::table_of(args.input.path());
    let files = match table {
        Some(_) => None,
        None => hitm::runs::files_of(args.input.path())?,
    };
    if files.is_some() {
        runs::check(&args)?;
    }
    if args.tui {
        return view::show(&args.input, &args.kernel, args.top, terminal);
    }
    page::check_output(args.format.page(), args.output.as_deref(), terminal)?;
    if args.no_source && args.format != ReportFormat::Html {
        bail!("--no-source is for pages: expected --format html");
    }
    if let Some(table) = table {
        return sweep::show(&args, &table, terminal);
    }
    if let Some(files) = files {
        return show_runs(&args, &files, terminal);
    }
    if args.perf_c2c {
        return run_perf_c2c(&args, terminal);
    }
    if hitm::live::is_live(args.input.path()) {
        if args.baseline.is_some() {
            bail!(
                "--baseline compares recordings of accesses, and {} is one of hitm live",
                args.input.path().display()
            );
        }
        let recording = hitm::live::read_recording(args.input.path())?;
        live::show(
            &recording,
            args.format.plain("what hitm live records")?,
            args.select.percent_limit(),
            terminal,
        )?;
        return Ok(Exit::Done);
    }
    let type_name = args.type_name.as_deref();
    let recording = load(args.input.path(), args.kernel.source(), type_name)?;
    if let Some(type_name) = &args.type_name {
        return show_type(&recording, type_name, &args, terminal);
    }
    let shown = Shown {
        file: args.input.path(),
        recording,
        runs: None,
    };
    show(&args, shown, terminal)
}

/// A recording that another command has made, to be shown.
pub(super) struct ShownFile<'a> {
    pub(super) file: &'a Path,
    /// False if it is there for no longer than it takes.
    pub(super) is_kept: bool,
    pub(super) format: PageFormat,
    pub(super) percent_limit: PercentLimit,
}

impl ShownFile<'_> {
    pub(super) fn show(&self, terminal: &mut Terminal) -> Result<()> {
        let recording = load(self.file, None, None)?;
        let report = Report::of_recording(&recording, &ReportOptions::default());
        match self.format {
            PageFormat::Text => {
                let options = TextOptions {
                    percent_limit: self.percent_limit,
                    ..text_options(terminal)
                };
                let summary = self.summary(&recording, &report);
                terminal.long_out(&text::render(&report, &summary, &options))
            }
            PageFormat::Json => {
                let summary = self.summary(&recording, &report);
                terminal.json(&json::render_with(&report, &summary))
            }
            PageFormat::Html => {
                let html = page::of_report(self.file, recording, &report, &Selection::default(), true)?;
                page::write(&html, None, terminal)
            }
        }
    }

    /// The report as JSON, for a file.
    pub(super) fn json(&self) -> Result<String> {
        let recording = load(self.file, None, None)?;
        let report = Report::of_recording(&recording, &ReportOptions::default());
        Ok(json::render_with(&report, &self.summary(&recording, &report)))
    }

    fn summary(&self, recording: &Recording, report: &Report) -> Vec<SummaryLine> {
        let structures = Pictures::structures(&recording.names(), report);
        let mut summary = summary::of(report, &structures, self.file);
        // A command cannot read what is gone.
        summary.retain(|line| self.is_kept || !line.is_command);
        summary
    }
}

/// Shows the run whose lost cycles are the median.
fn show_runs(args: &ReportArgs, files: &[PathBuf], terminal: &mut Terminal) -> Result<Exit> {
    let (runs, _) = read_runs(files, &wanted(args))?;
    let file = &files[runs.shown()];
    let shown = Shown {
        file,
        recording: load(file, args.kernel.source(), None)?,
        runs: Some(&runs),
    };
    show(args, shown, terminal)
}

/// The totals and the part that a report needs: a baseline compares members.
fn wanted(args: &ReportArgs) -> Selection {
    let mut selection = args.select.selection();
    if args.baseline.is_some() && !selection.by.contains(&By::Member) {
        selection.by.push(By::Member);
    }
    selection
}

/// A recording to show, and the runs that it is one of.
struct Shown<'a> {
    file: &'a Path,
    recording: Recording,
    runs: Option<&'a Runs>,
}

/// The report, and its comparison with the baseline.
fn compared(
    args: &ReportArgs,
    shown: &Shown<'_>,
    options: &ReportOptions,
) -> Result<(Report, Option<Comparison>)> {
    let wanted = wanted(args);
    let mut report = Report::of_selection(&shown.recording, options, &wanted);
    if let Some(runs) = shown.runs {
        runs::add_to(&mut report, runs);
    }
    let Some(baseline) = &args.baseline else {
        return Ok((report, None));
    };
    let comparison = ci::compare(&report, baseline, &wanted, args.tolerance)?;
    let asked_for = args.select.selection().by;
    report
        .totals_by
        .retain(|totals| asked_for.contains(&totals.by));
    if let Some(runs) = report
        .runs
        .as_mut()
        .filter(|_| !asked_for.contains(&By::Member))
    {
        runs.members.clear();
    }
    Ok((report, Some(comparison)))
}

/// Returns what to do about files without debug information: those that have instructions of the report, and the
/// program's own.
fn debug_hint(report: &Report, recording: &Recording) -> Option<String> {
    let rows = report.lines.iter().flat_map(|line| &line.rows);
    let without_source = rows.filter(|row| row.source.is_empty());
    let shown: BTreeSet<&str> = without_source
        .filter_map(|row| recording.file_shown_at(row.code.0))
        .collect();
    let notes = report.diagnostics.iter();
    let notes = notes.filter_map(|note| note.split_once(": "));
    let without_debug = notes.filter(|(_, why)| why.contains("debug information: "));
    let files = without_debug.map(|(file, _)| file);
    missing_debug_hint(&files.filter(|file| shown.contains(file) || !is_of_c_library(file)).collect())
}

/// Shows the report and answers the gates.
fn show(args: &ReportArgs, shown: Shown<'_>, terminal: &mut Terminal) -> Result<Exit> {
    check_input(args, &shown.recording)?;
    let lines_max = match args.format.is_for_ci() {
        true => usize::MAX,
        false => ReportOptions::LINES_MAX_DEFAULT,
    };
    let options = ReportOptions {
        lines_max: args.top.unwrap_or(lines_max),
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: args
            .call_graph
            .unwrap_or(ReportOptions::CALL_PATHS_MAX_DEFAULT),
    };
    let selection = args.select.selection();
    let (mut report, comparison) = compared(args, &shown, &options)?;
    let matches_nothing = |filtered: &Filtered| filtered.access_count == 0;
    if report.filtered.as_ref().is_some_and(matches_nothing)
        && let Some(error) = filters::no_match(&shown.recording, &selection.filters)
    {
        return Err(error);
    }
    if args.select.has_pairs() {
        report.pairs = pairs(&shown, &report)?;
    }
    let failures = failures(&report, &args.fail_on, &args.suppress);
    let checked = Checked {
        report: &report,
        gates: &args.fail_on,
        failures: &failures,
        comparison: comparison.as_ref(),
        source_root: &ci::source_root(args)?,
    };
    // It is about this host, and for people alone: dpkg is asked.
    let is_for_people = args.format == ReportFormat::Text && terminal.is_terminal();
    let hint = match is_for_people {
        true => debug_hint(&report, &shown.recording),
        false => None,
    };
    write(args, shown, &checked, terminal)?;
    if let Some(hint) = hint {
        terminal.note(&hint);
    }
    let has_gates = !args.fail_on.is_empty() || args.baseline.is_some();
    if has_gates && is_empty(&report) {
        terminal
            .note("a gate over nothing: the recording has no instruction of a followed process");
        return Ok(Exit::GateFailed);
    }
    if has_gates && report.has_no_address() {
        terminal.note("a gate that cannot tell: no sample has a data address");
        return Ok(Exit::Usage);
    }
    if has_gates && !report.run.complete {
        terminal.note("a gate over a part of a run: the recording is incomplete");
        return Ok(Exit::Usage);
    }
    Ok(ci::answer(&checked, terminal))
}

/// Reads a recording once more, for who gives lines to whom.
fn pairs(shown: &Shown<'_>, report: &Report) -> Result<Vec<Pair>> {
    let bar = Bar::start("reading again");
    let plan = pairs::plan(report);
    let counted = traffic(shown.file, &plan, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    Ok(pairs::of(report, &counted, &shown.recording.names()))
}

/// Writes the report in the form that was asked for.
fn write(
    args: &ReportArgs,
    shown: Shown<'_>,
    checked: &Checked<'_>,
    terminal: &mut Terminal,
) -> Result<()> {
    let report = checked.report;
    let summary = || {
        let structures = Pictures::structures(&shown.recording.names(), report);
        let mut summary = summary::of(report, &structures, shown.file);
        // Other commands read candidates of samples from a recording.
        let are_samples = perf_data::sample_format(shown.file).is_some();
        summary.retain(|line| !(line.is_command && are_samples && report.watched.is_some()));
        (structures, summary)
    };
    match args.format {
        ReportFormat::Text => {
            let text_options = TextOptions {
                percent_limit: args.select.percent_limit(),
                has_events: args.events,
                ..text_options(terminal)
            };
            let (structures, mut summary) = summary();
            let held = gain::held(report, shown.file, &shown.recording);
            let here = gain::here(report, shown.file, &shown.recording);
            let gain = gain::of(report, &structures, shown.file, shown.recording);
            // The command comes last.
            let place = summary.len().saturating_sub(1);
            let replayed = held.into_iter().chain(gain).chain(here);
            summary.splice(place..place, replayed);
            terminal.long_out(&text::render(report, &summary, &text_options))?;
        }
        ReportFormat::Json => terminal.json(&json::render_with(report, &summary().1))?,
        ReportFormat::Html => {
            let selection = args.select.selection();
            let has_text = !args.no_source;
            let html =
                page::of_report(shown.file, shown.recording, report, &selection, has_text)?;
            page::write(&html, args.output.as_deref(), terminal)?;
        }
        ReportFormat::Markdown => {
            let findings = Findings::of(checked);
            let summary = summary().1;
            terminal.out(&markdown::report(checked, &findings, &summary))?;
        }
        ReportFormat::Sarif | ReportFormat::Junit | ReportFormat::Github => {
            ci::show(checked, args.format, terminal)?;
        }
    }
    Ok(())
}

/// Returns true for a whole recording in which no thread ran.
fn is_empty(report: &Report) -> bool {
    let mut threads = report.threads.iter();
    let has_run = threads.any(|thread| thread.instruction_count > 0);
    report.run.complete && report.run.sampled.is_none() && !has_run
}
