//! `hitm record --runs`: the program several times, one recording each.

use std::path::Path;

use anyhow::Result;
use hitm::record::{Ended, RecordConfig, StoppedBy};
use hitm::runs;

use super::{outcome, record_one};
use crate::commands::report::read_runs;
use crate::{Exit, Terminal};

/// Records into the folder that `config` has as its output. Ends with the first run that fails: what was
/// recorded stays.
pub(super) fn record_all(
    mut config: RecordConfig,
    run_count: u8,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let folder = config.output.clone();
    let is_new = runs::create(&folder)?;
    let mut exit_code = 0;
    for number in 1..=run_count {
        config.output = runs::path_of(&folder, number.into());
        let recorded = record_one(&config, "recording", terminal);
        if recorded.is_err() && is_new {
            runs::remove_if_empty(&folder);
        }
        let ended = recorded?;
        let outcome = outcome(&config, &ended);
        terminal.note(&format!("run {number} of {run_count}: {outcome}"));
        exit_code = ended.exit_code;
        if number < run_count && is_last(&ended) {
            let why = match ended.stopped_by {
                Some(_) => "a signal ended the recording".to_owned(),
                None => format!("the program ended with exit code {exit_code}"),
            };
            terminal.note(&format!(
                "no run follows number {number} of {run_count}: {why}"
            ));
            break;
        }
    }
    say_spread(&folder, terminal)?;
    Ok(Exit::OfProgram(exit_code))
}

/// Returns true if no run follows: the program failed, or a signal ended the recording. A program whose time
/// was over is no failure.
fn is_last(ended: &Ended) -> bool {
    match ended.stopped_by {
        Some(StoppedBy::Signal) => true,
        Some(StoppedBy::Config) => false,
        None => ended.exit_code != 0,
    }
}

/// Says what the runs lost.
fn say_spread(folder: &Path, terminal: &mut Terminal) -> Result<()> {
    let Some(files) = runs::files_of(folder)? else {
        return Ok(());
    };
    let (found, _) = read_runs(&files, &hitm_report::Selection::default())?;
    let folder = folder.display();
    terminal.note(&format!(
        "{folder}: {}; read them with `hitm report -i {folder}`",
        found.text()
    ));
    Ok(())
}
