//! `hitm man`: the manual pages, from the same table as `--help`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use hitm_files::output_file;

use crate::args;
use crate::{Exit, Terminal};
use super::completions::NAME;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages, which has to be there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for hitm and one for each command below it: `hitm.1`, `hitm-report.1`.
pub(super) fn run(args: ManArgs, _terminal: &mut Terminal) -> Result<Exit> {
    let mut command = args::Args::command();
    // Names of commands below others become hitm-machine-show.
    command.build();
    for page in pages(command.display_name(NAME)) {
        let mut text = Vec::new();
        clap_mangen::Man::new(page.clone()).render(&mut text)?;
        let name = page.get_display_name().unwrap_or(NAME);
        output_file::write(&args.folder.join(format!("{name}.1")), &text)?;
    }
    Ok(Exit::Done)
}

/// A command and all below it that are not hidden.
fn pages(command: clap::Command) -> Vec<clap::Command> {
    let below: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    let shown = below
        .into_iter()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let below: Vec<clap::Command> = shown.flat_map(pages).collect();
    [vec![command], below].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let mut command = args::Args::command();
        command.build();
        let pages = pages(command.display_name(NAME));
        let names: Vec<&str> = pages
            .iter()
            .filter_map(|page| page.get_display_name())
            .collect();
        let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), pages.len(), "{names:?}");
        for name in [
            "hitm",
            "hitm-report",
            "hitm-machine-show",
            "hitm-live-locks",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.contains(&"hitm-man"), "{names:?}");
    }
}
