//! `hitm report` as a job of continuous integration: the baseline, the forms of services, the exit code.

use std::path::Path;

use anyhow::{Context as _, Result};
use hitm_report::baseline::{Baseline, Comparison, Tolerance};
use hitm_report::ci::{Checked, Findings, SourceRoot, github, junit, sarif};
use hitm_report::{Report, Selection};

use crate::{Exit, Terminal};
use super::{ReportArgs, ReportFormat, runs};

/// The longest report in JSON that is read. One with all members of a kernel has some 10 MB.
const BASELINE_BYTES_MAX: u64 = 1 << 28;

/// Compares a report with the baseline at a path; `selection` has totals by member.
pub(super) fn compare(
    report: &Report,
    path: &Path,
    selection: &Selection,
    tolerance: Tolerance,
) -> Result<Comparison> {
    let baseline = read(path, selection)?;
    Ok(baseline.compare(report, tolerance)?)
}

/// The baseline in a recording, in a folder of runs, or in a report of either that was written as JSON.
fn read(path: &Path, selection: &Selection) -> Result<Baseline> {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let label = name.to_string_lossy();
    if let Some(files) = hitm::runs::files_of(path)? {
        let (runs, mut report) = runs::read_runs(&files, selection)?;
        runs::add_to(&mut report, &runs);
        return Ok(Baseline::of_report(&label, &report)?);
    }
    let what = "a report that hitm report wrote as JSON";
    if let Some(text) = hitm_files::text_file::json_object(path, BASELINE_BYTES_MAX, what)? {
        return Ok(Baseline::of_json(&label, &text)?);
    }
    let report = runs::without_lines(path, selection)?;
    Ok(Baseline::of_report(&label, &report)?)
}

/// The directory that places in the source are given relative to; only services need a whole path.
pub(super) fn source_root(args: &ReportArgs) -> Result<SourceRoot> {
    let root = args.source_root.as_deref().unwrap_or(Path::new("."));
    let has_places = args.format.is_for_ci() || args.format == ReportFormat::Markdown;
    let root = match has_places {
        true => std::path::absolute(root)
            .with_context(|| format!("cannot find the directory {}", root.display()))?,
        false => root.to_owned(),
    };
    Ok(SourceRoot::new(&root.to_string_lossy()))
}

/// Writes the findings in the form of a service.
pub(super) fn show(
    checked: &Checked<'_>,
    format: ReportFormat,
    terminal: &mut Terminal,
) -> Result<()> {
    let findings = Findings::of(checked);
    match format {
        ReportFormat::Sarif => terminal.json(&sarif::render(checked, &findings)),
        ReportFormat::Junit => terminal.out(&junit::render(checked, &findings)),
        _ => terminal.out(&github::render(&findings)),
    }
}

/// Says which gates are broken, and by what.
pub(super) fn answer(checked: &Checked<'_>, terminal: &mut Terminal) -> Exit {
    let mut exit = Exit::Done;
    for failure in checked.failures {
        terminal.note(&failure.to_string());
        exit = Exit::GateFailed;
    }
    let comparison = checked.comparison.into_iter();
    let regressions = comparison.flat_map(|all| all.regressions().map(move |row| (all, row)));
    for (comparison, row) in regressions {
        let text = comparison.text(row);
        terminal.note(&format!("baseline: {text}"));
        exit = Exit::GateFailed;
    }
    exit
}
