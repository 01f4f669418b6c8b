//! `hitm fix`.

mod advisor;
mod crossbeam;
mod gofmt;
mod installs;
mod java;
mod kernel;
mod promises;
mod structures;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use hitm::fix::{self, Bench, FixError, Limits, Program, Setup, Step};
use hitm::vm::KernelSource;
use hitm_base::Machine;
use hitm_report::fix as view;

use self::advisor::FromFindings;
use super::duration::duration;
use super::text_options;
use crate::{Exit, Terminal};

/// Options of `hitm fix`.
#[derive(Debug, Args)]
pub(crate) struct FixArgs {
    /// A recording of the program as it is [default: one that is made first]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Command that builds the program with debug information, for a shell; % is the folder of a copy of the source
    #[arg(long, value_name = "COMMAND", required_unless_present = "kernel_type")]
    build: Option<String>,
    /// Program to record and its arguments, with the same work in every run; % is the folder of the copy
    #[arg(long, value_name = "COMMAND", required_unless_present = "kernel_type")]
    run: Option<String>,
    /// Command that must succeed with every version, for a shell, such as 'make -C % test'
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Folder of the source, which is only read [default: this folder; none with --kernel-type]
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Lay out a structure of the kernel that `hitm vm run` recorded: each layout runs on the booted machine
    #[arg(long, value_name = "TYPE", requires_all = ["input", "kernel"],
          conflicts_with_all = ["build", "run", "check", "machine"])]
    kernel_type: Option<String>,
    /// The recorded kernel, as for `hitm vm run`
    #[arg(short, long, value_name = "FILE|debian:VERSION", requires = "kernel_type")]
    kernel: Option<KernelSource>,
    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 2048, requires = "kernel_type",
          value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    memory: u64,
    /// A layout file to compare with, or the name of a layout that comes with hitm: it runs as the others do, and
    /// is not kept; may be given several times
    #[arg(short, long, value_name = "NAME|FILE", requires = "kernel_type")]
    layout: Vec<PathBuf>,
    /// Write the kept layout of a kernel's structure to a file for `hitm vm run --layout`
    #[arg(short, long, value_name = "FILE", requires = "kernel_type")]
    output: Option<PathBuf>,
    /// Recordings of each version
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    runs: u8,
    /// Part of the threads' cycles by which the slowest run with a remedy must be below the fastest run without
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    min_gain: f64,
    /// Remedies to build at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    remedies: u8,
    /// Time that a build, a check or a run may take, as 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    timeout: Duration,
    /// Machines to price accesses on: presets (see `hitm machine list`), files, or `host`, with commas between; the
    /// first decides, and the result is replayed on the others
    #[arg(
        short,
        long,
        value_name = "NAME|FILE,...",
        value_delimiter = ',',
        default_value = "broadwell-4s"
    )]
    machine: Vec<String>,
    /// Also change structures whose layout is promised to others: packed, asserted, written to files, in headers that
    /// are installed
    #[arg(long)]
    allow_abi: bool,
    /// Write what was kept to the source, if it has no other changes
    #[arg(long)]
    apply: bool,
    /// Output format; docs/fix.md has the JSON
    #[arg(long, value_enum, default_value_t = FixFormat::Text)]
    format: FixFormat,
}

/// Form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FixFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a pull request
    Markdown,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let share = number.parse::<f64>().ok().map(|number| number / 100.0);
    let share = share.filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a part from 0% to below 100%".to_owned())
}

pub(super) fn run(args: FixArgs, terminal: &mut Terminal) -> Result<Exit> {
    let done = match &args.kernel_type {
        Some(name) => kernel::tried(&args, name, terminal),
        None => tried(&args, terminal),
    };
    match done {
        Err(error) => match error.downcast_ref::<FixError>() {
            Some(FixError::Signal { signal }) => {
                terminal.error(&error);
                Ok(Exit::OfProgram(
                    u8::try_from(128 + signal).unwrap_or(u8::MAX),
                ))
            }
            _ => Err(error),
        },
        done => done,
    }
}

fn tried(args: &FixArgs, terminal: &mut Terminal) -> Result<Exit> {
    let (build, run) = args.lines();
    let run = Program::parse(run).map_err(|source| FixError::Words {
        option: "run",
        source,
    })?;
    let machines = args.machine.iter().map(|name| {
        let resolved = hitm_machine::resolve(name);
        let (machine, _) = resolved.with_context(|| format!("cannot use the machine '{name}'"))?;
        Ok(machine)
    });
    let mut machines: Vec<Machine> = machines.collect::<Result<_>>()?;
    let machine = machines.remove(0);
    let setup = Setup {
        build: build.to_owned(),
        run,
        check: args.check.clone(),
        timeout: args.timeout,
        recorder: std::env::current_exe().context("cannot find the path of hitm")?,
        record_options: vec!["--machine".to_owned(), args.machine[0].clone()],
        other_machines: machines,
    };
    let limits = args.limits();
    let source = args.source.as_deref().unwrap_or(Path::new("."));
    let mut bench = Bench::new(&setup, source, args.apply)?;
    let mut advisor = FromFindings::new(args.allow_abi);
    let mut step = |step: Step<'_>| terminal.note(&view::step(&step));
    let fixed = fix::fix(
        &mut bench,
        &limits,
        args.input.as_deref(),
        &mut advisor,
        &mut step,
    )?;
    let view = view::FixView::new(&fixed, &limits, &machine.name, &args.commands());
    if args.apply && !fixed.changed.is_empty() {
        bench.apply(&fixed.changed)?;
        terminal.note(&view.applied());
    }
    // Its folder goes before a reader of the result does.
    drop(bench);
    show(&view, args, terminal)
}

fn show(view: &view::FixView, args: &FixArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.format {
        FixFormat::Text => terminal.long_out(&view.text(&text_options(terminal)))?,
        FixFormat::Json => terminal.json(&view.json())?,
        FixFormat::Markdown => terminal.source(&view.markdown())?,
    }
    Ok(Exit::Done)
}

impl FixArgs {
    fn limits(&self) -> Limits {
        Limits {
            runs: self.runs,
            min_gain: self.min_gain,
            remedies: self.remedies.into(),
        }
    }

    /// The lines that build and run a program. Without a kernel's type both are there.
    fn lines(&self) -> (&str, &str) {
        let [build, run] = [&self.build, &self.run].map(|line| line.as_deref().unwrap_or_default());
        (build, run)
    }

    /// Commands that repeat the figures, in the tree with the change and without.
    fn commands(&self) -> view::Commands {
        let here = |line: &str| fix::shell_line(line, Path::new("."));
        let (build, run) = self.lines();
        let record = format!("hitm record --machine {} -- {}", self.machine[0], here(run));
        let check = self.check.as_deref().map(here);
        let lines = [here(build)].into_iter().chain(check);
        view::Commands(lines.chain([record, "hitm report".to_owned()]).collect())
    }
}

/// An error of reading or trying on a recording.
fn advice_error(what: &str, error: anyhow::Error) -> FixError {
    FixError::Advice {
        what: what.to_owned(),
        source: error.into(),
    }
}
