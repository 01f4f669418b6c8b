//! `hitm reproduce`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hitm::sim::{Reproduction, SEEDS_MAX, Sections, SimReport, reproduce};
use hitm_report::sim::{reproduction_json, reproduction_markdown, reproduction_text};

use super::sim::check;
use super::text_options;
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
    /// How many seeds to run of each variant, instead of as many as each scenario states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: Option<u64>,
    /// End with exit code 1 when a workload's own check fails
    #[arg(long)]
    check: bool,
    /// Also put published and simulated figures into FILE, in place of what stands there between the
    /// lines `<!-- hitm reproduce: CASE -->` and `<!-- end of hitm reproduce: CASE -->`
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// What to write; docs/formats/sim.md has the JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl ReproduceArgs {
    /// The command that runs one case in the same way.
    fn command(&self, case: &str) -> String {
        let number = case.split('-').next().unwrap_or(case);
        let mut command = format!("hitm reproduce {number}");
        if self.quick {
            command.push_str(" --quick");
        }
        if let Some(seeds) = self.seeds {
            command.push_str(&format!(" --seeds {seeds}"));
        }
        command
    }
}

pub(super) fn run(args: &ReproduceArgs, terminal: &mut Terminal) -> Result<Exit> {
    let wanted = Reproduction {
        folders: args.cases.clone(),
        quick: args.quick,
        seed_count: args.seeds,
    };
    let cases = wanted.cases()?;
    // What is wrong with the file is said before the long work.
    let sections = args.write.as_ref();
    let sections = sections
        .map(|path| Sections::open(path, &cases))
        .transpose()?;
    let bar = VirtualTime::start();
    let reports = reproduce(&wanted, &|name, progress| bar.set(name, progress));
    bar.finish();
    let reports = reports?;
    if let Some(sections) = sections {
        for case in cases {
            let is_of_case = |report: &&SimReport| report.scenario.split('/').next() == Some(case);
            let of_case: Vec<SimReport> = reports.iter().filter(is_of_case).cloned().collect();
            let text = reproduction_markdown(&of_case, &args.command(case));
            sections.write(case, &text)?;
        }
    }
    match args.format {
        Format::Text => {
            let text = reproduction_text(&reports, &text_options(terminal));
            terminal.out(&text)?;
        }
        Format::Json => terminal.json(&reproduction_json(&reports))?,
    }
    Ok(if args.check {
        check(&reports, terminal)
    } else {
        Exit::Done
    })
}
