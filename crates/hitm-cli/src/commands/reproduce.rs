//! `hitm reproduce`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hitm::sim::{
    Reproduction, SEEDS_MAX, Sections, SensitivityOptions, SimReport, reproduce, sensitivity,
};
use hitm_report::sim::{
    reproduction_json, reproduction_markdown, reproduction_text, sensitivity_json, sensitivity_text,
};

use super::sim::check;
use super::{Format, PageFormat, page, text_options};
use crate::progress::{Steps, VirtualTime};
use crate::{Exit, Terminal};

/// Options of `hitm reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Cases, by the number or name of their folder in scenarios/, or one scenario of a case (000/ffmpeg);
    /// all when none is given
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Run a tenth of the duration and of the iterations
    #[arg(long)]
    quick: bool,
    /// Seeds to run of each variant, instead of as many as each scenario states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: Option<u64>,
    /// End with exit code 1 when a workload's own check fails
    #[arg(long)]
    check: bool,
    /// Also put published and simulated figures into FILE, in place of what stands there between the
    /// lines `<!-- hitm reproduce: CASE -->` and `<!-- end of hitm reproduce: CASE -->`
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Vary every assumed number of scenario, machine and kernel over its range, and show the
    /// interval of each published figure and the numbers that decide it; one seed of each run unless
    /// --seeds says otherwise. Where nothing is published, the scenario's own numbers alone, with
    /// the figures of its workloads
    #[arg(long, conflicts_with_all = ["check", "write"])]
    sensitivity: bool,
    /// With --sensitivity: runs in which all numbers are varied together
    #[arg(long, value_name = "N", default_value_t = 16, requires = "sensitivity",
          value_parser = clap::value_parser!(u64).range(0..=SAMPLES_MAX))]
    samples: u64,
    /// Write the page of `--format html` to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format; docs/formats/sim.md has the JSON
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
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

/// The most samples that make sense: the interval hardly grows beyond.
const SAMPLES_MAX: u64 = 10_000;

fn vary(args: &ReproduceArgs, cases: Reproduction, terminal: &mut Terminal) -> Result<Exit> {
    let Some(format) = Option::<Format>::from(args.format) else {
        bail!("found --format html, expected text or json: --sensitivity has no page");
    };
    let options = SensitivityOptions {
        cases,
        sample_count: args.samples as usize,
    };
    let steps = Steps::start("varying");
    let all = sensitivity(&options, &|name, done, all| steps.set(name, done, all))?;
    steps.finish();
    match format {
        Format::Text => terminal.out(&sensitivity_text(&all, &text_options(terminal)))?,
        Format::Json => terminal.json(&sensitivity_json(&all))?,
    }
    Ok(Exit::Done)
}

pub(super) fn run(args: ReproduceArgs, terminal: &mut Terminal) -> Result<Exit> {
    let wanted = Reproduction {
        folders: args.cases.clone(),
        quick: args.quick,
        seed_count: args.seeds,
    };
    page::check_output(args.format, args.output.as_deref(), terminal)?;
    let one = args.cases.iter().find(|name| name.contains('/'));
    if let (Some(one), Some(_)) = (one, &args.write) {
        bail!("found {one}, expected whole cases: --write replaces all of a case's figures");
    }
    if args.sensitivity {
        return vary(&args, wanted, terminal);
    }
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
        PageFormat::Text => {
            let text = reproduction_text(&reports, &text_options(terminal));
            terminal.out(&text)?;
        }
        PageFormat::Json => terminal.json(&reproduction_json(&reports))?,
        PageFormat::Html => {
            let html = hitm_report::page::reproduction(&reports);
            page::write(&html, args.output.as_deref(), terminal)?;
        }
    }
    Ok(if args.check {
        check(&reports, terminal)
    } else {
        Exit::Done
    })
}
