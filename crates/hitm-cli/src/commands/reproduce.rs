//! `hitm reproduce`.

use anyhow::Result;
use clap::Args;
use hitm::sim::{Reproduction, reproduce};
use hitm_report::sim::{reproduction_json, reproduction_text};

use super::sim::text_options;
use crate::commands::Format;
use crate::progress::VirtualTime;
use crate::{Exit, Terminal};

/// Options of `hitm reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Which cases, by the number or name of their folder in scenarios/; all when none is given
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Run a tenth of the duration and of the iterations
    #[arg(long)]
    quick: bool,
    /// How many seeds to run of each variant
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// What to write; docs/formats/sim.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &ReproduceArgs, terminal: &mut Terminal) -> Result<Exit> {
    let wanted = Reproduction {
        folders: args.cases.clone(),
        quick: args.quick,
        seed_count: args.seeds,
    };
    let bar = VirtualTime::start();
    let reports = reproduce(&wanted, &|name, progress| bar.set(name, progress));
    bar.finish();
    let reports = reports?;
    terminal.out(&match args.format {
        Format::Text => reproduction_text(&reports, &text_options(terminal)),
        Format::Json => reproduction_json(&reports),
    })?;
    Ok(Exit::Done)
}
