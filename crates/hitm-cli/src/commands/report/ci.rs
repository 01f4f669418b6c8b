//! `hitm report` as a job of continuous integration: the baseline, the forms of services, the exit code.

use std::path::Path;

use anyhow::{Context as _, Result};
use hitm::recording::Recording;
use hitm_report::baseline::{Baseline, Comparison, Tolerance};
use hitm_report::ci::{self, Findings, SourceRoot, github, junit, sarif};
use hitm_report::gate::{Gate, GateFailure};
use hitm_report::{By, Report, ReportOptions, Selection};

use super::ReportFormat;
use crate::progress::Bar;
use crate::{Exit, Terminal};

/// The longest report in JSON that is read. One with all members of a kernel has some 10 MB.
const BASELINE_BYTES_MAX: u64 = 1 << 28;

/// A report and the answers of its gates.
pub(super) struct Checked<'a> {
    pub(super) report: &'a Report,
    pub(super) gates: &'a [Gate],
    pub(super) failures: &'a [GateFailure],
    pub(super) comparison: Option<&'a Comparison>,
}

/// The report of a recording, and its comparison with the baseline at a path.
pub(super) fn compare(
    (recording, options): (&Recording, &ReportOptions),
    selection: &Selection,
    (path, tolerance): (&Path, Tolerance),
) -> Result<(Report, Comparison)> {
    let mut by_member = selection.clone();
    if !by_member.by.contains(&By::Member) {
        by_member.by.push(By::Member);
    }
    let baseline = read(path, &by_member)?;
    let mut report = Report::of_selection(recording, options, &by_member);
    let comparison = baseline.compare(&report, tolerance)?;
    let asked_for = |by| selection.by.contains(&by);
    report.totals_by.retain(|totals| asked_for(totals.by));
    Ok((report, comparison))
}

/// The baseline in a recording, or in a report of one that was written as JSON.
fn read(path: &Path, selection: &Selection) -> Result<Baseline> {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let label = name.to_string_lossy();
    let what = "a report that hitm report wrote as JSON";
    if let Some(text) = hitm::json_object(path, BASELINE_BYTES_MAX, what)? {
        return Ok(Baseline::of_json(&label, &text)?);
    }
    let bar = Bar::start("reading the baseline");
    let recording = Recording::load_contended(path, &mut |read, all| bar.set(read, all))?;
    bar.finish();
    // Its lines are not shown.
    let options = ReportOptions {
        lines_max: 0,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: 0,
    };
    let report = Report::of_selection(&recording, &options, selection);
    Ok(Baseline::of_report(&label, &report)?)
}

/// Writes the findings in the form of a service.
pub(super) fn show(
    checked: &Checked<'_>,
    format: ReportFormat,
    source_root: Option<&Path>,
    terminal: &mut Terminal,
) -> Result<()> {
    let root = source_root.unwrap_or(Path::new("."));
    let root = std::path::absolute(root)
        .with_context(|| format!("cannot find the directory {}", root.display()))?;
    let source_root = SourceRoot::new(&root.to_string_lossy());
    let checked = ci::Checked {
        report: checked.report,
        gates: checked.gates,
        failures: checked.failures,
        comparison: checked.comparison,
        source_root: &source_root,
    };
    let findings = Findings::of(&checked);
    match format {
        ReportFormat::Sarif => terminal.json(&sarif::render(&checked, &findings)),
        ReportFormat::Junit => terminal.out(&junit::render(&checked, &findings)),
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
