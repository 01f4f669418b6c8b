//! `hitm live lines`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm::live::{LinesConfig, LiveProgress, LiveTarget, record_lines};

use crate::commands::duration::duration;
use crate::commands::select::percent;
use crate::commands::{PageFormat, report};
use crate::progress::Spinner;
use crate::{Exit, Terminal};
use hitm_report::text::PercentLimit;

/// Options of `hitm live lines`.
#[derive(Debug, Args)]
pub(crate) struct LinesArgs {
    /// Look at this process and what it starts
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["cgroup", "command"],
          required_unless_present_any = ["cgroup", "command"], value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Look at the processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    cgroup: Option<String>,
    /// For how long, as 10s, 500ms or 2m; until the program ends when one is started [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
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
    /// A program to start and to look at, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

impl LinesArgs {
    fn config(&self) -> LinesConfig {
        const DURATION_DEFAULT: Duration = Duration::from_secs(10);
        let target = match (self.pid, &self.cgroup) {
            (Some(pid), _) => LiveTarget::Process(pid),
            (None, Some(path)) => LiveTarget::Cgroup(path.clone()),
            (None, None) => LiveTarget::Program(self.command.clone()),
        };
        let is_program = matches!(target, LiveTarget::Program(_));
        LinesConfig {
            target,
            duration: self.duration.or((!is_program).then_some(DURATION_DEFAULT)),
            frequency: self.frequency,
        }
    }
}

pub(super) fn run(args: &LinesArgs, terminal: &mut Terminal) -> Result<Exit> {
    let folder = tempfile::tempdir()?;
    let temporary = folder.path().join("lines.hitm");
    let file = args.record.as_ref().unwrap_or(&temporary);
    let spinner = Spinner::start("sampling");
    let say = &mut |progress| spinner.say(&text(progress));
    let exit_code = record_lines(&args.config(), file, say)?;
    spinner.finish();
    let shown = report::ShownFile {
        file,
        is_kept: args.record.is_some(),
        format: args.format,
        percent_limit: args.percent_limit,
    };
    shown.show(terminal)?;
    Ok(exit_code.map_or(Exit::Done, Exit::OfProgram))
}

fn text(progress: LiveProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    format!("{seconds:.1} s, {} samples", progress.sample_count)
}
