//! `hitm report` of a sweep: its folder, or its table.

use std::path::Path;

use anyhow::{Result, bail};
use hitm::sweep::read_table;
use hitm_report::Selection;
use hitm_report::page as pages;
use hitm_report::sweep::{SweepReading, SweepReport, json, text};

use super::{ReportArgs, ReportFormat};
use crate::commands::{page, text_options};
use crate::{Exit, Terminal};

/// Shows the table at `table`.
pub(super) fn show(args: &ReportArgs, table: &Path, terminal: &mut Terminal) -> Result<Exit> {
    check(args)?;
    let reading = read_table(table, SweepReading::new, |reading, row| {
        if let Ok(reading) = reading {
            reading.add(row);
        }
    })?;
    let report: SweepReport = match reading {
        Ok(reading) => reading.finish(table.display().to_string()),
        Err(missing) => bail!(
            "cannot read {}: no table of a sweep, which has the column {missing}",
            table.display()
        ),
    };
    match args.format {
        ReportFormat::Html => {
            page::write(&pages::sweep(&report), args.output.as_deref(), terminal)?;
        }
        ReportFormat::Json => terminal.json(&json::render(&report))?,
        _ => terminal.long_out(&text::render(&report, &text_options(terminal)))?,
    }
    Ok(Exit::Done)
}

/// Fails when options ask for what a sweep has not.
fn check(args: &ReportArgs) -> Result<()> {
    if args.format.is_for_ci() {
        bail!("a sweep has no findings for services: expected --format text, json or html");
    }
    let is_of_lines = args.perf_c2c
        || args.type_name.is_some()
        || args.top.is_some()
        || args.call_graph.is_some()
        || !args.fail_on.is_empty()
        || args.baseline.is_some()
        || args.select.selection() != Selection::default();
    if is_of_lines {
        bail!(
            "{} is a sweep, which has no lines to choose from: expected --format and --output only",
            args.input.path().display()
        );
    }
    Ok(())
}
