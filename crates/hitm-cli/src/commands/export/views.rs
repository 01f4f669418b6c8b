//! Exports of what a report shows: stacks and tables.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hitm_files::output_file;
use hitm_recording::Recording;
use hitm_recording::perf_data;
use hitm_report::stacks::Stacks;
use hitm_report::tables::Table;
use hitm_report::{By, Report, ReportOptions, Selection};

use crate::Terminal;
use crate::progress::Bar;
use super::ExportArgs;

/// Writes the stacks and tables that were asked for.
pub(super) fn write(args: &ExportArgs, terminal: &mut Terminal) -> Result<()> {
    let output = &args.output;
    let has_tables = output.csv.is_some() || output.parquet.is_some();
    if !has_tables && !args.table.is_empty() {
        bail!("--table picks tables: expected --csv or --parquet");
    }
    if !has_tables && output.folded.is_none() && output.firefox.is_none() {
        return Ok(());
    }
    let bar = Bar::start("reading");
    let mut progress = |read, all| bar.set(read, all);
    let recording = match perf_data::sample_format(args.input.path()) {
        Some(_) => perf_data::load(args.input.path(), None, &mut progress)?,
        None => Recording::load_contended(args.input.path(), &mut progress)?,
    };
    bar.finish();
    if output.folded.is_some() || output.firefox.is_some() {
        let stacks = Stacks::of_recording(&recording);
        if let Some(path) = &output.folded {
            output_file::write(path, stacks.folded().as_bytes())?;
        }
        if let Some(path) = &output.firefox {
            output_file::write(path, stacks.firefox().as_bytes())?;
        }
    }
    if has_tables {
        write_tables(args, &recording, terminal)?;
    }
    Ok(())
}

/// Everything: no line and no row of a line is folded or left out.
const ALL: ReportOptions = ReportOptions {
    lines_max: usize::MAX,
    rows_max: usize::MAX,
    call_paths_max: usize::MAX,
};

fn write_tables(args: &ExportArgs, recording: &Recording, terminal: &mut Terminal) -> Result<()> {
    let has_callers = !recording.statistics.calls.is_empty();
    let by = By::ALL.iter().copied();
    let by = by
        .filter(|by| *by != By::Line && (has_callers || !matches!(by, By::Caller | By::Children)));
    let selection = Selection {
        by: by.collect(),
        ..Selection::default()
    };
    let report = Report::of_selection(recording, &ALL, &selection);
    let mut tables = report.tables();
    let known: Vec<&str> = tables.iter().map(|table| table.name).collect();
    if let Some(unknown) = args
        .table
        .iter()
        .find(|name| !known.contains(&name.as_str()))
    {
        bail!(
            "found no table {unknown}, expected some of {}",
            known.join(", ")
        );
    }
    tables
        .retain(|table| args.table.is_empty() || args.table.iter().any(|name| name == table.name));
    for note in &report.diagnostics {
        terminal.note(note);
    }
    if let Some(directory) = &args.output.csv {
        write_each(directory, "csv", &tables, |table| {
            Ok(table.csv().into_bytes())
        })?;
    }
    if let Some(directory) = &args.output.parquet {
        write_each(directory, "parquet", &tables, |table| {
            Ok(table.parquet(Vec::new())?)
        })?;
    }
    Ok(())
}

fn write_each(
    directory: &Path,
    extension: &str,
    tables: &[Table],
    bytes: impl Fn(&Table) -> Result<Vec<u8>>,
) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for table in tables {
        let path = directory.join(table.name).with_extension(extension);
        output_file::write(&path, &bytes(table)?)?;
    }
    Ok(())
}
