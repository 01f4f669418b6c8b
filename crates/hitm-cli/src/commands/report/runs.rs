//! `hitm report` of a folder of runs: which run is shown, and what each lost.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hitm_report::runs::{Runs, RunsReading};
use hitm_report::{Report, ReportOptions, Selection};

use super::{ReportArgs, load};

/// A report that shows no line.
const WITHOUT_LINES: ReportOptions = ReportOptions {
    lines_max: 0,
    rows_max: ReportOptions::ROWS_MAX_DEFAULT,
    call_paths_max: 0,
};

/// Reads the recordings of one program, one after the other. Returns the runs, with their members where the
/// selection has totals by member, and the report of the first one, without lines.
pub(in crate::commands) fn read_runs(
    files: &[PathBuf],
    selection: &Selection,
) -> Result<(Runs, Report)> {
    let mut reading = RunsReading::default();
    let mut first = None;
    for file in files {
        let report = without_lines(file, selection)?;
        reading.add(&name_of(file), &report)?;
        first.get_or_insert(report);
    }
    match first {
        Some(report) => Ok((reading.finish(), report)),
        None => bail!("found no run, expected at least one"),
    }
}

/// The report of a recording, without lines.
pub(super) fn without_lines(file: &Path, selection: &Selection) -> Result<Report> {
    let recording = load(file, None, None)?;
    Ok(Report::of_selection(&recording, &WITHOUT_LINES, selection))
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Adds to the report of the shown run what there is to say of all of them. A part that is cut short makes
/// the whole incomplete.
pub(super) fn add_to(report: &mut Report, runs: &Runs) {
    report.run.complete &= runs.runs.iter().all(|run| run.complete);
    report.diagnostics.extend(runs.diagnostics());
    report.runs = Some(runs.clone());
}

/// Fails when options ask for what is of one recording.
pub(super) fn check(args: &ReportArgs) -> Result<()> {
    let option = match (args.tui, args.perf_c2c, args.type_name.is_some()) {
        (true, _, _) => "--tui",
        (_, true, _) => "--perf-c2c",
        (_, _, true) => "--type",
        _ => return Ok(()),
    };
    bail!(
        "{option} shows one recording, and {} is a folder of several: expected one such as {}",
        args.input.path().display(),
        hitm::runs::path_of(args.input.path(), 1).display()
    );
}
