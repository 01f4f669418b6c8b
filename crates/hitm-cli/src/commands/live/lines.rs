//! `hitm live lines`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hitm::live::{LinesConfig, LinesTarget, LiveProgress, LiveTarget, record_lines};
use hitm_files::output_file;
use hitm_report::text::PercentLimit;

use super::target::TargetArgs;
use crate::commands::select::percent;
use crate::commands::{PageFormat, report};
use crate::progress::Spinner;
use crate::{Exit, Terminal};

/// Options of `hitm live lines`.
#[derive(Debug, Args)]
pub(crate) struct LinesArgs {
    #[command(flatten)]
    target: TargetArgs,
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
    /// Form of the result; docs/formats/report.md has the JSON
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    format: PageFormat,
}

impl LinesArgs {
    fn config(&self) -> Result<LinesConfig> {
        let target = match (&self.tid[..], self.target.target()) {
            ([], LiveTarget::System) => {
                bail!("nothing to look at: expected --pid, --tid, --cgroup or a program")
            }
            ([], target) => LinesTarget::All(target),
            (tids, _) => LinesTarget::Threads(tids.to_vec()),
        };
        Ok(LinesConfig {
            target,
            duration: self.target.duration(),
            frequency: self.frequency,
        })
    }
}

pub(super) fn run(args: &LinesArgs, terminal: &mut Terminal) -> Result<Exit> {
    let spinner = Spinner::start("sampling");
    let ended = record_lines(args.config()?, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    // The report reads a file, as of any recording.
    let folder = tempfile::tempdir()?;
    let temporary = folder.path().join("lines.hitm");
    let file = args.record.as_ref().unwrap_or(&temporary);
    output_file::write(file, &ended.recording)?;
    let shown = report::ShownFile {
        file,
        is_kept: args.record.is_some(),
        format: args.format,
        percent_limit: args.percent_limit,
    };
    shown.show(terminal)?;
    Ok(ended.exit_code.map_or(Exit::Done, Exit::OfProgram))
}

fn text(progress: LiveProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    format!("{seconds:.1} s, {} samples", progress.sample_count)
}
