//! `hitm vm`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hitm::vm::{KernelSource, StartAt, VmConfig, VmEnded, VmProgress, Walks, run as run_vm};
use hitm_base::Cycles;
use hitm_report::caches_text;

use crate::commands::diff::ViewArgs;
use crate::commands::walks::WalksArgs;
use crate::progress::{Spinner, size};
use crate::{Exit, Terminal};

/// Options of `hitm vm`.
#[derive(Debug, Args)]
pub(crate) struct VmArgs {
    #[command(subcommand)]
    command: VmCommand,
}

#[derive(Debug, Subcommand)]
enum VmCommand {
    /// Boot a kernel on a modelled machine, run a program in it, and record both
    Run(RunArgs),
    /// Boot a kernel on a modelled machine and look around in it; nothing is recorded
    Shell(ShellArgs),
    /// List the slab caches of a booted kernel with the types of their objects; nothing is recorded
    Caches(CachesArgs),
    /// Record one workload on several kernels, and show the recordings side by side
    Diff(DiffArgs),
}

/// The machine.
#[derive(Debug, Clone, Args)]
struct MachineArgs {
    /// The machine to price accesses on, whose CPUs the guest gets: a preset (see
    /// `hitm machine list`), a file, or `host`
    #[arg(short, long, value_name = "NAME|FILE", default_value = "icelake-2s")]
    machine: String,
    /// CPUs of the machine that the guest gets, the same number from each package; all by default
    #[arg(long, value_name = "N")]
    smp: Option<usize>,
    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 2048,
          value_parser = clap::value_parser!(u64).range(256..=1_048_576))]
    memory: u64,
    /// Further options for the kernel
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    append: String,
    /// A further program to bring into the guest, found as the workload is; `hitm` is this program. May
    /// be given several times
    #[arg(long, value_name = "PROGRAM")]
    with: Vec<String>,
    /// Folder for downloaded kernels and the states of booted machines
    /// [default: $XDG_CACHE_HOME/hitm or ~/.cache/hitm]
    #[arg(long, value_name = "DIR")]
    snapshot_cache: Option<PathBuf>,
    /// The qemu-system-x86_64 to use, instead of the one in PATH
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct KernelArgs {
    /// The kernel: an image that QEMU can boot, or debian:VERSION for the newest package of apt
    /// whose version begins so
    #[arg(
        short,
        long,
        value_name = "FILE|debian:VERSION",
        default_value = "debian:6"
    )]
    kernel: KernelSource,
}

#[derive(Debug, Args)]
struct ShellArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// The program to run and its arguments [default: busybox sh, or sh]
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct CachesArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    walks: WalksArgs,
}

#[derive(Debug, Args)]
struct DiffArgs {
    /// A kernel, as for `hitm vm run`; given at least twice
    #[arg(short, long, value_name = "FILE|debian:VERSION", required = true)]
    kernel: Vec<KernelSource>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Time limit of the workload on this host, on each kernel
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// The recordings to write: NAME-1, NAME-2 and so on
    #[arg(short, long, value_name = "NAME", default_value = "hitm-diff")]
    output: String,
    #[command(flatten)]
    walks: WalksArgs,
    #[command(flatten)]
    view: ViewArgs,
    /// The program to run and its arguments, as for `hitm vm run`
    #[arg(last = true, required = true, value_name = "WORKLOAD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// A layout file with structures of the kernel: their objects are priced with members in these
    /// places while the kernel runs; may be given several times
    #[arg(short, long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    #[command(flatten)]
    walks: WalksArgs,
    /// Start of the recording: the workload, or the first execution of a guest address
    #[arg(long, value_name = "workload|0xADDRESS", default_value = "workload")]
    start: StartAt,
    /// Cycles that a CPU's clock may run ahead of the slowest one
    #[arg(long, value_name = "CYCLES", default_value_t = hitm::record::DEFAULT_WINDOW.0,
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    window: u64,
    /// Time limit of the workload on this host before the recording is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = crate::commands::input::DEFAULT)]
    output: PathBuf,
    /// The program to run and its arguments: a workload of hitm's own (bandwidth_tree, fifo_pool,
    /// file_copy, fork_storm, futex_ping_pong, loads; docs/models/vm.md), `hitm` for this program, or
    /// a program of this host
    #[arg(last = true, required = true, value_name = "WORKLOAD")]
    command: Vec<String>,
}

pub(super) fn run(args: VmArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.command {
        VmCommand::Run(args) => record(args, terminal),
        VmCommand::Shell(args) => shell(args),
        VmCommand::Caches(args) => caches(args, terminal),
        VmCommand::Diff(args) => diff(args, terminal),
    }
}

/// Returns the settings that all verbs share; the rest is as a shell needs it.
fn config(kernel: KernelSource, args: MachineArgs, command: Vec<String>) -> Result<VmConfig> {
    let machine = hitm_machine::resolve(&args.machine)
        .with_context(|| format!("cannot use the machine '{}'", args.machine))?;
    Ok(VmConfig {
        layouts: Vec::new(),
        walks: Walks::default(),
        kernel,
        machine,
        cpu_count: args.smp,
        memory_mib: args.memory,
        append: args.append,
        command,
        others: args.with,
        qemu: args.qemu,
        start: StartAt::Workload,
        window: hitm::record::DEFAULT_WINDOW,
        time_limit: Duration::MAX,
        cache: args
            .snapshot_cache
            .unwrap_or_else(hitm_recording::default_cache),
        output: PathBuf::new(),
    })
}

fn shell(args: ShellArgs) -> Result<Exit> {
    let command = match args.command.is_empty() {
        true => hitm::vm::default_shell(),
        false => args.command,
    };
    let config = config(args.kernel.kernel, args.machine, command)?;
    let mut spinner = Some(Spinner::start("preparing"));
    let status = hitm::vm::shell(&config, &mut |progress| match progress {
        VmProgress::Running => {
            if let Some(spinner) = spinner.take() {
                spinner.finish();
            }
        }
        _ => {
            if let Some(spinner) = &spinner {
                spinner.say(&text(progress));
            }
        }
    })?;
    Ok(Exit::OfProgram(status))
}

fn caches(args: CachesArgs, terminal: &mut Terminal) -> Result<Exit> {
    let walks = args.walks.read()?;
    let config = config(args.kernel.kernel, args.machine, vec!["fifo_pool".to_owned()])?;
    let config = VmConfig { walks, ..config };
    let spinner = Spinner::start("preparing");
    let found = hitm::vm::caches(&config, &mut |progress| spinner.say(&text(progress)))?;
    spinner.finish();
    terminal.out(&caches_text(&found))?;
    Ok(Exit::Done)
}

fn record(args: RunArgs, terminal: &mut Terminal) -> Result<Exit> {
    let layouts = args
        .layout
        .iter()
        .map(|path| hitm_whatif::read_layout_text(path));
    let layouts = layouts.collect::<Result<_, _>>()?;
    let config = VmConfig {
        layouts,
        walks: args.walks.read()?,
        start: args.start,
        window: Cycles(args.window),
        time_limit: Duration::from_secs(args.timeout),
        output: args.output,
        ..config(args.kernel.kernel, args.machine, args.command)?
    };
    let ended = run_with_spinner(&config, terminal)?;
    Ok(Exit::OfProgram(ended.exit_code))
}

fn run_with_spinner(config: &VmConfig, terminal: &mut Terminal) -> Result<VmEnded> {
    let spinner = Spinner::start("preparing");
    let mut notes = Vec::new();
    let ended = run_vm(config, &mut |progress| match progress {
        VmProgress::Note(note) => notes.push(note.to_owned()),
        VmProgress::Moving(found) => spinner.aside(|| terminal.note(found)),
        _ => spinner.say(&text(progress)),
    })?;
    spinner.finish();
    notes.iter().for_each(|note| terminal.note(note));
    terminal.note(&summary(config, &ended));
    Ok(ended)
}

fn diff(args: DiffArgs, terminal: &mut Terminal) -> Result<Exit> {
    if args.kernel.len() < 2 {
        bail!("found one --kernel, expected at least two to show side by side");
    }
    let walks = args.walks.read()?;
    let mut recordings = Vec::new();
    for (kernel, number) in args.kernel.iter().zip(1..) {
        let output = PathBuf::from(format!("{}-{number}", args.output));
        let config = VmConfig {
            time_limit: Duration::from_secs(args.timeout),
            output,
            walks: walks.clone(),
            ..config(kernel.clone(), args.machine.clone(), args.command.clone())?
        };
        let ended = run_with_spinner(&config, terminal)?;
        if ended.exit_code != 0 {
            terminal.note(&format!("the workload ended with {}", ended.exit_code));
        }
        recordings.push((kernel.label(), config.output));
    }
    super::diff::show(recordings, &args.view, None, terminal)
}

fn text(progress: VmProgress<'_>) -> String {
    match progress {
        VmProgress::Preparing(what) | VmProgress::Note(what) | VmProgress::Moving(what) => {
            what.to_owned()
        }
        VmProgress::Running => String::new(),
        VmProgress::Recording(progress) => format!(
            "{:.1} M cycles, {:.1} M records",
            progress.time.0 as f64 / 1e6,
            progress.record_count as f64 / 1e6
        ),
    }
}

fn summary(config: &VmConfig, ended: &VmEnded) -> String {
    let file = config.output.display();
    let note = match ended.is_cut {
        true => ", ended before the workload",
        false => "",
    };
    let (machine, _) = &config.machine;
    format!(
        "{file}: {:.3} ms of modelled time, {} records, {}{note}; read it with `hitm report -i {file}`",
        machine.clock.nanos(ended.progress.time).0 / 1e6,
        ended.progress.record_count,
        size(ended.progress.file_bytes),
    )
}
