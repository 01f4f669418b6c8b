//! `hitm schema`.

use anyhow::{Result, bail};
use clap::Args;
use hitm_report::schema::{list_text, outputs};

use crate::{Exit, Terminal};

/// Options of `hitm schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The output to describe, such as report; without it, a list of all
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn run(args: SchemaArgs, terminal: &mut Terminal) -> Result<Exit> {
    let Some(name) = args.name else {
        terminal.long_out(&list_text())?;
        return Ok(Exit::Done);
    };
    let Some(output) = outputs().into_iter().find(|output| output.name == name) else {
        bail!("{name}: no output in JSON has this name: hitm schema lists all");
    };
    terminal.json(&output.text())?;
    Ok(Exit::Done)
}
