//! `hitm sweep`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use hitm::sweep::{Part, Store, Sweep, Totals, slurm_script};
use hitm_base::grouped;
use hitm_report::sweep::estimate_text;

use crate::progress::{Bar, Runs};
use crate::{Exit, Terminal};

/// Tasks of a Slurm array, when nobody says how many.
const TASKS_DEFAULT: usize = 16;

/// Options of `hitm sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The plan; docs/formats/sweep.md describes it
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// The folder of the results: runs that are there are not made again, and results.parquet has the
    /// figures of all
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Runs at a time [default: one for each CPU]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Engine that makes the runs: `local`, `ray` or `ray://ADDRESS` (needs Python with hitm and ray), or
    /// `slurm`
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    engine: Engine,
    /// Count runs and estimate their CPU time from some of them; with `--engine slurm` show the
    /// script. Nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Make every COUNT-th run, from the N-th on, and write no table: for several drivers of one
    /// folder
    #[arg(long, value_name = "N/COUNT", conflicts_with = "dry_run")]
    part: Option<Part>,
    /// Tasks of the Slurm array
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::new(TASKS_DEFAULT).expect("above 0"))]
    tasks: NonZeroUsize,
    /// Search instead of running the whole plan: the values of the keys of --within that make the
    /// mean of METRIC over the plan least, by Optuna (needs Python with hitm and optuna)
    #[arg(long, value_name = "METRIC", requires = "within")]
    optimise: Option<String>,
    /// A key to search and its range, such as kernel.tick=100/s..1000/s, or its values, such as
    /// layout=a,b; may be given several times
    #[arg(long, value_name = "KEY=RANGE", requires = "optimise")]
    within: Vec<String>,
    /// Make METRIC as large as possible
    #[arg(long, requires = "optimise")]
    largest: bool,
    /// Points that the search tries
    #[arg(long, value_name = "N", default_value_t = 50, requires = "optimise")]
    trials: u32,
}

/// The engine that makes the runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Engine {
    Local,
    /// With the address of a running cluster.
    Ray(Option<String>),
    Slurm,
}

impl std::str::FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        match text {
            "local" => Ok(Engine::Local),
            "ray" => Ok(Engine::Ray(None)),
            "slurm" => Ok(Engine::Slurm),
            text if text.starts_with("ray://") => Ok(Engine::Ray(Some(text.to_owned()))),
            _ => Err("expected local, ray, ray://ADDRESS or slurm".to_owned()),
        }
    }
}

/// Something that another engine needs is not on this host.
#[derive(Debug)]
pub(crate) struct EngineMissing(String);

impl std::fmt::Display for EngineMissing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EngineMissing {}

pub(super) fn run(args: SweepArgs, terminal: &mut Terminal) -> Result<Exit> {
    // What is wrong with the plan is said before any engine starts.
    let bar = Bar::of_steps("naming runs");
    let sweep = Sweep::load(&args.plan, &mut |done, all| bar.set(done, all));
    bar.finish();
    let sweep = sweep?;
    let jobs = args.jobs.unwrap_or_else(available);
    if args.dry_run && args.engine == Engine::Slurm {
        terminal.source(&script(&args, jobs)?)?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        let estimate = sweep.estimate(&Store::read_only(&args.output))?;
        terminal.out(&estimate_text(&estimate, jobs))?;
        return Ok(Exit::Done);
    }
    if args.optimise.is_some() {
        return python(&optimise_args(&args), "the search");
    }
    match &args.engine {
        Engine::Local => local(&args, &sweep, jobs, terminal),
        Engine::Ray(address) => {
            let mut words = vec!["-m".into(), "hitm.ray".into()];
            words.extend([path(&args.plan), "-o".into(), path(&args.output)]);
            if let Some(address) = address {
                words.extend(["--address".into(), address.clone()]);
            }
            if let Some(jobs) = args.jobs {
                words.extend(["--jobs".into(), jobs.to_string()]);
            }
            python(&words, "the engine ray")
        }
        Engine::Slurm => submit(&args, &script(&args, jobs)?),
    }
}

fn available() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn local(
    args: &SweepArgs,
    sweep: &Sweep,
    jobs: NonZeroUsize,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let store = Store::open(&args.output)?;
    let bar = Runs::start();
    let part = args.part.unwrap_or(Part::ALL);
    let totals = sweep.run(&store, part, jobs, &|progress| {
        bar.set(progress);
        true
    });
    bar.finish();
    let totals = totals?;
    terminal.note(&totals_text(&totals, sweep.broken_count()));
    if args.part.is_none() {
        let path = sweep.compact(&store)?;
        terminal.note(&format!("wrote {}", path.display()));
    }
    Ok(Exit::Done)
}

fn totals_text(totals: &Totals, broken: usize) -> String {
    let mut text = format!(
        "{} runs made, {} found",
        grouped(totals.made as u64),
        grouped(totals.found as u64)
    );
    if totals.failed > 0 {
        text.push_str(&format!(", {} failed", grouped(totals.failed as u64)));
    }
    if broken > 0 {
        let points = if broken == 1 { "point" } else { "points" };
        text.push_str(&format!(
            ", {} {points} that cannot be run",
            grouped(broken as u64)
        ));
    }
    text
}

fn script(args: &SweepArgs, jobs: NonZeroUsize) -> Result<String> {
    let program = std::env::current_exe().context("cannot find the path of hitm")?;
    let (tasks, cpus) = (args.tasks.get(), jobs.get());
    Ok(slurm_script(&program, &args.plan, &args.output, tasks, cpus))
}

/// Hands the script to sbatch.
fn submit(args: &SweepArgs, script: &str) -> Result<Exit> {
    Store::open(&args.output)?;
    let path = args.output.join("sweep.sbatch");
    hitm_files::output_file::write(&path, script.as_bytes())?;
    let status = Command::new("sbatch").arg(&path).status();
    ended(status, "sbatch", "install Slurm, or choose another engine")
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn optimise_args(args: &SweepArgs) -> Vec<String> {
    let mut words = vec!["-m".into(), "hitm.optimise".into()];
    words.extend([path(&args.plan), "-o".into(), path(&args.output)]);
    words.extend(["--metric".into(), args.optimise.clone().unwrap_or_default()]);
    for range in &args.within {
        words.extend(["--within".into(), range.clone()]);
    }
    words.extend(["--trials".into(), args.trials.to_string()]);
    if args.largest {
        words.push("--largest".into());
    }
    words
}

/// Runs a module of the Python package with the user's Python.
fn python(words: &[String], what: &str) -> Result<Exit> {
    let status = Command::new("python3").args(words).status();
    ended(
        status,
        "python3",
        &format!("{what} needs Python 3.10 or newer with the package hitm"),
    )
}

/// The exit code of another program, or that it is missing.
fn ended(
    status: std::io::Result<std::process::ExitStatus>,
    program: &str,
    advice: &str,
) -> Result<Exit> {
    match status {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(EngineMissing(format!("cannot find {program}: {advice}")).into())
        }
        Err(error) => Err(error).with_context(|| format!("cannot run {program}")),
        Ok(status) => match status.code() {
            Some(0) => Ok(Exit::Done),
            Some(3) => Ok(Exit::Missing),
            Some(_) => Ok(Exit::Usage),
            None => anyhow::bail!("{program} was killed"),
        },
    }
}
