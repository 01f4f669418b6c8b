//! `hitm live lines`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hitm::live::{LinesConfig, LinesTarget, LiveProgress, LiveTarget, record_lines};
use hitm_files::output_file;
use hitm_report::tables::{self, FleetLook};
use hitm_report::text::PercentLimit;

use super::fleet::{self, FleetArgs, Form, Look};
use super::target::TargetArgs;
use crate::commands::select::percent;
use crate::commands::report::with_file;
use crate::commands::walks::WalksArgs;
use crate::commands::{PageFormat, report};
use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm live lines`.
#[derive(Debug, Args)]
pub(crate) struct LinesArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Look at the kernel's lines, too; without a target, at those alone, whoever the kernel works for
    #[arg(long)]
    kernel: bool,
    /// Look at these threads alone, of one process or of several
    #[arg(short, long, value_name = "TID", value_delimiter = ',',
          conflicts_with_all = ["pid", "cgroup", "command"], value_parser = clap::value_parser!(u32).range(1..))]
    tid: Vec<u32>,
    /// Samples in a second of each thread's CPU time
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 999,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    frequency: u32,
    /// Keep what was seen in a file, which `hitm report -i FILE` and `hitm view -i FILE` show
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Fold findings below this share of the time into one row of text
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    percent_limit: PercentLimit,
    /// Form of the result; docs/formats/report.md has the JSON [default: text, with --output parquet]
    #[arg(long, value_enum)]
    format: Option<LinesFormat>,
    #[command(flatten)]
    walks: WalksArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// The form of what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LinesFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A page with pictures, one file for any browser
    Html,
    /// With --output: tables of one schema, which many hosts' looks are joined by (docs/formats/views.md)
    Parquet,
    /// With --output: recordings, which `hitm report -i FILE` and `hitm view -i FILE` show
    Hitm,
}

impl LinesArgs {
    fn config(&self) -> Result<LinesConfig> {
        let target = match (&self.tid[..], self.target.target()) {
            ([], LiveTarget::System) if !self.kernel => {
                bail!("nothing to look at: expected --pid, --tid, --cgroup, a program or --kernel")
            }
            ([], target) => LinesTarget::All(target),
            (tids, _) => LinesTarget::Threads(tids.to_vec()),
        };
        let duration = match self.fleet.is_series() {
            true => Some(self.target.duration_of_look()),
            false => self.target.duration(),
        };
        self.fleet.check(duration)?;
        Ok(LinesConfig {
            target,
            has_kernel: self.kernel,
            walks: self.walks.read()?,
            duration,
            frequency: self.frequency,
        })
    }

    /// The content of a look's file.
    fn content(&self, look: &Look<'_>) -> Result<Vec<u8>> {
        if self.format == Some(LinesFormat::Hitm) {
            return Ok(look.recording.to_vec());
        }
        with_file(look.recording, |file| match self.format {
            Some(LinesFormat::Json) => Ok(self.shown(file, PageFormat::Json).json()?.into_bytes()),
            _ => {
                let recording = report::load(file, None, None)?;
                let look = FleetLook {
                    host: look.host,
                    time: &look.begun.text(),
                };
                Ok(tables::fleet(&recording, &look).parquet(Vec::new())?)
            }
        })
    }

    fn shown<'a>(&self, file: &'a Path, format: PageFormat) -> report::ShownFile<'a> {
        report::ShownFile {
            file,
            is_kept: self.record.is_some(),
            format,
            percent_limit: self.percent_limit,
        }
    }
}

pub(super) fn run(args: &LinesArgs, terminal: &mut Terminal) -> Result<Exit> {
    let config = args.config()?;
    if args.fleet.output().is_some() {
        return run_fleet(args, config, terminal);
    }
    let format = match args.format {
        None | Some(LinesFormat::Text) => PageFormat::Text,
        Some(LinesFormat::Json) => PageFormat::Json,
        Some(LinesFormat::Html) => PageFormat::Html,
        Some(LinesFormat::Parquet | LinesFormat::Hitm) => {
            bail!("--format parquet and --format hitm go with --output DIR")
        }
    };
    let spinner = Spinner::start("sampling");
    let ended = record_lines(config, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    let mut show = |file: &Path| args.shown(file, format).show(terminal);
    match &args.record {
        Some(file) => {
            output_file::write(file, &ended.recording)?;
            show(file)?;
        }
        None => with_file(&ended.recording, show)?,
    }
    Ok(ended.exit_code.map_or(Exit::Done, Exit::OfProgram))
}

/// Writes looks to files.
fn run_fleet(args: &LinesArgs, config: LinesConfig, terminal: &mut Terminal) -> Result<Exit> {
    let extension = match args.format {
        None | Some(LinesFormat::Parquet) => "parquet",
        Some(LinesFormat::Json) => "json",
        Some(LinesFormat::Hitm) => "hitm",
        Some(LinesFormat::Text | LinesFormat::Html) => {
            bail!("--output is for programs: expected --format parquet, json or hitm")
        }
    };
    let form = Form {
        extension,
        content: &|look| args.content(look),
    };
    fleet::run(&args.fleet, config, &form, terminal)
}

fn text(progress: LiveProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    format!("{seconds:.1} s, {} samples", progress.sample_count)
}
