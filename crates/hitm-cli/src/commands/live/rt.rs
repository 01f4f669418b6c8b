//! `hitm live rt`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hitm_base::Nanos;
use hitm_base::rt_migrate::RtMigrateConfig;
use hitm_files::output_file;
use hitm_live::rt;
use hitm_report::live::rt as shown;

use crate::commands::Format;
use crate::{Exit, Terminal};

/// Options of `hitm live rt`: those of rt-migrate-test.
#[derive(Debug, Args)]
pub(crate) struct RtArgs {
    /// Threads, instead of one more than CPUs that this process may use
    #[arg(value_name = "NR_TASKS")]
    tasks: Option<usize>,
    /// Stop at the first iteration that fails, and end as rt-migrate-test does then: with exit code 255
    #[arg(short, long)]
    check: bool,
    /// For how long to run, instead of a number of iterations: seconds, or with m, h or d
    #[arg(short = 'D', long, value_name = "TIME", value_parser = test_duration, conflicts_with = "loops")]
    duration: Option<Duration>,
    /// Give all but the first thread one priority
    #[arg(short, long)]
    equal: bool,
    /// Also write the results into FILE as JSON; docs/formats/live.md has the keys
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Iterations
    #[arg(short, long, value_name = "LOOPS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    loops: u32,
    /// Time by which a thread may start later than the next lower one, in microseconds
    #[arg(short, long, value_name = "TIME", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(..=TIME_MAX))]
    maxerr: u32,
    /// Priority of the first thread; each further one has the next
    #[arg(short, long, value_name = "PRIO", default_value_t = 2)]
    prio: u8,
    /// Leave the table out and show the verdict and who was late
    #[arg(short, long)]
    quiet: bool,
    /// For how long each thread is busy, in milliseconds
    #[arg(short, long, value_name = "TIME", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=TIME_MAX))]
    run_time: u32,
    /// Pause between iterations, in milliseconds
    #[arg(short, long, value_name = "TIME", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(..=TIME_MAX))]
    sleep_time: u32,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// More than a quarter of an hour in milliseconds: threads of real time would stop the host for longer.
const TIME_MAX: i64 = 1_000_000;

/// Exit code of rt-migrate-test when its check fails: -1.
const FAILED: u8 = 255;

impl RtArgs {
    fn config(&self) -> RtMigrateConfig {
        let cpus = rt::allowed_cpus().len();
        RtMigrateConfig {
            tasks: self.tasks.unwrap_or(cpus + 1),
            base_prio: self.prio,
            run_time: Nanos(f64::from(self.run_time) * 1e6),
            sleep: Nanos(f64::from(self.sleep_time) * 1e6),
            max_err: Nanos(f64::from(self.maxerr) * 1e3),
            loops: self.loops as usize,
            equal: self.equal,
            check: self.check,
        }
    }
}

/// A time in the form of rt-tests.
fn test_duration(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.char_indices().next_back() {
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let wrong = || "expected seconds, or minutes, hours or days with m, h or d".to_owned();
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = u64::from(number) * seconds;
    match seconds {
        1..=2_592_000 => Ok(Duration::from_secs(seconds)),
        _ => Err("expected more than 0 and at most 30 days".to_owned()),
    }
}

pub(super) fn run(args: &RtArgs, terminal: &mut Terminal) -> Result<Exit> {
    let run = rt::run(args.config(), args.duration)?;
    match args.format {
        Format::Json => terminal.json(&shown::json(&run))?,
        Format::Text if args.quiet => terminal.out(&shown::verdict_text(&run))?,
        Format::Text => terminal.out(&shown::text(&run))?,
    }
    if let Some(path) = &args.json {
        output_file::write(path, shown::json(&run).as_bytes())?;
    }
    let failed = args.check && !run.results.failures().is_empty();
    Ok(match failed {
        true => Exit::OfProgram(FAILED),
        false => Exit::Done,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_test_have_its_units() {
        assert_eq!(test_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(test_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(test_duration("1d"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "m", "0", "-1", "2s", "31d", "4294967296", "1é"] {
            assert!(test_duration(wrong).is_err(), "{wrong}");
        }
    }
}
